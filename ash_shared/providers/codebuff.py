"""Chats of Codebuff: `chat-messages.json`, a list of messages that its program writes again after every turn.

Source: `ChatMessage` and `ContentBlock` in the types of its program (`cli/src/types/chat.ts`, 2026). The types do not
declare usage, which is read from where other readers find it. An answer contains its calls with their outputs, and the
blocks of the agents that it started.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import (
    Block,
    Translation,
    bounded,
    control_block,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra_in_first,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.contract import Marks, ParsedRecord, Part, Provider, Record, Speaker, WireType
from ash_shared.records.documents import DocumentItem, UniqueKeys, document_type
from ash_shared.records.fingerprints import ENVELOPE_KEYS
from ash_shared.records.json_fields import (
    count_at,
    first_count,
    is_one_of,
    latest_time,
    list_or_empty,
    listed,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)

MAX_AGENT_DEPTH = 16
"""Agents within agents; a deeper one is a `raw` block."""

_SPEAKERS: Mapping[str, Speaker] = {
    "agent": "assistant",
    "ai": "assistant",
    "assistant": "assistant",
    "error": "system",
    "user": "user",
}
_FOREIGN_KEYS = ENVELOPE_KEYS | {"message", "part", "role", "type"}
_LAYOUT = frozenset(
    {
        *("color", "isCollapsed", "marginBottom", "marginTop", "thinkingCollapseState", "thinkingId"),
        *("thinkingOpen", "userOpened"),
    }
)
"""Keys for the layout of a block in the terminal."""
_ENVELOPE = frozenset(
    {
        *(
            "id",
            "variant",
            "timestamp",
            "parentId",
            "isComplete",
            "isCompletion",
            "completionTime",
            "metadata",
        ),
        *("content", "blocks", "attachments", "textAttachments", "fileAttachments", "userError"),
    }
)
"""Keys of a message that are in its blocks or are not content."""


class _Piece(NamedTuple):
    """Consecutive blocks of one speaker."""

    speaker: Speaker
    blocks: list[Block]
    agent: str | None = None
    """The id of the agent that they belong to; None for the main conversation."""


# Blocks of a message.


def _translate_text(block: Record) -> Block:
    if block.get("textType") == "reasoning":
        typed: Block = {"type": "thinking", "thinking": block["content"]}
    else:
        typed = text_block(block["content"])
    return translated(block, typed, _LAYOUT | {"content", "status", "textType"}, "text")


def _translate_plan(block: Record) -> Block:
    return translated(block, text_block(block["content"], "plan"), {"content"}, "plan")


def _translate_image(block: Record) -> Block:
    source = {"type": "base64", **renamed(block, media_type="mediaType", data="image")}
    typed = {"type": "image", "source": source}
    return translated(block, typed, _LAYOUT | {"image", "mediaType"}, "image")


def _translate_call(block: Record) -> Block:
    typed = {"type": "tool_use", **renamed(block, id="toolCallId", name="toolName", input="input")}
    consumed = _LAYOUT | {"input", "output", "outputRaw", "toolCallId", "toolName"}
    return translated(block, typed, consumed, "tool")


def _translate_output(block: Record) -> Block:
    output = block.get("output")
    typed = {
        "type": "tool_result",
        "tool_use_id": block["toolCallId"],
        "content": "" if output is None else output,
    }
    return translated(pick(block, "outputRaw"), typed, (), "tool")


def _translate_question(block: Record) -> Block:
    questions = {"questions": block["questions"]}
    typed = {"type": "tool_use", "id": block["toolCallId"], "name": "ask_user", "input": questions}
    return translated(block, typed, {"answers", "questions", "skipped", "toolCallId"}, "ask-user")


def _translate_answers(block: Record) -> Block:
    answers = block.get("answers") or []
    words = [each[name] for each in answers for name in ("selectedOption", "otherText") if each.get(name)]
    typed = {
        "type": "tool_result",
        "tool_use_id": block["toolCallId"],
        "content": list(map(text_block, words)),
    }
    return translated(pick(block, "answers", "skipped"), typed, (), "ask-user")


def _translate_agent(block: Record) -> Block:
    """Translate the start of an agent to a call with the agent's id: the call of `spawn_agents` is not written."""
    arguments = renamed(block, prompt="initialPrompt", params="params")
    typed = {"type": "tool_use", "id": block["agentId"], "name": block["agentType"], "input": arguments}
    consumed = {"agentId", "agentType", "blocks", "initialPrompt", "params", "status"}
    in_result = () if _is_running(block) else ("content",)
    return translated(block, typed, _LAYOUT | consumed.union(in_result), "agent")


