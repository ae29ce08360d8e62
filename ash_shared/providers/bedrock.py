"""Amazon Bedrock's Converse API: requests, answers and the events of ConverseStream.

Source: the `bedrock-runtime` service model. A content block is an object with one key that names its kind; beside it,
and inside it, `type` may stand, too. Bodies of InvokeModel are in the model maker's own format.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    bounded,
    is_native,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    wire_name,
    with_extra,
    without,
)
from ash_shared.model.message import Facts
from ash_shared.providers._kit.contract import (
    Part,
    Provider,
    Record,
    RecordReading,
    Speaker,
    chunk_reading,
    single_message_part,
)
from ash_shared.providers._kit.fingerprints import BEDROCK_REQUEST_KEYS, body_keys
from ash_shared.providers._kit.json_fields import (
    count_at,
    first_text,
    media_class,
    message_error,
    text_at,
    token_usage,
    value_at,
)
from ash_shared.providers._kit.steps import (
    Closed,
    Counted,
    Fragment,
    ResponseEnds,
    ResponseStarts,
    Says,
    Settled,
    Step,
    Whole,
)

_Said = tuple[Speaker, list[Block]]

_ROLES: Mapping[str, Speaker] = {"user": "user", "assistant": "assistant"}

_DOCUMENTS: Mapping[str, str] = {
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "html": "text/html",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def _block(block: Block, kind: str, typed: Block, *consumed: str) -> Block:
    """`typed`, with what else the object under `kind`, and the block beside it, hold under `extra`."""
    inner = block[kind] if block[kind].__class__ is dict else {}
    made = with_extra({**typed, "source_type": kind}, without(inner, *consumed))
    return with_extra(made, without(block, kind))


def _text(block: Block) -> Block:
    return _block(block, "text", text_block(block["text"]))


def _tool_use(block: Block) -> Block:
    call = block["toolUse"]
    typed = {"type": "tool_use", **renamed(call, id="toolUseId"), **pick(call, "name", "input")}
    server = {"executor": "server"} if call.get("type") == "server_tool_use" else {}
    return _block(block, "toolUse", typed | server, "toolUseId", "name", "input")


def _tool_result(block: Block) -> Block:
    result = block["toolResult"]
    json = [item["json"] for item in result["content"] if item.keys() == {"json"}]
    shown = [item for item in result["content"] if item.keys() != {"json"}]
    typed = {
        "type": "tool_result",
        **renamed(result, tool_use_id="toolUseId"),
        **({"content": read_list(shown)} if shown or not json else {}),
        **({"is_error": result["status"] == "error"} if "status" in result else {}),
        **({"structured": json[0] if len(json) == 1 else json} if json else {}),
    }
    code = count_at(json[0], "exitCode") if len(json) == 1 else None
    exit_code = {} if code is None else {"exit_code": code}
    return _block(block, "toolResult", typed | exit_code, "toolUseId", "content")


def _reasoning(block: Block) -> Block:
    reasoning = block["reasoningContent"]
    if "redactedContent" in reasoning:
        typed = {
            "type": "thinking",
            "thinking": "",
            "redacted": True,
            "data": reasoning["redactedContent"],
        }
        return _block(block, "reasoningContent", typed, "redactedContent")
    told = reasoning["reasoningText"]
    typed = {"type": "thinking", "thinking": told["text"], **pick(told, "signature")}
    typed = with_extra(typed, without(told, "text", "signature"))
    return _block(block, "reasoningContent", typed, "reasoningText")


def _source(source: Record, media_type: str | None) -> Block:
    """The bytes, the text or the address of a media object; Bedrock names S3 objects by their `s3://` address."""
    declared = {} if media_type is None else {"media_type": media_type}
    if "bytes" in source:
        return {"type": "base64", **declared, "data": source["bytes"], **_beside(source, "bytes")}
    if "s3Location" in source:
        place = source["s3Location"]
        return {"type": "url", **declared, "url": place["uri"], **_beside(place, "uri")}
    if "text" in source:
        return {"type": "text", **declared, "data": source["text"], **_beside(source, "text")}
    return {**source, "type": "content", "content": source["content"]}


def _beside(source: Record, consumed: str) -> Block:
    rest = without(source, consumed)
    if rest.keys() & {"type", "media_type", "data", "url"}:
        raise KeyError(consumed)
    return rest


def _image(block: Block) -> Block:
    image = block["image"]
    declared = f"image/{image['format']}" if "format" in image else None
    return _block(block, "image", {"type": "image", "source": _source(image["source"], declared)}, "source")


def _media(kind: str) -> Callable[[Block], Block]:
    def read(block: Block) -> Block:
        media = block[kind]
        declared = _media_type(kind, media.get("format"))
        typed = {
            "type": "file",
            **({} if declared is None else {"mimeType": declared}),
            "source": _source(media["source"], declared),
            **renamed(media, filename="name"),
            **pick(media, "context"),
            "mediaClass": "document" if declared is None or kind == "document" else media_class(declared),
        }
        return _block(block, kind, typed, "source", "name", "context")

    return read


def _media_type(kind: str, form: Any) -> str | None:
    if form.__class__ is not str:
        return None
    return _DOCUMENTS.get(form) if kind == "document" else f"{kind}/{form}"


def _guarded(block: Block) -> Block:
    """Text or a picture that a guardrail is to look at: part of the prompt like any other."""
    guarded = block["guardContent"]
    if "image" in guarded:
        return _block(block, "guardContent", _image(pick(guarded, "image")), "image")
    told = guarded["text"]
    made = with_extra(text_block(told["text"]), without(told, "text"))
    return _block(block, "guardContent", made, "text")


def _cited(block: Block) -> list[Block]:
    """Texts with the citations of all of them, which the first one carries."""
    cited = block["citationsContent"]
    texts = read_list(cited["content"])
    if not texts or texts[0]["type"] != "text":
        raise KeyError("content")
    typed = {**texts[0], **pick(cited, "citations")}
    first = _block(block, "citationsContent", typed, "content", "citations")
    return [first, *texts[1:]]


def _search_result(block: Block) -> Block:
    found = block["searchResult"]
    typed = {"type": "file", "source": {"type": "url", "url": found["source"]}, **pick(found, "title")}
    return _block(block, "searchResult", typed, "source", "title")


_TRANSLATIONS: Mapping[str, Callable[[Block], Block | list[Block]]] = {
    "audio": _media("audio"),
    "cachePoint": lambda block: raw_block("control", block, "cachePoint"),
    "citationsContent": _cited,
    "document": _media("document"),
    "guardContent": _guarded,
    "image": _image,
    "reasoningContent": _reasoning,
    "searchResult": _search_result,
    "text": _text,
    "toolResult": _tool_result,
    "toolUse": _tool_use,
    "video": _media("video"),
}
"""By the key that names a content block's kind."""


