"""OpenCode's documents: the files of its storage, its exports, and the events of `opencode run --format json`.

A session, each message and each part of a message are separate documents; a part refers to its message by `messageID`,
and only the message has a role. A document may be written again, and then supersedes its earlier version. A run event
contains one part. An export has `info` and `messages`; a message in an export or from the server API has `info` and
`parts`. Documents collected from disk may be wrapped as `{"path": …, "json": …}`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from ash_shared.model.blocks import Block, bounded, text_block, translated, without
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.providers.opencode.content import parse_part
from ash_shared.records.contract import (
    ParsedRecord,
    Part,
    Record,
    Speaker,
    WireType,
    control_record,
)
from ash_shared.records.inherited import with_continuation
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    items_at,
    latest_time,
    list_or_empty,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import (
    RESULT_SECTION,
    Chunk,
    ChunkEnd,
    CurrentAgent,
    Emit,
    ResponseEnd,
    Step,
    TurnEnd,
)

WRAPPER_KEYS = frozenset({"path", "json"})
_PART_PATH = re.compile(r"(?:.*/)?part/([^/]+)/[^/]+")


DIALECT = "message"
"""The name of this message model. A store may have messages of both."""


class PartContext(NamedTuple):
    """The place of a part in its record."""

    role: Speaker | None = None
    """The role of its message; None if only the part hints at it."""
    message: str | None = None
    """The id of its message, for parts that do not contain it."""
    section: str | None = None
    """The id of the part, if another part in the record has the same."""
    is_stored: bool = False
    """True for a part in a store: no fragments of its text follow."""


IN_RUN = PartContext("assistant")


def unwrap(record: Record) -> Record:
    """Return the document without the wrapper that contains its path."""
    if record.keys() == WRAPPER_KEYS and isinstance(record["json"], dict):
        record = record["json"]
    return record


# Blocks.


def parse_single_part(part: Any, role: Speaker | None = None) -> ParsedRecord:
    blocks = parse_part(part)
    if all(block["type"] == "raw" and block.get("reason") == "control" for block in blocks):
        return ParsedRecord("record", "system", blocks)
    return ParsedRecord("message", role or guess_role(part), blocks)


def guess_role(part: Any) -> Speaker:
    """Return the likely role of a part's message: parts of the model have a time, parts of the user do not."""
    wire_type = text_at(part, "type")
    return "user" if wire_type == "file" or (wire_type == "text" and "time" not in part) else "assistant"


def _parse_event(record: Record) -> ParsedRecord:
    """Parse a run event, which belongs to the assistant."""
    parsed = parse_single_part(record["part"], "assistant")
    return parsed if parsed.kind == "message" else parse_control(record)


def parse_error(record: Record) -> ParsedRecord:
    error = record["error"]
    text = text_at(error, "data", "message") or text_at(error, "message")
    if text is None:
        return parse_control(record)
    return ParsedRecord("record", "system", [translated(record, text_block(text, "error"), (), "error")])


def parse_control(record: Record) -> ParsedRecord:
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
    return [block for part in list_or_empty(message["parts"]) for block in parse_part(part)]


def _message_role(info: Record) -> Speaker:
    return "user" if info["role"] == "user" else "assistant"


# Headers.


def header(document: Record) -> RecordHeader:
    info = document.get("info")
    fields: Record = info if isinstance(info, dict) else document
    part = fields.get("part")
    is_session = "projectID" in fields
    parent = text_at(fields, "parentID") if is_session else None
    found = RecordHeader(
        uuid=text_at(part, "id") or text_at(fields, "id"),
        timestamp=to_milliseconds(fields.get("timestamp")) or created_at(fields),
        session_id=text_at(fields, "id" if is_session else "sessionID"),
        client_version=text_at(fields, "version") if is_session else None,
        model=model_name(fields),
        title=text_at(fields, "title") if is_session else None,
        parent=parent,
        agent=None if not is_session else (text_at(fields, "id") if parent else ""),
        last_timestamp=latest_time(_times(document)),
        folder=text_at(fields, "directory") if is_session else text_at(fields, "path", "cwd"),
        root=_root(fields),
    )
    return with_continuation(found, value_at(fields, "metadata", "ash") if is_session else None)


def _root(message: Record) -> str | None:
    """Return the root of the repository; a folder without one has `/`."""
    root = text_at(message, "path", "root")
    return None if root == "/" else root


def identify(document: Record) -> Identity:
    """Return the names of a document. A fork copies messages with their times and parts, under new ids."""
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


