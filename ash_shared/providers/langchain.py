"""LangChain messages, and what LangGraph streams of them.

Source: the message classes of `langchain-core` and `@langchain/core`, versions 0.3 and 1. A message is written in three
forms: as a constructor (`{"lc": 1, "type": "constructor", "id": [..., "AIMessage"], "kwargs": {...}}`), as
`{"type": "ai", "data": {...}}`, and flat (`{"type": "ai", "content": ...}`). A graph streams lists such as
`["values", {"messages": [...]}]` and `["messages", [message, metadata]]`: a state repeats all messages so far, whole;
a message of class `...Chunk` that is streamed alone is a fragment.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import (
    Block,
    bounded,
    is_native,
    is_valid,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    wire_name,
    with_extra,
    without,
)
from ash_shared.model.message import Facts, Role
from ash_shared.providers._kit.contract import (
    Part,
    Provider,
    Record,
    RecordReading,
    chunk_reading,
    control_reading,
    speaker_of_role,
    unknown_reading,
)
from ash_shared.providers._kit.fingerprints import ENVELOPE_KEYS, body_keys
from ash_shared.providers._kit.json_fields import (
    count_at,
    decode_arguments,
    first_text,
    input_at,
    is_one_of,
    list_or_empty,
    media_class,
    message_error,
    subtract_counts,
    text_at,
    token_usage,
    url_source,
    value_at,
)
from ash_shared.providers._kit.steps import (
    Counted,
    Fragment,
    ResponseEnds,
    ResponseStarts,
    Settled,
    Step,
    Whole,
)

_ROLES: Mapping[str, Role] = {
    "ai": "assistant",
    "assistant": "assistant",
    "developer": "system",
    "function": "tool",
    "human": "user",
    "system": "system",
    "tool": "tool",
    "user": "user",
}


class _Message(NamedTuple):
    wire: str
    """Its type: human, ai, system, tool, function, chat, remove."""
    name: str
    """The type or class as it is written, such as AIMessageChunk."""
    is_chunk: bool
    fields: Record


def _message(record: Any) -> _Message | None:
    """The message in any of its three forms; None for anything else."""
    if record.__class__ is not dict:
        return None
    name, fields = _constructed(record) if "lc" in record else _typed(record)
    if name.__class__ is not str or fields.__class__ is not dict or "content" not in fields:
        return None
    wire = name.removesuffix("Chunk").removesuffix("Message").lower()
    return _Message(wire, name, name.endswith("Chunk"), fields) if wire in _TYPES else None


def _constructed(record: Record) -> tuple[Any, Any]:
    path = record.get("id")
    return path[-1] if path.__class__ is list and path else None, record.get("kwargs")


def _typed(record: Record) -> tuple[Any, Any]:
    return record.get("type"), record["data"] if record.keys() == {"type", "data"} else record


_TYPES = frozenset(_ROLES) | {"chat", "remove"}


def _image(block: Block) -> Block:
    return translated(block, {"type": "image", "source": _source(block)}, _SOURCE_KEYS, block["type"])


def _file(wire: str) -> Callable[[Block], Block]:
    def read(block: Block) -> Block:
        name = _name(block)
        declared = block.get("mime_type")
        typed = {
            "type": "file",
            **({"mimeType": declared} if declared is not None else {}),
            **({} if name is None else {"filename": block[name]}),
            "source": _source(block),
            "mediaClass": _CLASSES.get(wire) or media_class(declared or ""),
        }
        return translated(block, typed, {*_SOURCE_KEYS, *(() if name is None else (name,))}, wire)

    return read


def _name(block: Block) -> str | None:
    return next((name for name in ("filename", "name") if block.get(name).__class__ is str), None)


_CLASSES = {"audio": "audio", "text-plain": "document", "video": "video"}
_SOURCE_KEYS = ("source_type", "mime_type", "data", "base64", "url", "file_id", "text")


def _source(block: Block) -> Block:
    """Where the bytes are: version 0 says so in `source_type`, version 1 by the key alone."""
    declared = {"media_type": block["mime_type"]} if "mime_type" in block else {}
    old = pick(block, "source_type")
    if old.get("source_type") == "id":
        return {"type": "file", **declared, "file_id": block["id"]}
    if "url" in block:
        return {**declared, **url_source(block["url"])}
    if "file_id" in block:
        return {"type": "file", **declared, "file_id": block["file_id"]}
    if "text" in block or old.get("source_type") == "text":
        return {"type": "text", **declared, "data": block["text" if "text" in block else "data"]}
    return {"type": "base64", **declared, "data": block["base64" if "base64" in block else "data"]}


def _image_url(block: Block) -> Block:
    """A picture as OpenAI writes it."""
    picture = block["image_url"]
    url, more = (picture, {}) if picture.__class__ is str else (picture["url"], picture)
    typed = {"type": "image", "source": url_source(url), **pick(more, "detail")}
    rest = without(more, "url", "detail")
    return translated({**block, "image_url": rest}, typed, () if rest else ("image_url",), "image_url")


def _reasoning(block: Block) -> Block | list[Block]:
    if "summary" in block:
        return _summaries(block)
    typed = {"type": "thinking", "thinking": block["reasoning"], **_signature(block)}
    return translated(block, typed, ("reasoning", "signature"), "reasoning")


def _signature(block: Block) -> Block:
    """Version 1 moves what it has no name for into `extras`."""
    signature = block.get("signature", value_at(block, "extras", "signature"))
    return {} if signature is None else {"signature": signature}


def _summaries(block: Block) -> list[Block]:
    """Reasoning as OpenAI's Responses write it: one block for each part of the summary."""
    if not block["summary"]:
        return [translated(block, {"type": "thinking", "thinking": ""}, ("summary",), "reasoning")]
    made = [_summary(part) for part in block["summary"]]
    return [with_extra(made[0], without(block, "type", "summary")), *made[1:]]


