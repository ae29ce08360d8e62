"""The AI SDK's `UIMessage`, and the chunks of a UI message stream.

Source: the types of the `ai` package, major versions 4 to 7. A tool part is one object that grows, from the call to its
output: it is read as a `tool_use` and, once there is an output, a `tool_result` right behind it.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Literal

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
    translated,
    wire_name,
    with_extra,
    without,
)
from ash_shared.model.message import Facts
from ash_shared.providers._kit.contract import Part, Provider, Record, RecordReading, Speaker, chunk_reading
from ash_shared.providers._kit.fingerprints import ENVELOPE_KEYS, body_keys
from ash_shared.providers._kit.json_fields import (
    count_at,
    first_text,
    is_one_of,
    list_or_empty,
    message_error,
    mime_fields,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    url_source,
)
from ash_shared.providers._kit.steps import (
    Closed,
    Counted,
    Fragment,
    Interrupts,
    ResponseEnds,
    ResponseStarts,
    Says,
    Settled,
    Step,
    Whole,
)

_ROLES: Mapping[str, Speaker] = {"assistant": "assistant", "system": "system", "user": "user"}


def _control(part: Block) -> Block:
    return raw_block("control", part, part["type"])


def _text(part: Block) -> Block:
    return part if is_native(part) else raw_block("malformed", part, "text")


def _reasoning(part: Block) -> Block:
    """Each vendor spells its proof in its own way, and it stays there, too. Version 4 wrote `reasoning` for `text`."""
    written = "text" if "text" in part else "reasoning"
    proofs = [proof for proof in (part.get("providerMetadata") or {}).values() if proof.__class__ is dict]
    signature = next((text for proof in proofs if (text := first_text(proof, _SIGNATURES))), None)
    redacted = next((text for proof in proofs if (text := text_at(proof, "redactedData"))), None)
    typed = {
        "type": "thinking",
        "thinking": part[written],
        **({} if signature is None else {"signature": signature}),
        **({} if redacted is None else {"redacted": True, "data": redacted}),
    }
    return translated(part, typed, {written}, "reasoning")


_SIGNATURES = ("signature", "thoughtSignature")


def _file(part: Block) -> Block:
    return _picture(part) if part["mediaType"].startswith("image/") else _document(part)


def _picture(part: Block) -> Block:
    source = {"media_type": part["mediaType"], **url_source(part["url"])}
    typed = {"type": "image", "source": source}
    consumed = {"url"} | ({"mediaType"} if source["media_type"] == part["mediaType"] else set())
    return translated(part, typed, consumed, part["type"])


def _document(part: Block) -> Block:
    names = ("url", "mediaType", "filename")
    typed = {
        "type": "file",
        **mime_fields(part["mediaType"]),
        **pick(part, "filename"),
        "source": url_source(part["url"]),
    }
    return translated(part, typed, names, part["type"])


def _tool(part: Block) -> list[Block]:
    """The call and, where the state is one of an output, its result."""
    wire = part["type"]
    name = part["toolName"] if wire == "dynamic-tool" else wire.removeprefix("tool-")
    result = _RESULTS[part["state"]](part) if part["state"] in _RESULTS else None
    written = "input" if "input" in part else "rawInput"
    typed = {
        "type": "tool_use",
        **renamed(part, id="toolCallId"),
        "name": name,
        "input": part.get(written),
        **({"executor": "server"} if part.get("providerExecuted") is True else {}),
        "status": part["state"],
    }
    consumed = {"toolCallId", "toolName", "state", "providerExecuted", written}
    call = translated(part, typed, consumed | (_ANSWER if result else set()), wire)
    return [call] if result is None else [call, _answer(part, result)]


def _answer(part: Block, result: Block) -> Block:
    typed = {"type": "tool_result", **renamed(part, tool_use_id="toolCallId"), **result}
    answer = {key: value for key, value in part.items() if key in _ANSWER}
    return translated(answer, typed, _ANSWERED, part["type"])


_ANSWERED = frozenset({"output", "errorText"})
_ANSWER = _ANSWERED | {"preliminary", "resultProviderMetadata"}
"""What a tool part says of the result alone."""


def _output(part: Block) -> Block:
    """Any JSON. A list is no list of blocks, and stands where the machine-readable form does."""
    output = part["output"]
    return {"structured" if output.__class__ is list else "content": output, "is_error": False}


def _denied(part: Block) -> Block:
    reason = text_at(part, "approval", "reason")
    return {**({} if reason is None else {"content": reason}), "is_error": True}


_RESULTS: Mapping[str, Callable[[Block], Block]] = {
    "output-available": _output,
    "output-denied": _denied,
    "output-error": lambda part: {"content": part["errorText"], "is_error": True},
}


def _invocation(part: Block) -> list[Block]:
    """A tool part of version 4."""
    call = part["toolInvocation"]
    names = {"id": "toolCallId", "name": "toolName", "input": "args", "status": "state"}
    use = {"type": "tool_use", **renamed(call, **names)}
    made = [
        with_extra(
            translated(call, use, {*names.values(), "result"}, part["type"]),
            without(part, "type", "toolInvocation"),
        )
    ]
    if "result" in call:
        typed = {
            "type": "tool_result",
            "tool_use_id": call["toolCallId"],
            **_output({"output": call["result"]}),
        }
        made.append({**typed, "source_type": part["type"]})
    return made


def _steering(part: Block) -> list[Block]:
    """What the person said while the answer was being written."""
    said = [block for inner in list_or_empty(part["parts"]) for block in _blocks(inner)]
    marked = [block | {"source_type": "steering-message"} for block in said]
    return (
        [with_extra(marked[0], without(part, "type", "parts")), *marked[1:]] if marked else [_control(part)]
    )


_TRANSLATIONS: Mapping[str, Callable[[Block], Block | list[Block]]] = {
    "custom": _control,
    "dynamic-tool": _tool,
    "file": _file,
    "reasoning": _reasoning,
    "reasoning-file": _file,
    "source": _control,
    "source-document": _control,
    "source-url": _control,
    "steering-message": _steering,
    "step-start": _control,
    "text": _text,
    "tool-invocation": _invocation,
}
_PREFIXED: Mapping[str, Callable[[Block], Block | list[Block]]] = {"data": _control, "tool": _tool}
"""By what comes before the dash of `data-NAME` and `tool-NAME`."""


def _translation(wire: str) -> Callable[[Block], Block | list[Block]] | None:
    prefix, dash, _ = wire.partition("-")
    return _TRANSLATIONS.get(wire) or (_PREFIXED.get(prefix) if dash else None)


def _blocks(part: Any) -> list[Block]:
    wire: Any = part.get("type") if part.__class__ is dict else None
    translation = _translation(wire) if wire.__class__ is str else None
    if translation is not None:
        return translate(wire, part, translation)
    if part.__class__ is str:
        return [text_block(part)]
    return [part] if is_native(part) else [raw_block("unknown_type", part, wire_name(part) if wire else None)]


def read_block(part: Any) -> Block:
    """One bare part; the whole of it as `raw` where it is a call and its result."""
    blocks = _blocks(part)
    return blocks[0] if len(blocks) == 1 else raw_block("control", part, part["type"])


def _read_parts(parts: list[Block]) -> list[Block]:
    """The blocks of all parts. A source is a citation of the text before it."""
    if parts.__class__ is not list:
        raise TypeError
    blocks: list[Block] = []
    sources = defaultdict[int, list[Block]](list)
    text: int | None = None
    for part in bounded(parts):
        if text is not None and _is_source(part):
            sources[text].append(part)
            continue
        made = _blocks(part)
        text = _last_text(made, len(blocks), text)
        blocks += made
    return [
        _cited(block, sources[place]) if place in sources else block
        for place, block in enumerate(bounded(blocks))
    ]


def _last_text(made: list[Block], start: int, before: int | None) -> int | None:
    """Where the last text stands that a source can be given to, once these blocks are there, too."""
    places = [place for place, block in enumerate(made, start) if block["type"] == "text"]
    if not places:
        return before
    return places[-1] if made[places[-1] - start].get("citations", []).__class__ is list else None


def _cited(block: Block, sources: list[Block]) -> Block:
    return {**block, "citations": [*block.get("citations", ()), *sources]}


def _is_source(part: Any) -> bool:
    return part.__class__ is dict and is_one_of(part.get("type"), _SOURCES)


_SOURCES = ("source-url", "source-document")


def _read_message(record: Record) -> RecordReading:
    return RecordReading("message", _ROLES[record["role"]], _read_parts(record["parts"]))


def read(record: Record) -> RecordReading:
    """A message, a chunk, or one bare part."""
    if "parts" in record and "role" in record:
        return _read_message(record)
    if _is_chunk(record):
        return chunk_reading(record)
    return RecordReading("record", "system", _blocks(record))


_CHUNK_KEYS: Mapping[str, tuple[str, ...]] = {
    "abort": (),
    "custom": ("kind",),
    "error": ("errorText",),
    "file": ("url", "mediaType"),
    "finish": (),
    "finish-step": (),
    "message-metadata": ("messageMetadata",),
    "reasoning-delta": ("id", "delta"),
    "reasoning-end": ("id",),
    "reasoning-file": ("url", "mediaType"),
    "reasoning-start": ("id",),
    "reset-step": (),
    "source-document": ("sourceId", "mediaType"),
    "source-url": ("sourceId", "url"),
    "start": (),
    "start-step": (),
    "text-delta": ("id", "delta"),
    "text-end": ("id",),
    "text-start": ("id",),
    "tool-approval-request": ("approvalId",),
    "tool-approval-response": ("approvalId",),
    "tool-input-available": ("toolCallId", "input"),
    "tool-input-delta": ("toolCallId", "inputTextDelta"),
    "tool-input-error": ("toolCallId", "errorText"),
    "tool-input-start": ("toolCallId", "toolName"),
    "tool-output-available": ("toolCallId", "output"),
    "tool-output-denied": ("toolCallId",),
    "tool-output-error": ("toolCallId", "errorText"),
}
"""The keys that a chunk of each type always has."""
_CHUNKS = {wire: frozenset(keys) for wire, keys in _CHUNK_KEYS.items()}
_BARE_KEYS = frozenset({"type", "messageId", "messageMetadata", "finishReason", "reason"})
"""All that the chunks may carry that need carry nothing."""


def _is_chunk(record: Record) -> bool:
    wire = record.get("type")
    if wire.__class__ is not str:
        return False
    if wire.startswith("data-"):
        return "data" in record
    needed = _CHUNKS.get(wire)
    return needed is not None and (record.keys() >= needed if needed else record.keys() <= _BARE_KEYS)


def _is_message(record: Record) -> bool:
    """Whether this is a role with parts that all have a type, as the parts of no other such message do."""
    role, parts = record.get("role"), record.get("parts")
    if role.__class__ is not str or role not in _ROLES or parts.__class__ is not list:
        return False
    typed = all(part.__class__ is dict and part.get("type").__class__ is str for part in parts)
    return typed and (bool(parts) or role != "user")


def recognizes(record: Record) -> bool:
    """Whether a record is a message or a chunk of a UI message stream."""
    if "parts" in record:
        return body_keys(record) == {"parts"} and _is_message(record)
    return _is_chunk(record) and record.keys().isdisjoint(_OTHERS)


_OTHERS = ENVELOPE_KEYS | {"file", "message", "sequence_number", "severity"}
"""Keys of what others write under the types of chunks."""


def facts(record: Record) -> Facts:
    """A message is stored anew, under its id, each time it has grown: the id tells no record apart."""
    metadata = record.get("metadata")
    made = record.get("createdAt") or (metadata.get("createdAt") if metadata.__class__ is dict else None)
    return Facts(timestamp=to_milliseconds(made), model=first_text(metadata, ("model", "modelId")))


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """Each step of a message: what the assistant said and called, then the results of what ran at the client."""
    if reading.kind != "message":
        return []
    steps = _cut(reading.blocks, "rawType")
    pieces = [record, *_cut(record["parts"], "type")[1:]]
    made = [
        replace(part, original=piece)
        for number, (piece, blocks) in enumerate(zip(pieces, steps, strict=True))
        for part in _step(record, reading, number, blocks)
    ]
    last = max((place for place, part in enumerate(made) if part.role == "assistant"), default=None)
    if last is not None:
        made[last] = _with_usage(made[last], record)
    return made


def _cut(values: list[Block], key: str) -> list[list[Block]]:
    """Parts, or the blocks of them, step by step."""
    starts = [place for place, value in enumerate(values) if value.get(key) == "step-start"]
    cuts = [0, *(place for place in starts if place), len(values)]
    return [values[start:end] for start, end in pairwise(cuts)]


def _step(record: Record, reading: RecordReading, number: int, blocks: list[Block]) -> list[Part]:
    said: list[Block] = []
    asked: list[Block] = []
    hosted = {block.get("id") for block in blocks if block.get("executor") == "server"}
    for block in blocks:
        (asked if _is_user(block, hosted) else said).append(block)
    role: Any = reading.role
    made = [Part(role=role, blocks=said)] if said or not asked else []
    made += [Part(role="user", blocks=asked)] if asked else []
    name = text_at(record, "id")
    return [_named(part, name, number) for part in made]


def _is_user(block: Block, hosted: set[Any]) -> bool:
    if block["type"] == "tool_result":
        return block.get("tool_use_id") not in hosted
    return block.get("source_type") == "steering-message"


def _named(part: Part, name: str | None, number: int) -> Part:
    """A message that is stored again under its id takes the place of what it was, step by step."""
    if name is None:
        return part
    id = f"{name}/{number}" if number else name
    return replace(
        part,
        key=f"{part.role} {id}",
        keeps_key=True,
        replaces=True,
        id=id,
        metadata={"messageId": name},
    )


def _with_usage(part: Part, record: Record) -> Part:
    metadata = record.get("metadata")
    told = metadata if metadata.__class__ is dict else {}
    usage = told.get("totalUsage", told.get("usage"))
    more = {"model": first_text(told, ("model", "modelId")), "stop_reason": text_at(told, "finishReason")}
    return replace(part, usage=_usage(usage), metadata={**part.metadata, **more})


def _usage(usage: Any) -> Block | None:
    """The SDK's input includes what a cache held; applications put its usage into the metadata of a message."""
    read = count_at(usage, "inputTokenDetails", "cacheReadTokens")
    cached = count_at(usage, "cachedInputTokens") if read is None else read
    written = count_at(usage, "inputTokenDetails", "cacheWriteTokens")
    reasoning = count_at(usage, "outputTokenDetails", "reasoningTokens")
    return token_usage(
        usage,
        input=subtract_counts(count_at(usage, "inputTokens"), cached, written),
        output=count_at(usage, "outputTokens"),
        cache_read=cached,
        cache_creation=written,
        reasoning=count_at(usage, "reasoningTokens") if reasoning is None else reasoning,
    )


