"""Cursor: the lines of `cursor-agent --output-format stream-json`, and the transcripts it keeps on disk.

Sources: Cursor's description of its output format, and captured runs; the shapes of tools and of transcripts are
published nowhere. A line of the stream looks like one of Claude's, but for what it lacks: it has no `uuid`, and its
message has a role and a content, and nothing more. A transcript has no `type`, and the role beside the message.

With partial output a text comes as pieces, then whole before each tool call, then whole once more at the end. Pieces
have a `timestamp_ms` and no `model_call_id`, the whole has both, and the last one has none: it may also be all that was
said in the turn. Where nothing comes in pieces, the last line is an answer like any.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    Translation,
    is_native,
    pick,
    raw_block,
    read_content,
    read_nested,
    renamed,
    text_block,
    translate,
    translated,
    wire_name,
    with_extra,
    without,
)
from ash_shared.model.message import Facts, Role
from ash_shared.providers._kit.contract import (
    Part,
    Provider,
    Record,
    RecordReading,
    chunk_reading,
    control_reading,
    speaker_of_role,
    unknown_reading,
)
from ash_shared.providers._kit.fingerprints import CLAUDE_LINE_KEYS, ENVELOPE_KEYS, body_keys, is_cursor_line
from ash_shared.providers._kit.json_fields import (
    count_at,
    first_text,
    input_at,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.providers._kit.steps import Fragment, Interrupts, Settled, Step, TurnEnds, TurnStarts, Whole

_ROLES: Mapping[Any, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def read_block(block: Any) -> Block:
    """One element of a content list."""
    if is_native(block):
        return block
    if block.__class__ is str:
        return text_block(block)
    wire = text_at(block, "type")
    if wire is None or wire not in _TRANSLATIONS:
        return raw_block("malformed" if wire in _NATIVE else "unknown_type", block, wire)
    return translate(wire, block, _TRANSLATIONS[wire])[0]


def _transcript_call(block: Record) -> Block:
    typed = {"type": "tool_use", **pick(block, "id"), "name": block["name"], "input": block["input"]}
    return translated(block, typed, ("id", "name", "input"), "tool_call")


def _transcript_result(block: Record) -> Block:
    names = ("tool_use_id", "is_error")
    typed = {"type": "tool_result", **pick(block, *names), "content": block["content"]}
    return translated(block, read_nested(typed, read_block), (*names, "content"), "tool-result")


_NATIVE = frozenset({"text", "thinking", "tool_use", "image", "file", "raw"})

_TRANSLATIONS: Mapping[Any, Translation] = {
    "tool-result": _transcript_result,
    "tool_call": _transcript_call,
    "tool_result": lambda block: read_nested(block, read_block),
}


def _call_of(record: Record) -> tuple[str, Record, Record]:
    """The name by which a tool is called on the wire, its call, and what stands beside it."""
    calls = record["tool_call"]
    names = [name for name in calls if name.endswith("ToolCall")] or ["function"]
    return names[0], calls[names[0]], without(calls, names[0])


def _read_call(record: Record) -> list[Block]:
    """A call as it was started, and its result once it is completed; what is completed may leave out its arguments."""
    wire, call, beside = _call_of(record)
    result = [_result(record, wire, call["result"])] if call.get("result") is not None else []
    if result and not call.keys() & {"args", "arguments"}:
        return [with_extra(result[0], without({**beside, **call}, "result"))]
    return [_use({**beside, **call}, record, wire, result), *result]


def _use(call: Record, record: Record, wire: str, result: list[Block]) -> Block:
    translation = _USES.get(wire, _tool)
    outcome = _outcome(call["result"])[0] if result else None
    typed, consumed = translation(call, wire)
    status = {"status": outcome} if outcome else {}
    named: Block = {"type": "tool_use", **renamed(record, id="call_id"), **typed, **status}
    return translated(call, named, {*consumed, "result"}, wire)


def _tool(call: Record, wire: str) -> tuple[Block, tuple[str, ...]]:
    return {"name": wire.removesuffix("ToolCall"), "input": call["args"]}, ("args",)


def _function(call: Record, wire: str) -> tuple[Block, tuple[str, ...]]:
    """A tool that Cursor has no shape of its own for: its arguments are JSON text."""
    given, consumed = input_at(call, "arguments")
    return {"name": call["name"], "input": given}, ("name", *consumed)


def _mcp(call: Record, wire: str) -> tuple[Block, tuple[str, ...]]:
    """A call to an MCP server; its own arguments stand inside those that say where it goes, which are kept."""
    args = call["args"]
    name = first_text(args, ("toolName", "name"))
    if name is None or "args" not in args:
        return _tool(call, wire)
    server = text_at(args, "providerIdentifier")
    where = {"server_name": server} if server else {}
    return {"name": name, "input": args["args"], "executor": "mcp", **where}, ()


_USES: Mapping[str, Callable[[Record, str], tuple[Block, tuple[str, ...]]]] = {
    "function": _function,
    "mcpToolCall": _mcp,
}


def _outcome(result: Any) -> tuple[str | None, Any]:
    """What became of a call, and what was said of it: the key of the first object in its result."""
    told = result.items() if result.__class__ is dict else ()
    return next(((name, answer) for name, answer in told if answer.__class__ is dict), (None, result))


_FAILED: Mapping[Any, bool] = {
    "success": False,
    **dict.fromkeys(
        (
            "error",
            "failure",
            "fileNotFound",
            "invalidFile",
            "permissionDenied",
            "spawnError",
            "timeout",
            "toolNotFound",
        ),
        True,
    ),
}
"""Whether an outcome is an error. A rejected call is none: somebody said no."""


def _result(record: Record, wire: str, result: Any) -> Block:
    outcome, answer = _outcome(result)
    said = _said(answer)
    code = value_at(answer, "exitCode")
    failed = True if value_at(answer, "isError") is True else _FAILED.get(outcome)
    return {
        "type": "tool_result",
        **renamed(record, tool_use_id="call_id"),
        **({} if said is None else {"content": said}),
        **({} if failed is None else {"is_error": failed}),
        "structured": result,
        **({"exit_code": code} if code.__class__ is int else {}),
        "source_type": wire,
    }


def _said(answer: Any) -> Any:
    """What the model read, where the result of the tool has a text for it."""
    if answer.__class__ is not dict:
        return answer
    if answer.get("content").__class__ is list:
        texts = [text_at(item, "text", "text") for item in answer["content"]]
        return [text_block(text) for text in texts if text is not None] if all(texts) else None
    outputs = [answer[name] for name in ("stdout", "stderr") if answer.get(name).__class__ is str]
    if outputs:
        written = [output for output in outputs if output]
        return "".join(written) if len(written) < 2 else [text_block(output) for output in written]
    return next((answer[name] for name in _ANSWERS if answer.get(name).__class__ is str), None)


_ANSWERS = ("resultForModel", "content", "errorMessage", "error", "reason", "message")


def _read_line(record: Record) -> RecordReading:
    """A `user` or `assistant` line of the stream, or a line of a transcript."""
    message = record["message"]
    named = (text_at(message, "role"), text_at(record, "role"), text_at(record, "type"))
    role = next((_ROLES[name] for name in named if name in _ROLES), None)
    if role is None:
        raise TypeError
    return RecordReading("message", role, read_content(message["content"], read_block))


def _read_tool(record: Record) -> RecordReading:
    blocks = translate("tool_call", record, _read_call)
    role: Role = "tool" if blocks[0]["type"] == "tool_result" else "assistant"
    return RecordReading("message", role, blocks)


def _read_thinking(record: Record) -> RecordReading:
    if record.get("subtype") != "delta":
        return control_reading(record)
    return chunk_reading(record)


def _read_result(record: Record) -> RecordReading:
    """The end of a run; its text is that of all answers, one after the other."""
    text = record.get("result")
    if text.__class__ is not str:
        return control_reading(record)
    return RecordReading("record", "system", [text_block(text, "result")])


def _read_system(record: Record) -> RecordReading:
    return control_reading(record) if record.get("subtype") == "init" else unknown_reading(record)


_READERS: Mapping[Any, Callable[[Record], RecordReading]] = {
    "assistant": _read_line,
    "interaction_query": control_reading,
    "result": _read_result,
    "system": _read_system,
    "thinking": _read_thinking,
    "tool_call": _read_tool,
    "turn_ended": control_reading,
    "user": _read_line,
}


def read(record: Record) -> RecordReading:
    """Any line of a stream or of a transcript."""
    if "type" not in record and "message" in record:
        return _read_line(record)
    wire = text_at(record, "type")
    return _READERS[wire](record) if wire in _READERS else unknown_reading(record)


def _is_end(record: Record) -> bool:
    return {"session_id", "duration_ms"} <= record.keys() and CLAUDE_LINE_KEYS.isdisjoint(record)


def _is_init(record: Record) -> bool:
    return (
        record.get("subtype") == "init" and "permissionMode" in record and CLAUDE_LINE_KEYS.isdisjoint(record)
    )


def _is_transcript(record: Record) -> bool:
    message = record.get("message")
    return (
        message.__class__ is dict
        and "role" not in message
        and message.get("content").__class__ in (str, list)
        and record.get("role").__class__ is str
        and record["role"] in _ROLES
    )


_RECOGNIZED: Mapping[str, Callable[[Record], bool]] = {
    "assistant": is_cursor_line,
    "interaction_query": lambda record: "session_id" in record,
    "result": _is_end,
    "system": _is_init,
    "thinking": lambda record: record.get("subtype").__class__ is str and "session_id" in record,
    "tool_call": lambda record: record.get("tool_call").__class__ is dict,
    "turn_ended": lambda record: record.get("status").__class__ is str,
    "user": is_cursor_line,
}


def recognizes(record: Record) -> bool:
    """Whether a record is a line of Cursor's stream, or of one of its transcripts."""
    wire = record.get("type")
    if wire is None:
        return not body_keys(record) and _is_transcript(record)
    if not record.keys().isdisjoint(ENVELOPE_KEYS):
        return False
    return wire.__class__ is str and wire in _RECOGNIZED and _RECOGNIZED[wire](record)