def _is_running(agent: Record) -> bool:
    return agent.get("status") == "running"


def _translate_agent_end(block: Record) -> Block:
    status = block["status"]
    failed = {"is_error": True} if status in ("failed", "cancelled") else {}
    typed = {"type": "tool_result", "tool_use_id": block["agentId"], "content": block["content"], **failed}
    return translated(pick(block, "status"), typed, (), "agent")


_BLOCKS: Mapping[str, Translation] = {
    "agent-list": control_block,
    "gate-state": control_block,
    "html": control_block,
    "image": _translate_image,
    "mode-divider": control_block,
    "plan": _translate_plan,
    "text": _translate_text,
}
_CALLS: Mapping[str, tuple[Translation, Translation, tuple[str, ...]]] = {
    "ask-user": (_translate_question, _translate_answers, ("answers", "skipped")),
    "tool": (_translate_call, _translate_output, ("output", "outputRaw")),
}
"""Translations of a call and of its result, and the keys of a result: it has at least one of them."""


def _block_pieces(block: Any, agent: str | None, depth: int) -> Iterator[_Piece]:
    name = text_at(block, "type") or ""
    if name in _CALLS:
        call, result, keys = _CALLS[name]
        yield _Piece("assistant", translate(name, block, call), agent)
        if any(block.get(key) is not None for key in keys):
            yield _Piece("user", translate(name, block, result), agent)
    elif name == "agent" and depth < MAX_AGENT_DEPTH:
        yield from _agent_pieces(block, agent, depth)
    elif name in _BLOCKS:
        yield _Piece("assistant", translate(name, block, _BLOCKS[name]), agent)
    else:
        yield _Piece("assistant", [raw_block("unknown_type", block, name or None)], agent)


def _agent_pieces(block: Record, agent: str | None, depth: int) -> Iterator[_Piece]:
    start = translate("agent", block, _translate_agent)
    yield _Piece("assistant", start, agent)
    if start[0]["type"] == "raw":
        return
    for nested in list_or_empty(block.get("blocks")):
        yield from _block_pieces(nested, block["agentId"], depth + 1)
    if not _is_running(block):
        yield _Piece("user", translate("agent", block, _translate_agent_end), agent)


def _translate_file(file: Record) -> Block:
    typed = {"type": "file", **renamed(file, filename="filename", size="size")}
    return translated(file, typed, {"filename", "size"}, "attachment")


def _translate_pasted(text: Record) -> Block:
    typed = {"type": "file", "source": {"type": "text", "data": text["content"]}}
    return translated(text, typed, {"content"}, "textAttachment")


_ATTACHMENTS: Mapping[str, Translation] = {
    "attachments": _translate_file,
    "textAttachments": _translate_pasted,
    "fileAttachments": _translate_file,
}


def _translate_error(message: Record) -> Block:
    return text_block(message["userError"], "error")


def _pieces(message: Any) -> list[_Piece]:
    """Return the content of a message: its text, blocks, attachments and error."""
    variant = text_at(message, "variant") or ""
    if variant not in _SPEAKERS:
        unknown = raw_block("unknown_type" if variant else "malformed", message, variant or None)
        return [_Piece("system", [unknown])]
    speaker = _SPEAKERS[variant]
    pieces = [_Piece(speaker, translate(variant, message, _translate_content))]
    for block in list_or_empty(message.get("blocks")):
        for piece in _block_pieces(block, None, 0):
            is_text = piece.speaker == "assistant" and piece.agent is None
            pieces.append(piece._replace(speaker=speaker) if is_text else piece)
    files = [
        file
        for name, translation in _ATTACHMENTS.items()
        for each in list_or_empty(message.get(name))
        for file in translate(name, each, translation)
    ]
    pieces.append(_Piece(speaker, files))
    if message.get("userError"):
        pieces.append(_Piece("system", translate(variant, message, _translate_error)))
    return _with_rest(_joined(pieces), message)


def _translate_content(message: Record) -> list[Block]:
    """Return the text of a message, unless one of its blocks repeats it."""
    text = message["content"]
    variant = "error" if message["variant"] == "error" else None
    repeats = any(text_at(block, "content") == text for block in list_or_empty(message.get("blocks")))
    return [] if text == "" or repeats else [text_block(text, variant)]


