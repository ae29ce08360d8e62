"""AutoGen: messages and events of agents and teams, results of runs, and saved states.

Source: `autogen_agentchat.messages` and `autogen_agentchat.state`, and runs of version 0.7.5. A stream ends with the
result of the run, which contains its messages again.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ash_shared.model.blocks import (
    Block,
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
from ash_shared.model.message import Identity, RecordHeader, Role
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    chunk_record,
    control_record,
    speaker_of_role,
    unknown_record,
)
from ash_shared.records.documents import DocumentItem, UniqueKeys, document_type, keyed_parts
from ash_shared.records.json_fields import (
    count_at,
    input_at,
    is_integer,
    is_one_of,
    items_at,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Chunk, CurrentAgent, ResponseStart, Step

_PEOPLE = frozenset({"user", "user_proxy"})
"""Names of senders that are people, by convention."""
_ENVELOPE = ("created_at", "id", "models_usage", "source", "type")


def _read_keys(message: Record, *names: str) -> tuple[str, ...]:
    """Return the keys of a message that need not be kept. Its metadata is mostly empty."""
    return (*_ENVELOPE, *names, *(() if message.get("metadata") else ("metadata",)))


# Blocks.


def _translate_text(message: Record) -> Block:
    return translated(
        message, text_block(message["content"]), _read_keys(message, "content"), message["type"]
    )


def _translate_thought(message: Record) -> Block:
    typed = {"type": "thinking", "thinking": message["content"]}
    return translated(message, typed, _read_keys(message, "content"), message["type"])


def _translate_contents(message: Record) -> list[Block]:
    """Translate texts and images; AutoGen converts images to PNG."""
    return _with_rest([_content_block(each) for each in message["content"]], message)


def _with_rest(blocks: list[Block], message: Record) -> list[Block]:
    """Return the blocks with the further values of the message in the first one."""
    rest = without(message, *_read_keys(message, "content"))
    return [with_extra(blocks[0], rest), *blocks[1:]] if blocks and rest else blocks


def _content_block(content: Any) -> Block:
    if isinstance(content, str):
        return text_block(content)
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": content["data"]}}


def _translate_data(message: Record) -> Block:
    """Translate an answer of a declared type, with its JSON as text."""
    text = msgspec.json.encode(message["content"]).decode()
    return translated(message, text_block(text), _read_keys(message), message["type"])


def _translate_calls(message: Record) -> list[Block]:
    return _with_rest([_call(each) for each in message["content"]], message)


def _call(call: Record) -> Block:
    arguments, consumed = input_at(call, "arguments")
    typed = {"type": "tool_use", **pick(call, "id"), "name": call["name"], "input": arguments}
    return translated(call, typed, ("id", "name", *consumed), "FunctionCall")


def _translate_results(message: Record) -> list[Block]:
    return _with_rest([_result(each) for each in message["content"]], message)


def _result(result: Record) -> Block:
    fields = {**renamed(result, tool_use_id="call_id"), **pick(result, "content", "is_error")}
    typed = {"type": "tool_result", **fields}
    return translated(result, typed, ("call_id", "content", "is_error"), "FunctionExecutionResult")


def _translate_run(message: Record) -> Block:
    """Translate the result of code that an answer contains."""
    result = message["result"]
    code = result.get("exit_code")
    exit_code = {"exit_code": code, "is_error": code != 0} if is_integer(code) else {}
    typed = {"type": "tool_result", "content": result["output"], **exit_code}
    return translated(message, typed, _read_keys(message, "result"), message["type"])


def _translate_llm_answer(message: Record) -> list[Block]:
    content, thought = message["content"], message.get("thought")
    thoughts = [] if thought is None else [{"type": "thinking", "thinking": thought}]
    rest = without(message, "thought")
    if not isinstance(content, str):
        return [*thoughts, *_translate_calls(rest)]
    return [*thoughts, *_with_rest([text_block(content)], rest)]


def _translate_llm_prompt(message: Record) -> Block | list[Block]:
    return _translate_text(message) if isinstance(message["content"], str) else _translate_contents(message)


_Translation = Callable[[Record], Block | list[Block]]
_CHAT: Mapping[str, _Translation] = {
    "CodeExecutionEvent": _translate_run,
    "CodeGenerationEvent": _translate_text,
    "HandoffMessage": _translate_text,
    "MultiModalMessage": _translate_contents,
    "StopMessage": _translate_text,
    "TextMessage": _translate_text,
    "ThoughtEvent": _translate_thought,
    "ToolCallExecutionEvent": _translate_results,
    "ToolCallRequestEvent": _translate_calls,
    "ToolCallSummaryMessage": _translate_text,
}
"""Messages and events of teams."""
_LLM: Mapping[str, tuple[Role, _Translation]] = {
    "AssistantMessage": ("assistant", _translate_llm_answer),
    "FunctionExecutionResultMessage": ("tool", _translate_results),
    "SystemMessage": ("system", _translate_text),
    "UserMessage": ("user", _translate_llm_prompt),
}
"""Messages in the context of an agent; they have no ids, times or usage."""
_CONTROL = frozenset({"MemoryQueryEvent", "SelectSpeakerEvent", "SelectorEvent", "UserInputRequestedEvent"})
_CHUNK = "ModelClientStreamingChunkEvent"
_RESULTS = frozenset({"CodeExecutionEvent", "ToolCallExecutionEvent"})
_TEXTS = ("StructuredMessage", "StructuredMessage[")


def parse_block(block: Any) -> Block:
    return raw_block("unknown_type", block)


# Messages.


def _parse_message(message: Record) -> ParsedRecord:
    name = message["type"]
    if name == _CHUNK:
        return chunk_record(message)
    if name in _CONTROL:
        return control_record(message)
    translation = _CHAT.get(name) or (_translate_data if name.startswith(_TEXTS) else None)
    if translation is None:
        return unknown_record(message)
    return ParsedRecord("message", _role(message), bounded(translate(name, message, translation)))


def _role(message: Record) -> Role:
    if message["type"] in _RESULTS:
        return "tool"
    return "user" if is_one_of(message.get("source"), _PEOPLE) else "assistant"


def _message_parts(message: Record, parsed: ParsedRecord) -> list[Part]:
    id = text_at(message, "id")
    part = _chat_part(message, parsed)
    return [] if part is None else [part] if id is None else keyed_parts(id, [part])


def _chat_part(message: Record, parsed: ParsedRecord) -> Part | None:
    usage = message.get("models_usage")
    if parsed.kind != "message":
        return None
    source = text_at(message, "source")
    return Part(
        role=speaker_of_role(parsed.role),
        blocks=parsed.blocks,
        header=RecordHeader(timestamp=to_milliseconds(message.get("created_at"))),
        usage=token_usage(
            usage, input=count_at(usage, "prompt_tokens"), output=count_at(usage, "completion_tokens")
        ),
        metadata={"author": None if parsed.role == "user" else source},
    )


def _message_steps(message: Record, parsed: ParsedRecord) -> list[Step]:
    if parsed.kind == "chunk":
        id = text_at(message, "full_message_id")
        return [
            ResponseStart(None, begins="if_none_open"),
            Chunk("text", message["content"], f"{id}/text", anonymous_slot=True, response=id),
        ]
    parts = _message_parts(message, parsed)
    is_agents = parts and parsed.role == "assistant"
    return [CurrentAgent(message["source"], text_at(message, "id")), *parts] if is_agents else [*parts]


# Results and states.


def _parse_document(record: Record) -> ParsedRecord:
    blocks = [block for item in _items(record) for part in item.parts for block in part.blocks]
    head = raw_block("control", record, text_at(record, "type") or "TaskResult")
    return ParsedRecord("message", "user", bounded([head, *blocks]))


def _items(record: Record) -> list[DocumentItem]:
    """Return the messages of a run or of a team, or else those in the context of an agent."""
    thread = _thread(record)
    if thread is not None:
        return [*_chat_items(thread)]
    return [
        DocumentItem(f"context/{number}", message, [_llm_part(message)])
        for number, message in enumerate(items_at(record, "llm_context", "messages"))
    ]


def _thread(record: Record) -> Any:
    if "type" not in record:
        return record.get("messages")
    states = value_at(record, "agent_states")
    threads = (value_at(state, "message_thread") for state in (states or {}).values())
    return next((thread for thread in threads if isinstance(thread, list)), None)


def _chat_items(thread: Any) -> Iterator[DocumentItem]:
    keys = UniqueKeys()
    for message in thread:
        if not isinstance(message, dict) or text_at(message, "type") is None:
            yield DocumentItem(keys.name("malformed"), message, [_malformed_part(message)])
            continue
        part = _chat_part(message, _parse_message(message))
        if part is not None:
            yield DocumentItem(keys.name(text_at(message, "id") or "message"), message, [part])


def _malformed_part(message: Any) -> Part:
    return Part(role="system", blocks=[raw_block("malformed", message, "message")])


def _llm_part(message: Any) -> Part:
    name = text_at(message, "type")
    if name not in _LLM:
        return _malformed_part(message)
    role, translation = _LLM[name or ""]
    source = text_at(message, "source")
    blocks = translate(name or "", message, translation)
    is_others = role == "user" and source not in (None, *_PEOPLE)
    return Part(
        role=speaker_of_role("assistant" if is_others else role),
        blocks=blocks,
        metadata={"author": None if role == "user" and not is_others else source},
    )


_MESSAGE = WireType(_parse_message, _message_parts, _message_steps)
_DOCUMENT = document_type("document", _parse_document, _items)
_UNKNOWN = WireType(unknown_record)
_STATES = frozenset({"AssistantAgentState", "TeamState"})

# Records.


def wire_type(record: Record) -> WireType:
    name = text_at(record, "type")
    if name is None:
        return _DOCUMENT if isinstance(record.get("messages"), list) else _UNKNOWN
    return _DOCUMENT if name in _STATES else _MESSAGE


def recognize(record: Record) -> WireType | None:
    name = text_at(record, "type")
    if name is None:
        return _DOCUMENT if record.keys() == _RESULT_KEYS and _are_messages(record["messages"]) else None
    if name in _STATES:
        return (
            _DOCUMENT if record.keys() == _STATE_KEYS[name] and isinstance(record["version"], str) else None
        )
    is_named = name.endswith(("Event", "Message")) or name.startswith(_TEXTS)
    is_own = is_named and record.keys() >= _MESSAGE_KEYS and isinstance(record["source"], str)
    return _MESSAGE if is_own and _FOREIGN_KEYS.isdisjoint(record) else None


def _are_messages(messages: Any) -> bool:
    is_filled = isinstance(messages, list) and messages
    return bool(is_filled) and all(isinstance(each, dict) and "models_usage" in each for each in messages)


_RESULT_KEYS = frozenset({"messages", "stop_reason"})
_STATE_KEYS: Mapping[str, frozenset[str]] = {
    "AssistantAgentState": frozenset({"llm_context", "type", "version"}),
    "TeamState": frozenset({"agent_states", "type", "version"}),
}
_MESSAGE_KEYS = frozenset({"metadata", "models_usage", "source", "type"})
_FOREIGN_KEYS = frozenset({"message", "role", "uuid"})


def header(record: Record) -> RecordHeader:
    is_whole = text_at(record, "type") not in (None, _CHUNK)
    return RecordHeader(
        uuid=text_at(record, "id") if is_whole else None,
        timestamp=to_milliseconds(record.get("created_at")),
    )


def identify(record: Record) -> Identity:
    first = next(iter(items_at(record, "messages")), None)
    return Identity(record=text_at(record, "id") or text_at(first, "id"))


PROVIDER = Provider(
    source="autogen",
    recognize=recognize,
    marks=Marks(
        types=_STATES,
        typed_keys={"models_usage"},
        untyped_keys={"stop_reason"},
        body_keys={"messages"},
    ),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
