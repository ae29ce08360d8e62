"""Strands Agents: the files of its `FileSessionManager`, and snapshots.

Source: `strands.types.session`, `strands.types._snapshot`, `strands.multiagent`, and runs of version 1.62.0. A session
is a folder with a folder for each agent: a file for each message, and `agent.json`, which has the summary that replaced
removed messages. Graphs and swarms write one document, with the last answer of each node. The content of messages has
the form of Bedrock's Converse API.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    raw_block,
    text_block,
    translate,
    translated,
    with_extra_in_first,
    with_variant,
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
from ash_shared.records.converse import block_kind, parse_block, parse_list
from ash_shared.records.documents import DocumentItem, UniqueKeys, document_type
from ash_shared.records.fingerprints import DOCUMENT_KEYS, body_keys
from ash_shared.records.json_fields import (
    count_at,
    is_integer,
    is_one_of,
    items_at,
    message_error,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)

_ROLES: Mapping[str, Speaker] = {"assistant": "assistant", "user": "user"}

# Messages.


def _with_bytes(value: Any) -> Any:
    """Return a value with each object for bytes replaced by its text in base64."""
    if isinstance(value, list):
        return [_with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == _BYTES:
        return value["data"]
    return {key: _with_bytes(each) for key, each in value.items()}


_BYTES = {"__bytes_encoded__", "data"}


def _message_blocks(message: Any) -> list[Block]:
    if text_at(message, "role") not in _ROLES:
        return [raw_block("malformed", message, "message")]
    try:
        blocks = parse_list(_with_bytes(message["content"]))
    except (AttributeError, KeyError, TypeError):
        return [raw_block("malformed", message, "message")]
    rest = without(message, "content", "role", "metadata", "tracking_id")
    metadata = message.get("metadata")
    unread = without(metadata, "metrics", "usage") if isinstance(metadata, dict) else metadata
    return with_extra_in_first(blocks, {**rest, "metadata": unread} if unread else rest)


def _message_part(message: Any, blocks: list[Block]) -> Part:
    metadata = {"author": text_at(message, "name")}
    usage = _usage(value_at(message, "metadata", "usage"))
    role = _ROLES.get(text_at(message, "role") or "", "system")
    return Part(role=role, blocks=blocks, usage=usage, metadata=metadata)


def _usage(usage: Any) -> Block | None:
    """Return the usage. Whether its input includes cached tokens depends on the model: the total shows it."""
    input, output = count_at(usage, "inputTokens"), count_at(usage, "outputTokens")
    read, written = count_at(usage, "cacheReadInputTokens"), count_at(usage, "cacheWriteInputTokens")
    total = count_at(usage, "totalTokens")
    is_included = total is not None and total == (input or 0) + (output or 0)
    return token_usage(
        usage,
        input=subtract_counts(input, read, written) if is_included else input,
        output=output,
        cache_read=read,
        cache_creation=written,
    )


def _parse_message(record: Record) -> ParsedRecord:
    """Parse the file of a message. If a guardrail has replaced it, the new text follows as a notice."""
    blocks = _message_blocks(record["message"])
    if record.get("redact_message") is not None:
        blocks = [*blocks, *with_variant(_message_blocks(record["redact_message"]), "notice")]
    is_result = bool(blocks) and all(block["type"] == "tool_result" for block in blocks)
    role = "tool" if is_result else _ROLES[record["message"]["role"]]
    return ParsedRecord("message", role, bounded(blocks), is_checked=True)


def _file_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the message of a file, which is written again if a guardrail replaces it."""
    part = _message_part(record["message"], parsed.blocks)
    key = f"message/{record['message_id']}"
    return [
        Part(
            role=part.role,
            blocks=part.blocks,
            key=key,
            header=RecordHeader(uuid=key),
            usage=part.usage,
            metadata=part.metadata,
            relation="new_version",
        )
    ]


# Documents: agents, graphs and swarms, snapshots.


def _parse_document(record: Record) -> ParsedRecord:
    items = [block for item in _items(record) for part in item.parts for block in part.blocks]
    head = raw_block("control", without(record, *(("data",) if items else ())), _name_of(record))
    if not items:
        return control_record(record, _name_of(record))
    rest = value_at(record, "data")
    state = [] if rest is None else [raw_block("control", without(rest, "messages"), "data")]
    return ParsedRecord("message", "user", bounded([head, *state, *items]))


def _name_of(record: Record) -> str:
    return text_at(record, "type") or text_at(record, "scope") or "agent"


def _items(record: Record) -> list[DocumentItem]:
    data = record.get("data") if "scope" in record else record
    state = value_at(data, "conversation_manager_state")
    summary, keys = value_at(state, "summary_message"), UniqueKeys()
    id, messages = text_at(summary, "tracking_id"), items_at(data, "messages")
    items = [_message_item(keys, message, summary_id=id) for message in messages]
    if summary is not None and not any(text_at(message, "tracking_id") == id for message in messages):
        key = f"summary/{value_at(state, 'removed_message_count')}"
        items.insert(0, DocumentItem(key, summary, [_summary_part(summary)]))
    return [*items, *_task_items(data)]


def _message_item(keys: UniqueKeys, message: Any, *, summary_id: str | None) -> DocumentItem:
    id = text_at(message, "tracking_id")
    is_summary = id is not None and id == summary_id
    part = _summary_part(message) if is_summary else _message_part(message, _message_blocks(message))
    return DocumentItem(keys.name(id or "message"), message, [part])


