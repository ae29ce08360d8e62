"""The `Part` of the Gemini API, which Google's API writes and Gemini CLI keeps in its session files.

A part has no discriminator: the key that is there says what it is, in camel case over HTTP and in snake case where an
SDK wrote it. Source: `Part` of the `google-genai` package. What stands beside that key, and the fields that a
translation does not consume, go to `extra` side by side.
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
from ash_shared.providers._kit.json_fields import count_at, mime_fields, subtract_counts, token_usage

_NAMES: Mapping[str, str] = {
    "code_execution_result": "codeExecutionResult",
    "executable_code": "executableCode",
    "file_data": "fileData",
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "tool_call": "toolCall",
    "tool_response": "toolResponse",
}
"""Names of what a part can be, in snake case, with the name in camel case."""

_ASIDE = frozenset(
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
"""Keys that say something of the part they stand in, and are nothing by themselves."""

_SIGNATURES = ("thoughtSignature", "thought_signature")

Maker = Callable[[str, Block], Block]
"""Makes a typed block of a part, of which it is told the key that says what it is."""


def value_in_either_case(record: Block, camel: str, snake: str) -> Any:
    """The value under this key in either spelling; None where there is none."""
    value = record.get(camel)
    return record.get(snake) if value is None else value


def as_list(value: Any) -> list[Any]:
    """What may be a list, or one of its items, or absent."""
    return value if value.__class__ is list else [] if value is None else [value]


def read_parts(parts: Any) -> list[Block]:
    """The blocks of a list of parts; of one part, or a bare text, where a list is not needed."""
    return bounded([block for part in as_list(parts) for block in _read_each(part)])


def _read_each(part: Any) -> list[Block]:
    """A block for each thing that a part is; what stands beside them goes with the first."""
    if part.__class__ is not dict or len(part) == 1 or is_native(part):
        return [read_part(part)]
    others = _kinds(part)[1:]
    return [read_part(without(part, *others)), *(read_part({kind: part[kind]}) for kind in others)]


def _kinds(part: Block) -> list[str]:
    """The keys that say what a part is; a null says nothing where another does."""
    kinds = [key for key in part if key in PART_KEYS]
    return [key for key in kinds if part[key] is not None] or kinds[:1]


def read_part(part: Any) -> Block:
    """The block of one part; of the first thing that it is, where it is several."""
    if part.__class__ is str:
        return text_block(part)
    if part.__class__ is not dict:
        return raw_block("unknown_type", part)
    if is_native(part):
        return part
    kinds = _kinds(part)
    return _read_kind(kinds[0], part) if kinds else _aside(part)


def _aside(part: Block) -> Block:
    """A part that is nothing but marks: of the vendor's own, or of a part that is not there."""
    if any(key in part for key in _SIGNATURES):
        return raw_block("opaque", part, "thoughtSignature")
    known = part.keys() <= _ASIDE
    return raw_block("control" if known else "unknown_type", part, next(iter(part), None))


def _read_kind(kind: str, part: Block) -> Block:
    if _is_bare_signature(kind, part):
        return raw_block("opaque", part, "thoughtSignature")
    if _is_fragment(kind, part):
        return raw_block("stream_fragment", part, kind)
    name = _NAMES.get(kind, kind)
    return translate(kind, part, lambda part: _MAKERS[name](kind, part))[0]


def _is_bare_signature(kind: str, part: Block) -> bool:
    return kind == "text" and part["text"] == "" and any(part.get(key) for key in _SIGNATURES)


_STREAMED = frozenset({"partialArgs", "partial_args", "willContinue", "will_continue"})


def _is_fragment(kind: str, part: Block) -> bool:
    """Whether this goes on with a call whose name came in an earlier chunk."""
    call = part[kind]
    return (
        _NAMES.get(kind, kind) == "functionCall"
        and call.__class__ is dict
        and call.keys() <= _STREAMED | {"id"}
    )


def spelling_used(record: Block, camel: str, snake: str) -> str:
    """The spelling of this key that the record has."""
    return snake if snake in record and camel not in record else camel


def _joined(kind: str, part: Block, typed: Block, consumed: Collection[str]) -> Block:
    """`typed`, with what else the object under `kind`, and the part beside it, hold under `extra`."""
    made = with_extra({**typed, "source_type": kind}, without(part[kind], *consumed))
    return with_extra(made, without(part, kind))


def _text(kind: str, part: Block) -> Block:
    if part.get("thought") is not True:
        return with_extra({**text_block(part[kind]), "source_type": kind}, without(part, kind))
    signature = spelling_used(part, *_SIGNATURES)
    signed = renamed(part, signature=signature)
    typed = {"type": "thinking", "thinking": part[kind], "is_summary": True, **signed}
    return with_extra({**typed, "source_type": "thought"}, without(part, kind, "thought", signature))


def media_block(mime: str | None, source: Block, filename: Any = None) -> Block:
    """An image, or else a file; `source` without the media type."""
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


def _inline_data(kind: str, part: Block) -> Block:
    blob = part[kind]
    mime, name = (
        spelling_used(blob, "mimeType", "mime_type"),
        spelling_used(blob, "displayName", "display_name"),
    )
    typed = media_block(blob[mime], {"type": "base64", "data": blob["data"]}, blob.get(name))
    return _joined(kind, part, typed, (mime, "data") + ((name,) if "filename" in typed else ()))