def _joined(pieces: list[_Piece]) -> list[_Piece]:
    joined: list[_Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and (last.speaker, last.agent) == (piece.speaker, piece.agent):
            last.blocks.extend(piece.blocks)
        elif piece.blocks:
            joined.append(piece._replace(blocks=[*piece.blocks]))
    return joined


def _with_rest(pieces: list[_Piece], message: Record) -> list[_Piece]:
    rest = without(message, *_ENVELOPE)
    if not pieces:
        return [_Piece(_SPEAKERS[message["variant"]], [raw_block("control", message, message["variant"])])]
    first = pieces[0]
    return [first._replace(blocks=with_extra_in_first(first.blocks, rest)), *pieces[1:]]


def parse_block(block: Any) -> Block:
    pieces = [*_block_pieces(block, None, MAX_AGENT_DEPTH)]
    return pieces[0].blocks[0]


# The chat.


def _messages(record: Record) -> list[Any]:
    messages: list[Any] = record["list"] if isinstance(record.get("list"), list) else [record]
    return bounded(messages)


def _parse_chat(record: Record) -> ParsedRecord:
    pieces = [piece for message in _messages(record) for piece in _pieces(message)]
    blocks = [block for piece in pieces for block in piece.blocks]
    return ParsedRecord("message", pieces[0].speaker if pieces else "system", bounded(blocks))


def _items(record: Record) -> list[DocumentItem]:
    keys = UniqueKeys()
    return [
        DocumentItem(keys.name(text_at(message, "id") or "message"), message, [*_parts(message)])
        for message in _messages(record)
    ]


def _parts(message: Any) -> Iterator[Part]:
    time = to_milliseconds(value_at(message, "timestamp"))
    usage = _usage(message)
    for piece in _pieces(message):
        is_answer = piece.speaker == "assistant" and piece.agent is None
        yield Part(
            role=piece.speaker,
            blocks=piece.blocks,
            header=RecordHeader(timestamp=time),
            is_undated=time is None,
            original=message,
            parent_call=piece.agent,
            usage=usage if is_answer else None,
            metadata={"model": text_at(message, "metadata", "model")} if is_answer else {},
        )
        usage = None if is_answer else usage


def _usage(message: Any) -> Block | None:
    """Return the usage of an answer. Counts named as in Chat Completions include cached tokens."""
    metadata = value_at(message, "metadata")
    usage = value_at(metadata, "usage") or value_at(metadata, "codebuff", "usage")
    cached = count_at(usage, "prompt_tokens_details", "cached_tokens")
    total = count_at(usage, "prompt_tokens")
    return token_usage(
        usage,
        input=count_at(usage, "inputTokens") if total is None else subtract_counts(total, cached),
        output=first_count(usage, "outputTokens", "completion_tokens"),
        cache_read=count_at(usage, "cacheReadInputTokens") if cached is None else cached,
        cache_creation=count_at(usage, "cacheCreationInputTokens"),
    )


_CHAT = document_type("chat", _parse_chat, _items)


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and is_one_of(value.get("variant"), _SPEAKERS)
        and all(isinstance(value.get(name), str) for name in ("id", "content", "timestamp"))
        and _FOREIGN_KEYS.isdisjoint(value)
    )


def recognize(record: Record) -> WireType | None:
    return _CHAT if _is_message(record) else None


def _recognizes_list(values: list[Any]) -> bool:
    return bool(values) and _is_message(values[0])


def header(record: Record) -> RecordHeader:
    messages = listed(record)
    times = [time for each in messages if (time := to_milliseconds(value_at(each, "timestamp"))) is not None]
    models = (text_at(each, "metadata", "model") for each in messages)
    return RecordHeader(
        timestamp=times[0] if times else None,
        last_timestamp=latest_time(times),
        model=next(filter(None, models), None),
    )


def identify(record: Record) -> Identity:
    """Return the id of the first message, which later versions of the chat keep."""
    messages = listed(record)
    return Identity(record=text_at(messages[0], "id") if messages else None)


PROVIDER = Provider(
    source="codebuff",
    recognize=recognize,
    marks=Marks(untyped_keys={"variant"}, body_keys={"content"}),
    wire_type=lambda record: _CHAT,
    parse_block=parse_block,
    recognizes_list=_recognizes_list,
    reads_lists=True,
    header=header,
    identify=identify,
)
