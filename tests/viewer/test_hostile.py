"""Hostile transcripts: nothing runs, nothing is requested, and all text is readable."""

import asyncio
import copy
import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from playwright.async_api import Page

from tests.marking import slow_after, slow_unless
from tests.shared.event_examples import EXAMPLES
from tests.viewer.hostile import BARE, PAYLOADS, STALLS
from tests.viewer.logs import SERVER, Log, from_files, numbered

ENOUGH_SECONDS = 300
"""A timeout far above the time of any page on a busy machine: a page that takes longer hangs."""

QUICK_STALLS = frozenset(
    {"fences", "definitions", "stars", "backslashes", "lists", "objects", "large numbers"}
)
"""A selection of the texts and values that could stall the page."""

BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "a", "citations": [{"url": "u", "title": "t"}], "variant": "refusal"},
    {"type": "thinking", "thinking": "a", "signature": "s", "data": "d"},
    {
        "type": "tool_use",
        "id": "c9",
        "name": "Bash",
        "input": {"command": "ls"},
        "server_name": "s",
        "status": "s",
    },
    {"type": "tool_result", "tool_use_id": "c9", "content": "a", "structured": {"a": "b"}},
    {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
        "detail": "low",
    },
    {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "PHN2Zy8+"}},
    {"type": "image", "source": {"type": "url", "url": "https://evil.example/a.png"}},
    {"type": "image", "source": {"type": "file", "file_id": "f"}},
    {
        "type": "file",
        "filename": "a.pdf",
        "mimeType": "application/pdf",
        "storagePath": "/a",
        "title": "t",
        "context": "c",
        "mediaClass": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "a"},
    },
    {
        "type": "file",
        "source": {"type": "url", "url": "https://evil.example/a.html", "media_type": "text/html"},
    },
    {"type": "file", "source": {"type": "base64", "data": "PHN2Zy8+", "media_type": "text/html"}},
    {
        "type": "raw",
        "rawType": "holo",
        "reason": "unknown_type",
        "raw": {"type": "holo", "a": "b"},
        "note": "n",
    },
    {"type": "hologram", "frames": [{"a": "b"}], "extra": {"a": "b"}, "source_type": "s"},
]

SPECIMENS: list[tuple[str, dict[str, Any]]] = [
    ("turn_start", {"trigger": "user"}),
    ("user_message", {"text": "a", "content": BLOCKS}),
    ("user_message", {"text": "a", "synthetic": True}),
    ("user_message", {"text": "<wrapped>a</wrapped>b", "visibleText": "b"}),
    ("user_audio", {"transcription": "a", "durationMs": 1}),
    ("thinking_done", {"text": "a", "signature": "s"}),
    (
        "assistant_done",
        {"text": "a", "phase": "final_answer", "variant": "refusal", "stopReason": "s", "content": BLOCKS},
    ),
    ("tool_input_chunk", {"toolCallId": "c1", "toolName": "Bash", "chunk": "a", "offset": 0}),
    (
        "tool_call",
        {
            "toolCallId": "c2",
            "toolName": "Bash",
            "args": {"command": "a", "description": "d"},
            "executor": "e",
        },
    ),
    (
        "tool_result",
        {"toolCallId": "c2", "result": "a", "error": {"code": "c", "message": "m"}, "structured": {"a": "b"}},
    ),
    ("tool_call", {"toolCallId": "c3", "toolName": "holo", "args": "a"}),
    ("tool_result", {"toolCallId": "c3", "result": BLOCKS}),
    (
        "tool_call",
        {
            "toolCallId": "c4",
            "toolName": "Task",
            "args": {"description": "d", "prompt": "p", "subagent_type": "s"},
        },
    ),
    ("assistant_done", {"text": "a", "parentToolCallId": "c4"}),
    ("tool_result", {"toolCallId": "c5", "result": {"a": {"b": ["c"]}}, "orphan": True}),
    (
        "agent_message",
        {"messageId": "m", "targetAgentId": "a", "targetSessionId": "s", "message": "a", "wait": True},
    ),
    ("agent_callback", {"messageId": "m", "fromAgentId": "a", "fromSessionId": "s", "result": "a"}),
    ("agent_callback", {"messageId": "m2", "fromAgentId": "a", "fromSessionId": "s", "result": "a"}),
    ("agent_switch", {"fromAgentId": "a", "toAgentId": "b"}),
    ("audio_chunk", {"data": "UklGRg==", "seq": 0}),
    ("audio_done", {"durationMs": 1}),
    ("error", {"code": "c", "message": "m", "details": {"a": "b"}}),
    ("summary", {"text": "a", "trigger": "auto"}),
    ("system_message", {"text": "a", "variant": "notice"}),
    ("retraction", {"eventIds": ["a"], "messageIds": ["b"], "fromMessageId": "c", "reason": "r"}),
    ("raw", {"source": "claude", "raw": {"type": "holo_frame", "a": "b"}}),
    ("hologram", {"frames": ["a"]}),
    ("interrupt", {"reason": "user_cancel"}),
    ("thinking_chunk", {"text": "a"}),
    ("assistant_chunk", {"text": "a", "phase": "commentary", "variant": "plan"}),
    ("turn_end", {"usage": {"input_tokens": 1, "service_tier": "s", "vendor": {"a": "b"}}, "costUsd": 0.01}),
]
SPECIMENS += [
    (name, payload)
    for name, payload in EXAMPLES.items()
    if name not in {"reset", "tool_output_chunk", *(type for type, _ in SPECIMENS)}
]
"""Documented examples of the other types are added, without output (part of its call) and a reset (clears the page)."""

