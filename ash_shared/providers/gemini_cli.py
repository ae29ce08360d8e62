"""Gemini CLI: its session files, and what it prints with `--output-format stream-json` or `json`.

Sources: `chatRecordingTypes` and `output/types` of `gemini-cli-core`, and captured files. A session file was one JSON
document at first. Now it is a log in lines: a head, message records that are written anew under the same `id` whenever
they have grown, changes of the head (`$set`), and the place to which the person went back (`$rewindTo`: that message
and all behind it are gone). The results of tools stand in the record of the answer that called them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

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
    wire_name,
    with_extra,
)
from ash_shared.model.message import Facts, Kind, Role
from ash_shared.providers._kit.contract import (
    Part,
    Provider,
    Record,
    RecordReading,
    Speaker,
    control_reading,
    speaker_of_role,
    unknown_reading,
)
from ash_shared.providers._kit.fingerprints import ENVELOPE_KEYS, GEMINI_CLI_SESSION_KEYS, body_keys
from ash_shared.providers._kit.gemini_parts import (
    UsageKeys,
    as_list,
    gemini_usage,
    is_client_result,
    is_part,
    read_part,
    read_parts,
)
from ash_shared.providers._kit.json_fields import (
    count_at,
    first_text,
    is_one_of,
    list_or_empty,
    message_error,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.providers._kit.steps import (
    Fragment,
    Interrupts,
    Says,
    Settled,
    Step,
    TurnEnds,
    TurnStarts,
    Whole,
)

_ROLES: Mapping[Any, Role] = {
    "assistant": "assistant",
    "error": "system",
    "gemini": "assistant",
    "info": "system",
    "model": "assistant",
    "user": "user",
    "warning": "system",
}
_VARIANTS: Mapping[Any, str] = {"error": "error", "info": "notice", "warning": "notice"}
"""What the CLI itself says, and how a text block names it."""


def _side(message: Any) -> Any:
    return value_at(message, "type") or value_at(message, "role")


def _role(message: Any) -> Role:
    return _ROLES[_side(message)] if is_one_of(_side(message), _ROLES) else "system"


def _read_message(message: Any) -> list[Block]:
    """The blocks of a message record, alone in its line or one of a document."""
    if not is_one_of(_side(message), _ROLES):
        wire = wire_name(message) if message.__class__ is dict else None
        return [raw_block("unknown_type", message, wire)]
    return translate(_side(message), message, _message_blocks)


def _message_blocks(message: Record) -> list[Block]:
    """In the order in which it came about: thoughts, text, calls."""
    said = read_parts(message["content"] if "content" in message else message["parts"])
    variant = _VARIANTS.get(_side(message))
    if variant:
        said = [{"variant": variant, **block} if block["type"] == "text" else block for block in said]
    thoughts = [
        block for thought in list_or_empty(message.get("thoughts")) for block in _read_thought(thought)
    ]
    listed_calls = list_or_empty(message.get("toolCalls"))
    calls = [block for call in listed_calls for block in translate("toolCall", call, _call)]
    return bounded(thoughts + said + calls)


def _read_thought(thought: Any) -> list[Block]:
    return translate("thought", thought, _thought)


def _thought(thought: Record) -> Block:
    """Subject and description, as the CLI shows them; both stay in `extra` where they were put together."""
    subject, description = thought.get("subject"), thought.get("description")
    if subject and description:
        text, consumed = f"**{subject}**\n\n{description}", ""
    else:
        consumed = "description" if description or not subject else "subject"
        text = thought[consumed]
    return translated(
        thought, {"type": "thinking", "thinking": text, "is_summary": True}, (consumed,), "thought"
    )


_ENDED = frozenset({"success", "error", "cancelled"})


def _call(call: Record) -> list[Block]:
    """A call and, once it has ended, its result: the CLI keeps them in one object."""
    answers = read_parts(call.get("result"))
    ended = bool(answers) or is_one_of(call.get("status"), _ENDED)
    executor = {"executor": "agent"} if call.get("agentId") else {}
    named = pick(call, "id", "name", "status")
    typed = {"type": "tool_use", **named, "input": call.get("args", {}), **executor}
    consumed = (*named, "args", "result", *(("resultDisplay",) if ended else ()))
    use = translated(call, typed, consumed, "toolCall")
    return [use, _result(call, answers)] if ended else [use]


def _result(call: Record, answers: list[Block]) -> Block:
    """The result of a call: what its function answered, and what was sent along; else what the person was shown."""
    empty: Block = {"type": "tool_result"}
    answer = next((block for block in answers if block["type"] == "tool_result"), empty)
    made: Block = {**renamed(call, tool_use_id="id"), **answer}
    beside = [block for block in answers if block is not answer]
    shown = pick(call, "resultDisplay")
    if beside:
        own = answer.get("content")
        made["content"] = ([text_block(own)] if isinstance(own, str) else []) + beside
    elif not answers and isinstance(shown.get("resultDisplay"), str):
        made["content"] = shown.pop("resultDisplay")
    if call.get("status") in _ENDED:
        made["is_error"] = call["status"] != "success"
    made["source_type"] = "toolCall"
    return with_extra(made, shown)


def _read_record(record: Record) -> RecordReading:
    blocks = _read_message(record)
    role = _role(record)
    return RecordReading("record" if role == "system" else "message", role, blocks)


def _read_document(record: Record) -> RecordReading:
    blocks = [block for message in _messages(record) for block in _read_message(message)]
    return RecordReading("message", "user", bounded(blocks))


def _messages(record: Record) -> list[Any]:
    return as_list(record["messages"] if "messages" in record else record["history"])


_BESIDE = ("type", "timestamp")
"""What every event carries: not content, and kept in the stored text."""


def _read_said(record: Record) -> RecordReading:
    return RecordReading("message", _ROLES[record["role"]], [text_block(record["content"])])


def _read_item(kind: Kind, role: Role, item: Translation) -> Callable[[Record], RecordReading]:
    """Events that are one block each."""
    return lambda record: RecordReading(kind, role, translate(record["type"], record, item))


def _use(event: Record) -> Block:
    typed = {
        "type": "tool_use",
        "id": event["tool_id"],
        "name": event["tool_name"],
        "input": event["parameters"],
    }
    return translated(event, typed, (*_BESIDE, "tool_id", "tool_name", "parameters"), "tool_use")


def _outcome(event: Record) -> Block:
    """What a tool answered; of a failure, the message is the answer where there is no other."""
    message = value_at(event, "error", "message")
    content = {"content": event["output"]} if "output" in event else {"content": message} if message else {}
    failed = {"is_error": event["status"] != "success"}
    typed = {"type": "tool_result", "tool_use_id": event["tool_id"], **content, **failed}
    return translated(event, typed, (*_BESIDE, "tool_id", "output"), "tool_result")


def _notice(event: Record) -> Block:
    typed = text_block(event["message"], "error" if event["severity"] == "error" else "notice")
    return translated(event, typed, (*_BESIDE, "message"), "error")


_read_notice = _read_item("record", "system", _notice)


def _read_output(record: Record) -> RecordReading:
    """The one document that `--output-format json` prints."""
    said = record.get("response")
    block = text_block(said) if said.__class__ is str else raw_block("control", record)
    return RecordReading("message", "assistant", [block])


def _is_event(*keys: str) -> Callable[[Record], bool]:
    return lambda record: all(key in record for key in keys) and "uuid" not in record


def _is_end(record: Record) -> bool:
    return {"status", "timestamp"} <= record.keys() and record.keys().isdisjoint(("session_id", "uuid"))


_FOREIGN_KEYS = frozenset({"errorText", "message", "parentUuid", "role", "sessionId", "session_id", "uuid"})


def _is_message(record: Record) -> bool:
    """A record with an id of its own, and nothing of the lines of other CLIs."""
    return (
        text_at(record, "id") is not None
        and "timestamp" in record
        and ("content" in record or "parts" in record)
        and _FOREIGN_KEYS.isdisjoint(record)
    )


_ANSWER_KEYS = frozenset({"id", "message", "model", "stop_reason", "usage", "uuid"})
"""What no event has that is a piece of an answer; other vendors' answers do."""


