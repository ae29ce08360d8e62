"""pi: the events of `pi --mode json`, and the entries of its session files.

Sources: the message types of pi's `ai` and `coding-agent` packages, its description of session files, and captured
events. An answer is written when it starts, with every piece that comes, when it ends, with the end of its turn and
with the end of the run: it is read where it ends, and the repetitions are control records.

What pi calls a turn is one answer with the tools it calls; ours is a run of the agent. A run that fails is tried anew
as another one, in which nobody asks.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    Translation,
    is_native,
    pick,
    raw_block,
    read_content,
    renamed,
    text_block,
    translate,
    translated,
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
    unknown_reading,
)
from ash_shared.providers._kit.fingerprints import ENVELOPE_KEYS, PI_MESSAGE_KEYS, body_keys
from ash_shared.providers._kit.json_fields import (
    cost_at,
    count_at,
    input_at,
    list_or_empty,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.providers._kit.steps import (
    Closed,
    Fragment,
    Interrupts,
    ResponseEnds,
    ResponseStarts,
    Step,
    TurnEnds,
    TurnStarts,
    Whole,
)


def read_block(block: Any) -> Block:
    """One element of a content list."""
    if block.__class__ is str:
        return text_block(block)
    if is_native(block) and "thinkingSignature" not in block:
        return block
    wire = text_at(block, "type")
    if wire is None or wire not in _TRANSLATIONS:
        return raw_block("malformed" if wire in _NATIVE else "unknown_type", block, wire)
    return translate(wire, block, _TRANSLATIONS[wire])[0]


def _thinking(block: Record) -> Block:
    """Thinking with its signature, which pi names after the block."""
    typed = {"type": "thinking", "thinking": block["thinking"], "signature": block["thinkingSignature"]}
    names = ("thinking", "thinkingSignature", "redacted")
    return translated(block, {**typed, **pick(block, "redacted")}, names, "thinking")


def _call(block: Record) -> Block:
    given, consumed = input_at(block, "arguments")
    typed = {"type": "tool_use", **pick(block, "id"), "name": block["name"], "input": given}
    return translated(block, typed, ("id", "name", *consumed), "toolCall")


def _image(block: Record) -> Block:
    source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
    return translated(block, {"type": "image", "source": source}, ("mimeType", "data"), "image")


_NATIVE = frozenset({"text", "tool_use", "tool_result", "file", "raw"})

_TRANSLATIONS: Mapping[str, Translation] = {"image": _image, "thinking": _thinking, "toolCall": _call}


def _said(message: Record) -> list[Block]:
    return read_content(message["content"], read_block)


def _result(message: Record) -> list[Block]:
    """What a tool answered; `details` are for those who show it."""
    typed = {
        "type": "tool_result",
        "content": read_content(message["content"], read_block),
        **renamed(message, tool_use_id="toolCallId", is_error="isError", structured="details"),
    }
    consumed = {"role", "toolCallId", "content", "isError", "details", "timestamp"}
    return [translated(message, typed, consumed, text_at(message, "role") or "tool_execution_end")]


def _shell(message: Record) -> list[Block]:
    """A command that the person ran, with what it wrote."""
    call = {"type": "tool_use", "name": "bash", "input": {"command": message["command"]}}
    code = message.get("exitCode")
    result = {
        "type": "tool_result",
        "content": message["output"],
        **({"exit_code": code} if code.__class__ is int else {}),
    }
    consumed = {"role", "command", "output", "exitCode", "timestamp"}
    return [{**call, "source_type": "bashExecution"}, translated(message, result, consumed, "bashExecution")]


def _custom(message: Record) -> list[Block]:
    """What an extension put in; what it says of it stays with the first block."""
    blocks = read_content(message["content"], read_block)
    consumed = {"content", "role", "timestamp", *_ENVELOPE}
    rest = without(message, *consumed)
    return [with_extra({**block, "source_type": "custom"}, rest) for block in blocks[:1]] + blocks[1:]


_ENVELOPE = frozenset({"type", "id", "parentId", "timestamp"})


def _summary(message: Record) -> list[Block]:
    consumed = {"summary", "role", *_ENVELOPE}
    wire = text_at(message, "role") or text_at(message, "type") or "summary"
    return [translated(message, text_block(message["summary"], "summary"), consumed, wire)]


_MESSAGES: Mapping[Any, tuple[Role, Callable[[Record], list[Block]]]] = {
    "assistant": ("assistant", _said),
    "bashExecution": ("user", _shell),
    "branchSummary": ("user", _summary),
    "compactionSummary": ("user", _summary),
    "custom": ("user", _custom),
    "hookMessage": ("user", _custom),
    "system": ("system", _said),
    "toolResult": ("tool", _result),
    "user": ("user", _said),
}
"""By the `role` of a message: whose it is, and how its content is read."""


def _read_message(record: Record) -> RecordReading:
    """A message that is complete: the end of its events, or an entry of a session."""
    message = record["message"]
    name = text_at(message, "role")
    if name is None or name not in _MESSAGES:
        return unknown_reading(record, name)
    role, reads = _MESSAGES[name]
    return RecordReading("message", role, translate(name, message, reads))


def _read_execution(record: Record) -> RecordReading:
    """The result of a tool as soon as it has run; the message that carries it to the model repeats it."""
    message = {**record["result"], **{name: value for name, value in record.items() if name in _RESULT}}
    return RecordReading("message", "tool", translate("tool_execution_end", message, _result))


_RESULT = frozenset({"toolCallId", "toolName", "isError"})


def _read_summary(record: Record) -> RecordReading:
    """An older part of the session, told in short."""
    return RecordReading("record", "system", translate(record["type"], record, _summary))


def _read_compacted(record: Record) -> RecordReading:
    if text_at(record, "result", "summary") is None:
        return _control(record)
    told = {"type": record["type"], **record["result"]}
    return RecordReading("record", "system", translate(record["type"], told, _summary))


def _read_custom(record: Record) -> RecordReading:
    """A message that an extension put in, as an entry of a session."""
    return RecordReading("message", "user", translate(record["type"], record, _custom))


def _control(record: Record) -> RecordReading:
    return control_reading(record, text_at(record, "type"))


_READERS: Mapping[Any, Callable[[Record], RecordReading]] = {
    **dict.fromkeys(
        (
            "agent_end",
            "agent_settled",
            "agent_start",
            "auto_compaction_start",
            "auto_retry_end",
            "auto_retry_start",
            "compaction_start",
            "custom",
            "extension_error",
            "label",
            "model_change",
            "queue_update",
            "session",
            "session_info",
            "thinking_level_change",
            "tool_execution_start",
            "turn_end",
            "turn_start",
        ),
        _control,
    ),
    **dict.fromkeys(("message_start", "message_update", "tool_execution_update"), chunk_reading),
    "auto_compaction_end": _read_compacted,
    "branch_summary": _read_summary,
    "compaction": _read_summary,
    "compaction_end": _read_compacted,
    "custom_message": _read_custom,
    "message": _read_message,
    "message_end": _read_message,
    "tool_execution_end": _read_execution,
}


def read(record: Record) -> RecordReading:
    """Any event or session entry, or a message alone."""
    wire = text_at(record, "type")
    if wire in _READERS:
        return _READERS[wire](record)
    if wire is None and text_at(record, "role") in _MESSAGES:
        return _read_message({"message": record})
    return unknown_reading(record, wire)


def _is_message(message: Any) -> bool:
    """Whether this is a message of pi's; one of Claude's, whose stream has an event of the same name, has a type."""
    return (
        message.__class__ is dict
        and message.get("type") != "message"
        and message.get("role").__class__ is str
        and message["role"] in _MESSAGES
        and not PI_MESSAGE_KEYS.isdisjoint(message)
    )


def _has_message(record: Record) -> bool:
    return _is_message(record.get("message"))


def _is_entry(record: Record) -> bool:
    """An entry of a session file: each names the one it follows."""
    return "parentId" in record and record.get("id").__class__ is str


def _is_message_entry(record: Record) -> bool:
    message = record.get("message")
    return _is_entry(record) and message.__class__ is dict and text_at(message, "role") in _MESSAGES


def _is_bare(record: Record) -> bool:
    return record.keys() <= {"type", "timestamp"}


_RECOGNIZED: Mapping[str, Callable[[Record], bool]] = {
    **dict.fromkeys(("agent_settled", "agent_start", "turn_start"), _is_bare),
    **dict.fromkeys(("message_end", "message_start", "turn_end"), _has_message),
    "message_update": lambda record: "assistantMessageEvent" in record or _has_message(record),
    **dict.fromkeys(
        (
            "branch_summary",
            "compaction",
            "custom",
            "custom_message",
            "label",
            "model_change",
            "session_info",
            "thinking_level_change",
        ),
        _is_entry,
    ),
    **dict.fromkeys(
        ("tool_execution_end", "tool_execution_start", "tool_execution_update"),
        lambda record: "toolCallId" in record and "toolName" in record,
    ),
    "agent_end": lambda record: record.get("messages").__class__ is list,
    "auto_compaction_end": lambda record: "aborted" in record,
    "auto_compaction_start": lambda record: "reason" in record,
    "auto_retry_end": lambda record: "attempt" in record,
    "auto_retry_start": lambda record: "attempt" in record,
    "compaction_end": lambda record: "aborted" in record,
    "compaction_start": lambda record: record.keys() == {"type", "reason"},
    "message": _is_message_entry,
    "queue_update": lambda record: {"steering", "followUp"} <= record.keys(),
    "session": lambda record: {"id", "cwd", "timestamp"} <= record.keys(),
}


def recognizes(record: Record) -> bool:
    """Whether a record is an event of pi, an entry of its sessions, or one of those of its messages that nobody else
    writes."""
    wire = record.get("type")
    if wire.__class__ is str:
        return wire in _RECOGNIZED and _RECOGNIZED[wire](record) and record.keys().isdisjoint(ENVELOPE_KEYS)
    return "stopReason" in record and body_keys(record) == {"api"} and _is_message(record)


def facts(record: Record) -> Facts:
    """What a record says beside its content."""
    wire = text_at(record, "type")
    message = record if wire is None else record.get("message")
    is_session = wire == "session"
    return Facts(
        uuid=text_at(record, "id") if "parentId" in record else None,
        timestamp=to_milliseconds(value_at(message, "timestamp")) or to_milliseconds(record.get("timestamp")),
        session_id=text_at(record, "id") if is_session else None,
        model=text_at(message, "model") or (text_at(record, "modelId") if wire == "model_change" else None),
        title=text_at(record, "name") if wire == "session_info" else None,
        parent=_session_in(text_at(record, "parentSession")) if is_session else None,
    )


def _session_in(path: str | None) -> str | None:
    """The id in the name of a session file, `<time>_<id>.jsonl`."""
    named = _SESSION_FILE.search(path or "")
    return named[1] if named else None


_SESSION_FILE = re.compile(r"_([0-9a-f-]{36})\.jsonl$")


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """What a record adds to the standard messages of its session."""
    if reading.kind != "message":
        said = [block for block in reading.blocks if block["type"] == "text"]
        return [Part(role="system", blocks=said)] if said else []
    wire = text_at(record, "type")
    message = record if wire is None else record.get("message") or record
    if reading.role == "tool":
        return [_result_part(message, reading)]
    if reading.role == "user":
        synthetic = wire == "custom_message" or message.get("role") != "user"
        return [Part(role="user", blocks=reading.blocks, metadata={"synthetic": synthetic or None})]
    if reading.role == "system":
        return [Part(role="system", blocks=reading.blocks)]
    return [_answer_part(message, reading)]


def _result_part(message: Record, reading: RecordReading) -> Part:
    """The result of a call: told when the tool has run, and once more in the message that takes its place."""
    id = text_at(message, "toolCallId")
    return Part(role="user", blocks=reading.blocks, key=id, replaces=id is not None)


def _answer_part(message: Record, reading: RecordReading) -> Part:
    return Part(
        role="assistant",
        blocks=reading.blocks,
        usage=_usage(message.get("usage")),
        metadata={
            "model": text_at(message, "model"),
            "messageId": text_at(message, "responseId"),
            "stop_reason": text_at(message, "stopReason"),
            "costUsd": cost_at(message, "usage", "cost", "total"),
        },
        error=_error(message),
    )


def _usage(usage: Any) -> Block | None:
    """Input is without the cache, output with the reasoning."""
    return token_usage(
        usage,
        input=count_at(usage, "input"),
        output=count_at(usage, "output"),
        cache_read=count_at(usage, "cacheRead"),
        cache_creation=count_at(usage, "cacheWrite"),
        reasoning=count_at(usage, "reasoning"),
    )


def _error(message: Record) -> Block | None:
    """An answer that failed says why beside its content."""
    reason, text = text_at(message, "stopReason"), text_at(message, "errorMessage")
    if text is None and reason not in ("error", "aborted"):
        return None
    return message_error(reason or "error", text)


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """What a record adds to the log of events."""
    tell = _STEPS.get(text_at(record, "type"), _entry_steps)
    return tell(record, reading)


def _entry_steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """A message, in whatever record it comes; those of a session are nobody's answer."""
    if reading.kind != "message":
        return None
    message = record.get("message") or record
    tell = _MESSAGE_STEPS.get(text_at(message, "role"))
    return tell(record, reading) if tell else None


