"""The page is the same, byte for byte, for any order of events."""

import json
from typing import Any

import pytest
from playwright.async_api import Page

from tests.marking import slow_unless
from tests.viewer.logs import MATERIAL, Log, at_random, is_sample, ways

SEEDS = 40


async def differences(page: Page, logs: dict[str, Log], *without: str) -> dict[str, Any]:
    """Return the differences to the replayed page, by log and way of delivery."""
    result = dict[str, Any]()
    for name, log in logs.items():
        events, by_name = ways(log)
        by_name = {way: steps for way, steps in by_name.items() if way not in without}
        compared = await page.evaluate(COMPARED, json.dumps([events, by_name]))
        assert compared["size"] > 0 or not log, name
        result |= {name: compared["differences"]} if compared["differences"] else {}
    return result


def covering(logs: dict[str, Log]) -> dict[str, Log]:
    """Return the smallest logs that contain all types of events with all keys of their payloads."""
    chosen, covered = dict[str, Log](), set[tuple[str, str]]()
    for name, log in sorted(logs.items(), key=lambda item: len(item[1])):
        contained = {(event["type"], key) for event in log for key in ("", *event["payload"])}
        if not contained <= covered:
            chosen[name] = log
            covered |= contained
    return chosen


COMPARED = "async (input) => (await import('/harness.js')).compared(...JSON.parse(input))"


@pytest.mark.parametrize("material", slow_unless(is_sample, MATERIAL))
async def test_live_is_replay(blank: Page, material: str) -> None:
    logs = covering(MATERIAL[material]())

    assert logs
    assert await differences(blank, logs) == {}


@pytest.mark.slow
@pytest.mark.parametrize("decade", slow_unless(lambda decade: decade == 0, range(0, SEEDS, 10)))
async def test_live_is_replay_for_random_events(blank: Page, decade: int) -> None:
    """One way is skipped, since a random complete event does not contain the text of its chunks."""
    logs = {f"seed {seed}": at_random(seed) for seed in range(decade, decade + 10)}

    assert await differences(blank, logs, "without completed chunks") == {}
