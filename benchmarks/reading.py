"""P4: the same messages, read by Ash and by its peers."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

import orjson

from ash_shared import parse_message_content, parse_message_content_json
from benchmarks.kept import Kept, kept
from benchmarks.measure import Run, over, take_turns
from benchmarks.peers import ASSISTANT, BARE, CHAT, GEMINI, RESPONSES, USER, Parser, installed_parsers
from benchmarks.peers.original import NAME, Original, original
from benchmarks.samples import Samples, answers, bare_messages, of_type, repeated
from benchmarks.table import Details, Row, share

_OBJECTS = "objects"
_BYTES = "JSON bytes"
_PARSE, _STRINGIFY = NAME, f"{NAME}, as JSON"


class Size(NamedTuple):
    messages: int
    rounds: int


FULL = Size(messages=4_000, rounds=7)
SMOKE = Size(messages=60, rounds=1)


def measure(samples: Samples, size: Size) -> tuple[list[Row], list[Details]]:
    parsers = list(installed_parsers())
    rows: list[Row] = []
    losses: list[tuple[str, ...]] = []
    for name, messages in _sets(samples).items():
        with original(repeated(messages, size.messages)) if name in _CLAUDES else nullcontext() as node:
            chosen = [parser for parser in parsers if name in parser.reads]
            rows += _compare(name, messages, size, chosen, node)
            losses += [(name, *cells) for cells in _kept(messages, chosen, node)]
    rows += [] if parsers else [Row("P4", "Python peers", None, note="none is installed")]
    headings = ("messages", "parser", "kept", "kept and typed", "refused")
    title = "Strings and numbers of the content that are kept"
    return rows, [Details(title, headings, losses)]


_CLAUDES = frozenset({ASSISTANT, USER, BARE})
"""Inputs that the original parser supports."""


def _sets(samples: Samples) -> dict[str, list[bytes]]:
    return {
        ASSISTANT: [line for line in samples.lines if of_type(line, "assistant")],
        USER: [line for line in samples.lines if of_type(line, "user")],
        BARE: bare_messages(samples.lines),
        CHAT: answers(samples.folders["openai_chat_response"], "choices"),
        RESPONSES: answers(samples.folders["openai_responses_response"], "output"),
        GEMINI: answers(samples.folders["gemini_api_response"], "candidates"),
    }


def _compare(
    name: str, messages: list[bytes], size: Size, parsers: list[Parser], node: Original | None
) -> Iterator[Row]:
    many = repeated(messages, size.messages)
    cases: dict[str, Run] = {
        _OBJECTS: over(parse_message_content, many),
        _BYTES: over(parse_message_content_json, many),
        **{parser.name: over(_tolerant(parser.read), many) for parser in parsers},
    }
    if node:
        cases |= {_PARSE: node.run("parse"), _STRINGIFY: node.run("stringify")}
    times = take_turns(cases, size.rounds)
    for peer in list(cases)[2:]:
        case = _BYTES if peer == _STRINGIFY else _OBJECTS
        yield Row("P4", f"{case}, {name}, against {peer}", times.speed(case, peer), floor=1)


def _kept(messages: list[bytes], parsers: list[Parser], node: Original | None) -> Iterator[tuple[str, ...]]:
    shown = [orjson.loads(parse_message_content_json(raw)) for raw in messages]
    yield _cells("Ash", messages, shown)
    for parser in parsers:
        yield _cells(parser.name, messages, [_shown(parser, raw) for raw in messages])
    if node:
        yield _cells(NAME, messages, node.shown()[: len(messages)])


def _cells(name: str, messages: list[bytes], shown: list[Any]) -> tuple[str, ...]:
    shares: Kept = kept(messages, shown)
    refused = sum(blocks is None for blocks in shown)
    return (name, share(shares.anywhere), share(shares.typed), str(refused))


def _tolerant(read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read_or_none(raw: bytes) -> Any:
        with suppress(Exception):
            return read(raw)

    return read_or_none


def _shown(parser: Parser, raw: bytes) -> Any:
    with suppress(Exception):
        return parser.show(parser.read(raw))
