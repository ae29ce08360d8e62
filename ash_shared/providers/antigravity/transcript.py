"""The steps of Antigravity's transcripts.

Steps have no ids: a result belongs to the oldest call without a result of the last response, which only the order of
the lines shows. A step may be written again while it runs. `transcript.jsonl` has the arguments of calls as JSON text
and cuts long fields, which it lists in `truncated_fields`; `transcript_full.jsonl` has them unchanged.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    bounded,
    pick,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.records.contract import ParsedRecord, Part, Record, WireType, control_record, unknown_record
from ash_shared.records.fingerprints import ENVELOPE_KEYS
from ash_shared.records.json_fields import (
    decode_arguments,
    is_integer,
    latest_time,
    list_or_empty,
    text_at,
    to_milliseconds,
)
from ash_shared.records.steps import Chunk, Origin, ResponseEnd, ResponseStart, Step

_ENVELOPE = frozenset({"step_index", "source", "type", "status", "created_at"})
_LABELS = ("toolAction", "toolSummary")
"""Arguments of every call that describe it to the user."""
_CLIENT_SOURCES = frozenset({"MODEL", "SYSTEM", "USER_IMPLICIT"})
"""Sources of input that nobody typed."""
_UNFINISHED = frozenset({"GENERATING", "PENDING", "QUEUED", "RUNNING", "WAITING"})
_TRUNCATED = re.compile(r"<truncated \d+ bytes>")
_STEP_TYPE = re.compile(r"[A-Z][A-Z0-9_]*")
_MODEL = re.compile(r"setting `Model Selection` from .*? to (.+?)\.(?=\s|<|\Z)")
_TIMES = r"\A(?:Created At:[^\n]*\n)?(?:Completed At:[^\n]*\n)?\s*"
_FAILURE = re.compile(rf"{_TIMES}(?:Encountered error in step execution|Error invalid tool call)")
_COMPLETED = re.compile(r"\A(?:Created At:[^\n]*\n)?Completed At: ([^\n]+)\n")
_EXIT = re.compile(
    rf"{_TIMES}The command (?:completed (?P<ok>successfully)|failed with exit code: (?P<code>\d+))"
)
_BACKGROUND = re.compile(rf"{_TIMES}Tool is running as a background task")
_SUBAGENT = re.compile(r'"conversationId"\s*:\s*"([0-9A-Fa-f-]{36})"')


def is_step(record: Record) -> bool:
    """Return True for a line of a transcript. Never raises."""
    name = record.get("type")
    is_named = isinstance(name, str) and _STEP_TYPE.fullmatch(name) is not None
    has_place = is_integer(record.get("step_index")) and isinstance(record.get("source"), str)
    return is_named and has_place and record.keys().isdisjoint(ENVELOPE_KEYS)


def selected_model(step: Record) -> str | None:
    """Return the model that the person selected with a prompt."""
    if step.get("type") != "USER_INPUT":
        return None
    _, _, added = (text_at(step, "content") or "").rpartition("</USER_REQUEST>")
    selection = _MODEL.search(added)
    return selection[1] if selection else None


def time_of(step: Record) -> int | None:
    """Return the time of a step; of a result, the one at which the call ended, which its text begins with."""
    created = to_milliseconds(step.get("created_at"))
    if wire_type(step) is not _RESULT:
        return created
    completed = _COMPLETED.match(text_at(step, "content") or "")
    return latest_time([created, to_milliseconds(completed[1]) if completed else None])


def _parse_prompt(step: Record) -> ParsedRecord:
    return ParsedRecord("message", "user", translate("USER_INPUT", step, _translate_prompt))


def _translate_prompt(step: Record) -> Block:
    return translated(step, text_block(step["content"]), _ENVELOPE | {"content"}, "USER_INPUT")


def _prompt_parts(step: Record, parsed: ParsedRecord) -> list[Part]:
    origin: Origin = "synthetic" if step.get("source") in _CLIENT_SOURCES else "prompt"
    return [Part(role="user", blocks=parsed.blocks, origin=origin)]


def _parse_response(step: Record) -> ParsedRecord:
    blocks = translate("PLANNER_RESPONSE", step, _response_blocks)
    return ParsedRecord("message", "assistant", blocks) if blocks else control_record(step)


def _response_blocks(step: Record) -> list[Block]:
    """Return thinking, text and calls; the other keys of the step go to the first block."""
    blocks: list[Block] = []
    if step.get("thinking") is not None:
        blocks.append({"type": "thinking", "thinking": step["thinking"]})
    if step.get("content") is not None:
        blocks.append(text_block(step["content"]))
    for call in list_or_empty(step.get("tool_calls")):
        blocks += translate("tool_call", call, _translate_call)
    rest = without(step, "thinking", "content", "tool_calls", *_ENVELOPE)
    return bounded([with_extra(block, rest) for block in blocks[:1]] + blocks[1:])


def _translate_call(call: Record) -> Block:
    args = call["args"]
    decoded = {name: decode_arguments(value) for name, value in args.items()} if _is_encoded(args) else args
    typed = {"type": "tool_use", "name": call["name"], "input": without(decoded, *_LABELS)}
    consumed = ("name", "args") if decoded is args else ("name",)
    return with_extra(translated(call, typed, consumed, "tool_call"), pick(decoded, *_LABELS))


def _is_encoded(args: Record) -> bool:
    """Return True if the values are JSON texts: the labels, which are sentences otherwise, or else all strings."""
    labels = [args[name] for name in _LABELS if isinstance(args.get(name), str)]
    if labels:
        return all(label.startswith('"') for label in labels)
    texts = [value for value in args.values() if isinstance(value, str) and not _TRUNCATED.search(value)]
    return bool(texts) and all(decode_arguments(text) is not text for text in texts)


def _response_parts(step: Record, parsed: ParsedRecord) -> list[Part]:
    blocks = [block for block in parsed.blocks if block["type"] != "text" or block["text"]]
    if parsed.kind != "message":
        return []
    return [
        Part(role="assistant", blocks=blocks, key=response_key(step["step_index"]), relation="new_version")
    ]


def response_key(step_index: int) -> str:
    """Return the key of the message of a response, which its usage has, too."""
    return str(step_index)


def _response_steps(step: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the steps of a response; one without calls ends the turn."""
    key, calls = response_key(step["step_index"]), list_or_empty(step.get("tool_calls"))
    is_last = not calls and step.get("status") not in _UNFINISHED
    ends: list[Step] = [ResponseEnd("ends")] if is_last else []
    return [ResponseStart(key, "if_other_id"), *_response_parts(step, parsed), *ends]


