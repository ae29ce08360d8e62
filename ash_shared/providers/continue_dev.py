"""Continue: the session of its command-line program or of an editor, one document that is rewritten at each step.

Sources: sessions of real runs of `cn`, and Continue's types. An item of the history has a message, the results of its
calls, and the files that a person added.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from ash_shared.model.blocks import (
    Block,
    bounded,
    content_parser,
    parse_content,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
    with_extra_in_first,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.chat_completions import translate_image_url, translate_tool_call
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    Speaker,
    WireType,
    unknown_record,
)
from ash_shared.records.documents import DocumentItem, document_type
from ash_shared.records.fingerprints import body_keys
from ash_shared.records.json_fields import (
    count_at,
    is_one_of,
    items_at,
    list_or_empty,
    subtract_counts,
    text_at,
    token_usage,
    url_source,
    value_at,
)

_CALLED = ("content", "role", "toolCalls")
_FAILED = frozenset({"canceled", "errored"})
_PENDING = frozenset({"calling", "generated", "generating"})
"""States of calls without a result."""
_UNTITLED = frozenset({"", "New Session", "Untitled Session"})
_REPEATED = ("contextItems", "editorState", "message", "promptLogs", "toolCallState", "toolCallStates")
"""Keys of an item that are read, or that repeat the message."""


def _translate_image(part: Record) -> Block:
    typed = {"type": "image", "source": url_source(part["imageUrl"]["url"])}
    return translated(part, typed, {"imageUrl"}, "imageUrl")


parse_block = content_parser({"image_url": translate_image_url, "imageUrl": _translate_image})


def _texts(message: Record) -> list[Block]:
    content = message.get("content")
    return [] if content in (None, "") else parse_content(content, parse_block)


def _translate_prompt(item: Record) -> list[Block]:
    """Return the text of a message after the files that a person added to it."""
    files = [_context_block(each) for each in list_or_empty(item.get("contextItems"))]
    blocks = [*files, *_texts(item["message"])]
    return _with_rest(blocks, without(item["message"], "content", "role"), without(item, *_REPEATED))


def _with_rest(blocks: list[Block], message: Block, item: Block) -> list[Block]:
    """Return the blocks with the other values of their message and its item in the first one."""
    if not blocks and (message or item):
        return [raw_block("control", {**item, "message": message}, "item")]
    return with_extra_in_first(with_extra_in_first(blocks, message), item)


def _context_block(file: Record) -> Block:
    source = {"type": "text", "media_type": "text/plain", "data": file["content"]}
    typed = {"type": "file", **renamed(file, filename="name"), "source": source}
    return translated(file, typed, {"content", "name"}, "contextItem")


def _translate_answer(item: Record) -> list[Block]:
    message = item["message"]
    thought = text_at(item, "reasoning", "text")
    typed = {"type": "thinking", "thinking": thought}
    thinking = [translated(item["reasoning"], typed, {"text"}, "reasoning")] if thought else []
    calls = [translate_tool_call(call) for call in list_or_empty(message.get("toolCalls"))]
    usage = ("usage",) if isinstance(message.get("usage"), dict) else ()
    rest = without(item, *_REPEATED, *(("reasoning",) if thought else ()))
    return _with_rest([*thinking, *_texts(message), *calls], without(message, *_CALLED, *usage), rest)


def _translate_thought(item: Record) -> list[Block]:
    message = item["message"]
    hidden = {"redacted": True, "data": message["redactedThinking"]} if "redactedThinking" in message else {}
    text = message.get("content")
    typed = {
        "type": "thinking",
        "thinking": text if isinstance(text, str) else "",
        **pick(message, "signature"),
    }
    consumed = {"content", "redactedThinking", "role", "signature"}
    return [translated(message, {**typed, **hidden}, consumed, "thinking")]


def _translate_result(item: Record) -> list[Block]:
    message = item["message"]
    content = message["content"]
    typed = {
        "type": "tool_result",
        **renamed(message, tool_use_id="toolCallId"),
        "content": parse_content(content, parse_block) if isinstance(content, list) else content,
    }
    return [translated(message, typed, {"content", "role", "toolCallId"}, "tool")]


def _translate_state(state: Record) -> list[Block]:
    """Return the result of a call; none while it waits or runs."""
    if _is_pending(state):
        return []
    outputs = list_or_empty(state.get("output"))
    texts = [each["content"] for each in outputs]
    content = texts[0] if len(texts) == 1 else [text_block(text) for text in texts]
    failed = {"is_error": True} if is_one_of(state.get("status"), _FAILED) else {}
    result = {"type": "tool_result", "tool_use_id": state["toolCallId"], "content": content, **failed}
    rest = without(state, "output", "parsedArgs", "toolCall", "toolCallId")
    named = [without(each, "content") for each in outputs]
    return [with_extra(result, {**rest, "output": named} if any(named) else rest)]


def _is_pending(state: Record) -> bool:
    return is_one_of(state.get("status"), _PENDING) and not list_or_empty(state.get("output"))


_SPEAKERS: dict[str, tuple[Speaker, Any]] = {
    "assistant": ("assistant", _translate_answer),
    "system": ("system", _translate_prompt),
    "thinking": ("assistant", _translate_thought),
    "tool": ("user", _translate_result),
    "user": ("user", _translate_prompt),
}


def _item_parts(item: Any, answered: frozenset[str]) -> Iterator[tuple[Speaker, list[Block]]]:
    """Yield the speakers of an item with their blocks. `answered`: calls with a result in another message."""
    role = text_at(item, "message", "role") or ""
    if role not in _SPEAKERS:
        yield "system", [raw_block("unknown_type" if role else "malformed", item, role or None)]
        return
    speaker, translation = _SPEAKERS[role]
    yield speaker, translate(role, item, translation)
    for state in _states(item):
        if text_at(state, "toolCallId") not in answered:
            yield "user", translate("toolCallState", state, _translate_state)


def _states(item: Record) -> list[Any]:
    return [*list_or_empty(item.get("toolCallStates")), *filter(None, [item.get("toolCallState")])]


def _leftover(item: Any, answered: frozenset[str]) -> Block:
    """Return the values of an item that are in none of its blocks."""
    role = text_at(item, "message", "role")
    if role not in _SPEAKERS:
        return {}
    rest = without(item, "message", *_REPEATED) if role in ("thinking", "tool") else {}
    files = [] if role in ("system", "user") else list_or_empty(item.get("contextItems"))
    states = [
        without(state, "parsedArgs", "toolCall")
        for state in _states(item)
        if isinstance(state, dict) and (text_at(state, "toolCallId") in answered or _is_pending(state))
    ]
    others = {"contextItems": files, "toolCallStates": states}
    return {**rest, **{name: values for name, values in others.items() if values}}


def _answered(record: Record) -> frozenset[str]:
    ids = (text_at(item, "message", "toolCallId") for item in record["history"])
    return frozenset(filter(None, ids))


def _parse(record: Record) -> ParsedRecord:
    answered = _answered(record)
    blocks = [
        block for item in record["history"] for _, blocks in _item_parts(item, answered) for block in blocks
    ]
    leftovers = [_leftover(item, answered) for item in record["history"]]
    history = {"history": leftovers} if any(leftovers) else {}
    head = raw_block("control", {**without(record, "history"), **history}, "session")
    return ParsedRecord("message", "user", bounded([head, *blocks]))


def _items(record: Record) -> list[DocumentItem]:
    answered = _answered(record)
    return [
        DocumentItem(str(number), item, [*_parts(item, answered)])
        for number, item in enumerate(record["history"])
    ]


def _parts(item: Any, answered: frozenset[str]) -> Iterator[Part]:
    usage = value_at(item, "message", "usage")
    for speaker, blocks in _item_parts(item, answered):
        if speaker == "assistant":
            yield Part(
                role="assistant",
                blocks=blocks,
                is_undated=True,
                original=item,
                usage=_usage(usage),
                metadata={"model": text_at(usage, "model")},
            )
        elif blocks:
            yield Part(role=speaker, blocks=blocks, is_undated=True, original=item)


def _usage(usage: Any) -> Block | None:
    cached = count_at(usage, "prompt_tokens_details", "cached_tokens")
    return token_usage(
        usage,
        input=subtract_counts(count_at(usage, "prompt_tokens"), cached),
        output=count_at(usage, "completion_tokens"),
        cache_read=cached,
        reasoning=count_at(usage, "completion_tokens_details", "reasoning_tokens"),
    )


_SESSION = document_type("session", _parse, _items)
_UNKNOWN = WireType(unknown_record)


def wire_type(record: Record) -> WireType:
    return _SESSION if isinstance(record.get("history"), list) else _UNKNOWN


def recognize(record: Record) -> WireType | None:
    history = record.get("history")
    is_own = (
        isinstance(history, list)
        and isinstance(record.get("sessionId"), str)
        and isinstance(record.get("workspaceDirectory"), str)
        and body_keys(record) == {"history"}
        and all(isinstance(value_at(item, "message"), dict) for item in history)
    )
    return _SESSION if is_own else None


def header(record: Record) -> RecordHeader:
    title = text_at(record, "title")
    models = (text_at(item, "message", "usage", "model") for item in items_at(record, "history"))
    folder = text_at(record, "workspaceDirectory") or ""
    return RecordHeader(
        session_id=text_at(record, "sessionId"),
        title=None if title in _UNTITLED else title,
        model=next(filter(None, models), None),
        folder=unquote(folder.removeprefix("file://")) if folder.startswith("file://") else folder or None,
    )


def identify(record: Record) -> Identity:
    name = text_at(record, "sessionId")
    return Identity(session=name, record=name)


PROVIDER = Provider(
    source="continue",
    recognize=recognize,
    marks=Marks(untyped_keys={"history"}, body_keys={"history"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
