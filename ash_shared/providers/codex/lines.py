"""Lines of a rollout file or of `codex exec --json`: recognition, content and metadata."""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import Block, raw_block, text_block, translate, translated, wire_name
from ash_shared.model.message import Facts
from ash_shared.providers._kit.contract import Record, RecordReading
from ash_shared.providers._kit.fingerprints import ENVELOPE_KEYS, body_keys
from ash_shared.providers._kit.json_fields import first_text, is_one_of, text_at, to_milliseconds, value_at
from ash_shared.providers.codex.events import read_event
from ash_shared.providers.codex.response_items import ITEM_TYPES, keep_item_keys, read_item
from ash_shared.providers.codex.turn_items import read_turn_item


def _read_control(record: Record) -> RecordReading:
    return _non_message(raw_block("control", record, wire_name(record)))


def _non_message(block: Block) -> RecordReading:
    return RecordReading("record", "system", [block])


def _read_compacted(record: Record) -> RecordReading:
    """Read the summary that replaces the history; the copied history in it is not content."""
    payload = record["payload"]
    if not payload["message"]:
        return _read_control(record)
    return RecordReading("record", "system", translate("compacted", payload, _translate_summary))


def _translate_summary(payload: Record) -> Block:
    return translated(payload, text_block(payload["message"], "summary"), {"message"}, "compacted")


def _read_agent_message(record: Record) -> RecordReading:
    payload = record["payload"]
    if not text_at(payload, "content"):
        return _read_control(record)
    blocks = keep_item_keys(
        [text_block(payload["content"])], {**payload, "type": record["type"]}, ("content",)
    )
    return RecordReading("message", "user", blocks)


def _read_fragment(record: Record) -> RecordReading:
    return RecordReading("chunk", "assistant", [raw_block("stream_fragment", record, record["type"])])


def _read_error(record: Record) -> RecordReading:
    """Read an error of a whole run or of a turn."""
    return RecordReading("record", "system", translate(record["type"], record, _translate_error))


def _translate_error(record: Record) -> Block:
    error = record["error"] if record["type"] == "turn.failed" else record
    name = "message" if "message" in error else "text"
    return translated(error, text_block(error[name], "error"), {name, "timestamp"}, record["type"])


def _read_question(record: Record) -> RecordReading:
    """Read a question that the model asks the user through a tool; the reply is in another turn."""
    input = {"questions": record["questions"]}
    typed = {"type": "tool_use", "id": record["call_id"], "name": "request_user_input", "input": input}
    call = translated(record, typed, {"call_id", "questions"}, record["type"])
    return RecordReading("message", "assistant", [call])


def _read_item_line(record: Record) -> RecordReading:
    return read_turn_item(record["item"], record)


_ITEM_LINES = frozenset({"item.completed", "item.started", "item.updated"})
_TURN_CONTROL_TYPES = frozenset({"thread.started", "turn.completed", "turn.started"})
_ROLLOUT_CONTROL_TYPES = frozenset(
    {"inter_agent_communication_metadata", "session_meta", "session_state", "turn_context", "world_state"}
)

_LINE_READERS: Mapping[str, Callable[[Record], RecordReading]] = {
    **dict.fromkeys(_ITEM_LINES, _read_item_line),
    **dict.fromkeys(_ROLLOUT_CONTROL_TYPES | _TURN_CONTROL_TYPES, _read_control),
    "compacted": _read_compacted,
    "error": _read_error,
    "event_msg": lambda record: read_event(record["payload"], record, "event_msg"),
    "inter_agent_communication": _read_agent_message,
    "item.plan.delta": _read_fragment,
    "request_user_input": _read_question,
    "response_item": lambda record: read_item(record["payload"], record),
    "turn.failed": _read_error,
}


def read(record: Record) -> RecordReading:
    """Read any line."""
    wire_type = record.get("type")
    if wire_type.__class__ is not str:
        return _read_untyped(record)
    if wire_type in _LINE_READERS:
        return _LINE_READERS[wire_type](record)
    if wire_type in ITEM_TYPES:
        return read_item(record, record)
    return _non_message(raw_block("unknown_type", record, wire_type))


def _read_untyped(record: Record) -> RecordReading:
    """Read a line of early rollout files or of the legacy `codex exec` output."""
    if "method" in record:
        return _read_notification(record)
    if record.get("msg").__class__ is dict:
        return read_event(record["msg"], record, "msg")
    if text_at(record, "role"):
        return _read_plain(record)
    if _is_prompt(record):
        return RecordReading("message", "user", [text_block(record["prompt"])])
    return _read_control(record) if _is_header(record) else _non_message(raw_block("unknown_type", record))


def _read_plain(record: Record) -> RecordReading:
    """Read a message without a type, as other tools write into rollout files."""
    name = "content" if "content" in record else "message"
    item = {"type": "message", "role": record["role"], "content": record[name]}
    return read_item(item, item)


def _read_notification(record: Record) -> RecordReading:
    """Read a notification of the app server, which may contain an item."""
    item = value_at(record, "params", "item")
    if item.__class__ is dict:
        return read_turn_item(item, record)
    if record["method"].endswith(("/delta", "Delta")):
        return RecordReading("chunk", "assistant", [raw_block("stream_fragment", record, record["method"])])
    return _non_message(raw_block("control", record, record["method"]))


