"""mini-swe-agent: the trajectory of a run, one document that is rewritten at each step.

Sources: trajectories of real runs of versions 1 and 2. Messages have the form of Chat Completions. In `extra`, the
agent adds the response of the model, the commands, and the outcome of a command. Models without tools write their
command in a block of code, and its output follows as a message of the user.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import (
    Block,
    bounded,
    content_parser,
    parse_content,
    raw_block,
    text_block,
    translate,
    translated,
    with_extra,
    with_extra_in_first,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.chat_completions import translate_image_url, translate_tool_call
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    unknown_record,
)
from ash_shared.records.documents import DocumentItem, document_type
from ash_shared.records.fingerprints import body_keys
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    is_integer,
    items_at,
    list_or_empty,
    message_error,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)

_CODE = re.compile(r"```(?:bash|mswea_bash_command)\s*\n(.*?)\n```", re.DOTALL)
_OUTCOME = re.compile(r"<returncode>(-?\d{1,9})</returncode>")
_ENVELOPE = ("role", "extra", "timestamp")
_NOT_EXECUTED = "action was not executed"
"""The outcome of the command that ends a run, which is no failure."""
_REFUSAL = "Please always provide EXACTLY ONE action"
_FINISHED = frozenset({"Submitted", ""})


parse_block = content_parser({"image_url": translate_image_url})


def _texts(message: Record) -> list[Block]:
    content = message.get("content")
    return [] if content in (None, "") else parse_content(content, parse_block)


def _translate_prompt(message: Record) -> list[Block]:
    if message["content"] == "":
        return [raw_block("control", message)]
    return with_extra_in_first(_texts(message), without(message, *_ENVELOPE, "content"))


def _translate_answer(message: Record) -> list[Block]:
    """Return thinking, text and commands: as calls of a tool, or in code."""
    name = next((key for key in ("reasoning_content", "reasoning") if text_at(message, key)), None)
    thinking = [] if name is None else [{"type": "thinking", "thinking": message[name]}]
    calls = [translate_tool_call(call) for call in list_or_empty(message.get("tool_calls"))]
    commands = [] if calls else [_command_block(command) for command in _commands(message)]
    rest = without(message, *_ENVELOPE, "content", "tool_calls", *([] if name is None else [name]))
    known = {key: value for key, value in rest.items() if value is not None}
    return with_extra_in_first([*thinking, *_texts(message), *calls, *commands], known)


def _commands(message: Record) -> list[str]:
    """Return the commands that the agent has read from the text of an answer."""
    actions = value_at(message, "extra", "actions")
    if isinstance(actions, list):
        return [command for action in actions if (command := text_at(action, "command")) is not None]
    content = message.get("content")
    commands = _CODE.findall(content) if isinstance(content, str) else []
    return [commands[0].strip()] if len(commands) == 1 else []


def _command_block(command: str) -> Block:
    return {"type": "tool_use", "name": "bash", "input": {"command": command}, "source_type": "action"}


def _translate_result(message: Record) -> list[Block]:
    content, extra = message.get("content"), message.get("extra") or {}
    code = None if extra.get("exception_info") == _NOT_EXECUTED else extra.get("returncode")
    if "returncode" not in extra and isinstance(content, str) and (outcome := _OUTCOME.match(content)):
        code = int(outcome[1])
    typed = {
        "type": "tool_result",
        **({"tool_use_id": message["tool_call_id"]} if "tool_call_id" in message else {}),
        "content": content if isinstance(content, str) else parse_content(content, parse_block),
        **({"exit_code": code, "is_error": code != 0} if is_integer(code) else {}),
    }
    rest = without(extra, "timestamp", *([] if code is None else ["returncode"]))
    block = translated(message, typed, {*_ENVELOPE, "content", "tool_call_id"}, "observation")
    return [with_extra(block, rest)]


def _translate_exit(message: Record) -> list[Block]:
    """Return the submitted text, with the reason for the end of the run."""
    extra = without(message.get("extra") or {}, "response", "cost", "timestamp")
    rest = {**without(message, *_ENVELOPE, "content"), **extra}
    if message.get("content") in (None, ""):
        return [raw_block("control", rest, "exit")]
    variant = "notice" if text_at(extra, "exit_status") in _FINISHED else "error"
    return [with_extra(text_block(message["content"], variant), rest)]


class _Kind(NamedTuple):
    speaker: Any
    translation: Callable[[Record], list[Block]]


_KINDS: Mapping[str, _Kind] = {
    "assistant": _Kind("assistant", _translate_answer),
    "exit": _Kind("system", _translate_exit),
    "system": _Kind("system", _translate_prompt),
    "tool": _Kind("user", _translate_result),
    "user": _Kind("user", _translate_prompt),
}
"""By the `role` of a message."""
_OBSERVATION = _Kind("user", _translate_result)
"""The output of a command, from the user."""


def _kind_of(message: Any) -> _Kind | None:
    role = text_at(message, "role")
    if role == "user" and _is_observation(message):
        return _OBSERVATION
    return _KINDS.get(role or "")


def _is_observation(message: Record) -> bool:
    """True for the output of a command of a model without tools."""
    content = message.get("content")
    is_marked = isinstance(content, str) and _OUTCOME.match(content) is not None
    return is_marked or "raw_output" in (message.get("extra") or {})


def _message_blocks(message: Any) -> list[Block]:
    kind = _kind_of(message)
    if kind is None:
        role = text_at(message, "role")
        return [raw_block("malformed" if role is None else "unknown_type", message, role)]
    refused = _refused_answer(message)
    blocks = [] if refused is None else translate("response", refused, _translate_answer)
    return [*blocks, *translate(str(message["role"]), message, kind.translation)]


def _refused_answer(message: Record) -> Record | None:
    """Return the answer that the agent could not read, which is only in the message about it."""
    if message.get("role") != "user":
        return None
    answer = next(iter(items_at(message, "extra", "response", "choices")), None)
    refused = value_at(answer, "message")
    return refused if isinstance(refused, dict) else None


def _parse(record: Record) -> ParsedRecord:
    blocks = [block for message in record["messages"] for block in _message_blocks(message)]
    head = raw_block("control", without(record, "messages"), "trajectory")
    return ParsedRecord("message", "user", bounded([head, *blocks]))


def _items(record: Record) -> list[DocumentItem]:
    model = text_at(record, "info", "config", "model", "model_name")
    messages = record["messages"]
    return [DocumentItem(str(number), each, [*_parts(each, model)]) for number, each in enumerate(messages)]


def _parts(message: Any, model: str | None) -> Iterator[Part]:
    kind = _kind_of(message)
    if kind is None:
        return
    refused = _refused_answer(message)
    if refused is not None:
        blocks = translate("response", refused, _translate_answer)
        yield _answer_part(message, blocks, model)
    blocks = translate(message["role"], message, kind.translation)
    if kind.speaker == "assistant":
        yield _answer_part(message, blocks, model)
        return
    time = _time_of(message)
    part = Part(
        role=kind.speaker,
        blocks=blocks,
        origin="synthetic" if _is_refusal(message) else "prompt",
        header=RecordHeader(timestamp=time),
        is_undated=time is None,
        original=message,
    )
    status = text_at(message, "extra", "exit_status") or ""
    if message["role"] != "exit":
        yield from [part] if message.get("content") != "" else []
    elif status not in _FINISHED:
        failed = message_error(status, text_at(message, "content"))
        yield Part(role=None, error=failed, relation="interruption", original=message)
    elif blocks[0]["type"] == "text":
        yield part


def _is_refusal(message: Record) -> bool:
    """True for the agent's message about an answer without a command."""
    content = message.get("content")
    is_marked = isinstance(content, str) and content.startswith(_REFUSAL)
    return is_marked or value_at(message, "extra", "interrupt_type") == "FormatError"


