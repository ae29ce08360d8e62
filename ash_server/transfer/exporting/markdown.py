"""A conversation as Markdown: for people, wherever Markdown is shown.

What is said stands as it was written (`prose`); what tools were given and gave stands in fences, longer than any run of
ticks inside. So no message can change how the next one looks.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from pydantic import MISSING

from ash_server.db.session_facts import moment
from ash_server.db.sessions import Session, active_at
from ash_server.queries.standard_pages import Connect, get_pages
from ash_server.transfer.exporting import citations
from ash_server.transfer.exporting.prose import contained
from ash_shared.model.message import StandardMessage

Block = Mapping[str, Any]

_TICKS = re.compile("`+")
_SPEAKERS = {"user": "User", "assistant": "Assistant", "system": "System"}


async def write_markdown(connect: Connect, session: Session) -> AsyncGenerator[bytes, None]:
    """A page of the conversation at a time."""
    writer = MarkdownWriter()
    yield _encoded(heading(session))
    async with aclosing(get_pages(connect, session.id)) as pages:
        async for messages in pages:
            yield await asyncio.to_thread(_written, writer, messages)
    yield _encoded(writer.end())


def _written(writer: "MarkdownWriter", messages: Iterable[StandardMessage]) -> bytes:
    return _encoded("".join(map(writer.write, messages)))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # half a surrogate pair has no bytes


def heading(session: Session) -> str:
    began = session.created_at if session.first_at is MISSING else session.first_at
    facts = (
        session.source,
        f"{session.message_count:,} stored messages"
        if session.message_count
        else f"{session.event_count:,} events",
        f"{_moment(began)} to {_moment(active_at(session))}",
        f"`{session.id}`",
    )
    return f"# {_in_line(session.name)}\n\n{' · '.join(facts)}\n"


class MarkdownWriter:
    """Messages one after the other: a heading where another one speaks, and results by the names of their calls."""

    def __init__(self) -> None:
        self._speaker: tuple[str, str | None] | None = None
        self._calls: dict[str, str] = {}
        self._held: list[Block] = []
        self._answer: tuple[str, str] | None = None

    def write(self, message: StandardMessage) -> str:
        """Nothing where it repeats another one. The text that it ends with is told once it is known not to go on."""
        if message.metadata.shadow_of is not MISSING:
            return ""
        blocks: list[Block] = [block.model_dump(by_alias=True) for block in message.content]
        runs = _runs(blocks)
        id = message.metadata.message_id
        answer = (message.role, message.id if id is MISSING else id)
        if self._held and runs and answer == self._answer and citations.go_on(self._held[-1], runs[0][0]):
            self._held += runs.pop(0)
        is_over = message.error is not MISSING or not runs or runs[-1][0]["type"] != "text"
        held = [] if is_over else runs.pop()
        parts = [part for run in runs for part in self._parts(run) if part]
        if message.error is not MISSING:
            parts.append(f"**Error** {_code(message.error.code)}\n\n{_fenced(message.error.message)}")
        if not parts and not any(_parts_of(held)):
            return ""
        before = self.end()
        self._held, self._answer = held, answer
        return before + _joined([*self._heading(message, blocks), *parts])

    def end(self) -> str:
        """What was not told yet."""
        held, self._held = self._held, []
        return _joined(_parts_of(held))

    def _heading(self, message: StandardMessage, blocks: Sequence[Block]) -> Iterator[str]:
        """Results stand below the calls that they belong to, although they are the user's."""
        if blocks and all(block["type"] == "tool_result" for block in blocks):
            return
        metadata = message.metadata
        agent = next(
            (id for id in (metadata.parent_tool_use_id, metadata.agent_id) if id is not MISSING), None
        )
        speaker = (message.role, agent)
        if speaker == self._speaker and message.role != "user":
            return
        self._speaker = speaker
        marks = {
            _SPEAKERS[message.role]: True,
            "a subagent": agent is not None,
            "written by the tool": metadata.synthetic is True,
            "revoked": metadata.retracted is True,
            _moment_of(message.timestamp): True,
        }
        yield f"## {' · '.join(mark for mark, is_so in marks.items() if mark and is_so)}"

    def _parts(self, run: Sequence[Block]) -> Iterator[str]:
        block = run[0]
        if block["type"] == "tool_use" and block.get("id"):
            self._calls[block["id"]] = block["name"]
        if block["type"] == "tool_result":
            name = self._calls.pop(block.get("tool_use_id") or "", None)
            yield f"**{'Error' if block.get('is_error') else 'Result'}**{f' of {_code(name)}' if name else ''}"
        yield from _parts_of(run)