def _is_said(record: Record) -> bool:
    return (
        record.get("content").__class__ is str
        and "timestamp" in record
        and record.keys().isdisjoint(_ANSWER_KEYS)
        and is_one_of(record.get("role"), ("user", "assistant"))
    )


def _is_document(record: Record) -> bool:
    return (
        record.get("messages").__class__ is list
        and text_at(record, "sessionId") is not None
        and first_text(record, ("projectHash", "startTime", "lastUpdated")) is not None
    )


def _is_history(record: Record) -> bool:
    history = record.get("history")
    return history.__class__ is list and all(map(_is_content, history))


def _is_content(content: Any) -> bool:
    parts = value_at(content, "parts")
    return parts.__class__ is list and all(map(is_part, parts))


def _is_head(record: Record) -> bool:
    return bool(text_at(record, "sessionId") and text_at(record, "projectHash"))


def _is_output(record: Record) -> bool:
    models = value_at(record, "stats", "models")
    return models.__class__ is dict and not record.keys().isdisjoint(("response", "error"))


_Form = tuple[Callable[[Record], bool], Callable[[Record], RecordReading]]

_TYPES: Mapping[str, _Form] = {
    **dict.fromkeys(("gemini", "info", "model", "user", "warning"), (_is_message, _read_record)),
    "init": (_is_event("session_id", "model", "timestamp"), control_reading),
    "message": (_is_said, _read_said),
    "result": (_is_end, control_reading),
    "tool_result": (_is_event("tool_id", "status"), _read_item("message", "tool", _outcome)),
    "tool_use": (_is_event("tool_id", "tool_name", "parameters"), _read_item("message", "assistant", _use)),
}
"""By `type`: whether a record is the CLI's, and what reads it."""

