"""The `Part` of the Gemini API, which Google's API returns and Gemini CLI stores in its session files.

A part has no discriminator: the key that is present determines its kind, in camel case over HTTP and in snake
case if an SDK wrote it. Source: `Part` of the `google-genai` package. Keys next to the kind key, and fields
that a translation does not consume, go to `extra`.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import (
    Block,
    bounded,
    is_native,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    with_extra,
    without,
)
from ash_shared.records.json_fields import (
    count_at,
    first_text,
    mime_fields,
    subtract_counts,
    text_at,
    token_usage,
)

_CAMEL_CASE: Mapping[str, str] = {
    "code_execution_result": "codeExecutionResult",
    "executable_code": "executableCode",
    "file_data": "fileData",
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "tool_call": "toolCall",
    "tool_response": "toolResponse",
}
"""Kind keys in snake case with their camel case names."""

_METADATA_KEYS = frozenset(
    {
        "audioMetadata",
        "audioTranscription",
        "audio_metadata",
        "audio_transcription",
        "documentMetadata",
        "document_metadata",
        "mediaProcessing",
        "mediaResolution",
        "media_processing",
        "media_resolution",
        "partMetadata",
        "part_metadata",
        "speechMetadata",
        "speech_metadata",
        "spreadsheetMetadata",
        "spreadsheet_metadata",
        "thought",
        "videoMetadata",
        "video_metadata",
    }
)
"""Keys that describe the part they are in, and are not content."""

_SIGNATURES = ("thoughtSignature", "thought_signature")

PartTranslation = Callable[[str, Block], Block]
"""Translate a part to a typed block, given its kind key."""


def value_in_either_case(record: Block, camel: str, snake: str) -> Any:
    """Return the value under this key in either spelling, or None."""
    value = record.get(camel)
    return record.get(snake) if value is None else value


def as_list(value: Any) -> list[Any]:
    """Return a list for a value that may be a list, a single item or absent."""
    return value if isinstance(value, list) else [] if value is None else [value]


def parse_parts(parts: Any) -> list[Block]:
    """Return the blocks of a list of parts, of a single part or of a bare text."""
    return bounded([block for part in as_list(parts) for block in _parse_all_kinds(part)])


def _parse_all_kinds(part: Any) -> list[Block]:
    """Return one block per kind key of the part; the other keys go to the first block."""
    if not isinstance(part, dict) or len(part) == 1 or is_native(part):
        return [parse_part(part)]
    other_kinds = _kind_keys(part)[1:]
    if not other_kinds:
        return [parse_part(part)]
    return [
        parse_part(without(part, *other_kinds)),
        *(parse_part({kind: part[kind]}) for kind in other_kinds),
    ]


def _kind_keys(part: Block) -> list[str]:
    """Return the kind keys of a part; null values count only if there is no other."""
    return [key for key in part if key in PART_KEYS and part[key] is not None] or [
        key for key in part if key in PART_KEYS
    ][:1]


def parse_part(part: Any) -> Block:
    """Return the block of one part, or of its first kind if it has several."""
    if isinstance(part, str):
        return text_block(part)
    if not isinstance(part, dict):
        return raw_block("unknown_type", part)
    if is_native(part):
        return part
    kinds = _kind_keys(part)
    return _parse_kind(kinds[0], part) if kinds else _parse_part_without_kind(part)


def _parse_part_without_kind(part: Block) -> Block:
    """Return a raw block for a part without a kind key: a bare signature, metadata, or unknown keys."""
    if any(key in part for key in _SIGNATURES):
        return raw_block("opaque", part, "thoughtSignature")
    is_metadata = part.keys() <= _METADATA_KEYS
    return raw_block("control" if is_metadata else "unknown_type", part, next(iter(part), None))


def _parse_kind(kind: str, part: Block) -> Block:
    if _is_bare_signature(kind, part):
        return raw_block("opaque", part, "thoughtSignature")
    name = _CAMEL_CASE.get(kind, kind)
    if name == "functionCall" and _is_fragment(part[kind]):
        return raw_block("stream_fragment", part, kind)
    return translate(kind, part, lambda part: _TRANSLATIONS[name](kind, part))[0]


def _is_bare_signature(kind: str, part: Block) -> bool:
    return kind == "text" and part["text"] == "" and any(part.get(key) for key in _SIGNATURES)


_FRAGMENT_KEYS = frozenset({"id", "partialArgs", "partial_args", "willContinue", "will_continue"})


def _is_fragment(call: Any) -> bool:
    """Return True if this continues a call with its name in an earlier chunk."""
    return isinstance(call, dict) and call.keys() <= _FRAGMENT_KEYS


def spelling_used(record: Block, camel: str, snake: str) -> str:
    return snake if snake in record and camel not in record else camel


def _with_extra_keys(kind: str, part: Block, typed: Block, consumed: Collection[str]) -> Block:
    """Return `typed` with the unconsumed keys of the object under `kind`, and of its part, in `extra`."""
    block = with_extra({**typed, "source_type": kind}, without(part[kind], *consumed))
    return block if len(part) == 1 else with_extra(block, without(part, kind))


def _translate_text(kind: str, part: Block) -> Block:
    if part.get("thought") is not True:
        text = {"type": "text", "text": part[kind], "source_type": kind}
        return text if len(part) == 1 else with_extra(text, without(part, kind))
    signature = spelling_used(part, *_SIGNATURES)
    signed = renamed(part, signature=signature)
    typed = {"type": "thinking", "thinking": part[kind], "is_summary": True, **signed}
    return with_extra({**typed, "source_type": "thought"}, without(part, kind, "thought", signature))


def media_block(mime: str | None, source: Block, filename: Any = None) -> Block:
    """Return an image block, or a file block for other MIME types; `source` has no media type yet."""
    if mime is not None:
        source = {"type": source["type"], "media_type": mime, **source}
        if mime.startswith("image/"):
            return {"type": "image", "source": source}
    return {
        "type": "file",
        **({"filename": filename} if filename else {}),
        **mime_fields(mime),
        "source": source,
    }


def _translate_inline_data(kind: str, part: Block) -> Block:
    blob = part[kind]
    mime = spelling_used(blob, "mimeType", "mime_type")
    name = spelling_used(blob, "displayName", "display_name")
    typed = media_block(blob[mime], {"type": "base64", "data": blob["data"]}, blob.get(name))
    consumed = (mime, "data") + ((name,) if "filename" in typed else ())
    return _with_extra_keys(kind, part, typed | _transcript(part), consumed)


def _translate_file_data(kind: str, part: Block) -> Block:
    data = part[kind]
    mime = spelling_used(data, "mimeType", "mime_type")
    name = spelling_used(data, "displayName", "display_name")
    uri = spelling_used(data, "fileUri", "file_uri")
    typed = media_block(data.get(mime), {"type": "url", "url": data[uri]}, data.get(name))
    consumed = (mime, uri) + ((name,) if "filename" in typed else ())
    return _with_extra_keys(kind, part, typed | _transcript(part), consumed)


def _transcript(part: Block) -> Block:
    """Return the words of a recording; its transcription also stays in `extra`."""
    text = text_at(value_in_either_case(part, "audioTranscription", "audio_transcription"), "text")
    return {} if text is None else {"transcript": text}


def _translate_function_call(kind: str, part: Block) -> Block:
    """Translate a call. The wire omits empty arguments."""
    call = part[kind]
    typed = {"type": "tool_use", **pick(call, "id"), "name": call["name"], "input": call.get("args", {})}
    return _with_extra_keys(kind, part, typed, ("id", "name", "args"))


_RESULT_TEXT_KEYS = ("output", "error", "result", "content")
"""Keys of the text in a function response; the first two are Google's convention."""