def _summary(part: Block) -> Block:
    typed = {"type": "thinking", "thinking": part["text"], "is_summary": True}
    return translated(part, typed, ("text",), "reasoning")


def _call(wire: str, *, executor: str | None = None) -> Callable[[Block], Block]:
    def read(call: Block) -> Block:
        given, consumed = input_at(call, "args")
        typed = {
            "type": "tool_use",
            **pick(call, "id", "name"),
            "input": given,
            **({} if executor is None else {"executor": executor}),
        }
        return translated(call, typed, ("id", "name", *consumed), wire)

    return read


def _server_result(block: Block) -> Block:
    typed = {
        "type": "tool_result",
        "tool_use_id": block["tool_call_id"],
        **({"is_error": block["status"] == "error"} if "status" in block else {}),
        **renamed(block, structured="output"),
    }
    return translated(block, typed, ("tool_call_id", "output"), "server_tool_result")


def _control(block: Block) -> Block:
    return raw_block("control", block, block["type"])


def _text(block: Block) -> Block:
    return translated(block, text_block(block["text"]), ("text",), block["type"])


def _refusal(block: Block) -> Block:
    return translated(block, text_block(block["refusal"], "refusal"), ("refusal",), "refusal")


def _redacted(block: Block) -> Block:
    typed = {"type": "thinking", "thinking": "", "redacted": True, "data": block["data"]}
    return translated(block, typed, ("data",), "redacted_thinking")


_TRANSLATIONS: Mapping[str, Callable[[Block], Block | list[Block]]] = {
    "audio": _file("audio"),
    "file": _file("file"),
    "image": _image,
    "image_url": _image_url,
    "input_text": _text,
    "invalid_tool_call": _call("invalid_tool_call"),
    "media": _file("media"),
    "non_standard": _control,
    "output_text": _text,
    "reasoning": _reasoning,
    "redacted_thinking": _redacted,
    "refusal": _refusal,
    "server_tool_call": _call("server_tool_call", executor="server"),
    "server_tool_result": _server_result,
    "text-plain": _file("text-plain"),
    "tool_call": _call("tool_call"),
    "video": _file("video"),
}
"""The standard content blocks, and what the makers of models write in their place."""


def _blocks(block: Any) -> list[Block]:
    if block.__class__ is str:
        return [text_block(block)]
    wire = block.get("type") if block.__class__ is dict else None
    if wire.__class__ is not str:
        return [raw_block("unknown_type", block)]
    if is_native(block) and not _is_standard_file(block):
        return [block]
    if wire in _TRANSLATIONS:
        return translate(wire, block, _TRANSLATIONS[wire])
    return _nested(block) if wire == "tool_result" else [raw_block("unknown_type", block, wire_name(block))]