def facts(record: Record) -> Facts:
    """What a line says beside its content; no line has an id of its own."""
    return Facts(
        timestamp=to_milliseconds(record.get("timestamp_ms")),
        session_id=text_at(record, "session_id"),
        model=text_at(record, "model"),
    )


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """What a line adds to the standard messages of its session."""
    wire = text_at(record, "type")
    if wire in _PARTS:
        return _PARTS[wire](record, reading)
    return _line_parts(record, reading) if reading.kind == "message" else []


def _line_parts(record: Record, reading: RecordReading) -> list[Part]:
    role = speaker_of_role(reading.role)
    return [
        Part(
            role=role,
            blocks=reading.blocks,
            echo=_is_piece(record) and role == "assistant",
            metadata={
                "messageId": text_at(record, "model_call_id"),
                "model": text_at(record, "model") if role == "assistant" else None,
            },
        )
    ]


def _is_piece(record: Record) -> bool:
    return "timestamp_ms" in record and "model_call_id" not in record


def _tool_parts(record: Record, reading: RecordReading) -> list[Part]:
    """The call, which its completion replaces, and the result, which the client gives the model."""
    id = text_at(record, "call_id")
    results = [block for block in reading.blocks if block["type"] == "tool_result"]
    calls = [block for block in reading.blocks if block["type"] != "tool_result"]
    metadata = {"messageId": text_at(record, "model_call_id")}
    made = [Part(role="assistant", blocks=calls, key=id, replaces=id is not None, metadata=metadata)]
    given = [Part(role="user", blocks=results, key=id, replaces=id is not None)]
    return (made if calls else []) + (given if results else [])