def _summary_part(message: Any) -> Part:
    """Return the summary that a conversation manager has written in place of earlier messages."""
    return Part(role="system", blocks=with_variant(_message_blocks(message), "summary"))


def _task_items(data: Any) -> Iterator[DocumentItem]:
    """Yield the task of a graph or swarm, and the last answer of each node in the order of their runs."""
    task = value_at(data, "current_task")
    if task is not None:
        blocks = [text_block(task)] if isinstance(task, str) else translate("task", task, parse_list)
        yield DocumentItem("task", task, [Part(role="user", blocks=blocks)])
    results = value_at(data, "node_results")
    if isinstance(results, dict):
        order = [*items_at(data, "execution_order"), *items_at(data, "node_history")]
        yield from _node_items(results, "node", [name for name in order if isinstance(name, str)])


def _node_items(results: Record, path: str, order: list[str]) -> Iterator[DocumentItem]:
    names = [name for name in dict.fromkeys([*order, *results]) if name in results]
    for name in names:
        node, place = results[name], f"{path}/{name}"
        result = value_at(node, "result")
        nested = value_at(result, "results")
        if isinstance(nested, dict):
            yield from _node_items(nested, place, [])
        elif isinstance(result, dict):
            yield DocumentItem(place, node, [_node_part(name, node, result)])


def _node_part(name: str, node: Record, result: Record) -> Part:
    """Return the last answer of a node, with the usage of all answers of its last run."""
    if text_at(result, "type") == "exception":
        block = translated(result, text_block(text_at(result, "message") or ""), ("message",), "exception")
        error = message_error("exception", text_at(result, "message"))
        return Part(role="system", blocks=[{**block, "variant": "error"}], error=error)
    message = result.get("message")
    metadata = {"author": name, "stop_reason": text_at(result, "stop_reason")}
    usage = _usage(node.get("accumulated_usage"))
    return Part(role="assistant", blocks=_message_blocks(message), usage=usage, metadata=metadata)


_DOCUMENT = document_type("document", _parse_document, _items)
_MESSAGE = WireType(_parse_message, _file_parts)
_SESSION = WireType(lambda record: control_record(record, "session"))
_UNKNOWN = WireType(unknown_record)

# Records.


def wire_type(record: Record) -> WireType:
    if "message" in record:
        return _MESSAGE
    if not _DOCUMENT_KEYS.isdisjoint(record):
        return _DOCUMENT
    return _SESSION if "session_type" in record else _UNKNOWN


_DOCUMENT_KEYS = frozenset({"conversation_manager_state", "node_results", "scope"})


def recognize(record: Record) -> WireType | None:
    row = wire_type(record)
    if row is _MESSAGE:
        return row if _is_message_file(record) else None
    if row is _DOCUMENT:
        return row if body_keys(record) <= {"type"} and _is_document(record) else None
    return row if record.keys() == _SESSION_KEYS else None


def _is_document(record: Record) -> bool:
    if "node_results" in record:
        is_run = is_one_of(record.get("type"), _RUNS) and isinstance(record["node_results"], dict)
        return is_run and "current_task" in record
    if "scope" in record:
        is_named = is_one_of(record["scope"], _SCOPES) and record.keys() == _SNAPSHOT_KEYS
        return is_named and isinstance(record["data"], dict)
    return record.keys() >= _AGENT_KEYS and _FOREIGN_KEYS.isdisjoint(record)


def _is_message_file(record: Record) -> bool:
    """True for the file of a message: its number is an integer, and its content has Bedrock's blocks."""
    message = record["message"]
    if not (record.keys() <= _FILE_KEYS and is_integer(record.get("message_id"))):
        return False
    content = value_at(message, "content")
    is_own = isinstance(content, list) and is_one_of(text_at(message, "role"), _ROLES)
    return is_own and all(block_kind(block) is not None for block in content)


_FILE_KEYS = frozenset({"created_at", "message", "message_id", "redact_message", "updated_at"})
_AGENT_KEYS = frozenset({"agent_id", "conversation_manager_state", "created_at", "state", "updated_at"})
_FOREIGN_KEYS = DOCUMENT_KEYS | {"content", "event_kind", "role", "type"}
_SESSION_KEYS = frozenset({"created_at", "session_id", "session_type", "updated_at"})
_SNAPSHOT_KEYS = frozenset({"app_data", "created_at", "data", "schema_version", "scope"})
_RUNS = frozenset({"graph", "swarm"})
_SCOPES = frozenset({"agent", "multiAgent"})


def header(record: Record) -> RecordHeader:
    return RecordHeader(
        timestamp=to_milliseconds(record.get("created_at")),
        session_id=text_at(record, "session_id"),
    )


def identify(record: Record) -> Identity:
    """Return the first message of a snapshot, which is the same in later ones until messages are removed."""
    first = next(iter(items_at(record, "data", "messages")), None)
    return Identity(record=text_at(first, "tracking_id"))


PROVIDER = Provider(
    source="strands",
    recognize=recognize,
    marks=Marks(
        types=_RUNS,
        untyped_keys={"conversation_manager_state", "message_id", "scope", "session_type"},
        body_keys={"type"},
    ),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