def created_at(document: Any) -> int | None:
    created = to_milliseconds(value_at(document, "time", "created"))
    return created or to_milliseconds(value_at(document, "time", "start"))


def model_name(info: Record) -> str | None:
    return text_at(info, "modelID") or text_at(info, "model", "modelID")


# Parts of standard messages.


def _session_parts(session: Record, parsed: ParsedRecord) -> list[Part]:
    places = _places(session["messages"])
    return [
        replace(part, original=message)
        for message, (id, sections) in zip(session["messages"], places, strict=True)
        for part in _message_parts(message, id, sections)
    ]


_Sections = Sequence[str | None]


def _places(messages: Sequence[Record]) -> Iterator[tuple[str | None, _Sections]]:
    """Yield the id of each message and of its parts. A program that masks secrets in exports may give several the same
    id: later ones get another, because ids tell whether an item is a new version."""
    ids, parts = _UniqueIds(), _UniqueIds()
    for message in messages:
        yield ids.take(message["info"]), [parts.take(part) for part in list_or_empty(message["parts"])]


class _UniqueIds:
    def __init__(self) -> None:
        self._known = set[str]()
        self._number = 0

    def take(self, document: Record) -> str | None:
        """Return the id of a document; with its number if an earlier one has the same."""
        id = text_at(document, "id")
        self._number += 1
        if id is not None and id in self._known:
            return f"{id}/{self._number}"
        self._known.add(id or "")
        return id


def _error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role="system", blocks=parsed.blocks, error=standard_error(record["error"]))]


def _message_id_in_path(record: Record) -> str | None:
    """Return the message id of a part from its path, because parts of early versions do not contain it."""
    match = _PART_PATH.fullmatch(text_at(record, "path") or "")
    return match[1] if match else None


def _message_parts(message: Record, id: str | None, sections: _Sections) -> list[Part]:
    info = message["info"]
    place = PartContext(_message_role(info), id)
    contents = [
        each
        for part, section in zip(message["parts"], sections, strict=True)
        for each in parts_of_part(part, place._replace(section=section))
    ]
    synthetic = [part.get("synthetic") is True for part in message["parts"] if part.get("type") == "text"]
    is_synthetic = place.role == "user" and bool(synthetic) and all(synthetic)
    return [info_part({**info, "id": id}, is_synthetic=is_synthetic), *contents]


def _single_message(record: Record) -> tuple[Record, str | None, _Sections]:
    """Return a message that is a record, with its ids."""
    [(id, sections)] = _places([record])
    return record, id, sections


def info_part(info: Record, *, is_synthetic: bool = False) -> Part:
    """Return the part with the metadata of a message; its content is in other parts."""
    return Part(
        role=_message_role(info),
        key=text_at(info, "id"),
        relation="section",
        header=RecordHeader(uuid=text_at(info, "id"), timestamp=created_at(info)),
        usage=standard_usage(info.get("tokens")),
        cost=cost_at(info, "cost"),
        message_id=text_at(info, "id"),
        origin="synthetic" if is_synthetic else "prompt",
        fields={"variant": "summary"} if info.get("summary") is True else {},
        metadata={
            "model": model_name(info) if info["role"] != "user" else None,
            "stop_reason": text_at(info, "finish"),
        },
        error=standard_error(info["error"]) if isinstance(info.get("error"), dict) else None,
    )


def parts_of_part(part: Record, place: PartContext) -> list[Part]:
    """Return the standard messages' parts of a part: its content, and the result of a tool."""
    key = _message_of(part, place)
    if part.get("type") == "step-finish":
        return [_step_part(part, place)]
    blocks = [block for block in parse_part(part) if block.get("reason") != "control"]
    content = [block for block in blocks if block["type"] != "tool_result"]
    results = [block for block in blocks if block["type"] == "tool_result"]
    content_part = Part(
        role=place.role or guess_role(part),
        origin="synthetic" if part.get("synthetic") is True else "prompt",
        blocks=content,
        key=key,
        relation="section",
        section=_section(part, place),
        header=RecordHeader(uuid=key),
        message_id=key,
    )
    return [item for item in (content_part, _result_part(part, results, place)) if item.blocks]


def _message_of(part: Record, place: PartContext) -> str | None:
    return place.message or text_at(part, "messageID")


def _section(part: Record, place: PartContext) -> str | None:
    return place.section or text_at(part, "id")


