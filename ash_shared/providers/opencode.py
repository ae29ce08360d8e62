"""OpenCode: the events of `opencode run --format json`, the documents of its storage, and its exports.

Sources: OpenCode's message types (`MessageV2`), which all three share, and captured files. A session, each
message and each part of a message are separate documents (`session/…`, `message/…`, `part/…`); a part refers to its
message by `messageID`, and only the message has a role. A run event contains one part. An export has `info` and
`messages`; a message in an export or from the server API has `info` and `parts`. Documents collected from disk may be
wrapped as `{"path": …, "json": …}`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    Translation,
    bounded,
    is_native,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    Speaker,
    WireType,
    control_record,
    unknown_record,
)
from ash_shared.records.fingerprints import body_keys
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    items_at,
    latest_time,
    list_or_empty,
    message_error,
    mime_fields,
    text_at,
    to_milliseconds,
    token_usage,
    url_source,
    value_at,
)
from ash_shared.records.steps import Chunk, ChunkEnd, CurrentAgent, Emit, ResponseEnd, Step, TurnEnd

_WRAPPER_KEYS = frozenset({"path", "json"})
_PATH = re.compile(r"(.*/)?(session|message|part)/.*")
_PART_PATH = re.compile(r"(?:.*/)?part/([^/]+)/[^/]+")


def _unwrap(record: Record) -> Record:
    """Return the document without the wrapper that contains its path."""
    if record.keys() == _WRAPPER_KEYS and isinstance(record["json"], dict):
        record = record["json"]
    return record


def parse_block(block: Any) -> Block:
    """Parse a part as one block, without the result of a call."""
    return _parse_part(block)[0]


def _parse_part(part: Any) -> list[Block]:
    if not isinstance(part, dict):
        return [text_block(part) if isinstance(part, str) else raw_block("unknown_type", part)]
    wire_type = text_at(part, "type")
    if wire_type in _TRANSLATIONS:
        return translate(wire_type or "", part, _TRANSLATIONS[wire_type])
    if is_native(part):
        return [part]
    return [raw_block("control" if wire_type in _CONTROL_PARTS else "unknown_type", part, wire_type)]


def _keep_text(part: Record) -> Block:
    return part


def _translate_reasoning(part: Record) -> Block:
    return translated(part, {"type": "thinking", "thinking": part["text"]}, {"text"}, "reasoning")


def _translate_file(part: Record) -> Block:
    """Translate an attached file; inline bytes are a `data:` URL."""
    mime, source = part["mime"], url_source(part["url"])
    if mime.startswith("image/"):
        image = {"type": "image", "source": {**source, "media_type": mime}}
        return translated(part, image, ("mime", "url"), "file")
    typed = {"type": "file", **pick(part, "filename"), **mime_fields(mime), "source": source}
    return translated(part, typed, ("filename", "mime", "url"), "file")


def _translate_tool(part: Record) -> list[Block]:
    """Translate a tool part to a call, and its result if the state has one."""
    state = part["state"]
    result_key = next((name for name in ("output", "error") if state.get(name) is not None), None)
    consumed = {"input", "status"} | ({result_key, "metadata", "attachments"} if result_key else set())
    rest = without(state, *consumed)
    typed: Block = {
        "type": "tool_use",
        **renamed(part, id="callID"),
        "name": part["tool"],
        "input": state["input"],
        **pick(state, "status"),
    }
    call = translated(part, typed, ("callID", "tool", "state"), "tool")
    call = with_extra(call, {"state": rest} if rest else {})
    return [call, _result_block(part, state, result_key)] if result_key else [call]


def _result_block(part: Record, state: Record, result_key: str) -> Block:
    metadata = state.get("metadata")
    codes = [count_at(metadata, name) for name in ("exit", "exitCode")]
    code = next((code for code in codes if code is not None), None)
    return {
        "type": "tool_result",
        **renamed(part, tool_use_id="callID"),
        "content": _add_files(state[result_key], state.get("attachments")),
        "is_error": result_key == "error",
        **({} if metadata is None else {"structured": metadata}),
        **({} if code is None else {"exit_code": code}),
        "source_type": "tool",
    }


def _add_files(text: Any, files: Any) -> Any:
    return [text_block(text), *map(parse_block, list_or_empty(files))] if files else text


_TRANSLATIONS: Mapping[Any, Translation] = {
    "file": _translate_file,
    "reasoning": _translate_reasoning,
    "text": _keep_text,
    "tool": _translate_tool,
}

_CONTROL_PARTS = frozenset(
    {"agent", "compaction", "patch", "retry", "snapshot", "step-finish", "step-start", "subtask"}
)


def _parse_single_part(part: Any, role: Speaker | None = None) -> ParsedRecord:
    blocks = _parse_part(part)
    if all(block["type"] == "raw" and block.get("reason") == "control" for block in blocks):
        return ParsedRecord("record", "system", blocks)
    return ParsedRecord("message", role or _guess_role(part), blocks)


def _guess_role(part: Any) -> Speaker:
    """Return the likely role of a part's message: parts of the model have a time, parts of the user do not."""
    wire_type = text_at(part, "type")
    return "user" if wire_type == "file" or (wire_type == "text" and "time" not in part) else "assistant"


