"""OpenCode: the events of `opencode run --format json`, the documents of its storage, and what it exports.

Sources: its message types (`MessageV2`), which are the same in all of these, and captured files. A session, each of
its messages and each part of a message are documents of their own (`session/…`, `message/…`, `part/…`); parts name
their message by `messageID`, and only the message knows its role. An event of a run carries one part. An export, and
a message as the server answers it, holds `info` with `parts` or `messages`. Documents gathered from a disk may come
as `{"path": …, "json": …}`.
"""

import re
from collections.abc import Callable, Mapping
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
from ash_shared.model.message import Facts
from ash_shared.providers._kit.contract import (
    Part,
    Provider,
    Record,
    RecordReading,
    Speaker,
    control_reading,
    unknown_reading,
)
from ash_shared.providers._kit.fingerprints import body_keys
from ash_shared.providers._kit.json_fields import (
    cost_at,
    count_at,
    list_or_empty,
    message_error,
    mime_fields,
    text_at,
    to_milliseconds,
    token_usage,
    url_source,
    value_at,
)
from ash_shared.providers._kit.steps import Fragment, Interrupts, ResponseEnds, Says, Step, TurnEnds, Whole

_WRAPPED = frozenset({"path", "json"})
_PATH = re.compile(r"(.*/)?(session|message|part)/.*")
_PART_PATH = re.compile(r"(?:.*/)?part/([^/]+)/[^/]+")


def _document(record: Record) -> Record:
    """The document itself, where it comes with its path."""
    if record.keys() == _WRAPPED and record["json"].__class__ is dict:
        record = record["json"]
    return record


def read_block(block: Any) -> Block:
    """One part of a message that makes one block; a tool's result is told apart from its call by `read` alone."""
    return _read_part(block)[0]


def _read_part(part: Any) -> list[Block]:
    if part.__class__ is not dict:
        return [text_block(part) if part.__class__ is str else raw_block("unknown_type", part)]
    wire = text_at(part, "type")
    if wire in _TRANSLATIONS:
        return translate(wire or "", part, _TRANSLATIONS[wire])
    if is_native(part):
        return [part]
    return [raw_block("control" if wire in _CONTROL else "unknown_type", part, wire)]


def _text(part: Record) -> Block:
    return part


def _reasoning(part: Record) -> Block:
    return translated(part, {"type": "thinking", "thinking": part["text"]}, {"text"}, "reasoning")


def _file(part: Record) -> Block:
    """A file that was put in; bytes come as a `data:` address."""
    mime, source = part["mime"], url_source(part["url"])
    if mime.startswith("image/"):
        image = {"type": "image", "source": {**source, "media_type": mime}}
        return translated(part, image, ("mime", "url"), "file")
    typed = {"type": "file", **pick(part, "filename"), **mime_fields(mime), "source": source}
    return translated(part, typed, ("filename", "mime", "url"), "file")


def _tool(part: Record) -> list[Block]:
    """A call with its state, and its result once the state holds one."""
    state = part["state"]
    answer = next((name for name in ("output", "error") if state.get(name) is not None), None)
    consumed = {"input", "status"} | ({answer, "metadata", "attachments"} if answer else set())
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
    return [call, _result(part, state, answer)] if answer else [call]


def _result(part: Record, state: Record, answer: str) -> Block:
    metadata = state.get("metadata")
    codes = [count_at(metadata, name) for name in ("exit", "exitCode")]
    code = next((code for code in codes if code is not None), None)
    return {
        "type": "tool_result",
        **renamed(part, tool_use_id="callID"),
        "content": _with_files(state[answer], state.get("attachments")),
        "is_error": answer == "error",
        **({} if metadata is None else {"structured": metadata}),
        **({} if code is None else {"exit_code": code}),
        "source_type": "tool",
    }


def _with_files(said: Any, files: Any) -> Any:
    return [text_block(said), *map(read_block, list_or_empty(files))] if files else said


_TRANSLATIONS: Mapping[Any, Translation] = {
    "file": _file,
    "reasoning": _reasoning,
    "text": _text,
    "tool": _tool,
}

_CONTROL = frozenset(
    {"agent", "compaction", "patch", "retry", "snapshot", "step-finish", "step-start", "subtask"}
)


def _read_one(part: Any, role: Speaker | None = None) -> RecordReading:
    """A part that stands alone."""
    blocks = _read_part(part)
    if all(block["type"] == "raw" and block["reason"] == "control" for block in blocks):
        return RecordReading("record", "system", blocks)
    return RecordReading("message", role or _likely_role(part), blocks)


