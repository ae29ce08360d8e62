"""Items of the Responses API as Codex stores them: bare lines of the first files, `response_item` payloads since.

Source: `ResponseItem` of Codex's protocol. They are read as those of the Responses API itself; Codex's own are
`agent_message`, `context_compaction`, `ghost_snapshot` and `other`, and the header above the text of an output. Files
of other tools in the same envelope add `tool_call`, `tool_result` and `function_result`.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block, Translation, pick, raw_block, renamed, translate, translated
from ash_shared.model.message import Kind, Role
from ash_shared.providers._kit.contract import Record, RecordReading, control_reading, unknown_reading
from ash_shared.providers._kit.json_fields import decode_arguments, input_at, value_at
from ash_shared.providers._kit.responses_items import (
    ITEMS,
    UNTYPED,
    call_output,
    generated_image,
    item_role,
    keep_unread_keys,
)
from ash_shared.providers.codex.content import read_list

_ENVELOPE = frozenset({"created_at", "ordinal", "timestamp"})
"""Beside the item in lines that have no payload."""


class _Reads(NamedTuple):
    kind: Kind
    role: Role
    blocks: Translation


def read_item(item: Record, whole: Record) -> RecordReading:
    """An item, and the record that it is in, or is."""
    wire = item["type"]
    if wire in _OWN:
        kind, role, translation = _OWN[wire]
    elif wire in ITEMS:
        kind, role, translation = "message", item_role(item), ITEMS[wire]
    else:
        return (control_reading if wire in _CONTROL else unknown_reading)(whole, _name(whole, wire))
    return RecordReading(
        kind, role, translate(wire, item, _inner(translation) if item is whole else translation)
    )


def _name(whole: Record, wire: str) -> str:
    return wire if whole["type"] == wire else f"{whole['type']}/{wire}"


def _inner(translation: Translation) -> Translation:
    """The same of a line that is the item, and says of itself when it was written."""
    return lambda line: translation({key: value for key, value in line.items() if key not in _ENVELOPE})


def within(blocks: list[Block], item: Record, consumed: tuple[str, ...]) -> list[Block]:
    """The blocks of an item of Codex's own, the first of them with the rest of the item."""
    return keep_unread_keys(blocks, item, consumed, item["type"])


def _agent_message(item: Record) -> list[Block]:
    return within(read_list(item["content"]), item, ("content",))


def _function_call(item: Record) -> Block | list[Block]:
    return _foreign_call(item) if "function" in item else ITEMS["function_call"](item)


def _foreign_call(item: Record) -> Block:
    """A call as other tools write it in the same envelope: the name is in an object of its own."""
    function = item["function"]
    rest = {key: value for key, value in function.items() if key != "name"}
    given, consumed = input_at(item, "arguments")
    typed = {"type": "tool_use", **renamed(item, id="call_id"), "name": function["name"], "input": given}
    left = {**item, "function": rest}
    return translated(left, typed, {"call_id", *consumed, *(() if rest else ("function",))}, item["type"])


def generated(item: Record, link: Any) -> list[Block]:
    """The result of a call that made a picture, once there is one."""
    if not item.get("result"):
        return []
    picture = [generated_image(item)]
    return [{"type": "tool_result", "tool_use_id": link, "content": picture, "source_type": item["type"]}]


def _output(wire: str) -> Translation:
    """A result, with what Codex's own tools tell of it in its text; a status that says it failed holds."""
    answer = call_output(wire)

    def translation(item: Record) -> Block:
        made = answer(item)
        return {**made, **outcome(item["output"]), **pick(made, "is_error")}

    return translation


_HEADER = re.compile(
    r"(?:Chunk ID: [^\n]*\n)?(?:Wall time: [^\n]*\n)?(?:Exit code: |Process exited with code )(-?\d{1,10})\n"
)


def outcome(output: Any) -> Block:
    """The exit code that Codex wrote into the text of an output: as JSON beside the output, or as a line above it."""
    if output.__class__ is not str:
        return {}
    if output.startswith("{"):
        code = value_at(decode_arguments(output), "metadata", "exit_code")
    else:
        header = _HEADER.match(output)
        code = int(header[1]) if header else None
    return {"is_error": code != 0, "exit_code": code} if code.__class__ is int else {}


def _foreign_result(item: Record) -> Block:
    typed = {"type": "tool_result", **renamed(item, tool_use_id="call_id"), "content": item["result"]}
    return translated(item, typed, {"call_id", "result"}, item["type"])


def _sealed(item: Record) -> Block:
    return raw_block("opaque", item, item["type"])


def _compaction(item: Record) -> Block:
    """A mark that may hold what the vendor sealed."""
    return (
        raw_block("control", item, item["type"]) if item.get("encrypted_content") is None else _sealed(item)
    )


_FOREIGN_RESULT = _Reads("message", "tool", _foreign_result)

_OWN: Mapping[str, _Reads] = {
    **{
        wire: _Reads("message", "tool", _output(wire))
        for wire in ("custom_tool_call_output", "function_call_output")
    },
    **dict.fromkeys(("function_result", "tool_result"), _FOREIGN_RESULT),
    "agent_message": _Reads("message", "user", _agent_message),
    "compaction": _Reads("record", "system", _sealed),
    "context_compaction": _Reads("record", "system", _compaction),
    "function_call": _Reads("message", "assistant", _function_call),
    "tool_call": _Reads("message", "assistant", _foreign_call),
}
_CONTROL = {"ghost_snapshot", "other", *(UNTYPED.keys() - _OWN.keys())}

ITEM_TYPES = frozenset({*_OWN, *_CONTROL, *ITEMS})
