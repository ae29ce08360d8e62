"""Convert a conversation to the attributes that OpenTelemetry's GenAI conventions give the call of a model.

The last answer is the output of the call, everything before it the input. Duplicates, retracted messages, subagents,
notices of the client and the messages before a summary are left out. Unknown values are absent, except the finish
reason, which is then `unknown`, and the provider, which is then the source. Reasons, providers and parameter types use
the terms of the conventions.

The conventions are in development; this is v0.1.0 (github.com/open-telemetry/semantic-conventions-genai).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.model.message import StandardMessage
from ash_shared.projections._otel_messages import (
    MainAgentFolds,
    OtelAttributes,
    OtelConversation,
    answer_attributes,
    output_message,
)
from ash_shared.projections._otel_terms import json_schema


def to_otel_genai(
    messages: Iterable[StandardMessage], *, conversation_id: str | None = None, records: Iterable[Any] = ()
) -> OtelAttributes:
    """Return the attributes by name, their values as JSON.

    Tool definitions come from the last of the decoded `records` that has any. For Codex, include the first record of
    the session, which contains the provider.
    """
    fold = GenAiFold()
    fold.add(messages)
    return fold.attributes(conversation_id=conversation_id, records=records)


class GenAiFold:
    """Folds the messages of a session, in any number of parts, into the attributes of its last call of a model.

    It keeps only the messages since the last summary.
    """

    def __init__(self) -> None:
        self._folds = MainAgentFolds(OtelConversation)

    def add(self, messages: Iterable[StandardMessage]) -> bool:
        """Add messages; return whether a summary among them has replaced those before."""
        before = self._folds.used.summaries
        for message in messages:
            fold = self._folds.fold_of(message)
            if fold is not None:
                fold.add(message)
        return self._folds.used.summaries > before

    def attributes(
        self, *, conversation_id: str | None = None, records: Iterable[Any] = ()
    ) -> OtelAttributes:
        fold, requests = self._folds.used, list(records)
        answer = fold.last_answer()
        history = fold.messages if answer is None else fold.messages[: fold.messages.index(answer)]
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": conversation_id,
            **({} if answer is None else answer_attributes(answer, requests)),
            "gen_ai.system_instructions": fold.instructions or None,
            "gen_ai.tool.definitions": tool_definitions(requests) or None,
            "gen_ai.input.messages": [{"role": each.role, "parts": each.parts} for each in history] or None,
            "gen_ai.output.messages": None if answer is None else [output_message(answer)],
        }
        return {name: value for name, value in attributes.items() if value is not None}


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