def _parse_event(record: Record) -> ParsedRecord:
    """Parse a run event, which belongs to the assistant."""
    parsed = _parse_single_part(record["part"], "assistant")
    return parsed if parsed.kind == "message" else _parse_control(record)


def _parse_error(record: Record) -> ParsedRecord:
    error = record["error"]
    text = text_at(error, "data", "message") or text_at(error, "message")
    if text is None:
        return _parse_control(record)
    return ParsedRecord("record", "system", [translated(record, text_block(text, "error"), (), "error")])


def _parse_control(record: Record) -> ParsedRecord:
    return control_record(record, text_at(record, "type"))


def _parse_message(record: Record) -> ParsedRecord:
    role = _message_role(record["info"])
    return ParsedRecord("message", role, bounded(_message_blocks(record)))


def _parse_session(record: Record) -> ParsedRecord:
    messages = list_or_empty(record["messages"])
    blocks = [block for message in messages for block in _message_blocks(message)]
    role: Speaker = _message_role(messages[0]["info"]) if messages else "user"
    return ParsedRecord("message", role, bounded(blocks))


def _message_blocks(message: Record) -> list[Block]:
    return [block for part in list_or_empty(message["parts"]) for block in _parse_part(part)]


def _message_role(info: Record) -> Speaker:
    return "user" if info["role"] == "user" else "assistant"


def _is_event(record: Record) -> bool:
    wire_type = record.get("type")
    return isinstance(wire_type, str) and (
        isinstance(record.get("part"), dict)
        or (wire_type == "error" and isinstance(record.get("error"), dict))
    )


def _is_stored(record: Record) -> bool:
    """Return True for a message or part with a session id, or an early part with only a message id."""
    has_kind = isinstance(record.get("type"), str) or record.get("role") in ("user", "assistant")
    return has_kind and isinstance(record.get("id"), str)


def _is_session(record: Record) -> bool:
    return isinstance(record.get("directory"), str) and isinstance(record.get("time"), dict)


def _is_complete(record: Record) -> bool:
    info = record["info"]
    if not isinstance(info, dict):
        return False
    if isinstance(record.get("messages"), list):
        return "projectID" in info and all(
            isinstance(message, dict) and message.keys() >= {"info", "parts"}
            for message in record["messages"]
        )
    return isinstance(record.get("parts"), list) and isinstance(info.get("sessionID"), str)


def recognize(record: Record) -> WireType | None:
    return wire_type(record) if _is_own(record) else None


def _is_own(record: Record) -> bool:
    if record.keys() == _WRAPPER_KEYS:
        path = record["path"]
        return isinstance(path, str) and isinstance(record["json"], dict) and bool(_PATH.fullmatch(path))
    present_keys = body_keys(record)
    if not present_keys <= _ALLOWED_BODY_KEYS:
        return False
    if "sessionID" in present_keys:
        return _is_event(record) or _is_stored(record)
    if "messageID" in present_keys:
        return _is_stored(record)
    if "projectID" in present_keys:
        return _is_session(record)
    return "info" in present_keys and _is_complete(record)


_DOCUMENT_KEYS = frozenset({"info", "messageID", "projectID", "sessionID"})
_ALLOWED_BODY_KEYS = frozenset(
    {"error", "info", "input", "messageID", "messages", "output", "parts", "projectID", "sessionID", "type"}
)


