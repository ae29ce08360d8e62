"""Threads of Zed: rows of its database, `threads.db`, each with a document that is rewritten at each turn.

Source: test cases of a reader, and the types in Zed's public code. Rust writes the document: the only key of an object
is its type. The importer decompresses the document, which is then text in the column `data`.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    Translation,
    bounded,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    with_extra,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    unknown_record,
)
from ash_shared.records.documents import DocumentItem, document_type
from ash_shared.records.fingerprints import ROW_KEYS
from ash_shared.records.json_fields import (
    count_at,
    decode_arguments,
    items_at,
    list_or_empty,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)


def _document(record: Record) -> Record:
    """Return the thread in a row. Raises TypeError for a value that is no object."""
    document = decode_arguments(record["columns"]["data"])
    if not isinstance(document, dict):
        raise TypeError
    return document


def _typed(source_type: str, typed: Block, rest: Block) -> Block:
    return with_extra({**typed, "source_type": source_type}, rest)


def _translate_text(text: Any) -> Block:
    return _typed("Text", text_block(text), {})


def _translate_mention(mention: Record) -> Block:
    """Translate an attachment, with the text that Zed sent for it."""
    source = {"type": "text", "media_type": "text/plain", "data": mention["content"]}
    path = text_at(mention, "uri", "File", "abs_path")
    name = {} if path is None else {"filename": path}
    return _typed("Mention", {"type": "file", **name, "source": source}, without(mention, "content"))


def _translate_image(image: Record) -> Block:
    """Translate an image. Zed converts all to PNG."""
    source = {"type": "base64", "media_type": "image/png", "data": image["source"]}
    return _typed("Image", {"type": "image", "source": source}, without(image, "source"))


def _translate_thinking(thinking: Record) -> Block:
    typed = {"type": "thinking", "thinking": thinking["text"], **pick(thinking, "signature")}
    return _typed("Thinking", typed, without(thinking, "text", "signature"))


def _translate_withheld(data: Any) -> Block:
    return _typed(
        "RedactedThinking", {"type": "thinking", "thinking": "", "redacted": True, "data": data}, {}
    )


def _translate_call(call: Record) -> Block:
    typed = {"type": "tool_use", **pick(call, "id"), "name": call["name"], "input": call["input"]}
    return _typed("ToolUse", typed, without(call, "id", "input", "name"))


_TRANSLATIONS: Mapping[str, Translation] = {
    "Image": _translate_image,
    "Mention": _translate_mention,
    "RedactedThinking": _translate_withheld,
    "Text": _translate_text,
    "Thinking": _translate_thinking,
    "ToolUse": _translate_call,
}


def parse_block(block: Any) -> Block:
    """Parse an element of a content list: an object with its type as the only key."""
    if isinstance(block, str):
        return text_block(block)
    if not isinstance(block, dict) or len(block) != 1:
        return raw_block("unknown_type", block)
    [(name, value)] = block.items()
    if name not in _TRANSLATIONS:
        return raw_block("unknown_type", block, name)
    [parsed] = translate(name, value, _TRANSLATIONS[name])
    return raw_block("malformed", block, name) if parsed["type"] == "raw" else parsed


def _translate_result(id: str, result: Record) -> Block:
    content = result["content"]
    texts = content if isinstance(content, list) else [content]
    is_own = result.get("tool_use_id") == id
    typed = {
        "type": "tool_result",
        "tool_use_id": id,
        "content": content if isinstance(content, str) else [parse_block(each) for each in bounded(texts)],
        **pick(result, "is_error"),
        **renamed(result, structured="output"),
    }
    rest = without(result, "content", "is_error", "output", *(("tool_use_id",) if is_own else ()))
    return _typed("tool_results", typed, rest)


def _user_blocks(message: Record) -> list[Block]:
    blocks = [parse_block(each) for each in bounded(list_or_empty(message["content"]))]
    return _with_rest(blocks, without(message, "content"))


def _answer_blocks(message: Record) -> list[Block]:
    blocks = [parse_block(each) for each in bounded(list_or_empty(message["content"]))]
    return _with_rest(blocks, without(message, "content", "tool_results"))


def _result_blocks(message: Record) -> list[Block]:
    results = message.get("tool_results")
    if results is None:
        return []
    return bounded(
        [
            block
            for id, result in results.items()
            for block in translate("tool_results", result, partial(_translate_result, id))
        ]
    )


def _with_rest(blocks: list[Block], rest: Block) -> list[Block]:
    """Return the blocks with further keys of their message: with the first typed one, or in a block of their own."""
    index = next((index for index, block in enumerate(blocks) if block["type"] != "raw"), None)
    if index is None:
        return [*blocks, raw_block("control", rest, "message")] if rest else blocks
    return [*blocks[:index], with_extra(blocks[index], rest), *blocks[index + 1 :]]


_SPEAKERS: Mapping[str, tuple[Translation, ...]] = {
    "Agent": (_answer_blocks, _result_blocks),
    "User": (_user_blocks,),
}
"""The translations of a message by its type: of what the speaker says, and of the results of its calls."""


def _contents(message: Any) -> Iterator[list[Block]]:
    """Yield the blocks of a message by speaker; a message of no known form yields none."""
    name, value = _variant(message)
    for translation in _SPEAKERS.get(name or "", ()):
        yield translate(str(name), value, translation)


def _variant(message: Any) -> tuple[str | None, Any]:
    """Return the type of a message, and its value; a unit type is a text."""
    if isinstance(message, dict) and len(message) == 1:
        [(name, value)] = message.items()
        return name, value
    return (message, None) if isinstance(message, str) else (None, message)


def _message_blocks(message: Any) -> list[Block]:
    name, _ = _variant(message)
    if name in _SPEAKERS:
        return [block for blocks in _contents(message) for block in blocks]
    return [raw_block("control" if name == "Resume" else "unknown_type", message, name)]


def _parse(record: Record) -> ParsedRecord:
    document = _document(record)
    head = {**record, "columns": {**record["columns"], "data": without(document, "messages")}}
    blocks = [block for message in document["messages"] for block in _message_blocks(message)]
    return ParsedRecord("message", "user", bounded([raw_block("control", head, "thread"), *blocks]))


def _items(record: Record) -> list[DocumentItem]:
    document = _document(record)
    model = text_at(document, "model", "model")
    messages = items_at(document, "messages")
    items = [
        DocumentItem(str(number), each, [*_message_parts(each, model)])
        for number, each in enumerate(messages)
    ]
    return [*items, *_usage_items(document, messages)]


def _message_parts(message: Any, model: str | None) -> Iterator[Part]:
    name, _ = _variant(message)
    for number, blocks in enumerate(_contents(message)):
        is_answer = name == "Agent" and number == 0
        part = Part(role="user", blocks=blocks, is_undated=True, original=message)
        if is_answer:
            yield replace(part, role="assistant", metadata={"model": model})
        elif blocks:
            yield part


def _usage_items(document: Record, messages: Any) -> Iterator[DocumentItem]:
    """Yield the usage of each prompt, which belongs to its last answer, or to the last one of the thread."""
    usage = document.get("request_token_usage")
    places = _last_answers(messages)
    for id, counts in usage.items() if isinstance(usage, dict) else ():
        answer = places.get(id, places.get(None))
        tokens = _usage(counts)
        if answer is not None and tokens is not None:
            part = Part(
                role="assistant",
                key=answer,
                relation="section",
                section=f"usage/{id}",
                usage=tokens,
                header=RecordHeader(uuid=answer),
                is_undated=True,
            )
            yield DocumentItem(f"usage/{id}", counts, [part])


def _last_answers(messages: Any) -> dict[str | None, str]:
    """Return the key of the last answer to each prompt with an id, and, under None, of the thread."""
    answers: dict[str | None, str] = {}
    prompt: str | None = None
    for number, message in enumerate(messages):
        name, value = _variant(message)
        if name == "User":
            prompt = text_at(value, "id")
        elif name == "Agent":
            answers[None] = answers[prompt] = str(number)
    return answers


def _usage(counts: Any) -> Block | None:
    """Return the usage of a request. Its input does not include tokens that were read from or written to a cache."""
    return token_usage(
        counts,
        input=count_at(counts, "input_tokens"),
        output=count_at(counts, "output_tokens"),
        cache_read=count_at(counts, "cache_read_input_tokens"),
        cache_creation=count_at(counts, "cache_creation_input_tokens"),
    )


def header(record: Record) -> RecordHeader:
    columns = record.get("columns")
    document = decode_arguments(value_at(columns, "data"))
    updated = to_milliseconds(value_at(columns, "updated_at"))
    return RecordHeader(
        timestamp=to_milliseconds(value_at(columns, "created_at")) or updated,
        last_timestamp=updated,
        session_id=text_at(columns, "id"),
        model=text_at(document, "model", "model"),
        title=text_at(columns, "summary"),
        parent=text_at(columns, "parent_id"),
        folder=_folder(columns, document),
    )


def _folder(columns: Any, document: Any) -> str | None:
    """Return the first folder of the project."""
    paths = text_at(columns, "folder_paths")
    if paths is not None:
        return paths.partition("\n")[0]
    trees = items_at(document, "initial_project_snapshot", "worktree_snapshots")
    return text_at(trees[0], "worktree_path") if trees else None


def identify(record: Record) -> Identity:
    found = header(record)
    return Identity(session=found.session_id, project=found.folder, record=found.session_id)


_THREAD = document_type("thread", _parse, _items, is_over=False)
_UNKNOWN = WireType(unknown_record)


def wire_type(record: Record) -> WireType:
    return _THREAD if "columns" in record else _UNKNOWN


def recognize(record: Record) -> WireType | None:
    if (
        record.get("table") != "threads"
        or record.keys() != ROW_KEYS
        or not isinstance(record["columns"], dict)
    ):
        return None
    return _THREAD if record["columns"].keys() >= _COLUMNS else None


_COLUMNS = frozenset({"data", "data_type", "summary"})

PROVIDER = Provider(
    source="zed",
    recognize=recognize,
    marks=Marks(tables={"threads"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
