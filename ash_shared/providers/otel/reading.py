"""The messages, usage and errors of a span, in any of the conventions.

Sources: OpenTelemetry's GenAI conventions v0.1.0 and the names before, OpenInference, and OpenLLMetry (Traceloop).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from ash_shared.model.blocks import Block, raw_block, text_block, translate, with_extra, without
from ash_shared.model.message import Role
from ash_shared.providers.otel.parts import call_block, parse_content, parse_part, result_fields, role_at
from ash_shared.providers.otel.spans import Attributes, TelemetrySpan, unflatten
from ash_shared.records.json_fields import (
    cost_at,
    decode_arguments,
    first_count,
    first_text,
    input_at,
    items_at,
    message_error,
    subtract_counts,
    text_at,
    token_usage,
    value_at,
)

SpanKind = Literal["model", "tool", "agent", "other"]


class SpanMessage(NamedTuple):
    """A message that a span contains."""

    role: Role
    blocks: list[Block]
    original: Any
    stop_reason: str | None = None


_Reader = Callable[[TelemetrySpan], list[SpanMessage]]

_OPERATIONS: Mapping[str, SpanKind] = {
    "chat": "model",
    "completion": "model",
    "create_agent": "other",
    "execute_tool": "tool",
    "generate_content": "model",
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "responses": "model",
    "text_completion": "model",
}
_INFERENCE_KINDS: Mapping[str, SpanKind] = {"AGENT": "agent", "LLM": "model", "TOOL": "tool"}
_TRACELOOP_KINDS: Mapping[str, SpanKind] = {"agent": "agent", "tool": "tool", "workflow": "agent"}


def kind_of(span: TelemetrySpan) -> SpanKind:
    attributes = span.attributes
    for name, kinds in (
        ("gen_ai.operation.name", _OPERATIONS),
        ("openinference.span.kind", _INFERENCE_KINDS),
        ("traceloop.span.kind", _TRACELOOP_KINDS),
    ):
        named = text_at(attributes, name)
        if named is not None:
            return kinds.get(named, kinds.get(named.upper(), "other"))
    is_model = "llm.request.type" in attributes or any(name in attributes for name in _MODEL_NAMES)
    return "model" if is_model or any(name.startswith("gen_ai.prompt") for name in attributes) else "other"


_MODEL_NAMES = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.completion",
    "gen_ai.request.model",
    "llm.model_name",
)


# Messages.


def inputs_of(span: TelemetrySpan) -> list[SpanMessage]:
    """Return the messages that the model received, in order."""
    return [*_instructions(span.attributes), *_first_with_content(_INPUTS, span)]


def outputs_of(span: TelemetrySpan) -> list[SpanMessage]:
    """Return the answer of the model; several choices are several messages."""
    return _first_with_content(_OUTPUTS, span)


def _first_with_content(readers: Iterable[_Reader], span: TelemetrySpan) -> list[SpanMessage]:
    """Return the messages of the first convention that has any, since libraries write the same in several."""
    for read in readers:
        messages = [message for message in read(span) if message.blocks]
        if messages:
            return messages
    return []


def _instructions(attributes: Attributes) -> list[SpanMessage]:
    name = next((name for name in _INSTRUCTION_NAMES if name in attributes), None)
    if name is None:
        return []
    value = decode_arguments(attributes[name])
    if isinstance(value, dict):
        value = value.get("parts", [value])
    blocks = [parse_part(part) for part in (value if isinstance(value, list) else [value])]
    return [SpanMessage("system", blocks, value)] if blocks else []


_INSTRUCTION_NAMES = ("gen_ai.system_instructions", "gen_ai.system.instructions")


def _listed(span: TelemetrySpan, name: str, default: Role) -> list[SpanMessage]:
    """Return the messages of an attribute with a list of messages, usually as JSON text."""
    value = _attribute(span, name)
    if value is None:
        return []
    decoded = decode_arguments(value)
    if isinstance(decoded, dict):
        decoded = decoded.get("messages", [decoded])
    if isinstance(decoded, str):
        return [_unreadable(decoded, name, default)]
    if not isinstance(decoded, list):
        return []
    return [_message(each, default) for each in decoded]


def _unreadable(text: str, name: str, default: Role) -> SpanMessage:
    """Return a value that should be JSON: the exporter has cut it, or it is a plain text."""
    looks_cut = text.lstrip().startswith(("[", "{"))
    block = raw_block("malformed", text, name) if looks_cut else text_block(text)
    return SpanMessage(default, [block], text)


def _attribute(span: TelemetrySpan, name: str) -> Any:
    """Return an attribute of the span or an event."""
    if name in span.attributes:
        return span.attributes[name]
    held = (event.attributes for event in span.events)
    value = next((each[name] for each in held if name in each), None)
    return value if value is not None or not isinstance(span.body, dict) else span.body.get(name)


_MESSAGE_KEYS = ("role", "parts", "finish_reason", "content", "tool_calls", "function_call", "tool_call_id")


def _message(message: Any, default: Role) -> SpanMessage:
    """Return a message of the GenAI conventions, or of the Chat Completions API."""
    if not isinstance(message, dict):
        return SpanMessage(default, parse_content(message), message)
    role = role_at(message, default)
    blocks = _result_or_content(message, role)
    rest = {key: value for key, value in without(message, *_MESSAGE_KEYS).items() if value is not None}
    if blocks and rest:
        blocks = [with_extra(blocks[0], rest), *blocks[1:]]
    return SpanMessage(role, blocks, message, text_at(message, "finish_reason"))


def _result_or_content(message: Block, role: Role) -> list[Block]:
    if isinstance(message.get("parts"), list):
        return [parse_part(part) for part in message["parts"]]
    calls = [*items_at(message, "tool_calls"), *filter(None, [message.get("function_call")])]
    if role == "tool":
        return translate("tool", message, _tool_message)
    content = message.get("content")
    return [*parse_content(content), *(_call(each) for each in calls)]


def _tool_message(message: Block) -> Block:
    id = message.get("tool_call_id")
    ids = {"tool_use_id": id} if id else _own_id(message)
    return {"type": "tool_result", **ids, **result_fields(message.get("content"))}


def _own_id(message: Block) -> Block:
    return {"tool_use_id": message["id"]} if isinstance(message.get("id"), str) else {}


def _call(call: Any) -> Block:
    """Return a call of Chat Completions, or with its fields flattened."""
    return translate("tool_call", call, _translate_call)[0]


def _translate_call(call: Block) -> Block:
    inner = call.get("function")
    if not isinstance(inner, dict):
        return call_block({"type": "tool_call", **call})
    merged = {**without(call, "function"), **inner, "type": call.get("type", "function")}
    return call_block(merged)


def _indexed(prefix: str, default: Role) -> _Reader:
    """Return a reader of OpenLLMetry's numbered attributes: `gen_ai.prompt.0.role`.

    LiteLLM writes the call of an answer as a `function_call` without its id. The next request has it with the id.
    """

    def read(span: TelemetrySpan) -> list[SpanMessage]:
        listed = unflatten(span.attributes, prefix)
        return [
            _message(without(each, "function_call"), default) for each in listed if isinstance(each, dict)
        ]

    return read


def _openinference(prefix: str, default: Role) -> _Reader:
    """Return a reader of OpenInference's numbered attributes: `llm.input_messages.0.message.role`."""

    def read(span: TelemetrySpan) -> list[SpanMessage]:
        listed = (value_at(each, "message") for each in unflatten(span.attributes, prefix))
        return [_inference_message(each, default) for each in listed if isinstance(each, dict)]

    return read


