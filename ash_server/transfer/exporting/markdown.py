"""Export a conversation as Markdown.

Texts are embedded as Markdown (`markdown_escaping`). Fences around tool arguments and results have more backticks than
any run of backticks inside. So no message affects how the next one is rendered.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from ash_server.store import Store
from ash_server.store.conversation.redacted_rows import redact_session, redact_standard_message
from ash_server.store.session_facts import to_datetime
from ash_server.transfer.exporting import citations
from ash_server.transfer.exporting.markdown_escaping import embed_markdown
from ash_shared.model.blocks import Block, is_valid
from ash_shared.model.message import MessageMetadata, StandardMessage
from ash_shared.model.session import Session, active_at
from ash_shared.records.system_text import typed_text, visible_text, wrapped_text

_BACKTICKS = re.compile("`+")
_SPEAKERS = {"user": "User", "assistant": "Assistant", "system": "System"}


async def write_markdown(
    store: Store, session: Session, *, redacts: bool = False
) -> AsyncGenerator[bytes, None]:
    """Yield the document, a page of messages at a time."""
    writer = MarkdownWriter()
    yield _encode(format_heading(redact_session(session) if redacts else session))
    async with aclosing(store.conversation.stream_pages(session.id)) as pages:
        async for messages in pages:
            yield await asyncio.to_thread(_write_page, writer, messages, redacts=redacts)
    yield _encode(writer.end())


def _write_page(writer: "MarkdownWriter", messages: Iterable[StandardMessage], *, redacts: bool) -> bytes:
    shown = map(redact_standard_message, messages) if redacts else messages
    return _encode("".join(map(writer.write, shown)))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # lone surrogates cannot be encoded


def format_heading(session: Session) -> str:
    facts = (
        session.source,
        f"{session.message_count:,} stored messages"
        if session.message_count
        else f"{session.event_count:,} events",
        _format_times(session),
        f"`{session.id}`",
    )
    return f"# {_in_line(session.name)}\n\n{' · '.join(facts)}\n"


def _format_times(session: Session) -> str:
    """Return when the session was; without times in its messages, when its file was modified, or it was stored."""
    if session.first_at is not None:
        return f"{_format_time(session.first_at)} to {_format_time(active_at(session))}"
    if session.file_modified_at is not None:
        return f"file modified {_format_time(session.file_modified_at)}"
    return f"stored {_format_time(session.created_at)} to {_format_time(session.updated_at)}"


class MarkdownWriter:
    """Formats messages in order: a heading when the speaker changes, and results with the names of their calls."""

    def __init__(self) -> None:
        self._speaker: tuple[str, str | None] | None = None
        self._calls: dict[str, str] = {}
        self._pending: list[Block] = []
        """The last text of an answer, which the next message may continue."""
        self._answer_key: tuple[str, str] | None = None

    def write(self, message: StandardMessage) -> str:
        """Return the Markdown of a message; empty if it duplicates another one.

        If the message ends with a text, which the next message may continue, that text is returned by the next call.
        """
        if message.metadata.shadow_of is not None:
            return ""
        blocks = _shown_blocks(message)
        runs = _runs(blocks)
        id = message.metadata.message_id
        answer_key = (message.role, message.id if id is None else id)
        if (
            self._pending
            and runs
            and answer_key == self._answer_key
            and citations.continues(self._pending[-1], runs[0][0])
        ):
            self._pending += runs.pop(0)
        is_complete = message.error is not None or not runs or runs[-1][0]["type"] != "text"
        pending = [] if is_complete else runs.pop()
        parts = [part for run in runs for part in self._format_run(run) if part]
        if message.error is not None:
            parts.append(f"**Error** {_code(message.error.code)}\n\n{_fenced(message.error.message)}")
        if not parts and not any(_format_blocks(pending)):
            return ""
        previous = self.end()
        self._pending, self._answer_key = pending, answer_key
        return previous + _join_parts([*self._heading(message, blocks), *parts])

    def end(self) -> str:
        """Return the pending text."""
        pending, self._pending = self._pending, []
        return _join_parts(_format_blocks(pending))

    def _heading(self, message: StandardMessage, blocks: Sequence[Block]) -> Iterator[str]:
        """Yield a heading if the speaker changes. Tool results get none: they follow their calls as user messages."""
        if blocks and all(block["type"] == "tool_result" for block in blocks):
            return
        metadata = message.metadata
        agent = next((id for id in (metadata.parent_tool_use_id, metadata.agent_id) if id is not None), None)
        is_of_script = metadata.ran_by_tool_use_id is not None
        speaker = (message.role, agent)
        if speaker == self._speaker and message.role != "user":
            return
        self._speaker = speaker
        marks = {
            _SPEAKERS[message.role]: True,
            "a script": is_of_script,
            "a subagent": agent is not None and not is_of_script,
            "written by the tool": metadata.synthetic is True and metadata.sender is None,
            _format_sender(metadata): True,
            "revoked": metadata.retracted is True,
            _format_timestamp(message.timestamp): True,
        }
        yield f"## {' · '.join(mark for mark, applies in marks.items() if mark and applies)}"

    def _format_run(self, run: Sequence[Block]) -> Iterator[str]:
        block = run[0]
        if block["type"] == "tool_use" and block.get("id"):
            self._calls[block["id"]] = block["name"]
        if block["type"] == "tool_result":
            name = self._calls.pop(block.get("tool_use_id") or "", None)
            yield f"**{'Error' if block.get('is_error') else 'Result'}**{f' of {_code(name)}' if name else ''}"
        yield from _format_blocks(run)


def _format_sender(metadata: MessageMetadata) -> str:
    """Return who sent a message instead of a person, if its record states it."""
    if metadata.sender in (None, "person"):
        return ""
    return f"sent by {_code(' '.join(filter(None, (metadata.sender, metadata.sender_name))))}"


def _shown_blocks(message: StandardMessage) -> list[Block]:
    blocks: list[Block] = [block.model_dump(by_alias=True) for block in message.content]
    if message.role != "user" or message.metadata.synthetic is True:
        return blocks
    is_typed = message.metadata.sender == "person"
    return [part for block in blocks for part in _split_prompt(block, is_typed=is_typed)]


def _split_prompt(block: Block, *, is_typed: bool) -> list[Block]:
    """Separate the typed text from additions by the client. `is_typed`: a person certainly wrote a part of it."""
    if block["type"] != "text":
        return [block]
    typed = visible_text(block["text"]) if is_typed else typed_text(block["text"])
    if typed == block["text"]:
        return [block]
    added = {"type": "context", "text": wrapped_text(block["text"])}
    return [part for part in ({**block, "text": typed}, added) if part["text"].strip()]


def _runs(blocks: Iterable[Block]) -> list[list[Block]]:
    """Group consecutive parts of the same text; every other block is its own run."""
    runs = list[list[Block]]()
    for block in blocks:
        if runs and citations.continues(runs[-1][-1], block):
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs


def _format_blocks(run: Sequence[Block]) -> Iterable[str]:
    if not run:
        return []
    return _format_text(run) if run[0]["type"] == "text" else _FORMATTERS[run[0]["type"]](run[0])


def _join_parts(parts: Iterable[str]) -> str:
    return "".join(f"\n{part}\n" for part in parts if part)


def _format_text(run: Sequence[Block]) -> Iterator[str]:
    variant = run[0].get("variant")
    yield f"*{_in_line(variant)}*" if variant else ""
    text, placeholder, marks = citations.insert_placeholders(run)
    first, *others = _embed_text(text).split(placeholder)
    yield first + "".join(f"{mark}{part}" for mark, part in zip(marks, others, strict=True))
    yield "\n".join(
        f"{source.mark} {_format_citation(source)}  " for source in citations.list_sources(run)
    ).rstrip()


def _format_citation(source: citations.CitedSource) -> str:
    title = None if source.title is None else _in_line(source.title)
    label = title if source.url is None else f"[{title}]({source.url})"
    quotes = " … ".join(_code(text) if title is None else f"“{_in_line(text)}”" for text in source.quotes)
    return ": ".join(filter(None, [label, quotes]))


def _format_thinking(block: Block) -> Iterator[str]:
    text = block["thinking"]
    if text.strip():
        yield "\n".join(f"> {line}".rstrip() for line in ["*Thinking*", "", *_embed_text(text).split("\n")])


def _format_tool_use(block: Block) -> Iterator[str]:
    yield f"**Call** of {_code(block['name'])}"
    yield from _format_arguments(block["input"])


def _format_arguments(args: Any) -> Iterator[str]:
    """Yield the arguments as JSON, and each multi-line text in its own fence, since JSON would escape its line ends."""
    if not isinstance(args, dict):
        yield _fenced(args) if isinstance(args, str) else _json(args)
        return
    texts = {name: text for name, text in args.items() if isinstance(text, str) and "\n" in text}
    rest = {name: value for name, value in args.items() if name not in texts}
    if rest or not texts:
        yield _json(rest)
    for name, text in texts.items():
        yield f"{_code(name)}:"
        yield _fenced(text)


def _format_tool_result(block: Block) -> Iterator[str]:
    content = block.get("content", block.get("structured"))
    if isinstance(content, list):
        for each in content:
            yield from _format_nested(each)
    elif content is not None:
        yield _fenced(content) if isinstance(content, str) else _json(content)


def _format_nested(block: Any) -> Iterator[str]:
    is_block = isinstance(block, dict) and isinstance(block.get("type"), str) and is_valid(block)
    format_block = _NESTED_FORMATTERS.get(block["type"]) if is_block else None
    yield from format_block(block) if format_block else [_json(block)]


def _format_context(block: Block) -> Iterator[str]:
    yield "*added by the client*"
    yield _fenced(block["text"])


def _format_output(block: Block) -> Iterator[str]:
    yield _fenced(block["text"])


def _format_image(block: Block) -> Iterator[str]:
    yield f"*image* {_media_source(block.get('source') or {})}"


def _format_file(block: Block) -> Iterator[str]:
    names = [block.get("title"), block.get("filename")]
    label = " ".join(_code(name) for name in names if isinstance(name, str))
    yield f"*file* {label} {_media_source(block.get('source') or {})}".rstrip()


def _format_raw(block: Block) -> Iterator[str]:
    raw = block["raw"]
    yield f"*{block['reason']}* {_code(block.get('rawType') or '')}".rstrip()
    yield _fenced(raw) if isinstance(raw, str) else _json(raw)


def _media_source(source: Block) -> str:
    """Describe the location of the data, which is neither embedded nor loaded."""
    data = source.get("data")
    values = [source.get("media_type"), source.get("url"), source.get("file_id")]
    parts = [_code(value) for value in values if isinstance(value, str)]
    return " ".join([*parts, f"({len(data):,} characters)"] if isinstance(data, str) else parts)


_NESTED_FORMATTERS: Mapping[str, Callable[[Block], Iterator[str]]] = {
    "text": _format_output,
    "image": _format_image,
    "file": _format_file,
    "raw": _format_raw,
}
_FORMATTERS: Mapping[str, Callable[[Block], Iterator[str]]] = {
    **_NESTED_FORMATTERS,
    "context": _format_context,
    "thinking": _format_thinking,
    "tool_use": _format_tool_use,
    "tool_result": _format_tool_result,
}


def _embed_text(text: str) -> str:
    embedded = embed_markdown(text)
    return _fenced(text) if embedded is None else embedded


def _in_line(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Return a code span with more backticks than any run in the text."""
    line = " ".join(text.split())
    if not line:
        return ""
    fence = "`" * (1 + _longest_backtick_run(line))
    space = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{space}{line}{space}{fence}"


def _json(value: Any) -> str:
    return _fenced(json.dumps(value, ensure_ascii=False, indent=2), "json")


def _fenced(text: str, language: str = "") -> str:
    fence = "`" * max(3, 1 + _longest_backtick_run(text))
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def _longest_backtick_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)


def _format_time(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _format_timestamp(milliseconds: int | None) -> str:
    time = None if milliseconds is None else to_datetime(milliseconds)
    return "" if time is None else _format_time(time)
