"""The content of the sample sessions."""

import json
from importlib.resources import files

import pytest

from ash_server.cli.demo import TOUR
from ash_shared import parse_jsonl, transform_messages
from ash_shared.model.blocks import CLASSES
from ash_shared.providers import discover

SAMPLES = {path.name: path.read_text() for path in (files("ash_server") / "samples").iterdir()}

OTHERS = {
    "bird-counter.jsonl": "gemini_cli",
    "bread-timer.jsonl": "codex",
    "recipe-scaler.jsonl": "cursor",
    "trail-map.jsonl": "opencode",
    "watering-plan.jsonl": "pi",
}
"""Samples of other tools than Claude Code, and their sources."""

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
        "citations of a text": '"citations"',
        "thinking that was withheld": '"redacted_thinking"',
        "words typed during a turn": '"queue-operation"',
    },
    TOUR: {"an image within a result": '"tool_use_id":"toolu_06TideDraw","content":[{'},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_line_is_recognised(name: str) -> None:
    messages = [line.message for line in parse_jsonl(SAMPLES[name])]
    reasons = {
        (block.raw_type, block.reason) for each in messages for block in each.parsed if block.type == "raw"
    }

    assert {each.source for each in messages} == {OTHERS.get(name, "claude")}
    assert {each for each in reasons if each[1] not in ("control", "stream_fragment")} <= {
        ("tide_widget", "unknown_type")
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_line_matches_one_provider(name: str) -> None:
    records = [json.loads(line) for line in SAMPLES[name].splitlines()]
    sources = {tuple(each.source for each in discover().values() if each.recognize(it)) for it in records}

    assert sources == {(OTHERS.get(name, "claude"),)}


@pytest.mark.parametrize("name", OTHERS)
def test_samples_of_other_clis_have_texts_tools_and_usage(name: str) -> None:
    messages = [message.model_dump() for message in transform_messages(SAMPLES[name])]
    blocks = [block for message in messages for block in message["content"]]
    called, answered = (
        [block[key] for block in blocks if block["type"] == type]
        for type, key in (("tool_use", "id"), ("tool_result", "tool_use_id"))
    )

    assert any(message["role"] == "assistant" and "usage" in message for message in messages)
    assert len(called) >= 2
    assert called == answered
    assert {block["is_error"] for block in blocks if block["type"] == "tool_result"} == {True, False}


def test_tour_contains_every_block_type() -> None:
    lines = parse_jsonl(SAMPLES[TOUR])

    assert {block.type for line in lines for block in line.message.parsed} == set(CLASSES)


@pytest.mark.parametrize("name", SHOWN)
def test_samples_contain_special_cases(name: str) -> None:
    assert [what for what, text in SHOWN[name].items() if text not in SAMPLES[name]] == []