def _kind(block: Any) -> str | None:
    """The kind of a content block; None for what is none, or is several at once."""
    kinds = block.keys() & _TRANSLATIONS.keys() if block.__class__ is dict else ()
    return next(iter(kinds)) if len(kinds) == 1 else None


def _unknown_kind(block: Any) -> str | None:
    """What a block that nobody has seen calls itself, where it has one key."""
    if block.__class__ is not dict:
        return None
    return next(iter(block)) if len(block) == 1 else wire_name(block)


def _blocks(block: Any) -> list[Block]:
    if is_native(block):
        return [block]
    if block.__class__ is str:
        return [text_block(block)]
    kind = _kind(block)
    if kind is None:
        return [raw_block("unknown_type", block, _unknown_kind(block))]
    return translate(kind, block, _TRANSLATIONS[kind])


def read_block(block: Any) -> Block:
    """One bare content block; the whole of it as `raw` where it holds more than one block."""
    blocks = _blocks(block)
    return blocks[0] if len(blocks) == 1 else raw_block("control", block, _kind(block))


def read_list(content: list[Any]) -> list[Block]:
    """A content list, element by element."""
    if content.__class__ is not list:
        raise TypeError
    return bounded([made for block in content for made in _blocks(block)])


def _message(message: Record) -> _Said:
    return _ROLES[message["role"]], read_list(message["content"])


def _messages(record: Record) -> list[_Said]:
    """The messages of a request, system text first; tools and parameters are envelope."""
    system: list[_Said] = [("system", read_list(record["system"]))] if record.get("system") else []
    return system + [_message(message) for message in record["messages"]]


def _read_request(record: Record) -> RecordReading:
    blocks = [block for _, blocks in _messages(record) for block in blocks]
    return RecordReading("message", "user", bounded(blocks))


def _read_answer(record: Record) -> RecordReading:
    role, blocks = _message({"role": "assistant", **record["output"]["message"]})
    return RecordReading("message", role, blocks)


def _read_message(record: Record) -> RecordReading:
    role, blocks = _message(record)
    only_results = bool(blocks) and {block["type"] for block in blocks} == {"tool_result"}
    return RecordReading("message", "tool" if only_results and role == "user" else role, blocks)


def _read_error(record: Record) -> RecordReading:
    typed = text_block(record["message"], "error")
    return RecordReading("record", "system", [with_extra(typed, without(record, "message"))])