def _translate_function_response(kind: str, part: Block) -> Block:
    """Translate a function response with its attached files."""
    result = part[kind]
    nested = parse_parts(result.get("parts") or [])
    response = result.get("response") if nested else result["response"]
    error_flag = {"is_error": True} if isinstance(response, dict) and response.get("error") else {}
    structured = renamed(result, structured="response")
    typed = {"type": "tool_result", **renamed(result, tool_use_id="id"), **_result_content(response, nested)}
    return _with_extra_keys(kind, part, typed | error_flag | structured, ("id", "response", "parts"))


def _result_content(response: Any, nested: list[Block]) -> Block:
    """Return the `content` of a result: the text of its response, usually an object with one text, and the blocks."""
    fields = response if isinstance(response, dict) else {}
    text = next((fields[name] for name in _RESULT_TEXT_KEYS if isinstance(fields.get(name), str)), None)
    if nested:
        return {"content": ([] if text is None else [text_block(text)]) + nested}
    return {} if text is None else {"content": text}


def _translate_executable_code(kind: str, part: Block) -> Block:
    code = part[kind]
    source = pick(code, "language", "code")
    if "code" not in source:
        raise KeyError(kind)
    typed = {"type": "tool_use", **pick(code, "id"), "name": "code_execution", "input": source}
    return _with_extra_keys(kind, part, {**typed, "executor": "server"}, ("id", "language", "code"))