def _answer_steps(record: Record, reading: RecordReading) -> list[Step]:
    [part] = parts(record, reading)
    reason = text_at(part.metadata, "stop_reason")
    if reason != "aborted":
        return [Whole(part), ResponseEnds()]
    return [Whole(replace(part, error=None)), Interrupts("user_cancel")]


def _shell_steps(record: Record, reading: RecordReading) -> list[Step]:
    """What the person ran is a call with its result, too."""
    call, result = reading.blocks
    return [Whole(Part(role="assistant", blocks=[call])), Whole(Part(role="user", blocks=[result]))]


_MESSAGE_STEPS: Mapping[Any, Callable[[Record, RecordReading], list[Step]]] = {
    "assistant": _answer_steps,
    "bashExecution": _shell_steps,
}


def _start_steps(record: Record, reading: RecordReading) -> list[Step]:
    message = record["message"]
    is_answer = text_at(message, "role") == "assistant"
    return [ResponseStarts(text_at(message, "responseId"))] if is_answer else []


def _update_steps(record: Record, reading: RecordReading) -> list[Step]:
    """A piece of the answer; a block that is whole waits for the message, which alone holds all of it."""
    event = record["assistantMessageEvent"]
    wire, slot = event["type"], str(event.get("contentIndex"))
    kind, _, state = wire.rpartition("_")
    if kind not in _KINDS:
        return []
    if state == "end":
        text = text_at(event, "content")
        return [Closed(slot, text, waits=True)]
    message = record.get("message") or event.get("partial")
    block = _block_at(message, event.get("contentIndex"))
    piece = Fragment(
        _KINDS[kind],
        text_at(event, "delta") or "",
        slot,
        call=text_at(block, "id"),
        name=text_at(block, "name"),
        given=value_at(block, "arguments"),
    )
    return [ResponseStarts(text_at(message, "responseId"), is_explicit=False), piece]