_KEYS: Mapping[str, _Form] = {
    "$set": (lambda record: record["$set"].__class__ is dict, control_reading),
    "$rewindTo": (lambda record: record["$rewindTo"].__class__ is str, control_reading),
    "messages": (_is_document, _read_document),
    "history": (_is_history, _read_document),
    "projectHash": (_is_head, control_reading),
    "stats": (_is_output, _read_output),
}
"""The same for records without a type, by the key that tells them from others."""


def _form(record: Record) -> Callable[[Record], RecordReading] | None:
    """What reads a record, if it is of a form that is known."""
    wire = record.get("type")
    if wire == "error":
        return _read_notice if "severity" in record else _read_record if _is_message(record) else None
    if wire.__class__ is str:
        is_ours, reader = _TYPES.get(wire, _NO_FORM)
        return reader if is_ours(record) else None
    for key, (is_ours, reader) in _KEYS.items():
        if key in record and is_ours(record):
            return reader
    return None


_NO_FORM: _Form = (lambda record: False, control_reading)


def recognizes(record: Record) -> bool:
    """Whether a record is Gemini CLI's."""
    if _form(record) is None:
        return False
    if record.get("type").__class__ is str:
        return record.keys().isdisjoint(ENVELOPE_KEYS)
    bodies = body_keys(record) - GEMINI_CLI_SESSION_KEYS
    return bodies <= _UNTYPED_BODIES and (len(record) == 1 or bodies.isdisjoint(_CHANGES))


_UNTYPED_BODIES = frozenset({"$rewindTo", "$set", "error", "history", "messages", "stats"})
_CHANGES = frozenset({"$rewindTo", "$set"})
"""Keys of lines that have no other."""


def read(record: Record) -> RecordReading:
    """Any record of a session file or of a stream."""
    reader = _form(record)
    if reader is not None:
        return reader(record)
    if is_one_of(record.get("type"), _ROLES) and ("content" in record or "parts" in record):
        return _read_record(record)
    return unknown_reading(record)