def _read_fragment(record: Record) -> RecordReading:
    return chunk_reading(record, next(iter(record)))


_EXCEPTIONS = frozenset(
    {
        "internalServerException",
        "modelStreamErrorException",
        "serviceUnavailableException",
        "throttlingException",
        "validationException",
    }
)
_EVENTS = _EXCEPTIONS | {
    "contentBlockDelta",
    "contentBlockStart",
    "contentBlockStop",
    "messageStart",
    "messageStop",
    "metadata",
}
_ERROR_KEYS = frozenset({"message", "__type"})


def _is_event(record: Record) -> bool:
    if len(record) != 1:
        return False
    key, value = next(iter(record.items()))
    return key in _EVENTS and value.__class__ is dict and (key != "metadata" or _is_usage(value))


def _is_usage(metadata: Record) -> bool:
    return count_at(metadata, "usage", "inputTokens") is not None


def _is_content(content: Any) -> bool:
    """Whether some element names its kind by its key alone, as no other format does."""
    return content.__class__ is list and any(_kind(block) and "type" not in block for block in content)


def _is_message(message: Any) -> bool:
    return (
        message.__class__ is dict
        and message.get("role").__class__ is str
        and message["role"] in _ROLES
        and "message" not in message
        and _is_content(message.get("content"))
    )


def _is_request(record: Record) -> bool:
    messages = record.get("messages")
    if messages.__class__ is not list:
        return False
    return not body_keys(record).isdisjoint(BEDROCK_REQUEST_KEYS) or any(map(_is_message, messages))


def _is_answer(record: Record) -> bool:
    return value_at(record, "output", "message").__class__ is dict


def _is_error(record: Record) -> bool:
    return record.keys() <= _ERROR_KEYS and text_at(record, "message") is not None


_FORMS: tuple[tuple[Callable[[Record], bool], Callable[[Record], RecordReading]], ...] = (
    (_is_event, _read_fragment),
    (_is_answer, _read_answer),
    (_is_request, _read_request),
    (_is_error, _read_error),
    (_is_message, _read_message),
)


_MARKS = _EVENTS | {"message", "messages", "output", "role"}
"""Keys of which every form has one."""


def recognizes(record: Record) -> bool:
    """Whether a record is of the Converse API. None of its bodies has a `type`."""
    bodies = body_keys(record) - BEDROCK_REQUEST_KEYS
    return bodies in _BODIES and any(is_form(record) for is_form, _ in _FORMS)


_BODIES: tuple[frozenset[str], ...] = (frozenset(), frozenset({"messages"}), frozenset({"output"}))


def read(record: Record) -> RecordReading:
    """Any record of the API."""
    for is_form, read_form in _FORMS:
        if is_form(record):
            return read_form(record)
    return RecordReading("record", "system", _blocks(record))


def facts(record: Record) -> Facts:
    """Only some writers put the model beside the body: on the wire it is in the address."""
    return Facts(model=text_at(record, "modelId"))


_REFUSALS = frozenset({"content_filtered", "guardrail_intervened"})


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """A message, each message of a request, or what an answer adds beside its own."""
    if _is_answer(record):
        return [_answer(record, reading.blocks)]
    if _is_request(record):
        said = [record["system"], *record["messages"]] if record.get("system") else record["messages"]
        return [
            Part(role=role, blocks=blocks, original=piece)
            for piece, (role, blocks) in zip(said, _messages(record), strict=True)
        ]
    if _is_error(record):
        return [Part(role=None, error=message_error(text_at(record, "__type") or "error", record["message"]))]
    return single_message_part(record, reading)


def _answer(record: Record, blocks: list[Block]) -> Part:
    stop_reason = text_at(record, "stopReason")
    return Part(
        role="assistant",
        blocks=blocks,
        usage=_usage(record),
        metadata={
            "stop_reason": stop_reason,
            "stop_sequence": _stop_sequence(record),
        },
        error=message_error(stop_reason, _refusal(record)) if stop_reason in _REFUSALS else None,
    )


def _stop_sequence(record: Record) -> str | None:
    return text_at(record, "additionalModelResponseFields", "stop_sequence")


def _refusal(record: Record) -> str | None:
    return text_at(record, "trace", "guardrail", "actionReason")


