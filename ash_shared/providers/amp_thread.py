"""Threads of Amp: a JSON document that is rewritten as a whole.

Source: test cases of a reader, and the stream types of `@sourcegraph/amp-sdk`. The blocks have the types of Anthropic's
API, but the result of a tool may be in `run`, with a status.
"""

from collections.abc import Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    content_parser,
    parse_content,
    raw_block,
    renamed,
    translate,
    translated,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.contract import Marks, ParsedRecord, Part, Provider, Record, Speaker, WireType
from ash_shared.records.documents import DocumentItem, UniqueKeys, document_type
from ash_shared.records.fingerprints import body_keys
from ash_shared.records.json_fields import (
    count_at,
    is_integer,
    items_at,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)

_ROLES: Mapping[str, Speaker] = {"assistant": "assistant", "system": "system", "user": "user"}


def _translate_run(block: Block) -> Block:
    """Translate the result of a tool that has run. Any status but `done` is an error."""
    run = block["run"]
    status = text_at(run, "status")
    content = run["result"] if "result" in run else run.get("error")
    typed = {
        "type": "tool_result",
        **renamed(block, tool_use_id="toolUseID"),
        **({} if content is None else {"content": content}),
        **({} if status in (None, "in-progress") else {"is_error": status != "done"}),
    }
    rest = without(run, "result" if "result" in run else "error")
    return translated(
        {**block, "run": rest}, typed, ("toolUseID", *(() if rest else ("run",))), "tool_result"
    )


_parse_typed = content_parser({})


def parse_block(block: Any) -> Block:
    if text_at(block, "type") == "tool_result" and "run" in block:
        return translate("tool_result", block, _translate_run)[0]
    return _parse_typed(block)


def _message_blocks(message: Any) -> list[Block]:
    if text_at(message, "role") not in _ROLES:
        return [raw_block("malformed", message, "message")]
    return translate("message", message, lambda each: parse_content(each["content"], parse_block))


def _parse_thread(record: Record) -> ParsedRecord:
    head = raw_block("control", without(record, "messages"), "thread")
    blocks = [block for message in record["messages"] for block in _message_blocks(message)]
    return ParsedRecord("message", "user", bounded([head, *blocks]))


def _items(record: Record) -> list[DocumentItem]:
    """Return the messages, by their ids or else by their numbers: threads only grow."""
    keys = UniqueKeys()
    return [
        DocumentItem(f"{_id_of(record)}/{keys.name(_key(message, number))}", message, [_part(message)])
        for number, message in enumerate(record["messages"])
    ]


def _key(message: Any, number: int) -> Any:
    id = value_at(message, "messageId")
    return number if id is None else id


def _part(message: Any) -> Part:
    usage = value_at(message, "usage")
    time = to_milliseconds(value_at(usage, "timestamp")) or to_milliseconds(
        value_at(message, "meta", "sentAt")
    )
    return Part(
        role=_ROLES.get(text_at(message, "role") or "", "system"),
        blocks=_message_blocks(message),
        header=RecordHeader(timestamp=time),
        is_undated=time is None,
        original=message,
        usage=_usage(usage),
        metadata={"model": text_at(usage, "model")},
    )


def _usage(usage: Any) -> Block | None:
    """Return the usage of an answer. Its input does not include tokens that were read from or written to a cache."""
    return token_usage(
        usage,
        input=count_at(usage, "inputTokens"),
        output=count_at(usage, "outputTokens"),
        cache_read=count_at(usage, "cacheReadInputTokens"),
        cache_creation=count_at(usage, "cacheCreationInputTokens"),
    )


_THREAD = document_type("thread", _parse_thread, _items)


def recognize(record: Record) -> WireType | None:
    is_thread = body_keys(record) == {"messages", "v"} and isinstance(record["messages"], list)
    return _THREAD if is_thread and is_integer(record["v"]) and _id_of(record) is not None else None


def _id_of(record: Record) -> str | None:
    return text_at(record, "id")


def header(record: Record) -> RecordHeader:
    trees = items_at(record, "env", "initial", "trees")
    uri = text_at(trees[0], "uri") if trees else None
    is_local = uri is not None and uri.startswith("file:///")
    return RecordHeader(
        timestamp=to_milliseconds(record.get("created")),
        session_id=_id_of(record),
        title=text_at(record, "title"),
        folder=uri.removeprefix("file://") if uri is not None and is_local else None,
    )


def identify(record: Record) -> Identity:
    return Identity(record=_id_of(record))


PROVIDER = Provider(
    source="amp_thread",
    recognize=recognize,
    marks=Marks(untyped_keys={"v"}, body_keys={"messages", "v"}),
    wire_type=lambda record: _THREAD,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