def header(record: Record) -> RecordHeader:
    document = _unwrap(record)
    info = document.get("info")
    fields: Record = info if isinstance(info, dict) else document
    part = fields.get("part")
    is_session = "projectID" in fields
    parent = text_at(fields, "parentID") if is_session else None
    return RecordHeader(
        uuid=text_at(part, "id") or text_at(fields, "id"),
        timestamp=to_milliseconds(fields.get("timestamp")) or _created_at(fields),
        session_id=text_at(fields, "id" if is_session else "sessionID"),
        client_version=text_at(fields, "version") if is_session else None,
        model=_model_name(fields),
        title=text_at(fields, "title") if is_session else None,
        parent=parent,
        agent=None if not is_session else (text_at(fields, "id") if parent else ""),
        last_timestamp=latest_time(_times(document)),
    )


def identify(record: Record) -> Identity:
    """Return the names of a document. A fork copies messages with their times and parts, under new ids."""
    document = _unwrap(record)
    if "projectID" in document:
        return Identity(project=text_at(document, "projectID"), body="")
    if "info" in document or "part" in document:
        return Identity(project=text_at(document, "info", "projectID"))
    created = count_at(document, "time", "created")
    if "role" in document:  # its other fields change after a fork
        return Identity(record=None if created is None else f"{document['role']} {created}", body="")
    return Identity(body=json.dumps(without(document, *_IDS), sort_keys=True, default=str))


_IDS = ("id", "messageID", "sessionID")


def _times(document: Any) -> Iterator[Any]:
    """Yield the times in a session, a message or a part, and in the messages and parts that it contains."""
    for each in (document, *(value_at(document, name) for name in ("info", "state", "part"))):
        time = value_at(each, "time")
        yield from time.values() if isinstance(time, dict) else ()
    for each in (*items_at(document, "messages"), *items_at(document, "parts")):
        yield from _times(each)


def _created_at(document: Any) -> int | None:
    created = to_milliseconds(value_at(document, "time", "created"))
    return created or to_milliseconds(value_at(document, "time", "start"))


def _model_name(info: Record) -> str | None:
    return text_at(info, "modelID") or text_at(info, "model", "modelID")


def _session_parts(session: Record, parsed: ParsedRecord) -> list[Part]:
    messages = list_or_empty(session["messages"])
    return [replace(part, original=message) for message in messages for part in _message_parts(message)]


def _error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role="system", blocks=parsed.blocks, error=_standard_error(record["error"]))]


def _message_id_in_path(record: Record) -> str | None:
    """Return the message id of a part from its path, because parts of early versions do not contain it."""
    match = _PART_PATH.fullmatch(text_at(record, "path") or "")
    return match[1] if match else None


def _message_parts(message: Record) -> list[Part]:
    info = message["info"]
    key = text_at(info, "id")
    role = _message_role(info)
    content_parts = [
        message_part for part in message["parts"] for message_part in _parts_of_document_part(part, role, key)
    ]
    synthetic = [part.get("synthetic") is True for part in message["parts"] if part.get("type") == "text"]
    is_synthetic = role == "user" and bool(synthetic) and all(synthetic)
    return [_info_part(info, is_synthetic=is_synthetic), *content_parts]


def _info_part(info: Record, *, is_synthetic: bool = False) -> Part:
    """Return the part with the metadata of a message; its content is in other parts."""
    return Part(
        role=_message_role(info),
        key=text_at(info, "id"),
        relation="section",
        header=RecordHeader(uuid=text_at(info, "id"), timestamp=_created_at(info)),
        usage=_standard_usage(info.get("tokens")),
        cost=cost_at(info, "cost"),
        message_id=text_at(info, "id"),
        origin="synthetic" if is_synthetic else "prompt",
        metadata={
            "model": _model_name(info) if info["role"] != "user" else None,
            "stop_reason": text_at(info, "finish"),
        },
        error=_standard_error(info["error"]) if isinstance(info.get("error"), dict) else None,
    )


def _parts_of_document_part(part: Record, role: Speaker, message_id: str | None = None) -> list[Part]:
    """Return the parts of a document; `message_id` is the id of its message if it does not contain one."""
    key = text_at(part, "messageID") or message_id
    if part.get("type") == "step-finish":
        return [_step_part(part, key)]
    blocks = [block for block in _parse_part(part) if block.get("reason") != "control"]
    content = [block for block in blocks if block["type"] != "tool_result"]
    results = [block for block in blocks if block["type"] == "tool_result"]
    own, of_result = RecordHeader(uuid=key), RecordHeader(uuid=text_at(part, "id"))
    content_part = Part(role=role, blocks=content, key=key, relation="section", header=own, message_id=key)
    result_part = Part(role="user", blocks=results, key=text_at(part, "callID"), header=of_result)
    return [item for item in (content_part, result_part) if item.blocks]


