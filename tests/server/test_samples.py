"""The sample sessions are what `ash demo` says of them."""

from importlib.resources import files

import pytest

from ash_server.commands.run import TOUR
from ash_shared import parse_jsonl
from ash_shared.blocks import CLASSES

SAMPLES = {path.name: path.read_text() for path in (files("ash_server") / "samples").iterdir()}

SHOWN = {
    "csv-export.jsonl": {
        "a failed tool": '"is_error":true',
        "a rejected tool": "User rejected tool use",
        "an error of the API": '"isApiErrorMessage":true',
        "a subagent": '"isSidechain":true',
    },
    "release-notes.jsonl": {
        "a compaction": '"isCompactSummary":true',
        "a tool that runs at the provider": '"server_tool_use"',
        "sources of a text": '"citations"',
        "thinking that was withheld": '"redacted_thinking"',
        "words typed meanwhile": '"queue-operation"',
    },
    TOUR: {"an image within a result": '"tool_use_id":"toolu_06TideDraw","content":[{'},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_line_is_read(name: str) -> None:
    readings = [line.reading for line in parse_jsonl(SAMPLES[name])]
    reasons = {
        (block.raw_type, block.reason) for each in readings for block in each.parsed if block.type == "raw"
    }

    assert {reading.source for reading in readings} == {"claude"}
    assert {each for each in reasons if each[1] != "control"} <= {("tide_widget", "unknown_type")}


def test_one_session_has_every_type_of_block() -> None:
    lines = parse_jsonl(SAMPLES[TOUR])

    assert {block.type for line in lines for block in line.reading.parsed} == set(CLASSES)


@pytest.mark.parametrize("name", SHOWN)
def test_the_others_show_what_else_happens(name: str) -> None:
    assert [what for what, text in SHOWN[name].items() if text not in SAMPLES[name]] == []
