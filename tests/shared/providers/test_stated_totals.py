"""Usage of samples of Claude Code and Antigravity, compared with the totals of their programs."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ash_shared.projections import spending_of
from ash_shared.records.system_text import visible_text
from tests.shared.logs import follow
from tests.shared.records.antigravity import row
from tests.shared.sample_files import CORPUS_NEXT

NAMES = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
CLAUDE = sorted((CORPUS_NEXT / "claude_code_2_1_2xx").glob("*.jsonl"))
ANTIGRAVITY = CORPUS_NEXT / "antigravity_cli"
SIDE_CALLS = {"claude-haiku-4-5": (900, 40, 0, 0)}
"""Usage of models that only the total contains: of the search of `WebSearch`, which no line has."""

pytestmark = pytest.mark.skipif(not CLAUDE, reason="no ../shared/corpus-next next to the repository")


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def counted(lines: list[dict[str, Any]]) -> tuple[int, ...]:
    usage = spending_of(follow(lines, ends=True)).usage or {}
    return tuple(usage.get(name, 0) for name in NAMES)


def sums(counts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*counts, strict=True)))


def usage_by_model(state: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    keys = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    return {model: tuple(usage[key] for key in keys) for model, usage in state["modelUsage"].items()}


def test_claude_counts_the_total_without_side_calls() -> None:
    samples = {path: records(path) for path in CLAUDE}
    states = {
        path: usage_by_model(record)
        for path, lines in samples.items()
        for record in lines
        if record.get("type") == "cost-state"
    }

    assert states
    for path, total in states.items():
        own = [usage for model, usage in total.items() if SIDE_CALLS.get(model) != usage]
        assert counted(samples[path]) == sums(own), path.name


def test_antigravity_counts_the_total_of_its_stream() -> None:
    lines = records(ANTIGRAVITY / "generated__stream-1.jsonl")
    total = lines[-1]["result"]["usage"]

    assert counted(lines)[:3] == (
        total["input_tokens"],
        total["output_tokens"],
        total["cache_read_tokens"],
    )


GENERATIONS = [(30_001, 73, 0, 0), (31_001, 120, 24_000, 0), (31_300, 40, 24_000, 0)]
"""Counts in the rows of the sample, in protobuf."""
PROMPTS = ["Count the words of notes.md and fix the title.", "Thanks, ask a helper to look for more typos"]


def test_antigravity_counts_the_rows_of_its_database() -> None:
    [database] = ANTIGRAVITY.glob("*.db")
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?immutable=1", uri=True)) as connection:
        rows = connection.execute("SELECT idx, data FROM gen_metadata").fetchall()
    usage = [row(key, data) for key, data in rows]
    [transcript] = ANTIGRAVITY.glob("*__transcript_full.jsonl")
    events = follow([*records(transcript), *usage], ends=True)

    assert [counted([each]) for each in usage] == GENERATIONS
    assert counted([*records(transcript), *usage]) == sums(GENERATIONS)
    prompts = [each["payload"]["text"] for each in events if each["type"] == "user_message"]
    assert [visible_text(text) for text in prompts] == PROMPTS