_INFERENCE_KEYS = ("role", "content", "contents", "tool_calls", "tool_call_id", "finish_reason")


def _inference_message(message: Block, default: Role) -> SpanMessage:
    role = role_at(message, default)
    contents = [_inference_part(value_at(each, "message_content")) for each in items_at(message, "contents")]
    texts = contents if contents else parse_content(message.get("content"))
    calls = [_call(value_at(each, "tool_call")) for each in items_at(message, "tool_calls")]
    if role == "tool":
        content = message.get("content", "".join(block.get("text", "") for block in contents) or None)
        blocks = translate("tool", {**message, "content": content}, _tool_message)
    else:
        blocks = [*texts, *calls]
    rest = without(message, *_INFERENCE_KEYS)
    if blocks and rest:
        blocks = [with_extra(blocks[0], rest), *blocks[1:]]
    return SpanMessage(role, blocks, message, text_at(message, "finish_reason"))


def _inference_part(part: Any) -> Block:
    kind = text_at(part, "type")
    url = text_at(part, "image", "image", "url")
    if kind == "image" and url is not None:
        return parse_part({"type": "image_url", "image_url": url})
    return parse_part(part)


def _events_named(names: Mapping[str, Role]) -> _Reader:
    """Return a reader of span events of the conventions before v1.37: `gen_ai.user.message`, `gen_ai.choice`."""

    def read(span: TelemetrySpan) -> list[SpanMessage]:
        return [
            event_message(each.name, each.attributes, names) for each in span.events if each.name in names
        ]

    return read


