"""The second message model of OpenCode: `SessionMessage`, which the table `session_message` and the server's API have.

Source: the types of `@opencode-ai/sdk` 1.19.3. An assistant's message is one response; its content is a list.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    Translation,
    bounded,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.model.message import Kind, RecordHeader, Role
from ash_shared.providers.opencode.documents import standard_error, standard_usage, turn_end_steps
from ash_shared.records.contract import (
    ParsedRecord,
    Part,
    Record,
    Speaker,
    WireType,
    control_record,
    unknown_record,
)
from ash_shared.records.fingerprints import is_opencode_message
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    decode_arguments,
    list_or_empty,
    mime_fields,
    text_at,
    to_milliseconds,
    url_source,
    value_at,
)
from ash_shared.records.steps import RESULT_SECTION, CurrentAgent, Origin, Step

DIALECT = "session"
"""The name of this model. A store may have messages of both."""

_Parser = Callable[[Record], ParsedRecord]

# Blocks that events and messages share.


def file_block(file: Record) -> Block:
    """Translate an attached file: `uri`, `mime` and `name`."""
    mime, source = file["mime"], url_source(file["uri"])
    if mime.startswith("image/"):
        image = {"type": "image", "source": {**source, "media_type": mime}}
        return translated(file, image, ("mime", "uri"), "file")
    typed = {"type": "file", **renamed(file, filename="name"), **mime_fields(mime), "source": source}
    return translated(file, typed, ("mime", "name", "uri"), "file")


def prompt_blocks(prompt: Record) -> list[Block]:
    """Translate the text, files and agents of a prompt."""
    text = translated(prompt, text_block(prompt["text"]), ("agents", "files", "text"), "prompt")
    named = pick(prompt, "agents") if prompt.get("agents") else {}
    return [with_extra(text, named), *map(file_block, list_or_empty(prompt.get("files")))]


def result_block(fields: Record, call: str | None) -> Block:
    """Translate the result of a call: its `content`, or else its `error`, and its `structured` form."""
    content = [_content_block(each) for each in list_or_empty(fields.get("content"))]
    message = text_at(fields, "error", "message")
    structured, code = fields.get("structured"), count_at(fields, "structured", "exit")
    consumed = (
        "content",
        *(["error"] if message is not None else []),
        *(["structured"] if structured else []),
    )
    more = with_extra({}, without(fields, *consumed))
    if message is not None and (cause := without(fields["error"], "message")):
        more = with_extra(more, {"error": cause})
    return {
        "type": "tool_result",
        "tool_use_id": call,
        "content": [*content, *([text_block(message)] if message is not None else [])],
        "is_error": "error" in fields and fields["error"] is not None,
        **({"structured": structured} if structured else {}),
        **({} if code is None else {"exit_code": code}),
        **more,
        "source_type": "tool",
    }


def _content_block(content: Record) -> Block:
    if content["type"] == "text":
        return content
    return file_block(content) if content["type"] == "file" else raw_block("unknown_type", content)


def executor(fields: Record) -> Block:
    """Return the executor of a call that the provider runs."""
    return {"executor": "server"} if value_at(fields, "provider", "executed") is True else {}


def shell_call(fields: Record) -> Block:
    """Translate a command that the person ran."""
    typed = {"type": "tool_use", "id": fields["callID"], "name": "shell", "input": pick(fields, "command")}
    return translated(fields, {**typed, "executor": "user"}, ("callID", "command", "output"), "shell")


def shell_result(fields: Record) -> Block:
    return {
        "type": "tool_result",
        "tool_use_id": fields["callID"],
        "content": fields["output"],
        "is_error": False,
        "source_type": "shell",
    }


# Messages.


def _translate_content(content: Record) -> list[Block]:
    """Translate an element of the assistant's content."""
    wire_type = text_at(content, "type")
    if wire_type in _CONTENT:
        return translate(wire_type or "", content, _CONTENT[wire_type])
    return [raw_block("unknown_type", content, wire_type)]


def _translate_reasoning(content: Record) -> Block:
    return translated(content, {"type": "thinking", "thinking": content["text"]}, {"text"}, "reasoning")


def _translate_tool(content: Record) -> list[Block]:
    """Translate a call and its result. While the call is pending, its input is an unfinished text."""
    state, id = content["state"], content["id"]
    has_result = state["status"] in ("completed", "error")
    typed: Block = {
        "type": "tool_use",
        "id": id,
        "name": content["name"],
        "input": decode_arguments(state["input"]),
        **executor(content),
        **pick(state, "status"),
    }
    kept = without(state, "input", "status") if not has_result else {}
    if isinstance(state["input"], str):
        kept = {**kept, "input": state["input"]}
    call = translated(content, typed, ("id", "name", "state"), "tool")
    call = with_extra(call, {"state": kept} if kept else {})
    return [call, result_block(without(state, "input", "status"), id)] if has_result else [call]


_CONTENT: Mapping[Any, Translation] = {
    "reasoning": _translate_reasoning,
    "text": lambda content: content,
    "tool": _translate_tool,
}


def _parse_assistant(message: Record) -> ParsedRecord:
    blocks = [block for each in list_or_empty(message["content"]) for block in _translate_content(each)]
    rest = raw_block("control", without(message, "content"), "assistant")  # none of it is content
    return ParsedRecord("message", "assistant", bounded([*blocks, rest]))


def _parse_shell(message: Record) -> ParsedRecord:
    results = [shell_result(message)] if "output" in message else []
    return ParsedRecord("message", "user", [shell_call(message), *results])


