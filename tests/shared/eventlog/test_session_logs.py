"""Short sessions of every format with the log that they must give, written from the design of the events alone.

`sessions/<source>.json` holds them by name. An event stands as its type, the answer that it is of, and its payload; of
usage, what went in and what came out. Nothing follows the last line of a session: what is open then is closed.
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


def told(event: Event) -> str:
    payload = dict(event["payload"])
    if "usage" in payload:
        payload["usage"] = [payload["usage"]["input_tokens"], payload["usage"]["output_tokens"]]
    answer = f" <{event['responseId']}>" if "responseId" in event else ""
    said = f" {json.dumps(payload, ensure_ascii=False)}" if payload else ""
    return f"{event['type']}{answer}{said}"


@pytest.mark.parametrize(("source", "lines", "events"), list(sessions()))
def test_a_session_gives_this_log(source: str, lines: list[Any], events: list[str]) -> None:
    assert list(map(told, follow(lines, source, ends=True))) == events