INPUT_EVENTS: Mapping[str, Role] = {
    "gen_ai.assistant.message": "assistant",
    "gen_ai.system.message": "system",
    "gen_ai.tool.message": "tool",
    "gen_ai.user.message": "user",
}
OUTPUT_EVENTS: Mapping[str, Role] = {"gen_ai.choice": "assistant"}


def event_message(name: str, body: Any, names: Mapping[str, Role]) -> SpanMessage:
    """Return the message of an event, with its fields at the top or in `message`."""
    default = names[name]
    fields = {
        key: decode_arguments(value) if key in _JSON_KEYS else value for key, value in dict(body).items()
    }
    inner = fields.get("message")
    reason = text_at(fields, "finish_reason")
    if isinstance(inner, dict):
        fields = inner
    elif isinstance(inner, str):
        fields = {"content": inner}
    message = {key: value for key, value in fields.items() if key in _EVENT_KEYS}
    read = _message({"role": default, **message}, default)
    return read._replace(original=body, stop_reason=reason)


_JSON_KEYS = frozenset({"message", "tool_calls"})
_EVENT_KEYS = frozenset({"role", "content", "parts", "tool_calls", "id", "tool_call_id", "function_call"})


def _plain(name: str, default: Role) -> _Reader:
    """Return a reader of an attribute with messages, or a text."""
    return lambda span: _listed(span, name, default)


def _value(name: str, default: Role) -> _Reader:
    """Return a reader of the whole input or output of a model, if a span has no messages."""

    def read(span: TelemetrySpan) -> list[SpanMessage]:
        text = text_at(span.attributes, name)
        return (
            []
            if text is None or kind_of(span) != "model"
            else [SpanMessage(default, [text_block(text)], text)]
        )

    return read


_INPUTS: tuple[_Reader, ...] = (
    _plain("gen_ai.input.messages", "user"),
    _plain("pydantic_ai.all_messages", "user"),
    _indexed("gen_ai.prompt.", "user"),
    _plain("gen_ai.prompt", "user"),
    _openinference("llm.input_messages.", "user"),
    _events_named(INPUT_EVENTS),
    _plain("gen_ai.content.prompt", "user"),
    _plain("llm.prompts", "user"),
    _value("input.value", "user"),
)
_OUTPUTS: tuple[_Reader, ...] = (
    _plain("gen_ai.output.messages", "assistant"),
    _indexed("gen_ai.completion.", "assistant"),
    _plain("gen_ai.completion", "assistant"),
    _openinference("llm.output_messages.", "assistant"),
    _events_named(OUTPUT_EVENTS),
    _plain("gen_ai.content.completion", "assistant"),
    _value("output.value", "assistant"),
)


# Tools.


class ToolSpan(NamedTuple):
    id: str | None
    call: Block | None
    result: Block | None


def tool_of(span: TelemetrySpan) -> ToolSpan:
    """Return the call and the result of the span of a tool."""
    attributes = span.attributes
    id = first_text(attributes, _TOOL_ID_NAMES) or _id_in_output(attributes)
    name = first_text(attributes, _TOOL_NAMES) or span.name
    arguments = next((key for key in _ARGUMENT_NAMES if key in attributes), None)
    output = next((key for key in _RESULT_NAMES if key in attributes), None)
    ids: Block = {} if id is None else {"id": id}
    call = None
    if arguments is not None:
        input, _ = input_at(attributes, arguments)
    if arguments is not None and (arguments != "input.value" or isinstance(input, dict)):
        call = {"type": "tool_use", **ids, "name": name, "input": input}
    result = None
    if output is not None or span.is_error:
        failed = {"is_error": True} if span.is_error else {}
        value = _tool_output(attributes.get(output or "", _failure(span)))
        of_call: Block = {} if id is None else {"tool_use_id": id}
        result = {"type": "tool_result", **of_call, **result_fields(value), **failed}
    return ToolSpan(id, call, result)