def _likely_role(part: Any) -> Speaker:
    """The role of a message known by one part alone: what a model writes has a time, what a person wrote has none."""
    wire = text_at(part, "type")
    return "user" if wire == "file" or (wire == "text" and "time" not in part) else "assistant"


def _read_event(record: Record) -> RecordReading:
    """An event of a run: what the assistant does."""
    read = _read_one(record["part"], "assistant")
    return read if read.kind == "message" else _control(record)


def _read_error(record: Record) -> RecordReading:
    error = record["error"]
    text = text_at(error, "data", "message") or text_at(error, "message")
    if text is None:
        return _control(record)
    return RecordReading("record", "system", [translated(record, text_block(text, "error"), (), "error")])


def _control(record: Record) -> RecordReading:
    return control_reading(record, text_at(record, "type"))


def _read_message(record: Record) -> RecordReading:
    """A message with its parts."""
    role = _role_of(record["info"])
    return RecordReading("message", role, bounded(_blocks_of(record)))


def _read_session(record: Record) -> RecordReading:
    """A whole session, as it is exported."""
    messages = list_or_empty(record["messages"])
    blocks = [block for message in messages for block in _blocks_of(message)]
    role: Speaker = _role_of(messages[0]["info"]) if messages else "user"
    return RecordReading("message", role, bounded(blocks))


def _blocks_of(message: Record) -> list[Block]:
    return [block for part in list_or_empty(message["parts"]) for block in _read_part(part)]


def _role_of(info: Record) -> Speaker:
    return "user" if info["role"] == "user" else "assistant"


def _is_part(record: Record) -> bool:
    return record.get("type").__class__ is str and ("messageID" in record or "id" in record)


_SHAPES: tuple[tuple[Callable[[Record], bool], Callable[[Record], RecordReading]], ...] = (
    (lambda record: record.get("part").__class__ is dict, _read_event),
    (lambda record: record.get("type") == "error", _read_error),
    (lambda record: "info" in record and "messages" in record, _read_session),
    (lambda record: "info" in record and "parts" in record, _read_message),
    (lambda record: "role" in record or "projectID" in record or "directory" in record, _control),
    (_is_part, _read_one),
)
"""How a document is read, by the first of these that it fulfils: most have no discriminator."""


def read(record: Record) -> RecordReading:
    """Any event or document."""
    document = _document(record)
    for is_so, reads in _SHAPES:
        if is_so(document):
            return reads(document)
    return unknown_reading(record, text_at(record, "type"))


def _is_event(record: Record) -> bool:
    wire = record.get("type")
    return wire.__class__ is str and (
        record.get("part").__class__ is dict or (wire == "error" and record.get("error").__class__ is dict)
    )


def _is_stored(record: Record) -> bool:
    """A message or a part, which name their session, or a part of an early version, which names its message."""
    return record.get("id").__class__ is str and (
        record.get("role") in ("user", "assistant") or record.get("type").__class__ is str
    )


def _is_session(record: Record) -> bool:
    return record.get("directory").__class__ is str and record.get("time").__class__ is dict


def _is_whole(record: Record) -> bool:
    """A message with its parts, or a session with its messages."""
    info = record["info"]
    if info.__class__ is not dict:
        return False
    if record.get("messages").__class__ is list:
        return "projectID" in info and all(
            message.__class__ is dict and message.keys() >= {"info", "parts"}
            for message in record["messages"]
        )
    return record.get("parts").__class__ is list and info.get("sessionID").__class__ is str


def recognizes(record: Record) -> bool:
    """Whether a record is an event of a run, or a document of OpenCode's storage."""
    if record.keys() == _WRAPPED:
        path = record["path"]
        return path.__class__ is str and record["json"].__class__ is dict and bool(_PATH.fullmatch(path))
    bodies = body_keys(record)
    if not bodies <= _BODIES:
        return False
    if "sessionID" in bodies:
        return _is_event(record) or _is_stored(record)
    if "messageID" in bodies:
        return _is_stored(record)
    if "projectID" in bodies:
        return _is_session(record)
    return "info" in bodies and _is_whole(record)


_BODIES = frozenset(
    {"error", "info", "input", "messageID", "messages", "output", "parts", "projectID", "sessionID", "type"}
)


