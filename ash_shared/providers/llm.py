"""`llm`, the command-line program: the rows of its database, each as one line of JSON with its table, key and columns.

Source: databases of versions 0.27 and 0.36. A row has the rows that belong to it in further columns: since 0.36, a
message has its parts and the turn that it ends; before, a response has its calls and attachments.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
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
    Speaker,
    WireType,
    control_record,
    unknown_record,
)
from ash_shared.records.fingerprints import RowTable, recognize_row, wire_type_of_row
from ash_shared.records.json_fields import (
    count_at,
    decode_arguments,
    items_at,
    list_or_empty,
    mime_fields,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)

# Parts of messages.


def _translate_part(part: Record) -> list[Block]:
    payload = decode_arguments(part["payload"]) if part.get("payload") is not None else {}
    fields = payload | {"text": part["text"]} if isinstance(part.get("text"), str) else payload
    translation = _TRANSLATIONS.get(part["type"])
    if translation is None:
        return [raw_block("unknown_type", part, part["type"])]
    blocks = _with_rest(translation(fields, part), without(part, *_PART_COLUMNS))
    return [block if "source_type" in block else {**block, "source_type": part["type"]} for block in blocks]


_PART_COLUMNS = (
    *("attachments", "fragments", "id", "message_hash", "payload", "position", "text", "tool_name", "type"),
)
"""Columns that are read, or that only name the part."""


def _with_rest(blocks: list[Block], rest: Block) -> list[Block]:
    """Return the blocks with other values in the first typed one; without any, in a block of their own."""
    place = next((place for place, block in enumerate(blocks) if block["type"] != "raw"), None)
    if place is None:
        return [*blocks, raw_block("control", rest)] if rest else blocks
    return [*blocks[:place], with_extra(blocks[place], rest), *blocks[place + 1 :]]


def _translate_text(fields: Record, part: Record) -> list[Block]:
    """Translate a text. Fragments are parts of it, or files between its pieces."""
    fragments = {fragment["id"]: fragment for fragment in list_or_empty(part.get("fragments"))}
    if "text" in fields:
        blocks = [text_block(fields["text"]), *map(_fragment_block, fragments.values())]
        return _with_rest(blocks, without(fields, "text"))
    pieces = fields["text_ref"]
    blocks = [
        text_block(piece["literal"])
        if "literal" in piece
        else _fragment_block(fragments.get(piece["fragment"]))
        for piece in pieces
    ]
    used = {piece.get("fragment") for piece in pieces}
    others = [_fragment_block(fragment) for id, fragment in fragments.items() if id not in used]
    return _with_rest([*blocks, *others], without(fields, "text_ref"))


def _fragment_block(fragment: Any) -> Block:
    if text_at(fragment, "content") is None:
        return raw_block("control", fragment, "fragment")
    source = {"type": "text", "media_type": "text/plain", "data": fragment["content"]}
    name = text_at(fragment, "source")
    named = {} if name is None else {"filename": name.rpartition("/")[2]}
    block = {"type": "file", **named, "source": source, "source_type": "fragment"}
    return with_extra(block, without(fragment, "content"))


def _translate_reasoning(fields: Record, part: Record) -> list[Block]:
    """Translate a thought, which is empty if the vendor withholds it."""
    withheld = {"redacted": True} if fields.get("redacted") is True else {}
    block = {"type": "thinking", "thinking": fields.get("text", ""), **withheld}
    return [with_extra(block, without(fields, "redacted", "text"))]


def _translate_call(fields: Record, part: Record) -> list[Block]:
    executor = {"executor": "server"} if fields.get("server_executed") is True else {}
    arguments = decode_arguments(fields["arguments"])
    typed = {
        "type": "tool_use",
        **renamed(fields, id="tool_call_id"),
        "name": fields["name"],
        "input": arguments,
        **executor,
    }
    original = {} if arguments is fields["arguments"] else {"arguments": fields["arguments"]}
    rest = without(fields, "arguments", "name", "server_executed", "tool_call_id")
    return [with_extra(typed, rest | original)]


def _translate_result(fields: Record, part: Record) -> list[Block]:
    failed = {"is_error": True} if fields.get("exception") is not None else {}
    files = [_attachment_block(each) for each in list_or_empty(part.get("attachments"))]
    content = [text_block(fields["output"]), *files] if files else fields["output"]
    block = {
        "type": "tool_result",
        **renamed(fields, tool_use_id="tool_call_id"),
        "content": content,
        **failed,
    }
    return [with_extra(block, without(fields, "attachments", "output", "tool_call_id"))]


def _translate_attachment(fields: Record, part: Record) -> list[Block]:
    files = [_attachment_block(each) for each in list_or_empty(part.get("attachments"))]
    if not files:
        return [raw_block("control", part, "attachment")]
    return _with_rest(files, without(fields, "attachment"))


def _attachment_block(attachment: Record) -> Block:
    """Return an image with its bytes or address; other attachments are files."""
    mime, path, url = (text_at(attachment, name) for name in ("type", "path", "url"))
    data = text_at(attachment, "content", "base64")
    source = {"type": "base64", "media_type": mime, "data": data} if data else {"type": "url", "url": url}
    rest = _present(without(attachment, "content") if data else attachment)
    if mime is not None and mime.startswith("image/") and (data or url):
        block = {"type": "image", "source": source, "source_type": "attachment"}
        return with_extra(block, without(rest, "type", "url"))
    named = {} if path is None else {"filename": path.rpartition("/")[2], "storagePath": path}
    place = {"source": source} if data or url else {}
    block = {"type": "file", **mime_fields(mime), **named, **place, "source_type": "attachment"}
    return with_extra(block, without(rest, "path", "type", "url"))


_TRANSLATIONS: Mapping[str, Callable[[Record, Record], list[Block]]] = {
    "attachment": _translate_attachment,
    "reasoning": _translate_reasoning,
    "text": _translate_text,
    "tool_call": _translate_call,
    "tool_result": _translate_result,
}


def parse_block(block: object) -> Block:
    """Return the first block of a part."""
    wire_type = text_at(block, "type")
    if wire_type is None or wire_type not in _TRANSLATIONS:
        return raw_block("unknown_type", block, wire_type)
    return translate(wire_type, block, _translate_part)[0]


# Messages, since version 0.36.

_SPEAKERS: Mapping[str, Speaker] = {
    "assistant": "assistant",
    "system": "system",
    "tool": "user",
    "user": "user",
}


def _parse_message(row: Record) -> ParsedRecord:
    columns = row["columns"]
    role = columns["role"]
    if role not in _SPEAKERS:
        return unknown_record(row, "messages")
    blocks = [
        block
        for part in columns["parts"]
        for block in translate(str(text_at(part, "type")), part, _translate_part)
    ]
    rest = _present(without(columns, *_MESSAGE_COLUMNS)) | _turn_rest(columns.get("turn"))
    return ParsedRecord("message", role, bounded(_with_rest(blocks, rest)), is_checked=True)


_MESSAGE_COLUMNS = ("datetime_utc", "hash", "parent_hash", "parts", "role", "turn")


def _turn_rest(turn: Any) -> Block:
    """Return the columns of a request that no field of a message states."""
    if not isinstance(turn, dict):
        return {} if turn is None else {"turn": turn}
    return _present(without(turn, *_TURN_COLUMNS))


def _present(values: Block) -> Block:
    return {name: value for name, value in values.items() if value is not None}


_TURN_COLUMNS = (
    *("datetime_utc", "input_tokens", "output_tokens", "prompt_json", "response_json", "thread_id"),
    *("tip_message_hash", "token_details"),
)
"""Columns of a request that are fields of its answer, or that repeat its messages."""


def _message_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    columns = row["columns"]
    if columns["role"] != "assistant":
        role = _SPEAKERS[columns["role"]]
        return [Part(role=role, blocks=parsed.blocks, header=_header_of(row))] if parsed.blocks else []
    return [_answer_part(row, parsed.blocks, columns.get("turn"))]


def _answer_part(row: Record, blocks: list[Block], request: Any) -> Part:
    response = decode_arguments(value_at(request, "response_json"))
    choice = next(iter(items_at(response, "choices")), response)
    return Part(
        role="assistant",
        blocks=blocks,
        header=_header_of(row),
        message_id=text_at(response, "id"),
        usage=_usage(request),
        metadata={
            "model": text_at(request, "resolved_model") or text_at(request, "model"),
            "stop_reason": text_at(choice, "finish_reason") or text_at(response, "stop_reason"),
        },
    )


def _usage(request: Any) -> Block | None:
    """Return the usage of a request. OpenAI's models count cached tokens as input, Anthropic's do not."""
    details = decode_arguments(value_at(request, "token_details"))
    cached = count_at(details, "prompt_tokens_details", "cached_tokens")
    vendor = {name: value_at(request, name) for name in ("input_tokens", "output_tokens")}
    return token_usage(
        vendor | ({"token_details": details} if isinstance(details, dict) else {}),
        input=subtract_counts(count_at(request, "input_tokens"), cached),
        output=count_at(request, "output_tokens"),
        cache_read=count_at(details, "cache_read_input_tokens") if cached is None else cached,
        cache_creation=count_at(details, "cache_creation_input_tokens"),
        reasoning=count_at(details, "completion_tokens_details", "reasoning_tokens"),
    )


# Responses, before version 0.36.


def _parse_response(row: Record) -> ParsedRecord:
    blocks = [block for _, blocks in _sections(row["columns"]) for block in blocks]
    return ParsedRecord("message", "assistant", bounded(blocks))


def _sections(columns: Record) -> Iterator[tuple[Speaker, list[Block]]]:
    """Yield the speakers of a response with their blocks: the system prompt, results, the prompt, the answer."""
    if columns.get("system") or columns.get("system_fragments"):
        yield "system", [*_fragments(columns, "system_fragments"), *_texts(columns, "system")]
    results = _details(columns, "tool_results", _translate_result)
    if results:
        yield "user", results
    files = [_attachment_block(each) for each in list_or_empty(columns.get("attachments"))]
    prompt = [*_fragments(columns, "fragments"), *_texts(columns, "prompt"), *files]
    if prompt:
        yield "user", prompt
    reasoning = columns.get("reasoning")
    thoughts = [{"type": "thinking", "thinking": reasoning}] if reasoning else []
    calls = _details(columns, "tool_calls", _translate_call)
    answer = [*thoughts, *_texts(columns, "response"), *calls]
    yield "assistant", _with_rest(answer, _turn_rest(without(columns, *_SECTIONS)))


_SECTIONS = (
    *("attachments", "conversation_id", "fragments", "prompt", "reasoning", "response", "system"),
    *("system_fragments", "tool_calls", "tool_results"),
)


def _texts(columns: Record, name: str) -> list[Block]:
    text = columns.get(name)
    if not isinstance(text, str):
        return [] if text is None else [raw_block("malformed", text, name)]
    return [text_block(text)] if text else []


def _fragments(columns: Record, name: str) -> list[Block]:
    return [_fragment_block(fragment) for fragment in list_or_empty(columns.get(name))]


def _details(columns: Record, name: str, translation: Callable[[Record, Record], list[Block]]) -> list[Block]:
    rows = list_or_empty(columns.get(name))
    known = [{key: value for key, value in row.items() if value is not None} for row in rows]
    return [block for row in known for block in translate(name, row, lambda each: translation(each, {}))]


def _response_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    columns = row["columns"]
    return [
        _answer_part(row, blocks, columns)
        if speaker == "assistant"
        else Part(role=speaker, blocks=blocks, header=_header_of(row))
        for speaker, blocks in _sections(columns)
    ]


# Rows.


_TABLES: Mapping[str, RowTable] = {
    "conversations": RowTable(
        frozenset({"id", "model", "name"}), WireType(lambda row: control_record(row, "conversations"))
    ),
    "messages": RowTable(
        frozenset({"hash", "parent_hash", "parts", "role"}), WireType(_parse_message, _message_parts)
    ),
    "responses": RowTable(
        frozenset({"conversation_id", "prompt", "prompt_json", "response"}),
        WireType(_parse_response, _response_parts),
    ),
    "threads": RowTable(
        frozenset({"forked_from", "id", "tip_message_hash"}),
        WireType(lambda row: control_record(row, "threads")),
    ),
}


def _header_of(row: Record) -> RecordHeader:
    return RecordHeader(timestamp=to_milliseconds(value_at(row, "columns", "datetime_utc")))


def header(row: Record) -> RecordHeader:
    columns = row.get("columns")
    if row.get("table") not in _SESSIONS:
        model = text_at(columns, "turn", "model") or text_at(columns, "model")
        return _header_of(row)._replace(model=model)
    return _header_of(row)._replace(
        session_id=text_at(columns, "id"), title=text_at(columns, "name"), model=text_at(columns, "model")
    )


_SESSIONS = ("conversations", "threads")


def identify(row: Record) -> Identity:
    if row.get("table") not in _SESSIONS:
        return Identity()
    return Identity(session=text_at(row.get("columns"), "id"), body="")


PROVIDER = Provider(
    source="llm",
    recognize=partial(recognize_row, tables=_TABLES),
    marks=Marks(tables=_TABLES),
    wire_type=partial(wire_type_of_row, tables=_TABLES),
    parse_block=parse_block,
    header=header,
    identify=identify,
)
