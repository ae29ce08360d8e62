"""Convert a conversation to the attributes that OpenTelemetry's GenAI conventions give the call of a model.

The last answer is the output of the call, everything before it the input. Duplicates, retracted messages, subagents,
notices of the client and the messages before a summary are left out. Unknown values are absent, except the finish
reason, which is then `unknown`, and the provider, which is then the source. Reasons, providers and parameter types use
the terms of the conventions.

The conventions are in development; this is v0.1.0 (github.com/open-telemetry/semantic-conventions-genai).
"""

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block
from ash_shared.model.message import StandardMessage
from ash_shared.projections._otel_messages import (
    ChatMessage,
    MainAgentFolds,
    OtelAttributes,
    OtelConversation,
    answer_attributes,
    is_included,
    output_message,
)
from ash_shared.projections._otel_terms import json_schema

INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
"""The last attributes, which contain the messages."""


def to_otel_genai(
    messages: Iterable[StandardMessage], *, conversation_id: str | None = None, records: Iterable[Any] = ()
) -> OtelAttributes:
    """Return the attributes by name, their values as JSON.

    Tool definitions come from the last of the decoded `records` that has any. For Codex, include the first record of
    the session, which contains the provider.
    """
    fold = GenAiFold()
    for message in messages:
        fold.add(message)
    call = fold.end(conversation_id=conversation_id, records=records)
    lists = {INPUT: call.input, OUTPUT: call.output}
    return {**call.attributes, **{name: value for name, value in lists.items() if value}}


class Extent(NamedTuple):
    """A part of a conversation, from the last summary on."""

    messages: int = 0
    last_id: str | None = None
    """The id of the last message."""

    def with_message(self, message: ChatMessage) -> "Extent":
        return Extent(self.messages + 1, message.sources[0].id)


class GenAiCall(NamedTuple):
    """The last call of a model."""

    attributes: OtelAttributes
    """All except the messages."""
    input: list[OtelAttributes] | None
    """None if it is larger than a fold keeps."""
    output: list[OtelAttributes]
    is_of_subagent: bool
    """True if all messages are a subagent's."""
    summaries: int
    """How many summaries there are before the input."""
    extent: Extent
    """The extent of the input."""


class GenAiFold(MainAgentFolds["_LastCall"]):
    """Folds the messages of a session, in order, into its last call of a model.

    `max_kept`: the size of the messages since the last summary that are kept. Beyond it only the last answer is, and
    `GenAiInput` finds the input in a second reading.
    """

    def __init__(self, max_kept: float = inf) -> None:
        super().__init__(lambda: _LastCall(max_kept))

    def end(self, *, conversation_id: str | None = None, records: Iterable[Any] = ()) -> GenAiCall:
        fold, requests = self.used, list(records)
        fold.end()
        answer, conversation = fold.answer, fold.conversation
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": conversation_id,
            **({} if answer is None else answer_attributes(answer, requests)),
            "gen_ai.system_instructions": conversation.instructions or None,
            "gen_ai.tool.definitions": tool_definitions(requests) or None,
        }
        return GenAiCall(
            {name: value for name, value in attributes.items() if value is not None},
            None if fold.kept is None else list(map(_input, fold.kept[: fold.extent.messages])),
            [] if answer is None else [output_message(answer)],
            self.is_of_subagent,
            conversation.summaries,
            fold.extent,
        )