def facts(record: Record) -> Facts:
    """What a document says beside its content."""
    document = _document(record)
    info = document.get("info")
    told: Record = info if info.__class__ is dict else document
    part = told.get("part")
    is_session = "projectID" in told
    return Facts(
        uuid=text_at(part, "id") or text_at(told, "id"),
        timestamp=to_milliseconds(told.get("timestamp")) or _time_of(told),
        session_id=text_at(told, "id" if is_session else "sessionID"),
        client_version=text_at(told, "version") if is_session else None,
        model=_model(told),
        title=text_at(told, "title") if is_session else None,
        parent=text_at(told, "parentID") if is_session else None,
    )


def _time_of(document: Any) -> int | None:
    return to_milliseconds(value_at(document, "time", "created")) or to_milliseconds(
        value_at(document, "time", "start")
    )


def _model(info: Record) -> str | None:
    return text_at(info, "modelID") or text_at(info, "model", "modelID")


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """What a document adds to the standard messages of its session."""
    document = _document(record)
    if "messages" in document:
        messages = list_or_empty(document["messages"])
        return [replace(part, original=each) for each in messages for part in _whole_parts(each)]
    if "info" in document:
        return _whole_parts(document)
    if document.get("type") == "error":
        return [Part(role="system", blocks=reading.blocks, error=_error(document["error"]))]
    if document.get("role") in ("user", "assistant"):
        return [_info_part(document)]
    if "part" in document:
        return _part_parts(document["part"], "assistant")
    owner = {"messageID": _owner(record)}
    return _part_parts({**owner, **document}, _likely_role(document)) if _is_part(document) else []


def _owner(record: Record) -> str | None:
    """The message of a part, as the path says: early versions do not say it in the part."""
    named = _PART_PATH.fullmatch(text_at(record, "path") or "")
    return named[1] if named else None


def _whole_parts(message: Record) -> list[Part]:
    info = message["info"]
    key = text_at(info, "id")
    role = _role_of(info)
    rest = [made for part in message["parts"] for made in _part_parts({"messageID": key, **part}, role)]
    synthetic = [part.get("synthetic") is True for part in message["parts"] if part.get("type") == "text"]
    told = {"synthetic": True} if role == "user" and synthetic and all(synthetic) else {}
    return [_info_part(info, told), *rest]


def _info_part(info: Record, told: Record | None = None) -> Part:
    """The message itself, without its parts."""
    return Part(
        role=_role_of(info),
        key=text_at(info, "id"),
        keeps_key=True,
        id=text_at(info, "id"),
        timestamp=_time_of(info),
        usage=_usage(info.get("tokens")),
        metadata={
            "messageId": text_at(info, "id"),
            "model": _model(info) if info["role"] != "user" else None,
            **(told or {}),
            "stop_reason": text_at(info, "finish"),
            "costUsd": cost_at(info, "cost"),
        },
        error=_error(info["error"]) if info.get("error").__class__ is dict else None,
    )


def _part_parts(part: Record, role: Speaker) -> list[Part]:
    key = text_at(part, "messageID")
    if part.get("type") == "step-finish":
        return [_step_part(part, key)]
    blocks = [block for block in _read_part(part) if block.get("reason") != "control"]
    said = [block for block in blocks if block["type"] != "tool_result"]
    results = [block for block in blocks if block["type"] == "tool_result"]
    made = [Part(role=role, blocks=said, key=key, keeps_key=True, id=key, metadata={"messageId": key})]
    answer = [Part(role="user", blocks=results, key=text_at(part, "callID"), id=text_at(part, "id"))]
    return (made if said else []) + (answer if results else [])


def _step_part(part: Record, key: str | None) -> Part:
    """The end of an answer: its counts, and what it cost."""
    return Part(
        role="assistant",
        key=key,
        keeps_key=True,
        id=key,
        usage=_usage(part.get("tokens")),
        metadata={
            "messageId": key,
            "stop_reason": text_at(part, "reason"),
            "costUsd": cost_at(part, "cost"),
        },
    )


def _usage(tokens: Any) -> Block | None:
    """Input is without the cache. Whether output is without the reasoning depends on the version: the total tells."""
    input, output, reasoning, total = (
        count_at(tokens, name) for name in ("input", "output", "reasoning", "total")
    )
    read, written = (count_at(tokens, "cache", name) for name in ("read", "write"))
    if total is not None and total > sum(count or 0 for count in (input, output, read, written)):
        output = (output or 0) + (reasoning or 0)
    return token_usage(
        tokens,
        input=input,
        output=output,
        cache_read=read,
        cache_creation=written,
        reasoning=reasoning,
    )