def _is_standard_file(block: Block) -> bool:
    """Whether this is LangChain's `file`: every key of ours is optional."""
    return block["type"] == "file" and not block.keys() & {"mimeType", "storagePath", "source"}


def _nested(result: Block) -> list[Block]:
    """A result as Anthropic writes it, whose list is read like any."""
    if not is_valid(result):
        return [raw_block("malformed", result, "tool_result")]
    return [{**result, "content": _content(result["content"])}]


def read_block(block: Any) -> Block:
    """One bare content block; the whole of it as `raw` where it is several."""
    blocks = _blocks(block)
    return blocks[0] if len(blocks) == 1 else raw_block("control", block, block["type"])


def _content(content: Any) -> list[Block]:
    if content.__class__ is str:
        return [text_block(content)]
    if content.__class__ is not list:
        raise TypeError
    return bounded([made for block in content for made in _blocks(block)])


def _said(fields: Record) -> list[Block]:
    """What any message but a tool's says: reasoning, content, then the calls that the content does not hold itself."""
    content = _content(fields["content"])
    held = {block["id"]: block for block in content if block["type"] == "tool_use" and block.get("id")}
    calls = [
        made
        for name, wire in (("tool_calls", "tool_call"), ("invalid_tool_calls", "invalid_tool_call"))
        for call in list_or_empty(fields.get(name))
        if not _holds(held.get(call.get("id")), call)
        for made in translate(wire, call, _TRANSLATIONS[wire])
    ]
    thought = [] if any(block["type"] == "thinking" for block in content) else _thought(fields)
    beside = thought + calls
    return bounded(thought + ([] if beside and fields["content"] == "" else content) + calls)


def _holds(block: Block | None, call: Record) -> bool:
    """Whether a block of the content says all that this call says."""
    if block is None:
        return False
    return block.get("name") == call.get("name") and decode_arguments(block.get("input")) == decode_arguments(
        call.get("args")
    )


def _thought(fields: Record) -> list[Block]:
    """Reasoning that a model's maker has no place for in the content."""
    more = fields.get("additional_kwargs")
    told = text_at(more, "reasoning_content")
    if told is not None:
        return [{"type": "thinking", "thinking": told, "source_type": "reasoning_content"}]
    reasoning = value_at(more, "reasoning")
    return translate("reasoning", reasoning, _summaries) if reasoning.__class__ is dict else []


def _result(fields: Record) -> Block:
    """The answer of a tool, with what it keeps for the program as `artifact`."""
    content = fields["content"]
    typed = {
        "type": "tool_result",
        **renamed(fields, tool_use_id="tool_call_id"),
        "content": content if content.__class__ is str else _content(content),
        **({"is_error": fields["status"] == "error"} if "status" in fields else {}),
        **({"structured": fields["artifact"]} if fields.get("artifact") is not None else {}),
    }
    return translated(pick(fields, "name", "status"), typed, (), "tool")


def _read_message(message: _Message) -> tuple[Role, list[Block]]:
    wire, fields = message.wire, message.fields
    role = _ROLES.get(wire) or _ROLES.get(fields.get("role", ""), "user")
    return role, translate(wire, fields, _result) if role == "tool" else _said(fields)


class _Told(NamedTuple):
    """What a record tells."""

    messages: list[Any]
    """Those of a state, or the one that the record is."""
    is_state: bool
    metadata: Record
    """What a graph says beside a message it streams."""


def _told(record: Record) -> _Told | None:
    """The messages of a record; None for one that tells of none."""
    mode, data = _streamed(record)
    if mode == "messages" and data.__class__ is list and len(data) == 2:
        return _Told(data[:1], False, data[1] if data[1].__class__ is dict else {})
    if data.__class__ is not dict:
        return None
    if _message(data) is not None:
        return _Told([data], False, {})
    if mode == "updates":
        data = next((update for update in data.values() if _is_state(update)), data)
    return _Told(data["messages"], True, {}) if _is_state(data) else None


def _streamed(record: Record) -> tuple[str | None, Any]:
    """The mode and the payload of a record that is a streamed list; a subgraph puts its namespace before them."""
    values = record.get("list")
    if values.__class__ is not list:
        return None, record
    return (values[-2], values[-1]) if len(values) > 1 else (None, None)


