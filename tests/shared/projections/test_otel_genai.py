"""The attributes for OpenTelemetry follow the schemas of its GenAI conventions, and contain nothing else."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

import ash_server
from ash_shared import StandardMessage, to_otel_genai, transform_messages
from ash_shared.projections import _otel_messages
from ash_shared.projections._otel_terms import finish_reason, provider_name
from ash_shared.projections.otel_genai import INPUT, OUTPUT, GenAiFold, GenAiInput
from tests.shared.records import codex
from tests.shared.records.claude import line, text
from tests.shared.texts import files_of

Json = dict[str, Any]
Fields = Mapping[str, type]

SAMPLES = sorted((Path(ash_server.__file__).parent / "samples").glob("*.jsonl"))

# The JSON schemas of the conventions (semantic-conventions-genai, November 2026), without the escape that every object
# with a `type` is a valid part. The first fields are required.
TEXT: tuple[Fields, Fields] = ({"content": str}, {})
MEDIA: Fields = {"mime_type": str, "transcript": str}
PARTS: Mapping[str, tuple[Fields, Fields]] = {
    "blob": ({"modality": str, "content": str}, MEDIA),
    "compaction": TEXT,
    "file": ({"modality": str, "file_id": str}, MEDIA),
    "reasoning": TEXT,
    "server_tool_call": ({"name": str, "server_tool_call": dict}, {"id": str}),
    "server_tool_call_response": ({"server_tool_call_response": dict}, {"id": str}),
    "text": TEXT,
    "tool_call": ({"name": str}, {"id": str, "arguments": object}),
    "tool_call_response": ({"response": object}, {"id": str}),
    "uri": ({"modality": str, "uri": str}, MEDIA),
    # Generic parts of Ash.
    "attachment": ({"modality": str}, {**MEDIA, "name": str, "source": dict}),
    "raw": ({}, {"raw_type": str, "content": object}),
}
ATTRIBUTES: Fields = {
    "gen_ai.operation.name": str,
    "gen_ai.conversation.id": str,
    "gen_ai.provider.name": str,
    "gen_ai.request.model": str,
    "gen_ai.response.model": str,
    "gen_ai.response.id": str,
    "gen_ai.response.finish_reasons": list,
    "gen_ai.usage.input_tokens": int,
    "gen_ai.usage.output_tokens": int,
    "gen_ai.usage.cache_read.input_tokens": int,
    "gen_ai.usage.cache_creation.input_tokens": int,
    "gen_ai.usage.reasoning.output_tokens": int,
    "gen_ai.system_instructions": list,
    "gen_ai.tool.definitions": list,
    "gen_ai.input.messages": list,
    "gen_ai.output.messages": list,
}


def problems(attributes: Json) -> Iterator[str]:
    """Yield violations of the conventions."""
    required: Fields = {"gen_ai.operation.name": str}
    if "gen_ai.output.messages" in attributes:
        required = {**required, "gen_ai.provider.name": str}
    yield from wrong_fields("attributes", attributes, required, ATTRIBUTES)
    for part in attributes.get("gen_ai.system_instructions", []):
        yield from wrong_part(part)
    for tool in attributes.get("gen_ai.tool.definitions", []):
        described: Fields = {"description": str, "parameters": dict}
        yield from wrong_fields("tool", tool, {"type": str, "name": str}, described)
    for name in ("input", "output"):
        for message in attributes.get(f"gen_ai.{name}.messages", []):
            finished: Fields = {"finish_reason": str} if name == "output" else {}
            yield from wrong_fields(name, message, {"role": str, "parts": list, **finished}, {})
            if message["role"] not in ("assistant", "system", "tool", "user") or not message["parts"]:
                yield f"message: {message['role']}"
            for part in message["parts"]:
                yield from wrong_part(part)


def wrong_part(part: Json) -> Iterator[str]:
    required, optional = PARTS[part["type"]]
    yield from wrong_fields(part["type"], part, {"type": str, **required}, optional)
    for name in ("server_tool_call", "server_tool_call_response"):
        if name in part and not isinstance(part[name].get("type"), str):
            yield f"{name} without type"


def wrong_fields(where: str, value: Json, required: Fields, optional: Fields) -> Iterator[str]:
    known = {**optional, **required}
    yield from (f"{where}: no {name}" for name in required.keys() - value.keys())
    for name in value:
        if name not in known or not isinstance(value[name], known[name]):
            yield f"{where}: {name} is {value[name]!r:.80}"


def read(*records: Any) -> Json:
    """Return the attributes of a session with these records."""
    messages = transform_messages("\n".join(json.dumps(record) for record in records))
    attributes = to_otel_genai(messages, records=records)
    assert list(problems(attributes)) == []
    json.dumps(attributes, ensure_ascii=False).encode()
    assert list(read_twice(messages, records).items()) == list(attributes.items())
    return attributes


def read_twice(messages: list[StandardMessage], records: Sequence[Any] = ()) -> Json:
    """Return the attributes like a reader that keeps only the answer."""
    fold = GenAiFold(max_kept=0)
    for message in messages:
        fold.add(message, 1)
    call = fold.end(records=records)
    again = GenAiInput(call)
    inputs = [each for message in messages for each in again.take([message])] + again.end()
    assert (call.input or None, again.is_same) == (None, True)
    lists = {INPUT: inputs, OUTPUT: call.output}
    return {**call.attributes, **{name: value for name, value in lists.items() if value}}


def claude(role: str, *blocks: Any, **fields: Any) -> Json:
    return line(role, list(blocks), uuid=f"{role}-{json.dumps(blocks)}", **fields)


def test_last_answer_is_the_output_and_everything_before_it_the_input() -> None:
    usage = {
        "input_tokens": 3,
        "output_tokens": 40,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 7,
    }
    answered = {"id": "msg_2", "model": "claude-opus-4-5", "stop_reason": "end_turn", "usage": usage}
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "pytest"}}

    assert read(
        {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"], "model": "opus"},
        claude("user", text("Which tests fail?")),
        claude("assistant", {"type": "thinking", "thinking": "Let me see.", "signature": "x"}, call),
        claude("user", {"type": "tool_result", "tool_use_id": "c1", "content": "1 failed", "is_error": True}),
        claude("assistant", text("One."), message=answered),
        claude("user", text("Thank you.")),
    ) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.response.model": "claude-opus-4-5",
        "gen_ai.response.id": "msg_2",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 110,
        "gen_ai.usage.output_tokens": 40,
        "gen_ai.usage.cache_read.input_tokens": 100,
        "gen_ai.usage.cache_creation.input_tokens": 7,
        "gen_ai.tool.definitions": [{"type": "function", "name": "Bash"}],
        "gen_ai.input.messages": [
            {"role": "user", "parts": [{"type": "text", "content": "Which tests fail?"}]},
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "content": "Let me see."},
                    {"type": "tool_call", "id": "c1", "name": "Bash", "arguments": {"command": "pytest"}},
                ],
            },
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "1 failed"}]},
        ],
        "gen_ai.output.messages": [
            {
                "role": "assistant",
                "parts": [{"type": "text", "content": "One."}],
                "finish_reason": "stop",
            }
        ],
    }


TOOL = {"name": "f", "description": "Does it.", "parameters": {"type": "object"}}
DEFINED = [{"type": "function", **TOOL}]
TOOLS: dict[str, tuple[Json, list[Json]]] = {
    "Chat Completions": ({"tools": [{"type": "function", "function": TOOL}]}, DEFINED),
    "Responses": (
        {"tools": [{"type": "function", **TOOL}, {"type": "web_search"}]},
        [*DEFINED, {"type": "web_search", "name": "web_search"}],
    ),
    "Messages": (
        {
            "tools": [
                {"name": "f", "description": "Does it.", "input_schema": {"type": "object"}},
                {"type": "bash_20250124", "name": "bash"},
            ]
        },
        [*DEFINED, {"type": "bash_20250124", "name": "bash"}],
    ),
    "Gemini": (
        {"tools": [{"functionDeclarations": [TOOL]}, {"googleSearch": {}}]},
        [*DEFINED, {"type": "googleSearch", "name": "googleSearch"}],
    ),
    "Converse": (
        {
            "toolConfig": {
                "tools": [
                    {
                        "toolSpec": {
                            "name": "f",
                            "description": "Does it.",
                            "inputSchema": {"json": {"type": "object"}},
                        }
                    }
                ]
            }
        },
        DEFINED,
    ),
    "init of Claude": ({"type": "system", "tools": ["f"]}, [{"type": "function", "name": "f"}]),
    "something else": ({"tools": [3, {}, None, {"name": 4}], "toolConfig": []}, []),
    "no list": ({"tools": "f", "toolConfig": {"tools": {}}}, []),
}


@pytest.mark.parametrize("name", TOOLS)
def test_definitions_of_tools(name: str) -> None:
    record, definitions = TOOLS[name]
    attributes = to_otel_genai([], records=[{"tools": ["earlier"]}, record, 7, {"tools": []}])

    assert list(problems(attributes)) == []
    expected = definitions or [{"type": "function", "name": "earlier"}]
    assert attributes["gen_ai.tool.definitions"] == expected


AT = "2026-11-02T09:31:55Z"

FINISH_REASONS = {"stop", "length", "content_filter", "tool_call", "compaction", "error", "unknown"}
"""Terms of the conventions, or of Ash if there is none."""

REASONS: dict[str, dict[str, str]] = {
    "stop": {
        "anthropic": "end_turn stop_sequence",
        "openai": "stop",
        "responses": "completed",
        "gemini": "STOP",
        "bedrock": "end_turn stop_sequence",
        "pydantic_ai": "stop",
        "pi": "stop",
        "vercel": "stop",
    },
    "length": {
        "anthropic": "max_tokens model_context_window_exceeded",
        "openai": "length",
        "responses": "max_output_tokens max_messages incomplete",
        "gemini": "MAX_TOKENS",
        "bedrock": "max_tokens model_context_window_exceeded",
        "pydantic_ai": "length",
        "pi": "length",
        "vercel": "length",
    },
    "content_filter": {
        "anthropic": "refusal",
        "openai": "content_filter",
        "responses": "content_filter",
        "gemini": "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT "
        "IMAGE_RECITATION MODEL_ARMOR",
        "bedrock": "guardrail_intervened content_filtered",
        "pydantic_ai": "content_filter",
        "vercel": "content-filter",
    },
    "tool_call": {
        "anthropic": "tool_use",
        "openai": "tool_calls function_call",
        "bedrock": "tool_use",
        "pydantic_ai": "tool_call",
        "pi": "toolUse",
        "vercel": "tool-calls",
    },
    "compaction": {"anthropic": "compaction"},
    "error": {
        "responses": "failed",
        "gemini": "LANGUAGE MALFORMED_FUNCTION_CALL IMAGE_OTHER NO_IMAGE UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS "
        "MISSING_THOUGHT_SIGNATURE MALFORMED_RESPONSE",
        "bedrock": "malformed_model_output malformed_tool_use",
        "pydantic_ai": "error",
        "pi": "error",
        "vercel": "error",
    },
    "unknown": {"gemini": "FINISH_REASON_UNSPECIFIED", "vercel": "unknown"},
}
UNTRANSLATED = {
    "anthropic": "pause_turn",
    "responses": "in_progress cancelled queued steered",
    "gemini": "OTHER ESCALATION PUP_LIMITED_DISABLED CONTINUATION",
    "pi": "aborted",
    "vercel": "other",
}
"""Values without an equivalent in the conventions."""


@pytest.mark.parametrize("term", REASONS)
def test_reasons_use_the_terms_of_the_conventions(term: str) -> None:
    words = [(provider, word) for provider, each in REASONS[term].items() for word in each.split()]

    assert term in FINISH_REASONS
    assert [each for each in words if finish_reason(each[1]) != term] == []
    assert {word: finish_reason(word) for each in UNTRANSLATED.values() for word in each.split()} == {
        word: word for each in UNTRANSLATED.values() for word in each.split()
    }


@pytest.mark.slow
def test_reasons_of_the_sdks_are_all_translated() -> None:
    # Imported here: each process collects this file, and the packages take seconds.
    from anthropic.types.beta import BetaStopReason
    from google.genai.types import FinishReason as GoogleReason
    from openai.types.chat.chat_completion import Choice
    from openai.types.responses import ResponseStatus
    from openai.types.responses.response import IncompleteDetails
    from pydantic_ai.messages import FinishReason

    known = {
        provider: {
            word for each in (*REASONS.values(), UNTRANSLATED) for word in each.get(provider, "").split()
        }
        for provider in ("anthropic", "openai", "responses", "gemini", "pydantic_ai")
    }
    reason_of_responses = IncompleteDetails.model_fields["reason"].annotation

    assert known == {
        "anthropic": {*get_args(BetaStopReason)},
        "openai": {*get_args(Choice.model_fields["finish_reason"].annotation)},
        "responses": {*get_args(ResponseStatus), *get_args(get_args(reason_of_responses)[0])},
        "gemini": {each.value for each in GoogleReason},
        "pydantic_ai": {*get_args(FinishReason)},
    }


def attribute(key: str, value: str) -> Json:
    return {"key": key, "value": {"stringValue": value}}


PROVIDERS: dict[str, tuple[Json, str | None]] = {
    "Messages": (
        {"role": "assistant", "type": "message", "model": "m", "stop_reason": "end_turn"},
        "anthropic",
    ),
    "pi": ({"type": "message_end", "message": {"provider": "amazon-bedrock"}}, "aws.bedrock"),
    "pydantic-ai": ({"kind": "response", "provider_name": "google-gla", "parts": []}, "gcp.gemini"),
    "opencode": ({"info": {"role": "assistant", "providerID": "github-copilot"}}, "github-copilot"),
    "LangChain": (
        {"type": "ai", "response_metadata": {"model_provider": "google_vertexai"}},
        "gcp.vertex_ai",
    ),
    "OpenRouter": ({"object": "chat.completion", "provider": "xAI", "choices": []}, "x_ai"),
    "AI SDK": ({"parts": [{"type": "text"}, {"providerMetadata": {"mistral": {}}}]}, "mistral_ai"),
    "not a name": ({"provider": {"id": 3}, "message": [], "model": "m"}, "other"),
    "a span": (
        {
            "resourceSpans": [
                {"scopeSpans": [{"spans": [{"attributes": [attribute("gen_ai.provider.name", "mistral")]}]}]}
            ]
        },
        "mistral_ai",
    ),
    "a span without one": (
        {"resourceSpans": [None, {"scopeSpans": [{"spans": [{"attributes": 1}]}]}]},
        "other",
    ),
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_provider_comes_from_the_records(name: str) -> None:
    record, provider = PROVIDERS[name]

    assert provider_name("claude" if name == "Messages" else "other", [record]) == provider


def test_provider_and_reason_of_an_answer() -> None:
    message = {"role": "assistant", "content": "Hi", "finish_reason": "tool_calls"}
    attributes = read(
        {
            "id": "gen-1",
            "object": "chat.completion",
            "model": "grok-4",
            "provider": "xAI",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        }
    )

    assert attributes["gen_ai.provider.name"] == "x_ai"
    assert attributes["gen_ai.response.finish_reasons"] == ["tool_call"]
    assert attributes["gen_ai.output.messages"][0]["finish_reason"] == "tool_call"


def test_provider_of_codex_is_in_its_first_record() -> None:
    attributes = read(
        codex.line("session_meta", id="s", model_provider="azure"), codex.message_item("assistant", "Hi")
    )

    assert attributes["gen_ai.provider.name"] == "azure.ai.openai"


@pytest.mark.slow
def test_parameters_of_gemini_are_json_schema() -> None:
    from google.genai.types import Type

    day = {"type": "STRING", "enum": ["OBJECT", "STRING"], "nullable": True, "description": "STRING"}
    parameters = {
        "type": "OBJECT",
        "properties": {
            "type": day,
            "days": {"type": "ARRAY", "items": {"anyOf": [{"type": "INTEGER"}, day]}},
        },
        "required": ["type"],
    }
    translated = {"type": ["string", "null"], "enum": ["OBJECT", "STRING"], "description": "STRING"}
    record = {"tools": [{"functionDeclarations": [{"name": "f", "parameters": parameters}]}]}

    [tool] = to_otel_genai([], records=[record])["gen_ai.tool.definitions"]

    assert tool["parameters"] == {
        "type": "object",
        "properties": {
            "type": translated,
            "days": {"type": "array", "items": {"anyOf": [{"type": "integer"}, translated]}},
        },
        "required": ["type"],
    }
    assert {each.value.lower() for each in Type} == {
        "type_unspecified",
        "string",
        "number",
        "integer",
        "boolean",
        "array",
        "object",
        "null",
    }


def test_other_schemas_are_unchanged() -> None:
    schema: Json = {
        "type": ["object", "null"],
        "properties": {"a": {"type": ["string", "null"]}, "b": {"type": {"OBJECT": 1}}},
    }
    tool = {"name": "f", "parameters": schema}

    [defined] = to_otel_genai([], records=[{"tools": [tool]}])["gen_ai.tool.definitions"]

    assert defined["parameters"] == schema


def test_deep_schemas_are_unchanged() -> None:
    schema: Json = {}
    for _ in range(150):
        schema = {"type": "ARRAY", "items": schema}
    tool = {"name": "f", "parameters": schema}

    [defined] = to_otel_genai([], records=[{"tools": [tool]}])["gen_ai.tool.definitions"]

    assert defined["parameters"] == schema


def test_instructions_are_separate_unless_they_are_in_the_history() -> None:
    messages = [{"role": "user", "content": "Hi"}]
    separate = read({"model": "gpt-5", "instructions": "Be brief.", "input": messages})
    inside = read({"model": "gpt-5", "messages": [{"role": "system", "content": "Be brief."}, *messages]})

    brief = [{"type": "text", "content": "Be brief."}]
    assert separate["gen_ai.system_instructions"] == brief
    assert [each["role"] for each in separate["gen_ai.input.messages"]] == ["user"]
    assert "gen_ai.system_instructions" not in inside
    assert inside["gen_ai.input.messages"][0] == {"role": "system", "parts": brief}


MEDIA_PARTS: dict[str, tuple[Json, Json]] = {
    "inline image": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "iVBORw0KGgo="},
    ),
    "image at a URL": (
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"},
    ),
    "image in a data URL": (
        {"type": "image", "source": {"type": "url", "url": "data:image/gif;base64,R0lGOD=="}},
        {"type": "blob", "mime_type": "image/gif", "modality": "image", "content": "R0lGOD=="},
    ),
    "stored file": (
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "file", "modality": "document", "file_id": "file_1"},
    ),
    "text file": (
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "é"}},
        {"type": "blob", "mime_type": "text/plain", "modality": "document", "content": "w6k="},
    ),
    "unknown source": (
        {"type": "document", "source": {"type": "cloud", "place": 3}},
        {"type": "attachment", "modality": "document", "source": {"type": "cloud", "place": 3}},
    ),
    "unknown block": (
        {"type": "holo_frame", "frame": 7},
        {"type": "raw", "raw_type": "holo_frame", "content": {"type": "holo_frame", "frame": 7}},
    ),
}


@pytest.mark.parametrize("name", MEDIA_PARTS)
def test_media(name: str) -> None:
    block, part = MEDIA_PARTS[name]

    assert read(claude("user", block))["gen_ai.input.messages"] == [{"role": "user", "parts": [part]}]


def test_tools_of_the_provider_are_part_of_the_answer() -> None:
    call = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tide"}}
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "x"}]}

    [output] = read(claude("user", text("Look.")), claude("assistant", call, result, text("Found.")))[
        "gen_ai.output.messages"
    ]

    assert [part["type"] for part in output["parts"]] == [
        "server_tool_call",
        "server_tool_call_response",
        "text",
    ]
    assert output["parts"][0]["server_tool_call"] == {"type": "web_search", "arguments": {"query": "tide"}}
    assert output["parts"][1]["server_tool_call_response"]["type"] == "web_search"


def test_results_of_early_tools_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_otel_messages, "MAX_TOOLS", 1)
    calls: list[Json] = [
        {"type": "server_tool_use", "id": id, "name": "web_search", "input": {}} for id in ("s1", "s2")
    ]
    results = [
        {"type": "web_search_tool_result", "tool_use_id": id, "content": [{"type": "x"}]}
        for id in ("s1", "s2")
    ]

    attributes = read(
        claude("assistant", *calls), claude("user", *results), claude("assistant", text("Done."))
    )

    assert [message["role"] for message in attributes["gen_ai.input.messages"]] == [
        "assistant",
        "tool",
        "user",
    ]


def test_duplicates_retracted_and_synthetic_messages_and_subagents_are_left_out() -> None:
    messages = transform_messages(
        "\n".join(
            json.dumps(record)
            for record in (
                claude("user", text("Go on.")),
                claude("assistant", text("Working."), parent_tool_use_id="t1"),
                claude("assistant", text("API Error"), message={"model": "<synthetic>"}),
                claude("assistant", text("Done.")),
            )
        )
    )
    answer = messages[-1]
    changed = answer.metadata.model_copy(update={"shadow_of": answer.id})
    copy = answer.model_copy(update={"metadata": changed})

    attributes = to_otel_genai([*messages, copy])

    assert texts(attributes["gen_ai.input.messages"]) == ["Go on."]
    assert texts(attributes["gen_ai.output.messages"]) == ["Done."]
    subagent = [each for each in messages if each.metadata.parent_tool_use_id is not None]
    assert texts(to_otel_genai(subagent)["gen_ai.output.messages"]) == ["Working."]


def texts(messages: list[Json]) -> list[str]:
    return [part["content"] for message in messages for part in message["parts"]]


def test_summary_replaces_what_it_summarises() -> None:
    summary = claude("user", text("They fixed two tests."), isCompactSummary=True)
    attributes = read(
        claude("user", text("Go on.")),
        claude("assistant", text("Done.")),
        summary,
        claude("user", text("And now?")),
        claude("assistant", text("Nothing.")),
    )

    [first, second] = attributes["gen_ai.input.messages"]
    assert first == {
        "role": "user",
        "parts": [{"type": "compaction", "content": "They fixed two tests."}],
    }
    assert texts([second]) == ["And now?"]


def test_messages_of_one_response_are_one_answer() -> None:
    attributes = read(
        codex.line("turn_context", cwd="/x", model="gpt-5-codex"),
        codex.message_item("user", "Go on."),
        codex.reasoning_item("Hm."),
        codex.message_item("assistant", "Done."),
    )

    [output] = attributes["gen_ai.output.messages"]
    assert [part["type"] for part in output["parts"]] == ["reasoning", "text"]
    assert attributes["gen_ai.request.model"] == "gpt-5-codex"
    assert attributes["gen_ai.provider.name"] == "openai"


def test_session_without_an_answer() -> None:
    assert to_otel_genai([], conversation_id="c") == {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": "c",
    }
    assert read(claude("user", text("Hi")))["gen_ai.input.messages"] == [
        {"role": "user", "parts": [{"type": "text", "content": "Hi"}]}
    ]


def test_lone_surrogates_are_replaced() -> None:
    assert texts(read(claude("user", text("a\ud800")))["gen_ai.input.messages"]) == ["a\ufffd"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_follow_the_conventions(path: Path) -> None:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    attributes = read(*records)

    assert attributes["gen_ai.output.messages"]
    assert_nothing_is_invented(attributes, transform_messages(path.read_text()))


def assert_nothing_is_invented(attributes: Json, messages: list[StandardMessage]) -> None:
    stored = content_of([message.model_dump() for message in messages])
    texts_as_bytes = {b64encode(each.encode()).decode() for each in stored}
    for name in ("input", "output"):
        shown = content_of(attributes.get(f"gen_ai.{name}.messages", []))
        assert shown <= stored | texts_as_bytes | {"", *FINISH_REASONS}


def content_of(value: Any) -> set[str]:
    """Return all texts in a value, other than the names that the conventions define."""
    texts, rest = set[str](), [value]
    while rest:
        each = rest.pop()
        if isinstance(each, str):
            texts.add(each)
        elif isinstance(each, list):
            rest += each
        elif isinstance(each, dict):
            rest += [each[name] for name in each if name not in ("type", "role", "modality")]
    return texts


def test_corpus_follows_the_conventions(corpus_folder: Path) -> None:
    for path, lines in files_of(corpus_folder):
        messages = transform_messages(lines)
        attributes = to_otel_genai(messages)
        assert list(problems(attributes)) == [], path.name
        assert list(read_twice(messages).items()) == list(attributes.items()), path.name
        assert_nothing_is_invented(attributes, messages)
