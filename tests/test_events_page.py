"""docs/events.md: its table has all event types with valid payloads, and its examples are correct."""

import json
import re
import subprocess
import sys

import pytest

from ash_shared import EVENT_TYPES, read_event
from tests.shared import event_examples
from tests.shared.event_examples import EXAMPLES, example

PAGE = event_examples.PAGE.read_text(encoding="utf-8")
FENCES = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)


def test_table_has_every_type_with_a_valid_payload() -> None:
    events = [example(name) for name in EXAMPLES]

    assert EXAMPLES.keys() == EVENT_TYPES
    assert [read_event(event).model_dump() for event in events] == events


def test_first_example_is_a_valid_event() -> None:
    (event,) = (json.loads(fence) for language, fence in FENCES if language == "json")

    assert read_event(event).model_dump() == event


@pytest.mark.slow
def test_python_example_prints_the_shown_output() -> None:
    (index,) = (index for index, (language, _) in enumerate(FENCES) if language == "python")

    done = subprocess.run(
        [sys.executable, "-c", FENCES[index][1]], capture_output=True, text=True, check=True
    )

    assert done.stdout == FENCES[index + 1][1]


def test_posted_example_is_a_valid_event() -> None:
    (posted,) = re.findall(r"--json '(.*?)' localhost:4100/api/sessions/ID/events", PAGE)

    read_event({"timestamp": 1, "sessionId": "s-1", **json.loads(posted)})