def facts(record: Record) -> Facts:
    """What a record says beside its content. Its id is not its own: it comes again when the message has grown."""
    told = record["$set"] if record.get("$set").__class__ is dict else record
    times = ("timestamp", "startTime", "start_time", "lastUpdated")
    return Facts(
        timestamp=to_milliseconds(first_text(told, times)),
        session_id=first_text(told, ("sessionId", "session_id")),
        model=text_at(told, "model") or text_at(told, "meta", "model"),
        title=text_at(told, "summary"),
    )


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """What a record adds to the standard messages."""
    reader = _form(record)
    if reader is _read_document:
        return [
            replace(part, original=message)
            for message in _messages(record)
            for part in _message_parts(message, _read_message(message))
        ]
    if reader is _read_record:
        return _message_parts(record, reading.blocks)
    return _event_parts(record, reading)


_COUNTS = UsageKeys(prompt="input", tool="tool", cached="cached", answer="output", thoughts="thoughts")


def _message_parts(message: Any, blocks: list[Block]) -> list[Part]:
    """What was said, and what the tools answered that were called in it: the client ran them."""
    id = text_at(message, "id")
    said = [block for block in blocks if not is_client_result(block)]
    answers = [block for block in blocks if is_client_result(block)]
    role = speaker_of_role(_role(message))
    time = to_milliseconds(value_at(message, "timestamp") or value_at(message, "ts"))
    first = Part(
        role=role,
        blocks=_without_blanks(said),
        key=id,
        keeps_key=id is not None,
        replaces=id is not None,
        id=id,
        timestamp=time,
        usage=gemini_usage(value_at(message, "tokens"), _COUNTS),
        metadata={"model": text_at(message, "model"), "messageId": id if role == "assistant" else None},
        error=_message_error(message),
    )
    if not answers:
        return [first]
    second = Part(
        role="user",
        blocks=answers,
        key=id and f"{id}/results",
        keeps_key=id is not None,
        replaces=id is not None,
        timestamp=time,
    )
    return [first, second] if said or role != "user" else [second]


def _without_blanks(blocks: list[Block]) -> list[Block]:
    """The blocks without the empty texts of answers that only think or call."""
    said = [block for block in blocks if block["type"] != "text" or block["text"]]
    return said or blocks


def _message_error(message: Any) -> Block | None:
    if _side(message) != "error":
        return None
    content = value_at(message, "content")
    text = content if content.__class__ is str else text_at(next(iter(as_list(content)), None), "text")
    return message_error("error", text or None)


def _event_parts(record: Record, reading: RecordReading) -> list[Part]:
    wire = record.get("type")
    if wire in _EVENT_PARTS:
        return _EVENT_PARTS[wire](record, reading)
    if (place := text_at(record, "$rewindTo")) is not None:
        return [Part(role=None, rewinds_to=place)]
    return _output_parts(record, reading) if "stats" in record else []


def _said_parts(record: Record, reading: RecordReading) -> list[Part]:
    """An item of an answer, or of what the tools answered: events name no answer that they are of."""
    role: Speaker = "assistant" if reading.role == "assistant" else "user"
    answers = role == "assistant" or reading.role == "tool"
    return [Part(role=role, blocks=reading.blocks, adjoins=answers)]


def _notice_parts(record: Record, reading: RecordReading) -> list[Part]:
    told = message_error("error", text_at(record, "message"))
    bad = record["severity"] == "error"
    return [Part(role="system", blocks=reading.blocks, error=told if bad else None)]


def _result_parts(record: Record, reading: RecordReading) -> list[Part]:
    """The end of a run, with what it cost in all."""
    return [
        Part(
            role=None,
            usage=_stats_usage(record.get("stats")),
            usage_of_turn=True,
            error=_error(record),
        )
    ]


def _error(record: Record) -> Block | None:
    told = record.get("error")
    if told is None and record.get("status", "success") == "success":
        return None
    code = first_text(told, ("type", "code")) or text_at(record, "status") or "error"
    return message_error(code, text_at(told, "message"), told or None)


