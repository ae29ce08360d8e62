"""docs/events.md: its table has every type, each with a payload that is one, and its examples are what it says."""

import json
import re
import subprocess
import sys
from pathlib import Path

from ash_shared import EVENT_TYPES, read_event

PAGE = (Path(__file__).parents[1] / "docs" / "events.md").read_text()
FENCES = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)


def test_the_table_has_every_type_with_a_payload_of_it() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\{.*?\})` \|", PAGE, re.MULTILINE)
    envelope = {"id": "e-1", "timestamp": 1, "sessionId": "s-1"}
    events = [{**envelope, "type": type, "payload": json.loads(payload)} for type, payload in rows]

    assert sorted(type for type, _ in rows) == sorted(EVENT_TYPES)
    assert [read_event(event).model_dump() for event in events] == events


def test_the_event_at_its_top_is_one() -> None:
    (event,) = (json.loads(fence) for language, fence in FENCES if language == "json")

    assert read_event(event).model_dump() == event


def test_the_example_prints_what_stands_below_it() -> None:
    (place,) = (place for place, (language, _) in enumerate(FENCES) if language == "python")

    done = subprocess.run(
        [sys.executable, "-c", FENCES[place][1]], capture_output=True, text=True, check=True
    )

    assert done.stdout == FENCES[place + 1][1]


def test_the_event_that_is_posted_is_one() -> None:
    (posted,) = re.findall(r"--json '(.*?)' localhost:4100/api/sessions/ID/events", PAGE)

    read_event({"timestamp": 1, "sessionId": "s-1", **json.loads(posted)})
