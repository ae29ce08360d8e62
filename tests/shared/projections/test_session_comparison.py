"""The comparison of two sessions, without a store."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from ash_shared.model.reports.facts import FileFacts, SessionFacts, ToolFacts
from ash_shared.model.session import Session
from ash_shared.model.usage.report import UsageCounts
from ash_shared.projections.comparison import (
    MAX_PROMPT_TEXT,
    ComparedSession,
    Prompt,
    PromptLog,
    align,
    compare_sessions,
)

NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)
ONE, TWO, THREE = (UUID(int=number) for number in (1, 2, 3))


def session(id: UUID = ONE, **fields: Any) -> Session:
    counts = dict.fromkeys(("message_count", "event_count", "error_count", "unrecognised_count"), 0)
    return Session.model_validate(
        {
            "id": id,
            "source": "claude",
            "created_at": NOW,
            "updated_at": NOW,
            "metadata": {},
            **counts,
            **fields,
        },
        by_name=True,
    )


def side(*prompts: str, facts: dict[str, Any] | None = None, **fields: Any) -> ComparedSession:
    read = SessionFacts(session=session(**fields), **(facts or {}))
    return ComparedSession(read, [Prompt(text, place, place) for place, text in enumerate(prompts, 1)])


ALIGNED = {
    ("", ""): "",
    ("abc", "abc"): "aa bb cc",
    ("abc", ""): "a- b- c-",
    ("axb", "ayb"): "aa xy bb",
    ("axxb", "ayb"): "aa xy x- bb",
    ("abcd", "acbd"): "aa b- cc -b dd",
    ("xab", "aby"): "x- aa bb -y",
    ("aab", "ab"): "aa a- bb",
    ("ab", "cd"): "ac bd",
    ("xay", "zaaw"): "xz aa ya -w",
}
"""Pairs of places, as the texts there."""


@pytest.mark.parametrize("texts", ALIGNED)
def test_align(texts: tuple[str, str]) -> None:
    a, b = texts
    pairs = [
        "".join("-" if place is None else each[place] for each, place in zip((a, b), places, strict=True))
        for places in align(a, b)
    ]
    assert " ".join(pairs) == ALIGNED[texts]


def test_align_keeps_each_text_once_and_in_order() -> None:
    a, b = [str(place * 7 % 11) for place in range(200)], [str(place * 5 % 13) for place in range(170)]
    pairs = list(align(a, b))

    assert [one for one, _ in pairs if one is not None] == list(range(200))
    assert [other for _, other in pairs if other is not None] == list(range(170))


def event(kind: str, sequence: int, payload: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": f"e{sequence}", "sequence": sequence, "payload": payload, **fields}


RETRACTIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, ["one", "two"]),
    "an event": ({"eventIds": ["e2"]}, ["two"]),
    "a record": ({"messageIds": ["r4"]}, ["one"]),
    "all from a record": ({"fromMessageId": "r2"}, []),
    "all from an unknown record": ({"fromMessageId": "r9"}, ["one", "two"]),
    "the last turn": ({"turns": 1}, ["one"]),
    "more turns than there are": ({"turns": 3}, []),
}


@pytest.mark.parametrize("case", RETRACTIONS)
def test_retracted_prompts_are_left_out(case: str) -> None:
    retraction, expected = RETRACTIONS[case]
    log = PromptLog()
    for each in (
        event("turn_start", 1, {}, turnId="t1"),
        event("user_message", 2, {"text": "one"}, recordId="r2"),
        event("turn_start", 3, {}, turnId="t2"),
        event("user_message", 4, {"text": "two"}, recordId="r4"),
        event("retraction", 5, retraction),
    ):
        log.add(each)

    assert [prompt.text for prompt in log.prompts] == expected


def test_prompts_are_the_texts_of_persons() -> None:
    log = PromptLog(redact=str.upper)
    payloads: tuple[dict[str, Any], ...] = (
        {"text": "all", "visibleText": "shown"},
        {"text": "of a tool", "synthetic": True},
        {"text": "of a subagent", "parentToolCallId": "c"},
        {"text": "aside", "sidechain": True},
        {"text": "  "},
    )
    for sequence, payload in enumerate(payloads, 1):
        log.add(event("user_message", sequence, payload))
    kept = [prompt.text for prompt in log.prompts]
    log.add(event("reset", 9, {}))

    assert kept == ["SHOWN"]
    assert log.prompts == []


def test_facts() -> None:
    usage = UsageCounts(answers=2, input_tokens=5, output_tokens=7, total_tokens=12)
    a = side(project="/srv/site", models=["x"], first_at=NOW, usage=usage)
    b = side(project="/srv/site", models=["x", "y"], branch="main", id=TWO)
    rows = {row.name: (row.a, row.b, row.is_equal) for row in compare_sessions(a, b).facts}

    assert rows == {
        "agent": ("claude", "claude", True),
        "models": (["x"], ["x", "y"], False),
        "project": ("/srv/site", "/srv/site", True),
        "branch": (None, "main", False),
        "firstAt": ("2026-11-02T09:00:00+00:00", None, False),
        "errors": (0, 0, True),
        "messages": (0, 0, True),
        "inputTokens": (5, None, False),
        "outputTokens": (7, None, False),
        "cacheReadTokens": (0, None, False),
        "cacheWriteTokens": (0, None, False),
    }


def test_files_are_compared_within_the_project() -> None:
    def files(*changed: tuple[str, int, int | None]) -> dict[str, Any]:
        return {
            "files": [
                FileFacts(path=path, reads=0, changes=changes, added=added)
                for path, changes, added in changed
            ]
        }

    a = side(
        facts=files(("/one/b.py", 1, 2), ("/one/a.py", 1, None), ("/etc/hosts", 1, 1), ("/one/r", 0, None))
    )
    b = side(facts=files(("/two/b.py", 1, 2), ("/two/c.py", 3, 1)), id=TWO, project="/two")
    a = a._replace(facts=a.facts.model_copy(update={"session": session(project="/one")}))
    rows = [
        (row.path, row.a and row.a.added, row.b and row.b.added, row.is_equal)
        for row in compare_sessions(a, b).files
    ]

    assert rows == [
        ("b.py", 2, 2, True),
        ("/etc/hosts", 1, None, False),
        ("a.py", None, None, False),
        ("c.py", None, 1, False),
    ]


def test_tools_are_sorted_by_calls() -> None:
    def tools(**calls: int) -> dict[str, Any]:
        return {
            "tools": [
                ToolFacts(tool=tool, calls=count, failures=0, denied=0) for tool, count in calls.items()
            ]
        }

    comparison = compare_sessions(
        side(facts=tools(Read=1, Bash=2)), side(facts=tools(Read=1, Edit=3), id=TWO)
    )

    assert [
        (row.tool, row.a and row.a.calls, row.b and row.b.calls, row.is_equal) for row in comparison.tools
    ] == [
        ("Edit", None, 3, False),
        ("Bash", 2, None, False),
        ("Read", 1, 1, True),
    ]


COMMON: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "none": ({}, {}, None),
    "b copies a": ({}, {"copy_of": ONE, "copied_messages": 2}, (2, ONE)),
    "a copies b": ({"copy_of": TWO, "copied_messages": 2}, {}, (2, TWO)),
    "both copy another": (
        {"copy_of": THREE, "copied_messages": 2},
        {"copy_of": THREE, "copied_messages": 5},
        (2, THREE),
    ),
    "of different ones": ({"copy_of": THREE, "copied_messages": 2}, {"copy_of": UUID(int=4)}, None),
}


@pytest.mark.parametrize("case", COMMON)
def test_common_beginning(case: str) -> None:
    a, b, expected = COMMON[case]
    comparison = compare_sessions(side("Go", "On", "Stop", **a), side("Go", "On", "Wait", id=TWO, **b))
    common = comparison.common

    assert (common and (common.messages, common.original)) == expected
    assert [pair.is_copied for pair in comparison.prompts] == (
        [True, True, False] if expected else [False] * 3
    )
    assert [pair.is_equal for pair in comparison.prompts] == [True, True, False]


def test_long_prompts_are_compared_by_their_digests() -> None:
    log = PromptLog()
    for sequence, end in enumerate("bbc", 1):
        log.add(event("user_message", sequence, {"text": "a" * 5000 + end}))
    one, same, other = log.prompts

    assert len(one.text) == MAX_PROMPT_TEXT
    assert one.compared == same.compared != other.compared


def test_long_prompts_are_compared_as_a_whole() -> None:
    [pair] = compare_sessions(side("a" * 5000 + "b"), side("a" * 5000 + "c", id=TWO)).prompts

    assert pair.a is not None
    assert len(pair.a.text) == MAX_PROMPT_TEXT
    assert not pair.is_equal
