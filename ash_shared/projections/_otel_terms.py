"""Translation of provider-specific values into the terms of OpenTelemetry's GenAI conventions.

Values without an equivalent are unchanged.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ash_shared.model.blocks import Block, nests_deeper
from ash_shared.records.json_fields import is_one_of

UNKNOWN = "unknown"

_WORDS_BY_REASON = {
    "stop": "stop end_turn stop_sequence completed complete eos",
    "length": (
        "length max_tokens max_output_tokens model_length model_context_window_exceeded incomplete max_messages "
        "budget_exceeded"
    ),
    "content_filter": (
        "content_filter content_filtered refusal safety recitation blocklist prohibited_content spii image_safety "
        "image_prohibited_content image_recitation model_armor guardrail_intervened error_toxic"
    ),
    "tool_call": "tool_call tool_calls tool_use function_call requires_action",
    "compaction": "compaction",
    "error": (
        "error failed malformed_function_call malformed_response malformed_model_output malformed_tool_use "
        "unexpected_tool_call too_many_tool_calls missing_thought_signature language no_image image_other"
    ),
    UNKNOWN: "unknown finish_reason_unspecified",
}
_WORDS_BY_PROVIDER = {
    "anthropic": "anthropic",
    "aws.bedrock": "bedrock amazon_bedrock bedrock_converse aws_bedrock",
    "azure.ai.inference": "azure_ai_inference azure_ai",
    "azure.ai.openai": "azure azure_openai azure_ai_openai",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "gcp.gemini": "google_gla google_generative_ai google_ai_studio gemini gcp_gemini",
    "gcp.gen_ai": "google google_genai gcp_gen_ai",
    "gcp.vertex_ai": "google_vertex google_vertexai google_cloud vertex vertex_ai vertexai gcp_vertex_ai",
    "groq": "groq",
    "ibm.watsonx.ai": "watsonx ibm ibm_watsonx_ai",
    "mistral_ai": "mistral mistral_ai",
    "moonshot_ai": "moonshot moonshot_ai",
    "openai": "openai openai_chat openai_responses openai_codex openai_chatgpt",
    "perplexity": "perplexity",
    "x_ai": "xai x_ai",
}
_PROVIDERS_BY_SOURCE = {
    "bedrock": "aws.bedrock",
    "chatgpt_export": "openai",
    "claude": "anthropic",
    "claude_ai_export": "anthropic",
    "codex": "openai",
    "gemini": "gcp.gen_ai",
    "gemini_cli": "gcp.gen_ai",
    "grok_build": "x_ai",
    "kimi": "moonshot_ai",
    "mistral_vibe": "mistral_ai",
    "openai_chat": "openai",
    "openai_responses": "openai",
}
"""Providers of sources with only one, for records that do not contain a provider."""
_PROVIDER_KEYS = ("provider_name", "providerID", "model_provider", "provider")
_PROVIDER_ATTRIBUTES = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
_KEYS_TO_PROVIDER = ("json", "model", "message", "response_metadata", "info", "kwargs", "payload")
_SCHEMA_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
"""Types in Gemini's schemas; JSON Schema uses lower case."""
_MAX_DEPTH = 100
_SCHEMAS_BY_NAME = frozenset({"properties", "$defs", "definitions"})
_SCHEMAS = frozenset({"items", "anyOf", "oneOf", "allOf", "additionalProperties", "prefixItems", "not"})


def _key(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _by_word(words: Mapping[str, str]) -> dict[str, str]:
    return {_key(word): term for term, each in words.items() for word in each.split()}


_REASONS, _PROVIDERS = _by_word(_WORDS_BY_REASON), _by_word(_WORDS_BY_PROVIDER)


def finish_reason(stop_reason: str) -> str:
    """Translate the stop reason of an answer."""
    return _REASONS.get(_key(stop_reason), stop_reason)


def provider_name(source: str, records: Sequence[Any]) -> str:
    """Return the first provider in the records of an answer, or else the default of their source.

    The conventions require a provider. For other sources it is the source: the program that chose the provider.
    """
    named = next((name for record in records for name in _providers_in(record)), None)
    return _PROVIDERS_BY_SOURCE.get(source, source) if named is None else _PROVIDERS.get(_key(named), named)


def _providers_in(record: Any) -> Iterator[str]:
    if not isinstance(record, dict):
        return
    yield from (record[key] for key in _PROVIDER_KEYS if isinstance(record.get(key), str) and record[key])
    for key in _KEYS_TO_PROVIDER:
        yield from _providers_in(record.get(key))
    for attribute in _span_attributes(record):
        if attribute.get("key") in _PROVIDER_ATTRIBUTES and isinstance(attribute.get("value"), dict):
            name = attribute["value"].get("stringValue")
            yield from (name,) if isinstance(name, str) and name else ()
    parts = record.get("parts")
    for part in parts if isinstance(parts, list) else ():
        metadata = part.get("providerMetadata") if isinstance(part, dict) else None
        yield from metadata if isinstance(metadata, dict) else ()


def _span_attributes(record: Block) -> Iterator[Block]:
    """Yield the attributes of spans in OTLP/JSON."""
    level: list[Any] = [record]
    for name in ("resourceSpans", "scopeSpans", "spans", "attributes"):
        lists = (each.get(name) for each in level if isinstance(each, dict))
        level = [child for each in lists if isinstance(each, list) for child in each]
    yield from (each for each in level if isinstance(each, dict))


def json_schema(schema: Any) -> Any:
    """Convert Gemini's schemas, which have other type names and `nullable`, to JSON Schema.

    A schema that nests deeper than any API accepts is returned unchanged.
    """
    return schema if nests_deeper(schema, _MAX_DEPTH) else _translate(schema)


def _translate(schema: Any) -> Any:
    if isinstance(schema, list):
        return list(map(_translate, schema))
    if not isinstance(schema, dict):
        return schema
    fields = {key: _schema_field(key, value) for key, value in schema.items()}
    return _with_null(fields) if is_one_of(schema.get("type"), _SCHEMA_TYPES) else fields


def _schema_field(key: str, value: Any) -> Any:
    if key == "type" and is_one_of(value, _SCHEMA_TYPES):
        return str(value).lower()
    if key in _SCHEMAS_BY_NAME and isinstance(value, dict):
        return {name: _translate(each) for name, each in value.items()}
    return _translate(value) if key in _SCHEMAS else value


def _with_null(schema: Block) -> Block:
    if schema.get("nullable") is not True:
        return schema
    return {key: value for key, value in schema.items() if key != "nullable"} | {
        "type": [schema["type"], "null"]
    }
