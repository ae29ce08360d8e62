"""Items of the Responses API in Codex files: bare lines in early files, `response_item` payloads since then.

Source: `ResponseItem` of Codex's protocol. Items are parsed as in the Responses API. Codex adds
`agent_message`, `context_compaction`, `ghost_snapshot` and `other`, and a header in the text of an output.
Files of other tools in the same envelope add `tool_call`, `tool_result` and `function_result`.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    Translation,
    control_block,
    pick,
    raw_block,
    renamed,
    translate,
    translated,
)
from ash_shared.model.message import Kind, Role
from ash_shared.providers.codex import messages, steps
from ash_shared.providers.codex.bodies import BodyParser, BodyType, parse_control, rows_under
from ash_shared.providers.codex.content import keep_item_keys, parse_list
from ash_shared.records import responses_items
from ash_shared.records.contract import ParsedRecord, Part, Record, WireType, unknown_record
from ash_shared.records.json_fields import decode_arguments, input_at, is_integer, text_at, value_at
from ash_shared.records.responses_items import UNTYPED, call_output, item_role
from ash_shared.records.steps import Step

_ENVELOPE = frozenset({"created_at", "ordinal", "timestamp"})
"""Keys next to the item's own in lines without a payload."""


def _without_envelope(translation: Translation) -> Translation:
    """Return the translation for a line that itself is the item, without the line's time."""
    return lambda line: translation({key: value for key, value in line.items() if key not in _ENVELOPE})


def _translate_agent_message(item: Record) -> list[Block]:
    return keep_item_keys(parse_list(item["content"]), item, ("content",))


def _translate_function_call(item: Record) -> Block | list[Block]:
    is_foreign = "function" in item
    return _translate_foreign_call(item) if is_foreign else responses_items.ITEMS["function_call"](item)


def _translate_foreign_call(item: Record) -> Block:
    """Translate a call written by another tool, with its name in a separate object."""
    function = item["function"]
    rest = {key: value for key, value in function.items() if key != "name"}
    arguments, consumed = input_at(item, "arguments")
    typed = {"type": "tool_use", **renamed(item, id="call_id"), "name": function["name"], "input": arguments}
    leftover = {**item, "function": rest}
    return translated(leftover, typed, {"call_id", *consumed, *(() if rest else ("function",))}, item["type"])


def _output_translation(wire_type: str) -> Translation:
    """Return the translation of a result with the exit code in its text; a failed status overrides the code."""
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
    if not isinstance(output, str):
        return {}
    if output.startswith("{"):
        code = value_at(decode_arguments(output), "metadata", "exit_code")
    else:
        header = _HEADER.match(output)
        code = int(header[1]) if header else None
    return {"is_error": code != 0, "exit_code": code} if is_integer(code) else {}


def _translate_foreign_result(item: Record) -> Block:
    typed = {"type": "tool_result", **renamed(item, tool_use_id="call_id"), "content": item["result"]}
    return translated(item, typed, {"call_id", "result"}, item["type"])


def _parse_encrypted(item: Record) -> Block:
    return raw_block("opaque", item, item["type"])


def _parse_compaction(item: Record) -> Block:
    return control_block(item) if item.get("encrypted_content") is None else _parse_encrypted(item)


def _parser(translation: Translation, role: Role | None = None, kind: Kind = "message") -> BodyParser:
    """Return the parser of an item; the default role is the item's role in the Responses API."""
    bare_translation = _without_envelope(translation)

    def parse(item: Record, record: Record, name: str) -> ParsedRecord:
        blocks = translate(item["type"], item, bare_translation if item is record else translation)
        return ParsedRecord(kind, role or item_role(item), blocks)

    return parse


def _with_authorship(row: WireType) -> WireType:
    """Return the row of messages in lines with `metadata`, which states whether a person typed the message here."""

    def steps_of(record: Record, parsed: ParsedRecord) -> list[Step] | None:
        own = row.steps(record, parsed)
        return own and [_with_author(record, step) if isinstance(step, Part) else step for step in own]

    return WireType(
        row.parse,
        lambda record, parsed: [_with_author(record, part) for part in row.parts(record, parsed)],
        steps_of,
    )


def _with_author(record: Record, part: Part) -> Part:
    flags = [value_at(record, "metadata", name) for name in _NOT_TYPED]
    is_prompt = part.role == "user" and part.origin == "prompt"
    return replace(part, origin="synthetic") if is_prompt and True in flags else part


_NOT_TYPED = ("harness_authored_configuration", "inherited_user_message")
"""Flags of messages that Codex wrote, or copied from the thread that started this one."""

_FOREIGN_RESULT = BodyType(_parser(_translate_foreign_result, "tool"), messages.own_item_parts)

ITEMS: Mapping[str, BodyType] = {
    **{
        name: BodyType(_parser(translation), messages.item_parts)
        for name, translation in responses_items.ITEMS.items()
    },
    **dict.fromkeys(("ghost_snapshot", "other", *UNTYPED), BodyType(parse_control)),
    **{
        name: BodyType(_parser(_output_translation(name)), messages.item_parts)
        for name in ("custom_tool_call_output", "function_call_output")
    },
    "agent_message": BodyType(
        _parser(_translate_agent_message, "user"), messages.agent_message_parts, steps.agent_message_steps
    ),
    "compaction": BodyType(_parser(_parse_encrypted, "system", "record")),
    "context_compaction": BodyType(_parser(_parse_compaction, "system", "record")),
    "function_call": BodyType(_parser(_translate_function_call), messages.item_parts),
    "function_result": _FOREIGN_RESULT,
    "message": BodyType(
        _parser(responses_items.ITEMS["message"]), messages.message_parts, steps.message_steps
    ),
    "reasoning": BodyType(
        _parser(responses_items.ITEMS["reasoning"]), messages.item_parts, steps.reasoning_steps
    ),
    "tool_call": BodyType(_parser(_translate_foreign_call, "assistant"), messages.own_item_parts),
    "tool_result": _FOREIGN_RESULT,
    "web_search_call": BodyType(
        _parser(responses_items.ITEMS["web_search_call"]), messages.item_parts, steps.hosted_call_steps
    ),
}
"""Items by type."""
ITEM_LINES = rows_under("payload", "response_item", ITEMS)
ITEM_LINES["message"] = _with_authorship(ITEM_LINES["message"])
UNKNOWN_ITEM_LINE = WireType(
    lambda record: unknown_record(record, "response_item/" + record["payload"]["type"])
)
_UNKNOWN = BodyType(lambda item, record, name: unknown_record(record, name))


def row_of_item(item: Record) -> BodyType:
    return ITEMS.get(text_at(item, "type") or "", _UNKNOWN)


def parse_item(item: Record, record: Record) -> ParsedRecord:
    return row_of_item(item).parse(item, record, f"{record.get('type', 'msg')}/{item['type']}")