_KINDS: Mapping[str, Literal["text", "thinking", "input"]] = {
    "text": "text",
    "thinking": "thinking",
    "toolcall": "input",
}


def _block_at(message: Any, index: Any) -> Any:
    content = list_or_empty(value_at(message, "content"))
    return content[index] if index.__class__ is int and 0 <= index < len(content) else None


def _execution_steps(record: Record, reading: RecordReading) -> list[Step]:
    """A call that runs; the answer mostly told of it."""
    id, name = text_at(record, "toolCallId"), text_at(record, "toolName")
    call = {"type": "tool_use", "id": id, "name": name, "input": record.get("args")}
    return [Whole(Part(role="assistant", blocks=[call], replaces=True))] if name is not None else []


def _output_steps(record: Record, reading: RecordReading) -> list[Step]:
    """All that a tool has written so far; of much, pi shows the end alone, and then it is not known what is new."""
    written = record["partialResult"]
    if value_at(written, "details", "truncation") is not None:
        return []
    texts = [text_at(block, "text") for block in list_or_empty(written["content"])]
    text = "".join(text for text in texts if text is not None)
    id = text_at(record, "toolCallId")
    return [Fragment("output", text, call=id, name=text_at(record, "toolName"), is_whole=True)]


def _compacted_steps(record: Record, reading: RecordReading) -> list[Step] | None:
    told: list[Step] = [Whole(part) for part in parts(record, reading)]
    return told + ([TurnStarts(trigger="system")] if record.get("willRetry") is True else []) or None


_STEPS: Mapping[Any, Callable[[Record, RecordReading], list[Step] | None]] = {
    "agent_end": lambda record, reading: [TurnEnds()],
    "agent_start": lambda record, reading: [TurnStarts()],
    "auto_compaction_end": _compacted_steps,
    "auto_retry_end": lambda record, reading: [TurnEnds()],
    "auto_retry_start": lambda record, reading: [TurnStarts(trigger="system")],
    "compaction_end": _compacted_steps,
    "message_start": _start_steps,
    "message_update": _update_steps,
    "tool_execution_start": _execution_steps,
    "tool_execution_update": _output_steps,
}


PROVIDER = Provider(
    source="pi",
    recognizes=recognizes,
    marks={*_RECOGNIZED, "stopReason"},
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
    steps=steps,
)