def _translate_code_result(kind: str, part: Block) -> Block:
    result = part[kind]
    outcome = result.get("outcome")
    if not result.keys() & {"outcome", "output"}:
        raise KeyError(kind)
    content = renamed(result, content="output")
    error_flag = {} if outcome is None else {"is_error": outcome != "OUTCOME_OK"}
    typed = {"type": "tool_result", **renamed(result, tool_use_id="id"), **content, **error_flag}
    return _with_extra_keys(kind, part, typed, ("id", "output"))


def _translate_server_call(kind: str, part: Block) -> Block:
    call = part[kind]
    tool = spelling_used(call, "toolType", "tool_type")
    typed = {"type": "tool_use", **pick(call, "id"), "name": call[tool], "input": call.get("args", {})}
    return _with_extra_keys(kind, part, {**typed, "executor": "server"}, ("id", tool, "args"))


def _translate_server_response(kind: str, part: Block) -> Block:
    result = part[kind]
    response = result["response"]
    answer = {"structured": response, **_result_content(response, [])}
    typed = {"type": "tool_result", **renamed(result, tool_use_id="id"), **answer}
    return _with_extra_keys(kind, part, typed, ("id", "response"))


_TRANSLATIONS: Mapping[str, PartTranslation] = {
    "codeExecutionResult": _translate_code_result,
    "executableCode": _translate_executable_code,
    "fileData": _translate_file_data,
    "functionCall": _translate_function_call,
    "functionResponse": _translate_function_response,
    "inlineData": _translate_inline_data,
    "text": _translate_text,
    "toolCall": _translate_server_call,
    "toolResponse": _translate_server_response,
}

PART_KEYS = frozenset(_TRANSLATIONS) | frozenset(_CAMEL_CASE)
"""The keys that determine the kind of a part, in both spellings."""

_PART_AND_METADATA_KEYS = PART_KEYS | _METADATA_KEYS | frozenset(_SIGNATURES)

SERVER_RESULTS = frozenset({"codeExecutionResult", "code_execution_result", "toolResponse", "tool_response"})
"""The `source_type` of results of tools that ran at Google; they belong to the model's message."""


def is_part(part: Any) -> bool:
    """Return True for a Gemini part; parts of all other formats have a `type`."""
    return (
        isinstance(part, dict)
        and "type" not in part
        and (not part or not _PART_AND_METADATA_KEYS.isdisjoint(part))
    )


def is_client_result(block: Block) -> bool:
    """Return True for the result of a tool that ran at the client."""
    return block["type"] == "tool_result" and block.get("source_type") not in SERVER_RESULTS


class UsageKeys(NamedTuple):
    """The keys of the counts in a usage object. Google's prompt count includes cached tokens and excludes tool
    prompts; its answer count excludes reasoning."""

    prompt: str
    tool: str
    cached: str
    answer: str
    thoughts: str


def gemini_usage(vendor: Any, names: UsageKeys, tier: str | None = None) -> Block | None:
    """Return the usage from a usage object with these keys."""
    prompt, tool, cached, answer, thoughts = (count_at(vendor, name) for name in names)
    return token_usage(
        vendor,
        input=subtract_counts(_sum_known(prompt, tool), cached),
        output=_sum_known(answer, thoughts),
        cache_read=cached,
        reasoning=thoughts,
        service_tier=tier,
    )


def _sum_known(*counts: int | None) -> int | None:
    present = [count for count in counts if count is not None]
    return sum(present) if present else None


_API_KEYS = (
    UsageKeys(
        prompt="promptTokenCount",
        tool="toolUsePromptTokenCount",
        cached="cachedContentTokenCount",
        answer="candidatesTokenCount",
        thoughts="thoughtsTokenCount",
    ),
    UsageKeys(
        prompt="prompt_token_count",
        tool="tool_use_prompt_token_count",
        cached="cached_content_token_count",
        answer="candidates_token_count",
        thoughts="thoughts_token_count",
    ),
)


def response_usage(record: Block) -> Block | None:
    """Return the usage of a record with the keys of a response of the API, in either spelling."""
    usage = value_in_either_case(record, "usageMetadata", "usage_metadata")
    tier = first_text(usage, ("serviceTier", "service_tier"))
    return gemini_usage(usage, _API_KEYS[0], tier) or gemini_usage(usage, _API_KEYS[1], tier)