def _step_part(part: Record, key: str | None) -> Part:
    """Return the part of the end of a response, with its usage and cost."""
    return Part(
        role="assistant",
        key=key,
        relation="section",
        header=RecordHeader(uuid=key),
        usage=_standard_usage(part.get("tokens")),
        cost=cost_at(part, "cost"),
        message_id=key,
        metadata={"stop_reason": text_at(part, "reason")},
    )


def _standard_usage(tokens: Any) -> Block | None:
    """Return the usage. Input excludes cached tokens; output includes reasoning if the total says so."""
    input, output, reasoning, total = (
        count_at(tokens, name) for name in ("input", "output", "reasoning", "total")
    )
    cache_read, cache_written = (count_at(tokens, "cache", name) for name in ("read", "write"))
    if total is not None and total > sum(count or 0 for count in (input, output, cache_read, cache_written)):
        output = (output or 0) + (reasoning or 0)
    return token_usage(
        tokens,
        input=input,
        output=output,
        cache_read=cache_read,
        cache_creation=cache_written,
        reasoning=reasoning,
    )


def _standard_error(error: Record) -> Block:
    message = text_at(error, "data", "message") or text_at(error, "message")
    return message_error(text_at(error, "name") or "error", message, error)


# Event log steps. A turn ends with the first response without tool calls; its start is not reported.


def _session_steps(session: Record, parsed: ParsedRecord) -> list[Step]:
    return [step for message in list_or_empty(session["messages"]) for step in _message_steps(message)]


def _error_steps(record: Record, parsed: ParsedRecord) -> list[Step] | None:
    return [TurnEnd("user_cancel")] if text_at(record, "error", "name") == _ABORTED_ERROR else None


_ABORTED_ERROR = "MessageAbortedError"


def _message_steps(message: Record) -> list[Step]:
    """Return the steps of a message with its parts, then its usage and error."""
    info = message["info"]
    key, role = text_at(info, "id"), _message_role(info)
    agent = _agent_steps(info)
    part_steps = [step for part in message["parts"] for step in _part_steps(part, role, key)]
    info_part = _info_part(info)
    if text_at(info, "error", "name") == _ABORTED_ERROR:
        return [*agent, *part_steps, replace(info_part, error=None), TurnEnd("user_cancel")]
    return [*agent, *part_steps, info_part]


def _agent_steps(info: Record) -> list[Step]:
    """Return the agent of a message, which early versions call its mode. A summary has an agent of its own."""
    name = text_at(info, "agent") or text_at(info, "mode")
    is_summary = info.get("summary") is True
    return [] if name is None or is_summary else [CurrentAgent(name, text_at(info, "id"))]


def _info_steps(info: Record) -> list[Step]:
    """Return the steps of a message with parts in later, separate documents."""
    part = _info_part(info)
    if text_at(info, "error", "name") == _ABORTED_ERROR:
        open_text = Chunk("text", "", text_at(info, "id") or "")  # opens a turn even if the prompt is missing
        interrupt = Emit("interrupt", {"reason": "user_cancel"})
        return [*_agent_steps(info), replace(part, error=None), open_text, interrupt]
    return [*_agent_steps(info), part]


def _part_steps(part: Record, role: Speaker, message_id: str | None = None) -> list[Step]:
    wire_type = text_at(part, "type")
    if wire_type in _PART_STEPS:
        return _PART_STEPS[wire_type](part, text_at(part, "messageID") or message_id)
    content_parts = _parts_of_document_part(part, role, message_id)
    if part.get("synthetic") is True:
        content_parts = [replace(item, origin="synthetic") for item in content_parts]
    return [*content_parts]


def _finish_steps(part: Record, message_id: str | None) -> list[Step]:
    """End a response, and the turn unless another response follows, as after tool calls or an unknown reason."""
    reason = text_at(part, "reason")
    ends: list[Step] = [TurnEnd()] if reason not in {None, "tool-calls", "unknown"} else []
    return [_step_part(part, message_id), ChunkEnd(), ResponseEnd(), *ends]