def _result_part(part: Record, results: list[Block], place: PartContext) -> Part:
    section, own = _section(part, place), RecordHeader(uuid=text_at(part, "id"))
    if section is None:
        return Part(role="user", blocks=results, key=text_at(part, "callID"), header=own)
    return Part(
        role="user", blocks=results, key=section, relation="section", section=RESULT_SECTION, header=own
    )


def _step_part(part: Record, place: PartContext) -> Part:
    """Return the part of the end of a response, with its usage and cost."""
    key = _message_of(part, place)
    return Part(
        role="assistant",
        key=key,
        relation="section",
        section=_section(part, place),
        header=RecordHeader(uuid=key),
        usage=standard_usage(part.get("tokens")),
        cost=cost_at(part, "cost"),
        message_id=key,
        metadata={"stop_reason": text_at(part, "reason")},
    )


def standard_usage(tokens: Any) -> Block | None:
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


def standard_error(error: Record) -> Block:
    message = text_at(error, "data", "message") or text_at(error, "message")
    return message_error(text_at(error, "name") or text_at(error, "type") or "error", message, error)


# Steps of the event log. A turn ends with the first response without tool calls; its start is not reported.


def _session_steps(session: Record, parsed: ParsedRecord) -> list[Step]:
    messages = list_or_empty(session["messages"])
    return [
        step
        for message, place in zip(messages, _places(messages), strict=True)
        for step in _message_steps(message, *place)
    ]


def _error_steps(record: Record, parsed: ParsedRecord) -> list[Step] | None:
    return [TurnEnd("user_cancel")] if text_at(record, "error", "name") == _ABORTED_ERROR else None


_ABORTED_ERROR = "MessageAbortedError"


def _message_steps(message: Record, id: str | None, sections: _Sections) -> list[Step]:
    """Return the steps of a message with its parts, then its usage and error."""
    info = message["info"]
    place = PartContext(_message_role(info), id)
    steps = [
        step
        for part, section in zip(message["parts"], sections, strict=True)
        for step in part_steps(part, place._replace(section=section))
    ]
    end = info_part({**info, "id": id})
    if text_at(info, "error", "name") == _ABORTED_ERROR:
        return [*_agent_steps(info), *steps, replace(end, error=None), TurnEnd("user_cancel")]
    return [*_agent_steps(info), *steps, end]


def _agent_steps(info: Record) -> list[Step]:
    """Return the agent of a message, which early versions call its mode. A summary has an agent of its own."""
    name = text_at(info, "agent") or text_at(info, "mode")
    is_summary = info.get("summary") is True
    return [] if name is None or is_summary else [CurrentAgent(name, text_at(info, "id"))]


def info_steps(info: Record) -> list[Step]:
    """Return the steps of a message with parts in later, separate documents."""
    part = info_part(info)
    if text_at(info, "error", "name") == _ABORTED_ERROR:
        open_text = Chunk("text", "", text_at(info, "id") or "")  # opens a turn even if the prompt is missing
        interrupt = Emit("interrupt", {"reason": "user_cancel"})
        return [*_agent_steps(info), replace(part, error=None), open_text, interrupt]
    return [*_agent_steps(info), part]


def part_steps(part: Record, place: PartContext) -> list[Step]:
    wire_type = text_at(part, "type")
    if wire_type in _PART_STEPS:
        return _PART_STEPS[wire_type](part, place)
    return [*parts_of_part(part, place)]


def _finish_steps(part: Record, place: PartContext) -> list[Step]:
    """End a response, and the turn unless another response follows."""
    return [_step_part(part, place), ChunkEnd(), ResponseEnd(), *turn_end_steps(text_at(part, "reason"))]


def turn_end_steps(reason: str | None) -> list[Step]:
    """Return the end of the turn, unless another response follows, as after tool calls or an unknown reason."""
    return [TurnEnd()] if reason not in {None, "tool-calls", "unknown"} else []


def _tool_steps(part: Record, place: PartContext) -> list[Step]:
    """Return the steps of a call, which is written again in each state."""
    state, status = part["state"], text_at(part, "state", "status")
    if status == "pending" and not place.is_stored:
        call = {"id": text_at(part, "callID"), "name": text_at(part, "tool"), "input": state.get("input")}
        return [Chunk("input", "", call["id"] or "", call=call)]
    own = PartContext("assistant", *place[1:])
    parts = parts_of_part(part, own)
    if _section(part, place) is None:
        parts = [replace(each, relation="revision", key=None) for each in parts]
    if status == "pending":
        return [replace(each, fields={"partial": True}) for each in parts]
    if status == "running":
        return [*(each for each in parts if each.role == "assistant"), *_output_steps(part, state)]
    return [_with_agent(each, state) for each in parts]