def _answer_part(message: Record, blocks: list[Block], model: str | None) -> Part:
    extra = message.get("extra") or {}
    response = value_at(extra, "response")
    time = _time_of(message)
    choice = next(iter(items_at(response, "choices")), None)
    return Part(
        role="assistant",
        blocks=blocks,
        header=RecordHeader(timestamp=time),
        is_undated=time is None,
        original=message,
        message_id=text_at(response, "id"),
        usage=_usage(value_at(response, "usage")),
        cost=cost_at(extra, "cost"),
        metadata={
            "model": text_at(response, "model") or model,
            "stop_reason": text_at(choice, "finish_reason"),
        },
    )


def _usage(usage: Any) -> Block | None:
    cached = count_at(usage, "prompt_tokens_details", "cached_tokens")
    return token_usage(
        usage,
        input=subtract_counts(count_at(usage, "prompt_tokens"), cached),
        output=count_at(usage, "completion_tokens"),
        cache_read=cached,
        reasoning=count_at(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def header(record: Record) -> RecordHeader:
    times = [time for each in items_at(record, "messages") if (time := _time_of(each)) is not None]
    return RecordHeader(
        timestamp=min(times, default=None),
        last_timestamp=max(times, default=None),
        client_version=text_at(record, "info", "mini_version"),
        model=text_at(record, "info", "config", "model", "model_name"),
        folder=text_at(record, "info", "config", "environment", "cwd"),
    )


def _time_of(message: Any) -> int | None:
    """Return the time of a message; version 1 writes it beside the text."""
    paths = (("extra", "timestamp"), ("timestamp",), ("extra", "response", "created"))
    times = (to_milliseconds(value_at(message, *path)) for path in paths)
    return next((time for time in times if time is not None), None)


def identify(record: Record) -> Identity:
    """Return the first response, which is the same in all versions of a trajectory, because there is no other id."""
    answers = (each for each in items_at(record, "messages") if text_at(each, "role") == "assistant")
    first = next(answers, None)
    id, time = text_at(first, "extra", "response", "id"), _time_of(first)
    name = None if id is None else f"{id} {time}"
    return Identity(session=name, record=name)


_TRAJECTORY = document_type("trajectory", _parse, _items)
_UNKNOWN = WireType(unknown_record)


def wire_type(record: Record) -> WireType:
    return _TRAJECTORY if isinstance(record.get("messages"), list) else _UNKNOWN


def recognize(record: Record) -> WireType | None:
    format = record.get("trajectory_format")
    is_own = (
        isinstance(format, str)
        and format.startswith("mini-swe-agent")
        and isinstance(record.get("messages"), list)
        and body_keys(record) <= _BODY_KEYS
        and not isinstance(record.get("type"), str)
    )
    return _TRAJECTORY if is_own else None


_BODY_KEYS = frozenset({"info", "messages"})

PROVIDER = Provider(
    source="mini_swe_agent",
    recognize=recognize,
    marks=Marks(untyped_keys={"trajectory_format"}, body_keys=_BODY_KEYS),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