def _tool_steps(part: Record, message_id: str | None) -> list[Step]:
    """Return the steps of a call, which is written again in each state; repetitions are not emitted again."""
    state, id = part["state"], text_at(part, "callID")
    status = text_at(state, "status")
    if status == "pending":
        name = text_at(part, "tool")
        return [Chunk("input", "", id or "", call={"id": id, "name": name, "input": state.get("input")})]
    blocks = _parse_part(part)
    calls = [block for block in blocks if block["type"] != "tool_result"]
    results = [block for block in blocks if block["type"] == "tool_result"]
    call: Step = Part(role="assistant", blocks=calls, message_id=message_id, relation="revision")
    if status == "running":
        return [call, *_output_steps(part, state)]
    return [call, *(_result_step(result, state) for result in results)]


def _result_step(result: Block, state: Record) -> Step:
    """Return the step of a result, with the session of the subagent that the call started."""
    agent = text_at(state, "metadata", "sessionId")
    block = result if agent is None else {**result, "agent_id": agent}
    return Part(role="user", blocks=[block], relation="revision")


def _output_steps(part: Record, state: Record) -> list[Step]:
    """Return the complete tool output so far."""
    text = text_at(state, "output") or text_at(state, "metadata", "output")
    id = text_at(part, "callID")
    return [Chunk("output_so_far", text, call={"id": id, "name": text_at(part, "tool")})] if text else []


_PART_STEPS: Mapping[Any, Callable[[Record, str | None], list[Step]]] = {
    "step-finish": _finish_steps,
    "tool": _tool_steps,
}


def _part_type(message_id: str | None = None) -> WireType:
    """Return the row of a part's document; the message may have this id."""
    return WireType(
        _parse_single_part,
        lambda part, parsed: _parts_of_document_part(part, _guess_role(part), message_id),
        lambda part, parsed: _part_steps(part, _guess_role(part), message_id),
        matches=lambda part: isinstance(part.get("type"), str) and ("messageID" in part or "id" in part),
    )


_PART = _part_type()

_TYPES = (
    WireType(
        _parse_event,
        lambda record, parsed: _parts_of_document_part(record["part"], "assistant"),
        lambda record, parsed: _part_steps(record["part"], "assistant"),
        matches=lambda record: isinstance(record.get("part"), dict),
    ),
    WireType(_parse_error, _error_parts, _error_steps, matches=lambda record: record.get("type") == "error"),
    WireType(
        _parse_session,
        _session_parts,
        _session_steps,
        matches=lambda record: "info" in record and "messages" in record,
    ),
    WireType(
        _parse_message,
        lambda record, parsed: _message_parts(record),
        lambda record, parsed: _message_steps(record),
        matches=lambda record: "info" in record and "parts" in record,
    ),
    WireType(
        _parse_control,
        lambda record, parsed: [_info_part(record)],
        lambda record, parsed: _info_steps(record),
        matches=lambda record: record.get("role") in ("user", "assistant"),
    ),
    WireType(
        _parse_control,
        matches=lambda record: "role" in record or "projectID" in record or "directory" in record,
    ),
    _PART,
)
"""Events and documents. Most have no discriminator, so the first match is used."""
_UNKNOWN = WireType(lambda record: unknown_record(record, text_at(record, "type")))


def _wrapper_of(row: WireType) -> WireType:
    """Return the row of wrappers with such a document. The message id of a part may be only in its path."""

    def inner(wrapper: Record) -> WireType:
        return _part_type(_message_id_in_path(wrapper)) if row is _PART else row

    return WireType(
        lambda wrapper: row.parse(wrapper["json"]),
        lambda wrapper, parsed: inner(wrapper).parts(wrapper["json"], parsed),
        lambda wrapper, parsed: inner(wrapper).steps(wrapper["json"], parsed),
    )


_ROWS = [(row, _wrapper_of(row)) for row in _TYPES]


def wire_type(record: Record) -> WireType:
    """Return the row of an event or a document, or of a wrapper with a document."""
    document = _unwrap(record)
    for row, wrapper in _ROWS:
        if row.matches(document):
            return row if document is record else wrapper
    return _UNKNOWN


PROVIDER = Provider(
    source="opencode",
    recognize=recognize,
    marks=Marks(
        typed_keys=_DOCUMENT_KEYS,
        untyped_keys=_DOCUMENT_KEYS | _WRAPPER_KEYS,
        body_keys=_ALLOWED_BODY_KEYS,
    ),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