TAGS = frozenset(
    """
    a article aside b blockquote br button code dd del details div dl dt em figcaption figure footer h1 h2 h3 h4 h5 h6
    hr i img ins kbd li mark ol p pre s section small span strong sub summary sup table tbody td th thead time tr u ul
    var
    """.split()  # noqa: SIM905 - a text to read
)
ATTRIBUTES = frozenset(
    """
    alt class colspan datetime decoding dir download height hidden href id lang loading open referrerpolicy rel role
    scope src start tabindex target title translate type width
    """.split()  # noqa: SIM905 - a text to read
)
CARRIERS = frozenset(
    """
    alt aria-label data-event-id data-href data-kind data-message-id data-phase data-response-id data-tool-call-id
    data-turn-id data-variant download href id title
    """.split()  # noqa: SIM905 - a text to read
)
"""Attributes that may contain text of a transcript."""

PROTOCOLS = frozenset(("#", "http:", "https:", "mailto:", "data:"))
SOURCES = frozenset(("data:image/png;",))

VALUE = "VALUE"

_SHOW = """async (input) => {
  const [log, tokens, value] = JSON.parse(input);
  const events = JSON.parse(log, (_, part) => (part === "VALUE" ? value : part === "VALUE " ? `${value} ` : part));
  const { show, opened, audit } = await import("/harness.js");
  globalThis.pwn = () => console.error("a script ran");
  const { container } = await show(events);
  const closed = audit(container, tokens);
  await opened(container);
  const result = [closed, audit(container, tokens)];
  container.parentElement.remove();
  return result;
}"""


async def audited(page: Page, log: Log, tokens: list[str], value: Any = None) -> list[str]:
    """The tokens that are not on the page, neither initially nor with everything open.

    The page replaces VALUE in the log by the value: a long text is sent once, not in each event.
    """
    arguments = json.dumps([json.dumps(log), tokens, value])
    closed, opened = await asyncio.wait_for(page.evaluate(_SHOW, arguments), ENOUGH_SECONDS)
    for report in (closed, opened):
        assert set(report["tags"]) <= TAGS
        assert set(report["attributes"]) <= ATTRIBUTES
        assert set(report["carriers"]) <= CARRIERS
        assert set(report["protocols"]) <= PROTOCOLS
        assert set(report["sources"]) <= SOURCES
        assert report["polluted"] == report["odd"] == []
    return sorted(set(closed["missing"]) & set(opened["missing"]))


def marked(payload: str, number: int) -> str:
    """The payload followed by a token; the separator ends unfinished escape sequences."""
    return f"{payload}{'m' * payload.endswith(chr(27) + '[')}zz{number}zz"