def _end_parts(record: Record, reading: RecordReading) -> list[Part]:
    failed = record.get("is_error") is True
    texts = [block for block in reading.blocks if block["type"] == "text"]
    failure = message_error(wire_name(record) or "error", text_at(record, "result")) if failed else None
    return [
        Part(
            role="system" if failed else "assistant" if texts else None,
            blocks=texts,
            echo=True,
            usage=_usage(record.get("usage")),
            usage_of_turn=True,
            error=failure,
        )
    ]


def _usage(usage: Any) -> Block | None:
    """Cursor counts what a cache held beside the input."""
    return token_usage(
        usage,
        input=count_at(usage, "inputTokens"),
        output=count_at(usage, "outputTokens"),
        cache_read=count_at(usage, "cacheReadTokens"),
        cache_creation=count_at(usage, "cacheWriteTokens"),
    )


def _turn_parts(record: Record, reading: RecordReading) -> list[Part]:
    """A transcript tells of a turn only how it ended."""
    status = text_at(record, "status")
    if status in (None, "success", "completed"):
        return []
    return [Part(role=None, error=message_error(status, text_at(record, "error")))]


_PARTS: Mapping[Any, Callable[[Record, RecordReading], list[Part]]] = {
    "result": _end_parts,
    "tool_call": _tool_parts,
    "turn_ended": _turn_parts,
}


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """What a line adds to the log of events; None where its parts say it all."""
    tell = _STEPS.get((text_at(record, "type"), text_at(record, "subtype"))) or _STEPS.get(
        (text_at(record, "type"), None)
    )
    return tell(record, reading) if tell else None


