"""docs/message-flow.md: its relation works in standard messages and in the event log."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ash_shared import transform_messages
from ash_shared.eventlog import Line, Normalizer, parse_line
from ash_shared.model.message import RecordHeader
from ash_shared.parsing.parsed_text import ParsedText
from ash_shared.records.steps import Part
from ash_shared.relations import RESOLVERS
from tests.shared.logs import context
from tests.shared.records import claude

PAGE = Path(__file__).parents[1] / "docs" / "message-flow.md"
RECALL = Part(role=None, relation="recall")  # type: ignore[arg-type]
TURNS = [
    json.dumps(claude.line(role, text, uuid=text))
    for prompt in ("One", "Two", "Three")
    for role, text in (("user", prompt), ("assistant", f"{prompt}."))
]


@pytest.fixture(autouse=True)
def _relation(monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    defined: dict[str, Any] = {}
    exec(code, defined)
    for name, function in defined["ROW"].items():
        monkeypatch.setitem(RESOLVERS, name, function)


def test_relation_retracts_events() -> None:
    normalizer = Normalizer()
    for number, line in enumerate(TURNS):
        normalizer.follow(parse_line(line), context(number))

    events = normalizer.follow(Line([RECALL], RecordHeader(), "claude"), context("end"))

    assert [(event["type"], event["payload"]) for event in events] == [("retraction", {"turns": 2})]


def test_relation_retracts_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ParsedText.parts
    monkeypatch.setattr(
        ParsedText, "parts", lambda self: [RECALL] if "recall" in str(self.record) else parts(self)
    )

    messages = transform_messages([*TURNS, TURNS[0].replace("One", "recall")])

    assert [message.metadata.retracted is True for message in messages] == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]