def _usage(record: Record) -> Block | None:
    """Bedrock counts input without what was read from a cache or written to one."""
    usage = value_at(record, "usage")
    return token_usage(
        usage,
        input=count_at(usage, "inputTokens"),
        output=count_at(usage, "outputTokens"),
        cache_read=_first_count(usage, ("cacheReadInputTokens", "cacheReadInputTokenCount")),
        cache_creation=_first_count(usage, ("cacheWriteInputTokens", "cacheWriteInputTokenCount")),
        service_tier=first_text(value_at(record, "serviceTier"), ("type",)),
    )


def _first_count(usage: Any, names: Iterable[str]) -> int | None:
    return next((count for name in names if (count := count_at(usage, name)) is not None), None)


# The log of events: a block of the answer has its place by its index. That one of text begins is not always told, and
# not every writer tells its end.

_ASKS = frozenset({"tool_use"})
"""Reasons to stop after which the caller has to answer."""


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """Events of a stream, and whole answers; what else there is says all in its parts."""
    if reading.kind == "chunk":
        kind, told = next(iter(record.items()))
        return [_failed(kind, told)] if kind in _EXCEPTIONS else _STREAMED[kind](told)
    if not _is_answer(record):
        return None
    whole = replace(_answer(record, reading.blocks), error=None)
    return [ResponseStarts(None), Whole(whole), *_stopped(record), Counted(None)]


def _failed(code: str, told: Record) -> Step:
    return Says("error", message_error(code, text_at(told, "message")))


def _stopped(told: Record) -> list[Step]:
    reason = text_at(told, "stopReason")
    ends = ResponseEnds(is_final=reason not in _ASKS)
    return [ends, Says("error", message_error(reason, _refusal(told)))] if reason in _REFUSALS else [ends]


def _place(told: Record) -> str:
    return str(told["contentBlockIndex"])


def _block_starts(told: Record) -> list[Step]:
    begun = told.get("start") or {}
    if "toolUse" in begun:
        return [_call_starts(begun["toolUse"], _place(told))]
    return _result_starts(begun["toolResult"], _place(told)) if "toolResult" in begun else []


def _call_starts(call: Record, place: str) -> Step:
    """A call without arguments has an empty text for them."""
    hosted = {"executor": "server"} if call.get("type") == "server_tool_use" else {}
    return Fragment("input", "", place, call=call["toolUseId"], name=call["name"], given={}, more=hosted)


def _result_starts(result: Record, place: str) -> list[Step]:
    """What a tool has answered that Bedrock runs: only here it is told of which call, and whether that failed."""
    begins: list[Step] = [Fragment("output", "", place, call=result["toolUseId"])]
    if result.get("status") != "error":
        return begins
    return [Whole(Part(role=None, results={result["toolUseId"]: {"is_error": True}})), *begins]


def _block_goes_on(told: Record) -> list[Step]:
    place, delta = _place(told), told["delta"]
    known = [step for kind in delta if kind in _PIECES for step in _PIECES[kind](delta[kind], place)]
    unknown = without(delta, *_PIECES)
    return known + ([_shown(unknown)] if unknown else [])


def _reasons(piece: Record, place: str) -> list[Step]:
    withheld = {"redacted": True} if "redactedContent" in piece else {}
    more = {**pick(piece, "signature"), **withheld}
    return [Fragment("thinking", piece.get("text", ""), place, more=more)]


def _answers(content: list[Any], place: str) -> list[Step]:
    """The content of a tool's result, whose call is known by its place."""
    result = _tool_result({"toolResult": {"content": content}})
    return [Whole(Part(role="user", blocks=[result]), slot=place)]


def _shown(delta: Record) -> Step:
    return Whole(Part(role="system", blocks=[raw_block("unknown_type", delta)]))


_PIECES: Mapping[str, Callable[[Any, str], list[Step]]] = {
    "citation": lambda piece, place: [Fragment("text", "", place, more={"citations": [piece]})],
    "image": lambda piece, place: [Whole(Part(role="assistant", blocks=[_image({"image": piece})]))],
    "reasoningContent": _reasons,
    "text": lambda piece, place: [Fragment("text", piece, place)],
    "toolResult": _answers,
    "toolUse": lambda piece, place: [Fragment("input", piece["input"], place)],
}
"""By the key of a delta."""

_STREAMED: Mapping[str, Callable[[Record], list[Step]]] = {
    "contentBlockDelta": _block_goes_on,
    "contentBlockStart": lambda told: [Settled(), *_block_starts(told)],
    "contentBlockStop": lambda told: [Closed(_place(told))],
    "messageStart": lambda told: [ResponseStarts(None)],
    "messageStop": _stopped,
    "metadata": lambda told: [Counted(_usage(told))],
}


PROVIDER = Provider(
    source="bedrock",
    recognizes=recognizes,
    marks=_MARKS,
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
    steps=steps,
)