def _stats_usage(stats: Any) -> Block | None:
    """Counts of a run. Reasoning is in the total alone, which is what was put in and what came out."""
    given, answered = count_at(stats, "input_tokens"), count_at(stats, "output_tokens")
    told = subtract_counts(count_at(stats, "total_tokens"), given)
    cached = count_at(stats, "cached")
    output = answered if told is None or answered is None else max(told, answered)
    return token_usage(stats, input=subtract_counts(given, cached), output=output, cache_read=cached)


_RUN_COUNTS = UsageKeys(
    prompt="prompt", tool="tool", cached="cached", answer="candidates", thoughts="thoughts"
)


def _output_parts(record: Record, reading: RecordReading) -> list[Part]:
    """The document of a run; where one model answered, its counts are those of the run."""
    models = value_at(record, "stats", "models")
    name, told = next(iter(models.items())) if models.__class__ is dict and len(models) == 1 else (None, None)
    blocks = [block for block in reading.blocks if block["type"] == "text"]
    usage = gemini_usage(value_at(told, "tokens"), _RUN_COUNTS)
    return [
        Part(role="assistant", blocks=blocks, usage=usage, metadata={"model": name}, error=_error(record))
    ]


_EVENT_PARTS: Mapping[Any, Callable[[Record, RecordReading], list[Part]]] = {
    "error": _notice_parts,
    "message": _said_parts,
    "result": _result_parts,
    "tool_result": _said_parts,
    "tool_use": _said_parts,
}


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """What a record adds to the log of events, where that is not what it adds to the standard messages."""
    reader = _form(record)
    if reader is _read_document:
        messages = _messages(record)
        return [step for message in messages for step in _message_steps(message, _read_message(message))]
    if reader is _read_record:
        return _message_steps(record, reading.blocks)
    if "$rewindTo" in record:
        return [TurnEnds(), *_wholes(record, parts(record, reading))]
    if reader is _read_output:
        return [*_wholes(record, parts(record, reading)), TurnEnds()]
    return _event_steps(record, reading)


def _message_steps(message: Any, blocks: list[Block]) -> list[Step]:
    """A message record, which may have been told before in an earlier form."""
    told: list[Step] = list(map(Whole, _message_parts(message, blocks)))
    return [*told, Interrupts("user_cancel", if_open=True)] if _is_cancelled(message) else told


def _is_cancelled(message: Any) -> bool:
    """Whether the person stopped the answer here. Where one call of several ran, the model goes on."""
    if _side(message) == "info":
        return text_at(message, "content") == "Request cancelled."
    calls = as_list(value_at(message, "toolCalls"))
    return bool(calls) and all(text_at(call, "status") == "cancelled" for call in calls)


def _event_steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """An event of a stream: whatever is no piece of a text ends the text before it."""
    wire = record.get("type")
    if wire == "init":
        return [Settled(), TurnStarts()]
    if wire not in _EVENT_PARTS:
        return None
    if wire == "message" and reading.role == "assistant" and record.get("delta") is True:
        return [Fragment("text", record["content"], "text", reopens=True)]
    return [Settled(), *_EVENT_STEPS.get(wire, _wholes)(record, parts(record, reading))]


def _wholes(record: Record, told: list[Part]) -> list[Step]:
    return list(map(Whole, told))


def _notice_steps(record: Record, told: list[Part]) -> list[Step]:
    """Warnings count as errors that end nothing."""
    return [Says("error", message_error(record["severity"], text_at(record, "message")))]


def _result_steps(record: Record, told: list[Part]) -> list[Step]:
    """The end of a run, unless the person ended it."""
    if text_at(record, "error", "type") != "FatalCancellationError":
        return _wholes(record, told)
    (part,) = told
    stopped = Interrupts("user_cancel", if_open=True, end=TurnEnds(part.usage))
    return [Whole(Part(role=None, error=part.error)), stopped]


_EVENT_STEPS: Mapping[Any, Callable[[Record, list[Part]], list[Step]]] = {
    "error": _notice_steps,
    "result": _result_steps,
}


PROVIDER = Provider(
    source="gemini_cli",
    recognizes=recognizes,
    marks={*_TYPES, *_KEYS, "error"},
    read=read,
    read_block=read_part,
    facts=facts,
    parts=parts,
    steps=steps,
)