NAMES = frozenset(("messageId", "parentToolCallId", "toolCallId"))
"""Ids shared by related events."""


def log_of(payload: str, number: int) -> Log:
    """All specimens, with the payload in the place of every text. The token after it identifies the specimen."""
    name = marked(payload, number)
    fields = {
        "sessionId": "s",
        "timestamp": 1793611915000,
        "turnId": name,
        "responseId": name,
        "recordId": name,
    }
    return [
        {
            **fields,
            "id": f"{name}{place}",
            "type": type,
            "payload": with_texts(template, name, marked(payload, token(number, place))),
        }
        for place, (type, template) in enumerate(SPECIMENS)
    ]


def token(number: int, place: int) -> int:
    return 1000 * (number + 1) + place


def with_texts(value: Any, name: str, text: str) -> Any:
    if isinstance(value, dict):
        return {
            key: item if key == "type" else name + item if key in NAMES else with_texts(item, name, text)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_texts(item, name, text) for item in value]
    return text if isinstance(value, str) else value


TENS = [PAYLOADS[place : place + 10] for place in range(0, len(PAYLOADS), 10)]

SILENT = frozenset(("turn_start", "turn_end", "audio_chunk", "audio_done"))
"""Types with text only in the stored message."""


@pytest.mark.parametrize(
    "payloads", slow_unless(lambda ten: ten in TENS[:3], TENS), ids=lambda payloads: repr(payloads[0])[:30]
)
async def test_hostile_text_in_all_fields(blank: Page, payloads: tuple[str, ...]) -> None:
    log = numbered(event for number, payload in enumerate(payloads) for event in log_of(payload, number))
    tokens = {
        f"zz{token(number, place)}zz": (payload, type)
        for number, payload in enumerate(payloads)
        for place, (type, _) in enumerate(SPECIMENS)
        if type not in SILENT
    }

    lost = [tokens[each] for each in await audited(blank, log, list(tokens))]
    assert {type: payload for payload, type in lost} == {}


@pytest.mark.slow
async def test_hostile_text_as_unknown_types_and_keys(blank: Page) -> None:
    """Hostile texts are harmless as types of events and blocks, and as keys."""
    events = Log()
    for number, payload in enumerate(PAYLOADS):
        text = marked(payload, number)
        block = {"type": text, text: {text: 1}}
        events += [
            {"type": text, "payload": {text: text}},
            {"type": "user_message", "payload": {"text": "", "content": [block]}},
            {
                "type": "tool_call",
                "payload": {"toolCallId": text, "toolName": text, "args": {text: {text: 1}}},
            },
            {
                "type": "tool_result",
                "payload": {"toolCallId": text, "result": [block], "structured": {text: 1}},
            },
        ]
    log = numbered({"id": f"e{place}", "timestamp": 1, **event} for place, event in enumerate(events))

    assert await audited(blank, log, [f"zz{number}zz" for number in range(len(PAYLOADS))]) == []


@pytest.mark.slow
async def test_hostile_names_in_lookups(blank: Page) -> None:
    """Names of members of JavaScript objects are harmless where a text is used as a key."""
    events = [{"type": name, "payload": {name: {name: 1}}} for name in BARE]
    events += [
        {"type": type, "payload": with_texts(template, name, name)}
        for name in BARE
        for type, template in SPECIMENS
    ]
    log = numbered({"id": f"e{place}", "timestamp": 1, **event} for place, event in enumerate(events))

    assert await audited(blank, log, list(BARE)) == []


ROUNDS = 8
"""The number of rounds; in each, every n-th text of a log is replaced."""

NOT_SHOWN = frozenset(
    {
        ("assistant_done", "parentToolCallId"),
        ("assistant_done", "phase"),
        ("system_message", "trigger"),
        ("system_message", "variant"),
        ("thinking_chunk", "text"),  # the complete text follows
        ("thinking_done", "signature"),
        ("tool_call", "parentToolCallId"),
        ("tool_call", "toolCallId"),
        ("tool_result", "agentId"),
        ("tool_result", "parentToolCallId"),
        ("tool_result", "toolCallId"),
        ("turn_end", "usage"),
        ("turn_start", "trigger"),
        ("user_message", "parentToolCallId"),
        ("user_message", "content"),  # same texts as `text`; the data of broken images is a link
        ("user_message", "visibleText"),  # a part of `text`
    }
)
"""Types and keys that are only in attributes or in the stored message."""


