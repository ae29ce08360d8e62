"""Short sessions of every format with their expected log, written from the design of the events alone.

`sessions/<source>.json` contains them by name. An event is written as its type, response id and payload; usage as
input and output tokens. The log is closed after the last line.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ash_shared.eventlog import Event
from tests.shared.logs import follow

FOLDER = Path(__file__).parents[1] / "sessions"


def sessions() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.json")):
        for name, session in json.loads(path.read_text()).items():
            yield pytest.param(path.stem, session["lines"], session["events"], id=f"{path.stem}: {name}")


def event_text(event: Event) -> str:
    payload = dict(event["payload"])
    if "usage" in payload:
        payload["usage"] = [payload["usage"]["input_tokens"], payload["usage"]["output_tokens"]]
    answer = f" <{event['responseId']}>" if "responseId" in event else ""
    payload_text = f" {json.dumps(payload, ensure_ascii=False)}" if payload else ""
    return f"{event['type']}{answer}{payload_text}"


@pytest.mark.parametrize(("source", "lines", "events"), list(sessions()))
def test_session_gives_expected_events(source: str, lines: list[Any], events: list[str]) -> None:
    assert list(map(event_text, follow(lines, source, ends=True))) == events