def _is_state(data: Any) -> bool:
    messages = data.get("messages") if data.__class__ is dict else None
    return messages.__class__ is list and bool(messages) and all(map(_message, messages))


def read(record: Record) -> RecordReading:
    """A message, a state, or a list that a graph streamed, as `{"list": [...]}`."""
    told = _told(record)
    if told is None:
        known = recognizes_list(record.get("list"))
        return (control_reading if known else unknown_reading)(_whole(record), wire_name(record))
    messages = [message for each in told.messages if (message := _message(each))]
    if not told.is_state and (not messages or messages[0].is_chunk):
        wire = messages[0].name if messages else None
        return chunk_reading(_whole(record), wire)
    if messages[0].wire == "remove":
        return control_reading(_whole(record), "remove")
    read = [_read_message(message) for message in messages]
    return RecordReading("message", read[0][0], bounded([block for _, blocks in read for block in blocks]))


def _whole(record: Record) -> Any:
    """The record as it was written."""
    return record["list"] if record.keys() == {"list"} else record


_MODES = frozenset({"checkpoints", "custom", "debug", "messages", "tasks", "updates", "values"})


def recognizes_list(values: Any) -> bool:
    """Whether a list is a mode of streaming and its payload, with the namespace of a subgraph before them or not."""
    if values.__class__ is not list or len(values) not in (2, 3):
        return False
    mode, payload = values[-2:]
    if mode.__class__ is not str or mode not in _MODES or payload.__class__ not in (dict, list):
        return False
    return len(values) == 2 or values[0].__class__ is list


_ALONE = frozenset({"ai", "human"})
"""Types that no other format writes."""
_MARKS = frozenset({"additional_kwargs", "response_metadata", "tool_call_id"})


def recognizes(record: Record) -> bool:
    """Whether a record is a message, in any of the three forms, or a state of a graph."""
    if record.get("type") is None and "messages" in record:
        return (
            body_keys(record) == {"messages"}
            and _is_state(record)
            and all(map(recognizes, record["messages"]))
        )
    message = _message(record)
    if message is None or not record.keys().isdisjoint(ENVELOPE_KEYS):
        return False
    named = record.get("type")
    if "lc" in record:
        return named == "constructor"
    return message.is_chunk or named in _ALONE or not _MARKS.isdisjoint(message.fields)


def facts(record: Record) -> Facts:
    """A message's id is the same in its chunks and in every state after it: it tells no record apart."""
    told = _told(record)
    if told is None:
        return Facts()
    message = None if told.is_state or not told.messages else _message(told.messages[0])
    return Facts(
        session_id=text_at(told.metadata, "thread_id"),
        model=_model(message.fields) if message else None,
    )


def _model(fields: Record) -> str | None:
    return first_text(fields.get("response_metadata"), ("model_name", "model", "model_id"))


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """A part for each message; a state repeats those that came before, under their ids."""
    told = _told(record)
    if told is None or reading.kind != "message":
        return []
    return [_part(message) for each in told.messages if (message := _message(each))]


def _part(message: _Message) -> Part:
    role, blocks = _read_message(message)
    name, told = text_at(message.fields, "id"), message.fields.get("response_metadata")
    return Part(
        role=speaker_of_role(role),
        blocks=blocks,
        key=None if name is None else f"{role} {name}",
        keeps_key=True,
        replaces=name is not None,
        id=name,
        usage=_usage(message.fields.get("usage_metadata"), told),
        metadata={
            "messageId": name if role == "assistant" else None,
            "model": _model(message.fields),
            "stop_reason": first_text(told, _REASONS),
        },
        error=_error(value_at(told, "error")),
        original=message.fields,
    )


_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")


def _usage(usage: Any, told: Any) -> Block | None:
    """LangChain's input includes what a cache held."""
    read = count_at(usage, "input_token_details", "cache_read")
    written = count_at(usage, "input_token_details", "cache_creation")
    return token_usage(
        usage,
        input=subtract_counts(count_at(usage, "input_tokens"), read, written),
        output=count_at(usage, "output_tokens"),
        cache_read=read,
        cache_creation=written,
        reasoning=count_at(usage, "output_token_details", "reasoning"),
        service_tier=text_at(told, "service_tier"),
    )