@pytest.mark.parametrize(
    "sample", slow_after(2, sorted(path.name for path in SERVER.glob("samples/*.jsonl")))
)
async def test_hostile_text_in_single_fields(blank: Page, sample: str) -> None:
    """Each round replaces some texts of an otherwise unchanged session."""
    [log] = (log for name, log in from_files(SERVER / "samples" / sample).items() if name == sample)
    places = [(number, path) for number, event in enumerate(log) for path in texts_within(event["payload"])]
    lost = set[tuple[str, str]]()
    for share in range(ROUNDS):
        changed, tokens = copy.deepcopy(log), dict[str, tuple[str, str]]()
        for number, (place, path) in list(enumerate(places))[share::ROUNDS]:
            put(changed[place]["payload"], path, marked(PAYLOADS[number * 7 % len(PAYLOADS)], number))
            tokens[f"zz{number}zz"] = (log[place]["type"], str(path[0]))
        lost |= {tokens[token] for token in await audited(blank, changed, list(tokens))}

    assert sorted(lost - NOT_SHOWN) == []


def texts_within(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts_within(item, (*path, key))


def put(value: Any, path: tuple[str | int, ...], text: str) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = text


@pytest.mark.parametrize("name", slow_unless(QUICK_STALLS.__contains__, STALLS))
async def test_no_text_stalls_the_page(blank: Page, name: str) -> None:
    number = count()
    cases: list[tuple[str, dict[str, Any]]] = [
        ("user_message", {"text": VALUE}),
        ("thinking_done", {"text": VALUE}),
        ("assistant_done", {"text": VALUE}),
        ("tool_call", {"toolCallId": "c1", "toolName": "Bash", "args": {"command": VALUE}}),
        ("tool_result", {"toolCallId": "c1", "result": VALUE}),
        (
            "tool_call",
            {
                "toolCallId": "c2",
                "toolName": "Edit",
                "args": {"old_string": VALUE, "new_string": f"{VALUE} "},
            },
        ),
        ("tool_result", {"toolCallId": "c2", "result": [{"type": "text", "text": VALUE}]}),
        ("summary", {"text": VALUE}),
        ("error", {"code": VALUE, "message": VALUE}),
        ("hologram", {"text": VALUE}),
    ]
    log = numbered(
        {"id": f"e{next(number)}", "timestamp": 1, "turnId": "t", "type": type, "payload": payload}
        for type, payload in cases
    )

    await audited(blank, log, [], STALLS[name])


DEEP = {
    "lists": json.loads("[" * 190 + "]" * 190),
    "objects": json.loads('{"a":' * 190 + "1" + "}" * 190),
    "many keys": {str(number): number for number in range(100_000)},
    "many items": list(range(100_000)),
    "large numbers": [2**53 + 1, 2**64, 10**300, -(2**63)],
}


@pytest.mark.parametrize("name", slow_unless(QUICK_STALLS.__contains__, DEEP))
async def test_no_value_stalls_the_page(blank: Page, name: str) -> None:
    log = numbered(
        {"id": type, "timestamp": 1, "turnId": "t", "type": type, "payload": payload}
        for type, payload in (
            ("hologram", {"value": VALUE}),
            ("tool_call", {"toolCallId": "c1", "toolName": "holo", "args": VALUE}),
            ("tool_result", {"toolCallId": "c1", "result": VALUE, "structured": VALUE}),
            ("error", {"code": "c", "message": "m", "details": VALUE}),
        )
    )

    await audited(blank, log, [], DEEP[name])


def test_number_of_payloads() -> None:
    assert len(set(PAYLOADS)) >= 100
    assert not [payload for payload in PAYLOADS if re.search(r"zz\d+zz", payload)]