class _LastCall:
    """The last call in a conversation."""

    def __init__(self, max_kept: float) -> None:
        self._max_kept = max_kept
        self.conversation = OtelConversation()
        self._begin()

    def _begin(self) -> None:
        self.kept: list[ChatMessage] | None = []
        """The messages since the last summary."""
        self._size = 0
        self.answer: ChatMessage | None = None
        self._all = self._before_answer = Extent()

    @property
    def extent(self) -> Extent:
        """Return the extent of the input."""
        return self._all if self.answer is None else self._before_answer

    def add(self, message: StandardMessage, size: int = 0) -> None:
        summaries = self.conversation.summaries
        self.conversation.add(message, size)
        if self.conversation.summaries > summaries:
            self._begin()
        self._take(self.conversation.take())

    def size(self) -> int:
        """Return the size of the instructions, the last answer and the last message."""
        answers = [] if self.answer is None else [self.answer]
        return self.conversation.instructions_size + sum(
            each.size for each in (*answers, *self.conversation.messages)
        )

    def end(self) -> None:
        self._take(self.conversation.messages)
        self.conversation.messages.clear()

    def _take(self, messages: Iterable[ChatMessage]) -> None:
        for message in messages:
            if message.role == "assistant":
                self.answer, self._before_answer = message, self._all
            self._all = self._all.with_message(message)
            self._size += message.size
            if self.kept is not None:
                self.kept.append(message)
        if self._size > self._max_kept:
            self.kept = None


class GenAiInput:
    """Folds the messages of a session again, in order, into the input of its last call of a model."""

    def __init__(self, call: GenAiCall) -> None:
        self._call = call
        self._conversation = OtelConversation()
        self._taken = Extent()

    @property
    def is_complete(self) -> bool:
        return self._taken.messages == self._call.extent.messages

    @property
    def is_same(self) -> bool:
        """True if this is the input of the first reading."""
        return self._taken == self._call.extent

    def take(self, messages: Iterable[StandardMessage]) -> list[OtelAttributes]:
        """Add messages, and return input messages that later ones do not change."""
        taken = list[OtelAttributes]()
        for message in messages:
            if is_included(message, in_subagent=self._call.is_of_subagent):
                self._conversation.add(message)
                taken += self._inputs(self._conversation.take())
        return taken

    def end(self) -> list[OtelAttributes]:
        """Return the last message of a session without an answer."""
        return self._inputs(self._conversation.messages)

    def _inputs(self, messages: list[ChatMessage]) -> list[OtelAttributes]:
        if self._conversation.summaries < self._call.summaries:
            return []
        inputs = messages[: self._call.extent.messages - self._taken.messages]
        for each in inputs:
            self._taken = self._taken.with_message(each)
        return list(map(_input, inputs))


def _input(message: ChatMessage) -> OtelAttributes:
    return {"role": message.role, "parts": message.parts}


def tool_definitions(records: Iterable[Any]) -> list[Block]:
    """Return the definitions in the last record with any: a request, or the first line of a stream of Claude."""
    lists = [definitions for record in records if (definitions := list(_definitions(record)))]
    return lists[-1] if lists else []


def _definitions(record: Any) -> Iterator[Block]:
    if not isinstance(record, dict):
        return
    config = record.get("toolConfig")
    tools = config.get("tools") if isinstance(config, dict) else record.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        yield from _definition(tool)


def _definition(tool: Any) -> Iterator[Block]:
    """Yield the definitions in an entry of `tools`, in any of the vendors' forms."""
    if isinstance(tool, str):
        yield {"type": "function", "name": tool}
    elif isinstance(tool, dict):
        declared = tool.get("functionDeclarations")
        inner = next((tool[key] for key in ("function", "toolSpec") if isinstance(tool.get(key), dict)), tool)
        if isinstance(declared, list):
            for each in declared:
                yield from _definition(each)
        elif isinstance(inner.get("name"), str):
            yield {
                "type": "function" if tool.get("type") in (None, "custom") else str(tool["type"]),
                "name": inner["name"],
                **_described(inner),
            }
        elif isinstance(tool.get("type"), str):  # a tool of the provider
            yield {"type": tool["type"], "name": tool["type"]}
        else:
            yield from ({"type": key, "name": key} for key in tool if isinstance(tool[key], dict))


def _described(tool: Mapping[str, Any]) -> Block:
    schemas = (tool.get(key) for key in ("parameters", "parametersJsonSchema", "input_schema", "inputSchema"))
    schema = next((each for each in schemas if isinstance(each, dict)), None)
    wrapped = schema.get("json") if schema is not None and schema.keys() == {"json"} else schema
    fields = {"description": tool.get("description"), "parameters": json_schema(wrapped)}
    return {name: value for name, value in fields.items() if value is not None}