def _text_parser(kind: Kind, role: Role, key: str = "text", variant: str | None = None) -> _Parser:
    """Return the parser of messages that are one text."""

    def parse_text(message: Record) -> ParsedRecord:
        block = translated(message, text_block(message[key], variant), (key,), message["type"])
        return ParsedRecord(kind, role, [block])

    return parse_text


# Parts and steps.


def shell_parts(key: str | None, blocks: list[Block], message: str | None) -> list[Part]:
    """Return the parts of a command that the person ran, and of its output; `message` is the id of the record."""
    calls = [block for block in blocks if block["type"] == "tool_use"]
    results = [block for block in blocks if block["type"] == "tool_result"]
    call = Part(
        role="assistant",
        blocks=calls,
        key=key,
        relation="section",
        section="call",
        header=RecordHeader(uuid=message),
        origin="synthetic",
        dialect=DIALECT,
    )
    result = result_part(results, f"{key}/call")
    return [part for part in (call, result) if part.blocks]


def result_part(results: list[Block], key: str) -> Part:
    """Return the part of a result, a message of its own."""
    return Part(
        role="user",
        blocks=results,
        key=key,
        relation="section",
        section=RESULT_SECTION,
        header=RecordHeader(uuid=key),
        dialect=DIALECT,
    )


def content_part(blocks: list[Block], message: str | None, section: str, *, slot: str | None = None) -> Part:
    """Return the part of an item of the assistant's content."""
    return Part(
        role="assistant",
        blocks=blocks,
        key=message,
        relation="section",
        section=section,
        slot=slot,
        header=RecordHeader(uuid=message),
        message_id=message,
        dialect=DIALECT,
    )


def info_part(fields: Record, message: str | None) -> Part:
    """Return the part with the model, usage, cost and error of an answer."""
    error = fields.get("error")
    return Part(
        role="assistant",
        key=message,
        relation="section",
        header=RecordHeader(uuid=message),
        usage=standard_usage(fields.get("tokens")),
        cost=cost_at(fields, "cost"),
        message_id=message,
        metadata={"model": text_at(fields, "model", "id"), "stop_reason": text_at(fields, "finish")},
        error=standard_error(error) if isinstance(error, dict) else None,
        dialect=DIALECT,
    )


def single_part(blocks: list[Block], role: Speaker, key: str | None, origin: Origin = "prompt") -> Part:
    """Return the part of a message that is written as a whole."""
    return Part(
        role=role,
        blocks=blocks,
        key=key,
        relation="section",
        section="content",
        origin=origin,
        header=RecordHeader(uuid=key),
        dialect=DIALECT,
    )


def _assistant_parts(message: Record, parsed: ParsedRecord) -> list[Part]:
    key = text_at(message, "id")
    parts = [info_part(message, key)]
    for number, each in enumerate(message["content"]):
        section = text_at(each, "id") or str(number)
        blocks = _translate_content(each)
        results = [block for block in blocks if block["type"] == "tool_result"]
        parts.append(
            content_part([block for block in blocks if block["type"] != "tool_result"], key, section)
        )
        if results:
            parts.append(result_part(results, f"{key}/{section}"))
    return parts


def _assistant_steps(message: Record, parsed: ParsedRecord) -> list[Step]:
    info, *contents = _assistant_parts(message, parsed)
    agent = text_at(message, "agent")
    switch: list[Step] = [CurrentAgent(agent, text_at(message, "id"))] if agent is not None else []
    return [*switch, *contents, info, *turn_end_steps(text_at(message, "finish"))]


def _whole_message(role: Speaker, origin: Origin = "prompt") -> Callable[[Record, ParsedRecord], list[Part]]:
    return lambda message, parsed: [single_part(parsed.blocks, role, text_at(message, "id"), origin)]


def _agent_steps(message: Record, parsed: ParsedRecord) -> list[Step]:
    return [CurrentAgent(message["agent"], text_at(message, "id"))]


TYPES: Mapping[str, WireType] = {
    "agent-switched": WireType(control_record, steps=_agent_steps),
    "assistant": WireType(_parse_assistant, _assistant_parts, _assistant_steps),
    "compaction": WireType(_text_parser("record", "system", "summary", "summary"), _whole_message("system")),
    "model-switched": WireType(control_record, steps=lambda message, parsed: []),
    "shell": WireType(
        _parse_shell,
        lambda message, parsed: shell_parts(
            text_at(message, "callID"), parsed.blocks, text_at(message, "id")
        ),
    ),
    "synthetic": WireType(_text_parser("message", "user"), _whole_message("user", "synthetic")),
    "system": WireType(_text_parser("message", "system"), _whole_message("system")),
    "user": WireType(
        lambda message: ParsedRecord("message", "user", prompt_blocks(message)), _whole_message("user")
    ),
}
"""The types of messages."""
_UNKNOWN = WireType(lambda message: unknown_record(message, text_at(message, "type")))


def wire_type(message: Record) -> WireType:
    return TYPES.get(text_at(message, "type") or "", _UNKNOWN)


def is_message(record: Record) -> bool:
    """Return True for a message as the server's API returns it."""
    return is_opencode_message(record) and record["type"] in TYPES


def header(message: Record) -> RecordHeader:
    return RecordHeader(
        uuid=text_at(message, "id"),
        timestamp=to_milliseconds(value_at(message, "time", "created")),
        session_id=text_at(message, "sessionID"),
        model=text_at(message, "model", "id"),
        last_timestamp=to_milliseconds(value_at(message, "time", "completed")),
    )