# The log of events: an answer is what stands between `start` and `finish`, with all its steps. It has a place for each
# thing: `text/ID`, `reasoning/ID`, `tool/CALL`. A message at rest may repeat what came in chunks.


_Kind = Literal["text", "thinking"]
_Write = Callable[[Record], list[Step]]


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """Chunks, and messages; a bare part says nothing."""
    if reading.kind == "message":
        return [Whole(part, repeats=True) for part in parts(record, reading)]
    write = _WRITTEN.get(record["type"]) if reading.kind == "chunk" else None
    return write(record) if write else []


def _starts(chunk: Record) -> list[Step]:
    return [ResponseStarts(text_at(chunk, "messageId")), *_spent(chunk)]


def _finishes(chunk: Record) -> list[Step]:
    """The turn is over, unless the client has to answer a call; it then goes on in another stream."""
    return [ResponseEnds(is_final=True, unless_called=True), *_spent(chunk), Counted(None)]


def _spent(chunk: Record) -> list[Step]:
    """Applications put the usage of the message so far into its metadata."""
    told = chunk.get("messageMetadata")
    usage = _usage(told.get("totalUsage", told.get("usage"))) if told.__class__ is dict else None
    return [] if usage is None else [Counted(usage, "message")]


def _says_begin(kind: _Kind, wire: str) -> _Write:
    return lambda chunk: [Fragment(kind, "", f"{wire}/{chunk['id']}", more=_proof(chunk), reopens=True)]