_TOOL_ID_NAMES = ("gen_ai.tool.call.id", "tool_call.id", "tool.id", "traceloop.entity.id")
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_ARGUMENT_NAMES = (
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "gcp.vertex.agent.tool_call_args",
    "input.value",
    "traceloop.entity.input",
)
_RESULT_NAMES = (
    "gen_ai.tool.call.result",
    "tool_response",
    "gcp.vertex.agent.tool_response",
    "output.value",
    "traceloop.entity.output",
)


def _tool_output(value: Any) -> Any:
    """Return the output of a tool; of a message of LangChain, its content."""
    decoded = decode_arguments(value) if isinstance(value, str) and value.startswith("{") else None
    message = value_at(decoded, "data") if text_at(decoded, "type") == "tool" else None
    content = message.get("content") if isinstance(message, dict) else None
    return value if content is None else content


def _id_in_output(attributes: Attributes) -> str | None:
    """Return the call that LangChain states in the message of its result."""
    decoded = decode_arguments(attributes.get("output.value"))
    return text_at(decoded, "tool_call_id") or text_at(decoded, "data", "tool_call_id")


def _failure(span: TelemetrySpan) -> str | None:
    return span.status or next(
        (message for each in span.events if (message := text_at(each.attributes, "exception.message"))), None
    )


# Model, usage, cost and error.


def model_of(span: TelemetrySpan) -> str | None:
    return first_text(
        span.attributes, ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "model")
    )


def agent_of(span: TelemetrySpan) -> str | None:
    """Return the agent that calls a model or a tool, if the span states it."""
    return text_at(span.attributes, "gen_ai.agent.name")


def response_id_of(span: TelemetrySpan) -> str | None:
    return first_text(span.attributes, ("gen_ai.response.id", "llm.response.id"))


def stop_reason_of(span: TelemetrySpan, output: SpanMessage | None) -> str | None:
    reasons = decode_arguments(span.attributes.get("gen_ai.response.finish_reasons"))
    first = (
        next((each for each in reasons if isinstance(each, str)), None) if isinstance(reasons, list) else None
    )
    own = output.stop_reason if output is not None else None
    return own or first or first_text(span.attributes, ("llm.finish_reason", "gen_ai.response.finish_reason"))


def usage_of(span: TelemetrySpan) -> Block | None:
    """Return the usage of a model call; its input includes tokens of caches."""
    attributes = span.attributes
    read = first_count(attributes, *_CACHE_READ)
    written = first_count(attributes, *_CACHE_WRITTEN)
    vendor = {
        name: value
        for name, value in attributes.items()
        if name.startswith(("gen_ai.usage.", "llm.token_count.", "llm.usage.", "llm.cost."))
    }
    return token_usage(
        vendor,
        input=subtract_counts(first_count(attributes, *_INPUT), read, written),
        output=first_count(attributes, *_OUTPUT),
        cache_read=read,
        cache_creation=written,
        reasoning=first_count(attributes, *_REASONING),
    )


_INPUT = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.usage.prompt_tokens",
    "llm.token_count.prompt",
)
_OUTPUT = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.usage.completion_tokens",
    "llm.token_count.completion",
)
_CACHE_READ = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
)
_CACHE_WRITTEN = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.details.cache_write_tokens",
    "llm.token_count.prompt_details.cache_write",
)
_REASONING = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "llm.usage.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
)


def cost_of(span: TelemetrySpan) -> float | None:
    names = ("gen_ai.usage.cost", "operation.cost", "llm.cost.total", "cost_usd")
    costs = (cost_at(span.attributes, name) for name in names)
    return next((cost for cost in costs if cost is not None), None)


def error_of(span: TelemetrySpan) -> Block | None:
    if not span.is_error and "error.type" not in span.attributes:
        return None
    code = text_at(span.attributes, "error.type") or "error"
    return message_error(code, _failure(span))
