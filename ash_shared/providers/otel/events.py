"""Log records: the events of the GenAI conventions, of Claude Code (`claude_code.*`) and of Codex (`codex.*`)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ash_shared.model.blocks import Block, text_block
from ash_shared.model.message import RecordHeader, Role
from ash_shared.providers.otel.parts import result_fields
from ash_shared.providers.otel.reading import (
    INPUT_EVENTS,
    OUTPUT_EVENTS,
    SpanMessage,
    event_message,
    inputs_of,
    outputs_of,
)
from ash_shared.providers.otel.spans import Attributes, TelemetrySpan
from ash_shared.records.contract import Part, speaker_of_role
from ash_shared.records.json_fields import (
    decode_arguments,
    first_text,
    message_error,
    subtract_counts,
    text_at,
    token_usage,
)

_WITHHELD = frozenset({"<REDACTED>", "[REDACTED]"})
_NAMES: Mapping[str, Role] = {**INPUT_EVENTS, **OUTPUT_EVENTS}


def messages_of(log: TelemetrySpan) -> list[SpanMessage]:
    """Return the messages of a log record."""
    name = log.name
    if name in _NAMES:
        body = log.body if isinstance(log.body, dict) else log.attributes
        return [event_message(name, body, _NAMES)]
    if name.startswith("gen_ai."):
        return [*inputs_of(log), *outputs_of(log)]
    read = _MESSAGES.get(_local_name(name))
    return read(log.attributes) if read is not None else []


def _local_name(name: str) -> str:
    """Return the name of an event of Claude Code or Codex without its prefix, which newer versions leave out."""
    return name.removeprefix("claude_code.").removeprefix("codex.")


def _text_of(attributes: Attributes, *names: str) -> str | None:
    text = first_text(attributes, names)
    return None if text in _WITHHELD else text


def _prompt(attributes: Attributes) -> list[SpanMessage]:
    text = _text_of(attributes, "prompt")
    return [] if text is None else [SpanMessage("user", [text_block(text)], attributes)]


def _answer(attributes: Attributes) -> list[SpanMessage]:
    text = _text_of(attributes, "response", "response_text", "text")
    return [] if text is None else [SpanMessage("assistant", [text_block(text)], attributes)]


def _tool_result(attributes: Attributes) -> list[SpanMessage]:
    name = first_text(attributes, ("tool_name", "name"))
    id = first_text(attributes, ("tool_use_id", "call_id"))
    if name is None:
        return []
    key = next((key for key in ("tool_input", "arguments", "tool_parameters") if key in attributes), "")
    call: Block = {"type": "tool_use", "name": name, "input": decode_arguments(attributes.get(key, {}))}
    succeeded = attributes.get("success")
    result: Block = {"type": "tool_result", **result_fields(_text_of(attributes, "output", "error"))}
    if succeeded in ("true", "false", True, False):
        result["is_error"] = succeeded in ("false", False)
    if id is not None:
        call["id"] = result["tool_use_id"] = id
    return [SpanMessage("assistant", [call], attributes), SpanMessage("tool", [result], attributes)]


_MESSAGES: Mapping[str, Callable[[Attributes], list[SpanMessage]]] = {
    "agent_response": _answer,
    "assistant_response": _answer,
    "tool_result": _tool_result,
    "user_prompt": _prompt,
}


def parts_of(log: TelemetrySpan, own: RecordHeader) -> Iterator[Part]:
    for message in messages_of(log):
        # The events state no history: an equal text is another message.
        is_resent = log.name.startswith("gen_ai.")
        is_answer = _local_name(log.name) == "assistant_response"
        yield Part(
            role=speaker_of_role(message.role),
            key=_request_of(log.attributes) if is_answer else None,
            blocks=message.blocks,
            relation="resent" if is_resent else "new",
            original=message.original if is_resent else None,
            header=own,
            metadata={"stop_reason": message.stop_reason},
        )
    yield from _costs(log, own)


def _costs(log: TelemetrySpan, own: RecordHeader) -> Iterator[Part]:
    """Return the usage of a request of Claude Code or Codex, or its error."""
    name, attributes = _local_name(log.name), log.attributes
    failure = text_at(attributes, "error.message")
    if failure is not None and (
        name == "api_request" or text_at(attributes, "event.kind") == "response.failed"
    ):
        code = str(attributes.get("http.response.status_code", "error"))
        yield Part(role="assistant", error=message_error(code, failure), header=own)
    elif name == "api_request" and any(key in attributes for key in _CLAUDE_COUNTS):
        counts = {key: _count(attributes, key) for key in _CLAUDE_COUNTS}
        usage = token_usage(
            {key: attributes[key] for key in _CLAUDE_COUNTS if key in attributes},
            input=counts["input_tokens"],
            output=counts["output_tokens"],
            cache_read=counts["cache_read_tokens"],
            cache_creation=counts["cache_creation_tokens"],
        )
        yield _cost_part(attributes, own, usage, _amount(attributes.get("cost_usd")))
    elif text_at(attributes, "event.kind") == "response.completed":
        cached = _count(attributes, "cached_token_count")
        usage = token_usage(
            {key: value for key, value in attributes.items() if key.endswith("_token_count")},
            input=subtract_counts(_count(attributes, "input_token_count"), cached),
            output=_count(attributes, "output_token_count"),
            cache_read=cached,
            reasoning=_count(attributes, "reasoning_token_count"),
        )
        if usage is not None:
            yield _cost_part(attributes, own, usage, None)
    elif name == "api_error":
        code = str(attributes.get("status_code", "error"))
        error = message_error(code, text_at(attributes, "error"))
        yield Part(role="assistant", error=error, header=own)


_CLAUDE_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")


def _cost_part(attributes: Attributes, own: RecordHeader, usage: Block | None, cost: float | None) -> Part:
    return Part(
        role="assistant",
        key=_request_of(attributes),
        usage=usage,
        cost=cost,
        header=own,
        metadata={"model": text_at(attributes, "model")},
    )


def _request_of(attributes: Attributes) -> str | None:
    """Return the id of a request. Claude Code writes its answer and its usage as two events."""
    return first_text(attributes, ("request_id", "client_request_id"))


def _count(attributes: Attributes, name: str) -> int | None:
    """Return a count, which both programs write as a number or as text."""
    number = attributes.get(name)
    if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 16:
        number = int(number)
    is_count = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**53
    return number if is_count else None


def _amount(value: Any) -> float | None:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        amount = float(value)
    except ValueError:
        return None
    return amount if 0 <= amount < 1e15 else None