def _error(told: Record) -> Block:
    message = text_at(told, "data", "message") or text_at(told, "message")
    return message_error(text_at(told, "name") or "error", message, told)


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """What an event or a document adds to the log of events.

    A turn is over with the first answer that calls no tool; nothing says that it begins.
    """
    document = _document(record)
    if "messages" in document:
        return [step for each in list_or_empty(document["messages"]) for step in _whole_steps(each)]
    if "info" in document:
        return _whole_steps(document)
    if document.get("type") == "error":
        was_stopped = text_at(document, "error", "name") == _STOPPED
        return [Interrupts("user_cancel")] if was_stopped else None
    if document.get("role") in ("user", "assistant"):
        return _info_steps(document)
    if "part" in document:
        return _part_steps(document["part"], "assistant")
    owner = {"messageID": _owner(record)}
    return _part_steps({**owner, **document}, _likely_role(document)) if _is_part(document) else None


_STOPPED = "MessageAbortedError"


def _whole_steps(message: Record) -> list[Step]:
    """A message with its parts; what it cost, and why it failed, is told after them."""
    info = message["info"]
    key, role = text_at(info, "id"), _role_of(info)
    told = [step for part in message["parts"] for step in _part_steps({"messageID": key, **part}, role)]
    made = _info_part(info)
    if text_at(info, "error", "name") == _STOPPED:
        return [*told, Whole(replace(made, error=None)), Interrupts("user_cancel")]
    return [*told, Whole(made)]


def _info_steps(info: Record) -> list[Step]:
    """A message whose parts follow, in documents of their own."""
    part = _info_part(info)
    if text_at(info, "error", "name") == _STOPPED:
        begun = Fragment(
            "text", "", text_at(info, "id") or ""
        )  # in a turn, also where its prompt is not known
        return [Whole(replace(part, error=None)), begun, Says("interrupt", {"reason": "user_cancel"})]
    return [Whole(part)]


def _part_steps(part: Record, role: Speaker) -> list[Step]:
    wire = text_at(part, "type")
    if wire in _PART_STEPS:
        return _PART_STEPS[wire](part)
    told = {"synthetic": True} if part.get("synthetic") is True else {}
    return [Whole(replace(each, metadata={**each.metadata, **told})) for each in _part_parts(part, role)]


def _finish_steps(part: Record) -> list[Step]:
    """The end of an answer. Another one follows where it calls tools, or where nothing tells why it ended."""
    reason = text_at(part, "reason")
    ends: list[Step] = [TurnEnds()] if reason not in _GOES_ON else []
    return [Whole(_step_part(part, text_at(part, "messageID"))), ResponseEnds(), *ends]


_GOES_ON = frozenset({None, "tool-calls", "unknown"})


def _tool_steps(part: Record) -> list[Step]:
    """A call, which is written once more in each of its states: it and its result are told once."""
    state, id = part["state"], text_at(part, "callID")
    status = text_at(state, "status")
    if status == "pending":
        name = text_at(part, "tool")
        return [Fragment("input", "", id or "", call=id, name=name, given=state.get("input"))]
    blocks = _read_part(part)
    calls = [block for block in blocks if block["type"] != "tool_result"]
    results = [block for block in blocks if block["type"] == "tool_result"]
    told = {"messageId": text_at(part, "messageID")}
    call: Step = Whole(Part(role="assistant", blocks=calls, replaces=True, metadata=told))
    if status == "running":
        return [call, *_written_steps(part, state)]
    return [call, *(Whole(Part(role="user", blocks=[result], replaces=True)) for result in results)]


def _written_steps(part: Record, state: Record) -> list[Step]:
    """All that a tool has written so far."""
    text = text_at(state, "output") or text_at(state, "metadata", "output")
    id = text_at(part, "callID")
    return [Fragment("output", text, call=id, name=text_at(part, "tool"), is_whole=True)] if text else []


_PART_STEPS: Mapping[Any, Callable[[Record], list[Step]]] = {
    "step-finish": _finish_steps,
    "tool": _tool_steps,
}


PROVIDER = Provider(
    source="opencode",
    recognizes=recognizes,
    marks=_WRAPPED | {"info", "messageID", "projectID", "sessionID"},
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
    steps=steps,
)
