"""The history of prompts that Claude Code keeps in `history.jsonl`, also of sessions that it has deleted.

Source: lines of such files. A line has the typed text, with placeholders such as `[Pasted text #1 +3 lines]`, and the
pasted texts; of long ones only a hash.
"""

from typing import Any

from ash_shared.model.blocks import (
    Block,
    is_native,
    raw_block,
    text_block,
    translate,
    translated,
    without,
)
from ash_shared.model.message import RecordHeader
from ash_shared.records.contract import Marks, ParsedRecord, Provider, Record, WireType
from ash_shared.records.json_fields import text_at, to_milliseconds

_WIRE_TYPE = "history"
_PASTED = "pastedContents"
_ENVELOPE = ("project", "sessionId", "timestamp")
"""Keys of a line that are not content."""


def _parse_prompt(line: Record) -> ParsedRecord:
    return ParsedRecord("message", "user", translate(_WIRE_TYPE, line, _translate_prompt))


def _translate_prompt(line: Record) -> list[Block]:
    pasted = line.get(_PASTED) or {}
    texts = {number: item for number, item in pasted.items() if _is_text(item)}
    others = {number: item for number, item in pasted.items() if number not in texts}
    prompt = {**without(line, _PASTED), **({_PASTED: others} if others else {})}
    return [
        translated(prompt, text_block(line["display"]), ("display", *_ENVELOPE), _WIRE_TYPE),
        *(translated(item, text_block(item["content"]), ("content",), _PASTED) for item in texts.values()),
    ]


def _is_text(item: Any) -> bool:
    return (
        isinstance(item, dict) and item.get("type", "text") == "text" and isinstance(item.get("content"), str)
    )


_PROMPT = WireType(_parse_prompt)


def recognize(record: Record) -> WireType | None:
    is_prompt = isinstance(record.get("display"), str) and isinstance(record.get(_PASTED), dict)
    return _PROMPT if is_prompt and "type" not in record else None


def parse_block(block: Any) -> Block:
    return block if is_native(block) else raw_block("unknown_type", block)


def header(record: Record) -> RecordHeader:
    """Return the time and the folder. The session is not the one of the id: that is the session of the transcript."""
    return RecordHeader(
        timestamp=to_milliseconds(record.get("timestamp")), folder=text_at(record, "project"), agent=""
    )


PROVIDER = Provider(
    source="claude_history",
    recognize=recognize,
    marks=Marks(untyped_keys={_PASTED}),
    wire_type=lambda record: _PROMPT,
    parse_block=parse_block,
    header=header,
)