def _parse_result(step: Record) -> ParsedRecord:
    return ParsedRecord("message", "tool", translate(step["type"], step, _translate_result))


def _translate_result(step: Record) -> Block:
    """Translate a result. A failed command is `DONE`, too: only its text says so."""
    name = "content" if step.get("content") is not None else "error"
    content = step.get(name)
    typed: Block = {"type": "tool_result", **({} if content is None else {"content": content})}
    if isinstance(content, str):
        typed |= _outcome(step, content)
    if (name == "error" and content is not None) or step.get("status") == "ERROR":
        typed["is_error"] = True
    return translated(step, typed, _ENVELOPE | {name}, step["type"])


def _outcome(step: Record, content: str) -> Block:
    if step["type"] == "ERROR_MESSAGE" or _FAILURE.match(content):
        return {"is_error": True}
    ending = _EXIT.match(content) if "COMMAND" in step["type"] else None
    if ending is None:
        return {}
    code = int(ending["code"] or 0)
    return {"is_error": code != 0, "exit_code": code}


def _result_parts(step: Record, parsed: ParsedRecord) -> list[Part]:
    key = f"{step['step_index']}/{step['type']}"
    fields = {"toolName": step["type"]}
    return [Part(role="user", blocks=parsed.blocks, key=key, relation="new_version", slot=key, fields=fields)]


def _result_steps(step: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the output of a running tool, or a result: that a command runs in the background is one."""
    [part] = _result_parts(step, parsed)
    content = step.get("content")
    if step.get("status") not in _UNFINISHED or (isinstance(content, str) and _BACKGROUND.match(content)):
        return [_with_agent(part, content)]
    return [Chunk("output_so_far", content, part.key or "")] if content else []


def _with_agent(part: Part, content: Any) -> Part:
    """Add the conversation of the subagent that the call started."""
    [block] = part.blocks
    is_start = block.get("source_type") == "INVOKE_SUBAGENT" and isinstance(content, str)
    agent = _SUBAGENT.search(content) if is_start else None
    return part if agent is None else replace(part, blocks=[{**block, "agent_id": agent[1]}])


def _parse_system_text(step: Record, variant: str) -> ParsedRecord:
    def text_of(step: Record) -> Block:
        return translated(step, text_block(step["content"], variant), _ENVELOPE | {"content"}, step["type"])

    return ParsedRecord("record", "system", translate(step["type"], step, text_of))


def _system_parts(step: Record, parsed: ParsedRecord) -> list[Part]:
    texts = [block for block in parsed.blocks if block["type"] == "text"]
    return [Part(role="system", blocks=texts)] if texts else []


_CONTROL = WireType(lambda step: control_record(step, text_at(step, "type")))
_RESULT = WireType(_parse_result, _result_parts, _result_steps)
_UNKNOWN = WireType(lambda step: unknown_record(step, text_at(step, "type")))

_RESULT_TYPES = (
    *("ASK_QUESTION", "CODE_ACTION", "COMMAND_STATUS", "ERROR_MESSAGE", "FIND", "GENERATE_IMAGE", "GENERIC"),
    *("GREP_SEARCH", "INVOKE_SUBAGENT", "LIST_DIRECTORY", "READ_URL_CONTENT", "RUN_COMMAND", "SEARCH_WEB"),
    *("TOOL_RESPONSE", "VIEW_FILE"),
)

TYPES: Mapping[str, WireType] = {
    **dict.fromkeys(_RESULT_TYPES, _RESULT),
    "CHECKPOINT": WireType(lambda step: _parse_system_text(step, "summary"), _system_parts),
    "CONVERSATION_HISTORY": _CONTROL,
    "EPHEMERAL_MESSAGE": _CONTROL,
    "KNOWLEDGE_ARTIFACTS": _CONTROL,
    "PLANNER_RESPONSE": WireType(_parse_response, _response_parts, _response_steps),
    "SYSTEM_MESSAGE": WireType(lambda step: _parse_system_text(step, "notice"), _system_parts),
    "USER_INPUT": WireType(_parse_prompt, _prompt_parts),
}
"""Steps by `type`."""


def wire_type(step: Record) -> WireType:
    """Return the row of a step; any other step of the model is the result of a tool."""
    row = TYPES.get(text_at(step, "type") or "")
    return row or (_RESULT if step.get("source") == "MODEL" else _UNKNOWN)