def _runs(blocks: Iterable[Block]) -> list[list[Block]]:
    """Texts that go on stand together, everything else alone."""
    runs = list[list[Block]]()
    for block in blocks:
        if runs and citations.go_on(runs[-1][-1], block):
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs


def _parts_of(run: Sequence[Block]) -> Iterable[str]:
    if not run:
        return []
    return _text(run) if run[0]["type"] == "text" else _PARTS[run[0]["type"]](run[0])


def _joined(parts: Iterable[str]) -> str:
    return "".join(f"\n{part}\n" for part in parts if part)


def _text(run: Sequence[Block]) -> Iterator[str]:
    variant = run[0].get("variant")
    yield f"*{_in_line(variant)}*" if variant else ""
    text, place, marks = citations.marked(run)
    said, *others = _said(text).split(place)
    yield said + "".join(f"{mark}{part}" for mark, part in zip(marks, others, strict=True))
    yield "\n".join(f"{source.mark} {_source_of(source)}  " for source in citations.sources(run)).rstrip()


def _source_of(source: citations.Source) -> str:
    title = None if source.title is None else _in_line(source.title)
    named = title if source.url is None else f"[{title}]({source.url})"
    said = " … ".join(_code(text) if title is None else f"“{_in_line(text)}”" for text in source.said)
    return ": ".join(filter(None, [named, said]))


def _thinking(block: Block) -> Iterator[str]:
    text = block["thinking"]
    if text.strip():
        yield "\n".join(f"> {line}".rstrip() for line in ["*Thinking*", "", *_said(text).split("\n")])


def _tool_use(block: Block) -> Iterator[str]:
    yield f"**Call** of {_code(block['name'])}"
    yield from _arguments(block["input"])


def _arguments(given: Any) -> Iterator[str]:
    """Texts of several lines each by themselves, since JSON would write them as one."""
    if not isinstance(given, dict):
        yield _fenced(given) if isinstance(given, str) else _json(given)
        return
    texts = {name: text for name, text in given.items() if isinstance(text, str) and "\n" in text}
    rest = {name: value for name, value in given.items() if name not in texts}
    if rest or not texts:
        yield _json(rest)
    for name, text in texts.items():
        yield f"{_code(name)}:"
        yield _fenced(text)


def _tool_result(block: Block) -> Iterator[str]:
    content = block.get("content", block.get("structured"))
    if isinstance(content, list):
        for each in content:
            yield from _nested(each)
    elif content is not None:
        yield _fenced(content) if isinstance(content, str) else _json(content)


def _nested(block: Any) -> Iterator[str]:
    known = _NESTED.get(str(block.get("type"))) if isinstance(block, dict) else None
    yield from known(block) if known else [_json(block)]


def _output(block: Block) -> Iterator[str]:
    yield _fenced(block["text"])


def _image(block: Block) -> Iterator[str]:
    yield f"*image* {_source(block.get('source') or {})}"


def _file(block: Block) -> Iterator[str]:
    names = [block.get("title"), block.get("filename")]
    named = " ".join(_code(name) for name in names if isinstance(name, str))
    yield f"*file* {named} {_source(block.get('source') or {})}".rstrip()


def _raw(block: Block) -> Iterator[str]:
    raw = block["raw"]
    yield f"*{block['reason']}* {_code(block.get('rawType') or '')}".rstrip()
    yield _fenced(raw) if isinstance(raw, str) else _json(raw)


def _source(source: Block) -> str:
    """Where it is. It is not shown: nothing is loaded from elsewhere."""
    data = source.get("data")
    words = [source.get("media_type"), source.get("url"), source.get("file_id")]
    told = [_code(word) for word in words if isinstance(word, str)]
    return " ".join([*told, f"({len(data):,} characters)"] if isinstance(data, str) else told)


_NESTED: Mapping[str, Callable[[Block], Iterator[str]]] = {
    "text": _output,
    "image": _image,
    "file": _file,
    "raw": _raw,
}
_PARTS: Mapping[str, Callable[[Block], Iterator[str]]] = {
    **_NESTED,
    "thinking": _thinking,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
}


def _said(text: str) -> str:
    said = contained(text)
    return _fenced(text) if said is None else said


def _in_line(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """A code span with ticks around it that the text does not have."""
    line = " ".join(text.split())
    if not line:
        return ""
    ticks = "`" * (1 + _longest_run(line))
    space = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def _json(value: Any) -> str:
    return _fenced(json.dumps(value, ensure_ascii=False, indent=2), "json")


def _fenced(text: str, language: str = "") -> str:
    fence = "`" * max(3, 1 + _longest_run(text))
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)


def _moment(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _moment_of(milliseconds: int | MISSING) -> str:
    told = None if milliseconds is MISSING else moment(milliseconds)
    return "" if told is None else _moment(told)