def _delta_steps(record: Record, reading: RecordReading) -> list[Step]:
    return [Fragment("thinking", text_at(record, "text") or "", "thinking", reopens=True)]


def _answer_steps(record: Record, reading: RecordReading) -> list[Step]:
    """A line of the stream; whatever was thought before it is whole."""
    [part] = parts(record, reading)
    texts = [block["text"] for block in reading.blocks if block["type"] == "text"]
    if _is_piece(record) and len(texts) == len(reading.blocks):
        said: Step = Fragment("text", "".join(texts), "text", reopens=True)
    else:
        said = Whole(replace(part, echo=False), sums_up="timestamp_ms" not in record)
    return [Settled(("thinking",)), said]


def _started_steps(record: Record, reading: RecordReading) -> list[Step]:
    """A call; what was said before it is whole."""
    return [Settled(), *_completed_steps(record, reading)]


def _completed_steps(record: Record, reading: RecordReading) -> list[Step]:
    """The result of a call, and the call where it was not told yet."""
    told = [replace(part, key=None, replaces=True) for part in _tool_parts(record, reading)]
    is_nameless = text_at(record, "call_id") is None and record.get("subtype") == "completed"
    return [Whole(part) for part in told if not (is_nameless and len(told) > 1 and part.role == "assistant")]


def _end_steps(record: Record, reading: RecordReading) -> list[Step]:
    """The end of a run. Its text is new only where nothing was said, and why it failed is its error."""
    [part] = _end_parts(record, reading)
    if part.error is not None:
        return [Whole(replace(part, role=None, blocks=[]))]
    return [Settled(), Whole(part)]


def _turn_steps(record: Record, reading: RecordReading) -> list[Step]:
    if text_at(record, "status") in _STOPPED:
        return [Interrupts("user_cancel")]
    return [*map(Whole, _turn_parts(record, reading)), TurnEnds()]


_STOPPED = frozenset({"aborted", "canceled", "cancelled", "interrupted"})

_STEPS: Mapping[tuple[str | None, str | None], Callable[[Record, RecordReading], list[Step]]] = {
    ("assistant", None): _answer_steps,
    ("result", None): _end_steps,
    ("system", "init"): lambda record, reading: [TurnStarts()],
    ("thinking", "completed"): lambda record, reading: [Settled(("thinking",))],
    ("thinking", "delta"): _delta_steps,
    ("tool_call", None): _completed_steps,
    ("tool_call", "started"): _started_steps,
    ("turn_ended", None): _turn_steps,
}
"""By type and subtype of a line."""


PROVIDER = Provider(
    source="cursor",
    recognizes=recognizes,
    marks={*_RECOGNIZED, "role"},
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
    steps=steps,
)