def _says_more(kind: _Kind, wire: str) -> _Write:
    return lambda chunk: [Fragment(kind, chunk["delta"], f"{wire}/{chunk['id']}", more=_proof(chunk))]


def _says_end(kind: _Kind, wire: str) -> _Write:
    def write(chunk: Record) -> list[Step]:
        slot = f"{wire}/{chunk['id']}"
        return [Fragment(kind, "", slot, more=_proof(chunk)), Closed(slot)]

    return write


def _proof(chunk: Record) -> Block:
    if not chunk["type"].startswith("reasoning"):
        return {}
    return pick(_reasoning({"text": "", **pick(chunk, "providerMetadata")}), "signature", "redacted")


def _tool_slot(chunk: Record) -> str:
    return f"tool/{chunk['toolCallId']}"


def _call_starts(chunk: Record) -> list[Step]:
    hosted = {"executor": "server"} if chunk.get("providerExecuted") is True else {}
    id, name = chunk["toolCallId"], chunk["toolName"]
    return [Fragment("input", "", _tool_slot(chunk), call=id, name=name, more=hosted)]


def _call_goes_on(chunk: Record) -> list[Step]:
    return [Fragment("input", chunk["inputTextDelta"], _tool_slot(chunk), call=chunk["toolCallId"])]


