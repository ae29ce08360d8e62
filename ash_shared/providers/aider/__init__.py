"""Aider: the sections of its chat history, a Markdown file with all chats in a folder.

Sources: a captured history, histories of real runs, and Aider's code. The text of a section is not JSON: it is read as
the record `{"text": …}`. Counts of 1,000 tokens and more are rounded by Aider.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block, raw_block, text_block
from ash_shared.model.message import RecordHeader
from ash_shared.providers.aider import sections
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    unknown_record,
)
from ash_shared.records.json_fields import message_error, subtract_counts, to_milliseconds, token_usage
from ash_shared.records.steps import Step, TurnEnd

_CHAT_START = re.compile(r"\n?" + sections.CHAT_START.removesuffix(r"\n"))
_MODEL = re.compile(r"> (?:Main model|Models?): (\S+) with ")
_VERSION = re.compile(r"> Aider v(\S+)")
_TOKENS = re.compile(
    r"> Tokens: (?P<sent>[\d.,]+[kM]?) sent(?:, (?P<write>[\d.,]+[kM]?) cache write)?"
    r"(?:, (?P<hit>[\d.,]+[kM]?) cache hit)?, (?P<received>[\d.,]+[kM]?) received\."
    r"(?:\s+Cost: \$(?P<cost>[\d.,]+) (?:message|request),)?"
)
_ERROR = re.compile(r"> (?:Unexpected error: )?litellm\.(?P<code>\w+): ?(?P<message>.*)", re.DOTALL)
_STOPPED = "> ^C "
_COMMAND = re.compile(r"!|/(?!(?:architect|ask|code|context|help|ok)\b)[a-z-]+\b(?!/)")
"""Commands that send nothing to the model, or not their own text."""
_FACTORS = {"k": 1_000, "M": 1_000_000}


def _control(section: str, name: str) -> ParsedRecord:
    return ParsedRecord("record", "system", [raw_block("control", section, name)], is_checked=True)


def _parse_start(record: Record) -> ParsedRecord:
    return _control(record["text"], "chat_start")


def _parse_prompt(record: Record) -> ParsedRecord:
    """Parse a prompt, or a command to Aider itself."""
    text = _prompt_text(record["text"])
    if _COMMAND.match(text):
        return ParsedRecord("message", "system", [text_block(text, "notice")])
    return ParsedRecord("message", "user", [text_block(text)])


def _prompt_text(section: str) -> str:
    """Return the lines of a prompt without the marks of a heading, and without two blanks at their end."""
    lines = section.removeprefix("\n").removesuffix("\n").split("\n")
    return "\n".join(line.removeprefix("####").removeprefix(" ").removesuffix("  ") for line in lines)


def _parse_answer(record: Record) -> ParsedRecord:
    text = record["text"].strip("\n")
    if not text.strip():
        return _control(record["text"], "answer")
    return ParsedRecord("message", "assistant", [text_block(text)])


def _parse_notice(record: Record) -> ParsedRecord:
    text = _notice_text(record["text"])
    if not text.strip():
        return _control(record["text"], "notice")
    variant = "error" if _ERROR.match(record["text"]) else "notice"
    return ParsedRecord("message", "system", [text_block(text, variant)])


def _notice_text(section: str) -> str:
    return section.removeprefix(">").removeprefix(" ").removesuffix("\n").removesuffix("  ")


def _prompt_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.role == "system":
        return [Part(role="system", blocks=parsed.blocks, relation="continuation")]
    return [Part(role="user", blocks=parsed.blocks)]


def _answer_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role="assistant", blocks=parsed.blocks)] if parsed.kind == "message" else []


def _notice_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the notice, which continues the one before it, with the usage or the error of the answer before it."""
    if parsed.kind != "message":
        return []
    text = record["text"]
    notice = Part(role="system", blocks=parsed.blocks, relation="continuation")
    if (tokens := _TOKENS.match(text)) is not None:
        return [notice, _usage_part(tokens)]
    if (error := _ERROR.match(text)) is not None:
        failed = message_error(error["code"], _notice_text(error["message"]).strip() or None)
        return [Part(role=None, error=failed, relation="interruption")]
    return [notice]


def _notice_steps(record: Record, parsed: ParsedRecord) -> list[Step] | None:
    if not record["text"].startswith(_STOPPED):
        return None
    return [*_notice_parts(record, parsed), TurnEnd("user_cancel", mode="if_open")]


def _usage_part(tokens: re.Match[str]) -> Part:
    """Return the usage of the last request and its repetitions. Aider counts tokens of the cache as sent, too."""
    written, read = _count(tokens["write"]), _count(tokens["hit"])
    usage = token_usage(
        {"report": tokens[0].removeprefix("> ")},
        input=subtract_counts(_count(tokens["sent"]), written, read),
        output=_count(tokens["received"]),
        cache_read=read,
        cache_creation=written,
    )
    return Part(role=None, usage=usage, cost=_number(tokens["cost"]))


def _count(text: str | None) -> int | None:
    """Return a count of tokens, such as 1.4k or 12,566."""
    if text is None:
        return None
    number = _number(text.rstrip("kM"))
    return None if number is None else round(number * _FACTORS.get(text[-1], 1))


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text.rstrip(".").replace(",", ""))
    except ValueError:
        return None


class _Kind(NamedTuple):
    matches: Callable[[str], bool]
    row: WireType


_START = WireType(_parse_start, lambda record, parsed: [])
_KINDS = (
    _Kind(sections.is_chat_start, _START),
    _Kind(sections.is_prompt, WireType(_parse_prompt, _prompt_parts)),
    _Kind(sections.is_notice, WireType(_parse_notice, _notice_parts, _notice_steps)),
)
_ANSWER = WireType(_parse_answer, _answer_parts)
_UNKNOWN = WireType(unknown_record)


def wire_type(record: Record) -> WireType:
    text = record.get("text")
    if not (isinstance(text, str) and len(record) == 1):
        return _UNKNOWN
    return next((kind.row for kind in _KINDS if kind.matches(text)), _ANSWER)


def recognize_text(text: str) -> bool:
    """True for the start of a chat."""
    return text.startswith(("\n# aider", "# aider")) and _CHAT_START.match(text) is not None


def header(record: Record) -> RecordHeader:
    text = record.get("text")
    if not isinstance(text, str):
        return RecordHeader()
    if (start := _CHAT_START.match(text)) is not None:
        return RecordHeader(timestamp=to_milliseconds(start[1]), session_id=start[1])
    model, version = _MODEL.match(text), _VERSION.match(text)
    return RecordHeader(model=model and model[1], client_version=version and version[1])


def parse_block(block: Any) -> Block:
    return raw_block("unknown_type", block)


PROVIDER = Provider(
    source="aider",
    recognize=lambda record: None,
    marks=Marks(),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    recognize_text=recognize_text,
)
