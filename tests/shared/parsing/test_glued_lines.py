"""Several records on one line, because a program continued after an unterminated line."""

import json
from typing import Any

import pytest

from ash_shared import describe_message, parse_message_content, parse_message_content_json, transform_messages
from ash_shared.eventlog import Normalizer
from ash_shared.model.message import Drift
from ash_shared.parsing.parsed_text import identify
from tests.shared.logs import context
from tests.shared.records import claude


def record(type: str, uuid: str, text: str, **more: Any) -> str:
    time = f"2026-01-01T00:00:0{uuid[-1]}Z"
    content = [claude.text(text)]
    return json.dumps(claude.line(type, content, more, uuid=uuid, sessionId="s", timestamp=time))


ASKED = record("user", "u1", "Which?")
ANSWERED = record("assistant", "u2", "Both.", id="m1")
CUT = ANSWERED[:60]

Row = tuple[str | None, ...]
LINES: dict[str, tuple[str, list[Row]]] = {
    "two records": (ASKED + ANSWERED, [("text", "Which?"), ("text", "Both.")]),
    "with blanks": (f"{ASKED} {ANSWERED}\r", [("text", "Which?"), ("text", "Both.")]),
    "a cut one at the end": (ASKED + CUT, [("text", "Which?"), ("malformed", CUT)]),
    "a cut one at the beginning": (CUT + ASKED, [("malformed", CUT), ("text", "Which?")]),
    "a cut one in between": (
        ASKED + CUT + ANSWERED,
        [("text", "Which?"), ("malformed", CUT), ("text", "Both.")],
    ),
    "objects of no format": ('{"a": 1}{"b": 2}', [("invalid_json", '{"a": 1}{"b": 2}')]),
    "a record without its last brace": (ANSWERED[:-1], [("invalid_json", ANSWERED[:-1])]),
    "one cut record": (CUT, [("invalid_json", CUT)]),
}


@pytest.mark.parametrize("name", LINES)
def test_reads_each_record(name: str) -> None:
    line, expected = LINES[name]

    blocks = [block.model_dump(mode="json") for block in parse_message_content(line)]

    assert [
        (block.get("reason", "text"), block.get("text", block.get("raw"))) for block in blocks
    ] == expected
    assert json.loads(parse_message_content_json(line)) == blocks


def test_unread_text_counts_as_drift() -> None:
    assert describe_message(ASKED + ANSWERED).drift == ()
    assert describe_message(CUT + ASKED).drift == (Drift("malformed", "invalid_json", 1),)


def test_each_record_is_a_separate_message() -> None:
    messages = transform_messages([ASKED + ANSWERED])

    assert [(message.id, message.role, message.timestamp) for message in messages] == [
        ("u1", "user", 1767225601000),
        ("u2", "assistant", 1767225602000),
    ]


def test_events_have_the_id_and_the_time_of_their_record() -> None:
    events = Normalizer().normalize(ASKED + ANSWERED, context(1))

    assert [(event.type, event.record_id, event.timestamp) for event in events] == [
        ("turn_start", "u1", 1767225601000),
        ("user_message", "u1", 1767225601000),
        ("assistant_done", "u2", 1767225602000),
    ]


def test_facts_of_all_records_are_merged() -> None:
    renamed = json.dumps({"type": "custom-title", "customTitle": "Both ways", "sessionId": "s"})

    described = describe_message(ASKED + renamed)

    assert (described.header.title, described.header.session_id, described.prompt) == (
        "Both ways",
        "s",
        "Which?",
    )
    assert identify(ASKED + ANSWERED, None).session == "s"