_ROLLOUT_KEYS = frozenset({"ordinal", "payload", "timestamp", "type"})
_HEADER_KEYS = frozenset({"id", "instructions", "timestamp"})
_CONFIG_KEYS = frozenset({"model", "provider", "sandbox", "workdir"})
_FOREIGN_TYPES = frozenset({"function_call", "function_result", "tool_call", "tool_result"})
_TIME_KEYS = frozenset({"created_at", "timestamp"})


def _is_header(record: Record) -> bool:
    """Return True for the first line of a file, a control line, or the configuration that legacy `codex exec` printed
    first."""
    if "record_type" in record:
        return text_at(record, "record_type") is not None
    if "role" in record:
        return False
    return record.keys() >= _CONFIG_KEYS or (record.keys() >= _HEADER_KEYS and "object" not in record)


def _is_prompt(record: Record) -> bool:
    return record.keys() == {"prompt"} and record["prompt"].__class__ is str


def _is_foreign(record: Record) -> bool:
    """Return True for a call or result written by another tool: with a time, and a call's name in a separate
    object."""
    is_named = record.get("function").__class__ is dict or {"name", "result"} <= record.keys()
    return is_named and not _TIME_KEYS.isdisjoint(record) and record.keys().isdisjoint(_OTHER_CLI_KEYS)


_OTHER_CLI_KEYS = frozenset({"content", "data", "tool_call", "tool_id", "tool_use_id"})
"""Keys under which other CLIs put the content of lines of the same types."""


def _is_error(record: Record) -> bool:
    return (record.keys() == {"type", "message"} and record["message"].__class__ is str) or (
        record.keys() == {"timestamp", "type", "text"} and record["text"].__class__ is str
    )


def _has_item(record: Record) -> bool:
    return text_at(record, "item", "type") is not None


_RECOGNIZERS: Mapping[str, Callable[[Record], bool]] = {
    **dict.fromkeys(_FOREIGN_TYPES, _is_foreign),
    **dict.fromkeys(_ITEM_LINES, _has_item),
    "error": _is_error,
    "item.plan.delta": lambda record: "delta" in record,
    "request_user_input": lambda record: "questions" in record and "call_id" in record,
    "thread.started": lambda record: "thread_id" in record,
    "turn.completed": lambda record: "usage" in record or record.keys() == {"type"},
    "turn.failed": lambda record: "error" in record,
    "turn.started": lambda record: record.keys() <= {"type", "thread_id", "turn_id"},
}


MARKS = {
    *_RECOGNIZERS,
    "instructions",
    "method",
    "msg",
    "payload",
    "prompt",
    "record_type",
    "role",
    "workdir",
}


def recognizes(record: Record) -> bool:
    """Return True for a record of Codex. Items of the Responses API without an envelope are not claimed."""
    wire_type = record.get("type")
    if "payload" in record:
        return (
            wire_type.__class__ is str
            and record["payload"].__class__ is dict
            and record.keys() <= _ROLLOUT_KEYS
        )
    if wire_type is None:
        return body_keys(record) <= _UNTYPED_BODY_KEYS and _recognizes_untyped(record)
    if not record.keys().isdisjoint(ENVELOPE_KEYS):
        return False
    return is_one_of(wire_type, _RECOGNIZERS) and _RECOGNIZERS[wire_type](record)


_UNTYPED_BODY_KEYS = frozenset({"method", "msg"})
_METHODS = ("item/", "thread/", "turn/")


def _recognizes_untyped(record: Record) -> bool:
    if "msg" in record:
        return record.keys() == {"id", "msg"} and text_at(record, "msg", "type") is not None
    if "method" in record:
        method = text_at(record, "method")
        return method is not None and method.startswith(_METHODS) and "params" in record
    if "role" in record:
        return (
            record["role"].__class__ is str
            and "created_at" in record
            and text_at(record, "message") is not None
        )
    return _is_header(record) or _is_prompt(record)


def facts(record: Record) -> Facts:
    """Return the metadata of a line."""
    body = _metadata_object(record)
    return Facts(
        timestamp=to_milliseconds(record["timestamp"] if "timestamp" in record else record.get("created_at")),
        session_id=_session_id(record, body),
        client_version=text_at(body, "cli_version"),
        model=first_text(body, ("model",)) or text_at(body, "thread_settings", "model"),
        title=text_at(body, "thread_name"),
        parent=first_text(body, ("parent_thread_id", "forked_from_id"))
        or text_at(body, "source", "subagent", "thread_spawn", "parent_thread_id"),
    )


def _metadata_object(record: Record) -> Any:
    """Return the object with a line's metadata: its payload, its event, or the line itself."""
    for name in ("payload", "msg"):
        if record.get(name).__class__ is dict:
            return record[name]
    return record


def _session_id(record: Record, body: Any) -> str | None:
    wire_type = record.get("type")
    if wire_type == "session_meta":
        return first_text(body, ("id", "session_id"))
    if wire_type == "thread.started":
        return text_at(record, "thread_id")
    if text_at(body, "type") == "session_configured":
        return text_at(body, "session_id")
    return text_at(record, "id") if wire_type is None and record.keys() >= _HEADER_KEYS else None
