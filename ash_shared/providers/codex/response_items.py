"""Items of the Responses API in Codex files: bare lines in early files, `response_item` payloads since then.

Source: `ResponseItem` of Codex's protocol. Items are read as in the Responses API. Codex adds
`agent_message`, `context_compaction`, `ghost_snapshot` and `other`, and a header in the text of an output.
Files of other tools in the same envelope add `tool_call`, `tool_result` and `function_result`.
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
"""Keys next to those of the item in lines without a payload."""


class _ItemReader(NamedTuple):
    kind: Kind
    role: Role
    blocks: Translation


def read_item(item: Record, record: Record) -> RecordReading:
    """Read the item in a record; the record itself may be the item."""
    wire_type = item["type"]
    if wire_type in _READERS:
        kind, role, translation = _READERS[wire_type]
    elif wire_type in ITEMS:
        kind, role, translation = "message", item_role(item), ITEMS[wire_type]
    else:
        return (control_reading if wire_type in _CONTROL_ITEMS else unknown_reading)(
            record, _raw_type(record, wire_type)
        )
    return RecordReading(
        kind,
        role,
        translate(wire_type, item, _without_envelope(translation) if item is record else translation),
    )


def _raw_type(record: Record, wire_type: str) -> str:
    return wire_type if record["type"] == wire_type else f"{record['type']}/{wire_type}"


def _without_envelope(translation: Translation) -> Translation:
    """Return the translation for a line that itself is the item, without the line's time."""
    return lambda line: translation({key: value for key, value in line.items() if key not in _ENVELOPE})


def keep_item_keys(blocks: list[Block], item: Record, consumed: tuple[str, ...]) -> list[Block]:
    """Add the unconsumed keys of a Codex item to its first block."""
    return keep_unread_keys(blocks, item, consumed, item["type"])


def _translate_agent_message(item: Record) -> list[Block]:
    return keep_item_keys(read_list(item["content"]), item, ("content",))


def _translate_function_call(item: Record) -> Block | list[Block]:
    return _translate_foreign_call(item) if "function" in item else ITEMS["function_call"](item)


def _translate_foreign_call(item: Record) -> Block:
    """Translate a call written by another tool, with its name in a separate object."""
    function = item["function"]
    rest = {key: value for key, value in function.items() if key != "name"}
    arguments, consumed = input_at(item, "arguments")
    typed = {"type": "tool_use", **renamed(item, id="call_id"), "name": function["name"], "input": arguments}
    leftover = {**item, "function": rest}
    return translated(leftover, typed, {"call_id", *consumed, *(() if rest else ("function",))}, item["type"])


def generated_image_result(item: Record, link: Any) -> list[Block]:
    """Return the result of an image generation, if it has an image yet."""
    if not item.get("result"):
        return []
    content = [generated_image(item)]
    return [{"type": "tool_result", "tool_use_id": link, "content": content, "source_type": item["type"]}]


def _output_translation(wire_type: str) -> Translation:
    """Return the translation of a result whose text contains the exit code; a failed status overrides the code."""
    translate_output = call_output(wire_type)

    def translation(item: Record) -> Block:
        block = translate_output(item)
        return {**block, **exit_status(item["output"]), **pick(block, "is_error")}

    return translation


_HEADER = re.compile(
    r"(?:Chunk ID: [^\n]*\n)?(?:Wall time: [^\n]*\n)?(?:Exit code: |Process exited with code )(-?\d{1,10})\n"
)


def exit_status(output: Any) -> Block:
    """Return the exit code that Codex wrote into the text of an output: as JSON, or in a header line."""
    if output.__class__ is not str:
        return {}
    if output.startswith("{"):
        code = value_at(decode_arguments(output), "metadata", "exit_code")
    else:
        header = _HEADER.match(output)
        code = int(header[1]) if header else None
    return {"is_error": code != 0, "exit_code": code} if code.__class__ is int else {}


def _translate_foreign_result(item: Record) -> Block:
    typed = {"type": "tool_result", **renamed(item, tool_use_id="call_id"), "content": item["result"]}
    return translated(item, typed, {"call_id", "result"}, item["type"])


def _read_encrypted(item: Record) -> Block:
    return raw_block("opaque", item, item["type"])


def _read_compaction(item: Record) -> Block:
    """Read a compaction, which may contain encrypted content."""
    return (
        raw_block("control", item, item["type"])
        if item.get("encrypted_content") is None
        else _read_encrypted(item)
    )


_FOREIGN_RESULT_READER = _ItemReader("message", "tool", _translate_foreign_result)

_READERS: Mapping[str, _ItemReader] = {
    **{
        wire_type: _ItemReader("message", "tool", _output_translation(wire_type))
        for wire_type in ("custom_tool_call_output", "function_call_output")
    },
    **dict.fromkeys(("function_result", "tool_result"), _FOREIGN_RESULT_READER),
    "agent_message": _ItemReader("message", "user", _translate_agent_message),
    "compaction": _ItemReader("record", "system", _read_encrypted),
    "context_compaction": _ItemReader("record", "system", _read_compaction),
    "function_call": _ItemReader("message", "assistant", _translate_function_call),
    "tool_call": _ItemReader("message", "assistant", _translate_foreign_call),
}
_CONTROL_ITEMS = {"ghost_snapshot", "other", *(UNTYPED.keys() - _READERS.keys())}

ITEM_TYPES = frozenset({*_READERS, *_CONTROL_ITEMS, *ITEMS})