def _called(chunk: Record, state: str = "input-available") -> list[Step]:
    """The call, whole, and, where it could not be made, its result, which may be told once more."""
    made = _tool({**chunk, "type": "dynamic-tool", "state": state})
    call = Whole(Part(role="assistant", blocks=made[:1]), slot=_tool_slot(chunk))
    return [call, *(_told_result(result) for result in made[1:])]


def _answered(state: str) -> _Write:
    def write(chunk: Record) -> list[Step]:
        if chunk.get("preliminary") is True:
            return []
        return [_told_result(_answer(chunk, _RESULTS[state](chunk)))]

    return write


def _told_result(result: Block) -> Step:
    return Whole(Part(role="user", blocks=[result], replaces=True))


def _shows(chunk: Record) -> list[Step]:
    return [Whole(Part(role="assistant", blocks=[_file(chunk)]))]


_WRITTEN: Mapping[str, _Write] = {
    "abort": lambda chunk: [Interrupts("user_cancel")],
    "error": lambda chunk: [Says("error", message_error("error", chunk["errorText"]))],
    "file": _shows,
    "finish": _finishes,
    "finish-step": lambda chunk: [Settled()],
    "message-metadata": _spent,
    "reasoning-delta": _says_more("thinking", "reasoning"),
    "reasoning-end": _says_end("thinking", "reasoning"),
    "reasoning-file": _shows,
    "reasoning-start": _says_begin("thinking", "reasoning"),
    "reset-step": lambda chunk: [ResponseEnds(is_partial=True)],
    "start": _starts,
    "text-delta": _says_more("text", "text"),
    "text-end": _says_end("text", "text"),
    "text-start": _says_begin("text", "text"),
    "tool-input-available": _called,
    "tool-input-delta": _call_goes_on,
    "tool-input-error": lambda chunk: _called(chunk, "output-error"),
    "tool-input-start": _call_starts,
    "tool-output-available": _answered("output-available"),
    "tool-output-denied": _answered("output-denied"),
    "tool-output-error": _answered("output-error"),
}
"""Chunks that are not here add nothing: marks of steps, sources, data of the application, approvals."""


PROVIDER = Provider(
    source="vercel",
    recognizes=recognizes,
    marks={*_CHUNKS, "data", "parts"},
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
    steps=steps,
)