def _with_agent(part: Part, state: Record) -> Part:
    """Return a result with the session of the subagent that its call started."""
    agent = text_at(state, "metadata", "sessionId")
    if part.role != "user" or agent is None:
        return part
    return replace(part, blocks=[{**block, "agent_id": agent} for block in part.blocks])


def _output_steps(part: Record, state: Record) -> list[Step]:
    """Return the complete tool output so far."""
    text = text_at(state, "output") or text_at(state, "metadata", "output")
    call = {"id": text_at(part, "callID"), "name": text_at(part, "tool")}
    return [Chunk("output_so_far", text, call=call)] if text else []


_PART_STEPS: Mapping[Any, Callable[[Record, PartContext], list[Step]]] = {
    "step-finish": _finish_steps,
    "tool": _tool_steps,
}


# Dialects, in stores and streams that may have messages of both models.


def in_dialect(part: Part) -> Part:
    return replace(part, dialect=DIALECT)


def step_in_dialect(step: Step, *, slot: str | None = None) -> Step:
    """Return the step with the name of the message model, and for content the open item that it completes."""
    if not isinstance(step, Part):
        return step
    has_content = step.role == "assistant" and bool(step.blocks)
    return replace(step, dialect=DIALECT, slot=slot if has_content else None)


# Rows.


def _part_type(message: str | None = None) -> WireType:
    """Return the row of a part's document; the message may have this id."""
    place = PartContext(message=message)
    return WireType(
        parse_single_part,
        lambda part, parsed: parts_of_part(part, place),
        lambda part, parsed: part_steps(part, place),
        matches=lambda part: isinstance(part.get("type"), str) and ("messageID" in part or "id" in part),
    )


_PART = _part_type()

_TYPES = (
    WireType(
        _parse_event,
        lambda record, parsed: parts_of_part(record["part"], IN_RUN),
        lambda record, parsed: part_steps(record["part"], IN_RUN),
        matches=lambda record: isinstance(record.get("part"), dict),
    ),
    WireType(parse_error, _error_parts, _error_steps, matches=lambda record: record.get("type") == "error"),
    WireType(
        _parse_session,
        _session_parts,
        _session_steps,
        matches=lambda record: "info" in record and "messages" in record,
    ),
    WireType(
        _parse_message,
        lambda record, parsed: _message_parts(*_single_message(record)),
        lambda record, parsed: _message_steps(*_single_message(record)),
        matches=lambda record: "info" in record and "parts" in record,
    ),
    WireType(
        parse_control,
        lambda record, parsed: [info_part(record)],
        lambda record, parsed: info_steps(record),
        matches=lambda record: record.get("role") in ("user", "assistant"),
    ),
    WireType(
        parse_control,
        matches=lambda record: "role" in record or "projectID" in record or "directory" in record,
    ),
    _PART,
)
"""Events and documents. Most have no discriminator, so the first match is used."""


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


def wire_type(record: Record) -> WireType | None:
    """Return the row of an event or a document, or of a wrapper with a document; None for other records."""
    document = unwrap(record)
    for row, wrapper in _ROWS:
        if row.matches(document):
            return row if document is record else wrapper
    return None


def recognizes(record: Record, present_keys: frozenset[str]) -> bool:
    """Return True for a document or event; `present_keys` are its body keys."""
    if record.keys() == WRAPPER_KEYS:
        path = record["path"]
        return isinstance(path, str) and isinstance(record["json"], dict) and bool(_PATH.fullmatch(path))
    if not present_keys <= ALLOWED_BODY_KEYS:
        return False
    if "sessionID" in present_keys:
        return _is_event(record) or _is_stored(record)
    if "messageID" in present_keys:
        return _is_stored(record)
    if "projectID" in present_keys:
        return _is_session(record)
    return "info" in present_keys and _is_complete(record)


_PATH = re.compile(r"(.*/)?(session|message|part)/.*")
DOCUMENT_KEYS = frozenset({"info", "messageID", "projectID", "sessionID"})
ALLOWED_BODY_KEYS = frozenset(
    {"error", "info", "input", "messageID", "messages", "output", "parts", "projectID", "sessionID", "type"}
)


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
    if not isinstance(info, dict) or "type" in record:
        return False
    if isinstance(record.get("messages"), list):
        return "projectID" in info and all(
            isinstance(message, dict) and message.keys() >= {"info", "parts"}
            for message in record["messages"]
        )
    return isinstance(record.get("parts"), list) and isinstance(info.get("sessionID"), str)