def _file_data(kind: str, part: Block) -> Block:
    data = part[kind]
    mime, name = (
        spelling_used(data, "mimeType", "mime_type"),
        spelling_used(data, "displayName", "display_name"),
    )
    uri = spelling_used(data, "fileUri", "file_uri")
    typed = media_block(data.get(mime), {"type": "url", "url": data[uri]}, data.get(name))
    return _joined(kind, part, typed, (mime, uri) + ((name,) if "filename" in typed else ()))


def _call(kind: str, part: Block) -> Block:
    """Arguments that are absent are none: the wire leaves out an object that is empty."""
    call = part[kind]
    typed = {"type": "tool_use", **pick(call, "id"), "name": call["name"], "input": call.get("args", {})}
    return _joined(kind, part, typed, ("id", "name", "args"))


_SAID = ("output", "error", "result", "content")
"""Where a text stands in what a function answers; the first two are Google's own convention."""


def _response(kind: str, part: Block) -> Block:
    """The answer of a function, with the files that came with it."""
    told = part[kind]
    nested = read_parts(told.get("parts") or [])
    response = told.get("response") if nested else told["response"]
    failed = {"is_error": True} if response.__class__ is dict and response.get("error") else {}
    structured = renamed(told, structured="response")
    typed = {"type": "tool_result", **renamed(told, tool_use_id="id"), **_content(response, nested)}
    return _joined(kind, part, typed | failed | structured, ("id", "response", "parts"))


def _content(response: Any, nested: list[Block]) -> Block:
    """What a person can read of an answer; most answers are an object with one text."""
    known = response if response.__class__ is dict else {}
    said = next((known[name] for name in _SAID if known.get(name).__class__ is str), None)
    if nested:
        return {"content": ([] if said is None else [text_block(said)]) + nested}
    return {} if said is None else {"content": said}


def _code(kind: str, part: Block) -> Block:
    code = part[kind]
    source = pick(code, "language", "code")
    if "code" not in source:
        raise KeyError(kind)
    typed = {"type": "tool_use", **pick(code, "id"), "name": "code_execution", "input": source}
    return _joined(kind, part, {**typed, "executor": "server"}, ("id", "language", "code"))


def _outcome(kind: str, part: Block) -> Block:
    told = part[kind]
    outcome = told.get("outcome")
    if not told.keys() & {"outcome", "output"}:
        raise KeyError(kind)
    content = renamed(told, content="output")
    failed = {} if outcome is None else {"is_error": outcome != "OUTCOME_OK"}
    typed = {"type": "tool_result", **renamed(told, tool_use_id="id"), **content, **failed}
    return _joined(kind, part, typed, ("id", "output"))


def _server_call(kind: str, part: Block) -> Block:
    call = part[kind]
    tool = spelling_used(call, "toolType", "tool_type")
    typed = {"type": "tool_use", **pick(call, "id"), "name": call[tool], "input": call.get("args", {})}
    return _joined(kind, part, {**typed, "executor": "server"}, ("id", tool, "args"))


def _server_response(kind: str, part: Block) -> Block:
    told = part[kind]
    response = told["response"]
    answer = {"structured": response, **_content(response, [])}
    typed = {"type": "tool_result", **renamed(told, tool_use_id="id"), **answer}
    return _joined(kind, part, typed, ("id", "response"))


_MAKERS: Mapping[str, Maker] = {
    "codeExecutionResult": _outcome,
    "executableCode": _code,
    "fileData": _file_data,
    "functionCall": _call,
    "functionResponse": _response,
    "inlineData": _inline_data,
    "text": _text,
    "toolCall": _server_call,
    "toolResponse": _server_response,
}

PART_KEYS = frozenset(_MAKERS) | frozenset(_NAMES)
"""The keys that say what a part is, in both spellings."""

_KNOWN = PART_KEYS | _ASIDE | frozenset(_SIGNATURES)

SERVER_RESULTS = frozenset({"codeExecutionResult", "code_execution_result", "toolResponse", "tool_response"})
"""The `source_type` of results of tools that ran at Google: they are the model's."""


def is_part(part: Any) -> bool:
    """Whether this is a part, and of no other format that has parts: those all name a `type`."""
    return part.__class__ is dict and "type" not in part and (not part or not _KNOWN.isdisjoint(part))


def is_client_result(block: Block) -> bool:
    """Whether a tool of the client answered here."""
    return block["type"] == "tool_result" and block.get("source_type") not in SERVER_RESULTS


class UsageKeys(NamedTuple):
    """What a usage object calls its counts. Google counts what a cache held in the prompt, and neither reasoning in the
    answer nor what its tools were told in the prompt."""

    prompt: str
    tool: str
    cached: str
    answer: str
    thoughts: str


def gemini_usage(vendor: Any, names: UsageKeys, tier: str | None = None) -> Block | None:
    """The usage that stands under these names."""
    prompt, tool, cached, answer, thoughts = (count_at(vendor, name) for name in names)
    return token_usage(
        vendor,
        input=subtract_counts(_sum(prompt, tool), cached),
        output=_sum(answer, thoughts),
        cache_read=cached,
        reasoning=thoughts,
        service_tier=tier,
    )


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