def _error(told: Any) -> Block | None:
    message = text_at(told, "message")
    return None if message is None else message_error(text_at(told, "code") or "error", message, told)


# The log of events: the chunks of a message write in places, `thinking/INDEX`, `text/INDEX` and `call/INDEX`. A state
# repeats what they said, and may come before the last of them. A graph does not say when it is done: its turn is open
# until the user speaks again.


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """Chunks, messages and states."""
    told = _told(record)
    if told is None or reading.kind == "record":
        return None
    if reading.kind == "message":
        whole: list[Step] = [Whole(part, repeats=True) for part in parts(record, reading)]
        return whole if told.is_state or reading.role == "assistant" else [Settled(), *whole]
    message = _message(told.messages[0])
    if message is None:
        return []
    return _of_chunk(message.fields) if _ROLES.get(message.wire) == "assistant" else [Whole(_part(message))]


def _of_chunk(fields: Record) -> list[Step]:
    name, usage = text_at(fields, "id"), _usage(fields.get("usage_metadata"), fields.get("response_metadata"))
    written = [*_reasons(fields), *_says(fields["content"]), *_calls(fields)]
    ends: list[Step] = [ResponseEnds()] if _is_last(fields) else []
    spent: list[Step] = [] if usage is None else [Counted(usage, f"assistant {name}" if name else "")]
    begins: list[Step] = [ResponseStarts(name, is_explicit=False, is_stable=True)] if written or ends else []
    return [*begins, *written, *ends, *spent]


def _is_last(fields: Record) -> bool:
    """What follows is at most the usage."""
    told = fields.get("response_metadata")
    return (
        fields.get("chunk_position") == "last"
        or first_text(told, _REASONS) is not None
        or is_one_of(value_at(told, "status"), _ENDS)
    )


_ENDS = frozenset({"completed", "failed", "incomplete"})


def _index(piece: Record) -> Any:
    """Where it stands in its message; some pieces do not say."""
    index = piece.get("index")
    return 0 if index is None else index


def _reasons(fields: Record) -> list[Step]:
    """What stands beside the content, where the model's maker has no place for it there."""
    return [step for block in _thought(fields) for step in _piece(block, _index(block.get("extra") or {}))]


def _says(content: Any) -> list[Step]:
    if content.__class__ is str:
        return _piece(text_block(content), 0) if content else []
    return [
        step
        for piece in list_or_empty(content)
        if not is_one_of(value_at(piece, "type"), _WRITTEN_BESIDE)
        for step in _part_of_content(piece)
    ]


def _part_of_content(piece: Any) -> list[Step]:
    if value_at(piece, "type") == "server_tool_call_chunk":
        return [_call_piece(piece, executor="server")]
    index = _index(piece) if piece.__class__ is dict else 0
    return [step for block in _blocks(piece) for step in _piece(block, index)]


_WRITTEN_BESIDE = frozenset({"input_json_delta", "tool_call", "tool_call_chunk", "tool_use"})
"""Parts of the content that stand in the chunks of calls, too."""


def _piece(block: Block, index: Any) -> list[Step]:
    wire = block["type"]
    if wire == "thinking":
        more = pick(block, "signature", "redacted")
        return [Fragment("thinking", block["thinking"], f"thinking/{index}", more=more, reopens=True)]
    if wire == "text":
        text = Fragment("text", block["text"], f"text/{index}", more=pick(block, "variant"), reopens=True)
        return [Settled(("thinking",)), text]
    return [Settled(), Whole(Part(role="assistant", blocks=[block]))]


def _calls(fields: Record) -> list[Step]:
    """Pieces of calls, by their index; one without is whole."""
    made = [_call_piece(piece) for piece in list_or_empty(fields.get("tool_call_chunks"))]
    return [Settled(("thinking",)), *made] if made else []


def _call_piece(piece: Record, **more: str) -> Step:
    id, name, index = (piece.get(key) for key in ("id", "name", "index"))
    slot, text = f"call/{id if index is None else index}", piece.get("args") or ""
    return Fragment("input", text, slot, call=id, name=name, given={}, more=more, reopens=bool(name))


PROVIDER = Provider(
    source="langchain",
    recognizes=recognizes,
    marks={"content", "data", "lc", "messages"},
    recognizes_list=recognizes_list,
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
    steps=steps,
)
