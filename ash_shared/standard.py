"""Standard messages: the conversation of a session, alike for every provider.

Each record tells its own `Part`s (see `providers`); here they are put together: lines of one API message become one
message, the later form of an item takes the place of the earlier, usage that comes afterwards finds its answer, and
what a format writes twice is kept and marked, so that it counts once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple
from uuid import UUID, uuid5

import msgspec
from pydantic import ValidationError

from ash_shared.blocks import Block
from ash_shared.message import Facts, MessageMetadata, StandardMessage
from ash_shared.parse import Read, read_raw, split_lines, typed_blocks
from ash_shared.providers import Part, Record, message_of

_NAMESPACE = UUID("5c7bd6a0-6d5c-4a5e-9d0b-0f4d8e1f6b11")
"""Of the ids that are derived from a text; never to be changed."""

Lines = Iterable[str | bytes] | str | bytes


def transform_messages(lines: Lines, source: str | None = None) -> list[StandardMessage]:
    """The standard messages of a transcript, in the order in which each begins. Never raises.

    `lines` are the texts of one session, as they were stored; or one text, which is a JSON document or has one text in
    each line. `source` names their format where that is known. One message for each message of the API, whatever number
    of lines it was written in; records that are no part of the conversation and fragments of streams give none, and
    blank lines are passed over.
    """
    fold = _Fold()
    for raw in _texts(lines):
        fold.add(raw, source)
    return fold.messages()


def _texts(lines: Lines) -> Iterable[str | bytes]:
    if not isinstance(lines, str | bytes):
        return lines
    text = lines if isinstance(lines, str) else lines.decode("utf-8", "backslashreplace")
    return [text] if _is_document(text) else split_lines(text)


def _is_document(text: str) -> bool:
    """Whether it is one JSON value, which may be written over several lines."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True


class Page(NamedTuple):
    """The messages of a part of a session."""

    messages: list[StandardMessage]
    lines: int
    """How many of the lines they were made of: the next page begins behind these."""


def transform_page(
    lines: Sequence[tuple[str, str | None]],
    *,
    head: Iterable[tuple[str, str | None]] = (),
    more: bool = False,
) -> Page:
    """As `transform_messages`, for texts with their sources out of the middle of a session.

    `head` are first lines of the session, if they are not in `lines`: they tell which session and which client it is.
    Where more lines follow, the page ends before its last prompt, so that no turn is cut: a page that begins a turn
    and does not end it is all one turn.
    """
    fold = _fold(lines, head)
    used = fold.last_prompt() if more else None
    if used:
        fold = _fold(lines[:used], head)
    return Page(fold.messages(), used or len(lines))


def _fold(lines: Iterable[tuple[str, str | None]], head: Iterable[tuple[str, str | None]]) -> "_Fold":
    fold = _Fold()
    for raw, source in head:
        fold.hear(raw, source)
    for raw, source in lines:
        fold.add(raw, source)
    return fold


@dataclass(slots=True)
class _Draft:
    """A message that may still grow."""

    line: int
    turn: int
    name: str
    """What its id is derived from, if it has none of its own."""
    id: str | None
    source: str
    role: str
    timestamp: int | None
    adjoins: bool
    echo: bool
    blocks: list[Block] = field(default_factory=list)
    usage: Block | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    error: Block | None = None
    originals: list[Any] = field(default_factory=list)

    def texts(self) -> str:
        return "".join(str(block.get(block["type"])) for block in self.blocks if block["type"] in _SAID)

    def is_prompt(self) -> bool:
        """Whether a turn begins with it."""
        return (
            self.role == "user"
            and not self.metadata.get("synthetic")
            and all(block["type"] != "tool_result" for block in self.blocks)
        )


_SAID = frozenset({"text", "thinking"})


class _Fold:
    """The way through the lines of one session."""

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._by_key: dict[tuple[str, str], _Draft] = {}
        self._kept: dict[str, _Draft] = {}
        self._turn = 0
        self._line = -1
        self._repeated: set[tuple[str, str]] = set()
        self._known: dict[str, str] = {}
        self._usage_keys: set[str] = set()
        self._results: dict[str, Block] = {}
        self._retracted: set[str] = set()
        self._costs: dict[str | None, float] = {}

    def hear(self, raw: str | bytes, source: str | None) -> None:
        """Takes from a line what it says of the session, and nothing else."""
        for read in _each(read_raw(raw, source)):
            self._remember(read.facts())

    def add(self, raw: str | bytes, source: str | None) -> None:
        self._line += 1
        if not raw.strip():
            return
        text = raw if isinstance(raw, str) else raw.decode("utf-8", "backslashreplace")
        for place, read in enumerate(_each(read_raw(raw, source))):
            facts = read.facts()
            self._remember(facts)
            if facts.uuid and self._is_repeated(facts.uuid, text):
                continue
            for number, part in enumerate(_parts(read)):
                self._join(part, read, facts, f"{text}\n{place}\n{number}", read.source(source))

    def last_prompt(self) -> int | None:
        """The line of the last prompt behind the first line that became a message."""
        lines = [draft.line for draft in self._drafts if draft.is_prompt() and not draft.echo]
        return lines[-1] if lines and lines[-1] > self._drafts[0].line else None

    def messages(self) -> list[StandardMessage]:
        shadows = _find_shadows(self._drafts)
        ids = _Ids()
        named = {id(draft): ids.take(draft) for draft in self._drafts}
        for draft in self._drafts:
            draft.metadata["shadowOf"] = named.get(id(shadows.get(id(draft))))
            if draft.id in self._retracted:
                draft.metadata["retracted"] = True
            draft.blocks = [self._with_result(block) for block in draft.blocks]
        return [_message(named[id(draft)], draft) for draft in self._drafts]

    def _is_repeated(self, uuid: str, text: str) -> bool:
        known = (uuid, text) in self._repeated
        self._repeated.add((uuid, text))
        return known

    def _remember(self, facts: Facts) -> None:
        told = {"sessionId": facts.session_id, "cliVersion": facts.client_version, "model": facts.model}
        self._known.update({key: value for key, value in told.items() if value})

    def _join(self, part: Part, read: Read, facts: Facts, name: str, source: str) -> None:
        self._retracted.update(part.retracts)
        if part.rewinds_to is not None:
            self._rewind(part.rewinds_to)
        for call, more in part.results.items():
            self._results.setdefault(call, {}).update(more)
        if part.usage_key is not None:
            if part.usage_key in self._usage_keys:
                return
            self._usage_keys.add(part.usage_key)
        draft = self._draft_for(part, read, facts, name, source)
        if draft is not None:
            self._write(draft, part, read)
        if part.usage_of_turn:
            self._end_turn(part, draft)

    def _rewind(self, id: str) -> None:
        """Marks a message and all behind it as retracted; all that there are, if it is not among them."""
        place = next((place for place, draft in enumerate(self._drafts) if draft.id == id), 0)
        for draft in self._drafts[place:]:
            draft.metadata["retracted"] = True

    def _draft_for(self, part: Part, read: Read, facts: Facts, name: str, source: str) -> _Draft | None:
        if part.role is None:
            answer = self._last_answer()
            if part.error is None or (answer is not None and answer.turn == self._turn):
                return answer
            return self._begin(part, read, facts, name, source)
        if part.key is not None and part.keeps_key and (known := self._kept.get(part.key)):
            return known
        if part.key is not None and (known := self._by_key.get((part.role, part.key))):
            return known
        last = self._last(lambda draft: not draft.echo) if part.adjoins else None
        if last is not None and last.adjoins and last.role == part.role:
            return last
        return self._begin(part, read, facts, name, source)

    def _begin(self, part: Part, read: Read, facts: Facts, name: str, source: str) -> _Draft:
        draft = _Draft(
            line=self._line,
            turn=self._turn,
            name=name,
            id=part.id or facts.uuid,
            source=source,
            role=part.role or "system",
            timestamp=facts.timestamp if part.timestamp is None else part.timestamp,
            adjoins=part.adjoins,
            echo=part.echo,
            blocks=[] if part.role else list(read.reading.blocks),
            metadata={**self._known, "model": self._known.get("model") if part.role == "assistant" else None},
        )
        self._drafts.append(draft)
        if part.key is not None and part.role is not None:
            self._by_key[part.role, part.key] = draft
        if part.key is not None and part.keeps_key:
            self._kept[part.key] = draft
        return draft

    def _write(self, draft: _Draft, part: Part, read: Read) -> None:
        is_new = not draft.originals
        is_same = not is_new and part.replaces and part.blocks == draft.blocks
        draft.blocks = list(part.blocks) if part.replaces else [*draft.blocks, *part.blocks]
        draft.metadata.update({key: value for key, value in part.metadata.items() if value is not None})
        draft.error = part.error or draft.error
        if part.usage is not None and not part.usage_of_turn:
            draft.usage = part.usage
            draft.adjoins = (
                draft.adjoins and part.role is not None
            )  # the answer is counted: what follows is another
        if is_new or not (is_same or draft.originals[-1] is _original(read)):
            draft.originals.append(_original(read))
        if (
            is_new
            and draft.is_prompt()
            and part.role is not None
            and not (part.echo and self._is_twin(draft))
        ):
            self._turn += 1
            draft.turn = self._turn
            self._by_key = {(part.role, part.key): draft} if part.key is not None else {}

    def _end_turn(self, part: Part, end: _Draft | None) -> None:
        """Gives the usage of the whole turn to its last answer, if no answer told its own, and its cost in any case."""
        turn = list(takewhile(lambda draft: draft.turn == self._turn, reversed(self._drafts)))
        answers = [draft for draft in turn if draft.role == "assistant"]
        last = next((draft for draft in answers if not draft.echo), next(iter(answers), end))
        if last is not None and part.usage is not None and not any(draft.usage for draft in answers):
            last.usage = part.usage
        if last is not None and part.total_cost is not None:
            session = self._known.get("sessionId")
            last.metadata["costUsd"] = max(0.0, part.total_cost - self._costs.get(session, 0.0))
            self._costs[session] = part.total_cost
        self._turn += 1
        self._by_key = {}

    def _last(self, is_meant: Callable[[_Draft], bool]) -> _Draft | None:
        return next((draft for draft in reversed(self._drafts) if is_meant(draft)), None)

    def _last_answer(self) -> _Draft | None:
        return self._last(lambda draft: draft.role == "assistant" and not draft.echo) or self._last(
            lambda draft: draft.role == "assistant"
        )

    def _is_twin(self, draft: _Draft) -> bool:
        """Whether this prompt was just said in the form that counts."""
        said = self._last(lambda other: other is not draft and other.is_prompt())
        return said is not None and said.texts() == draft.texts()

    def _with_result(self, block: Block) -> Block:
        more = self._results.get(block.get("tool_use_id") or "") if block["type"] == "tool_result" else None
        return {**more, **block} if more else block


def _each(read: Read) -> Iterator[Read]:
    if read.elements:
        for element in read.elements:
            yield from _each(element)
    else:
        yield read


def _original(read: Read) -> Any:
    """The decoded record; the text itself where there is none."""
    return read.reading.blocks[0].get("text") if read.record is None else read.record


def _parts(read: Read) -> list[Part]:
    if read.provider is None or read.record is None:
        return message_of({}, read.reading)
    try:
        return read.provider.parts(read.record, read.reading)
    except (AttributeError, KeyError, TypeError):
        return message_of(read.record, read.reading)


def _find_shadows(drafts: Sequence[_Draft]) -> Mapping[int, _Draft]:
    """For each draft that only repeats: the one whose text it repeats, of those that count.

    Twins of the same text stand for each other one by one, in one turn or the next. A text that is part of another of
    its turn, or is all of them together, repeats them, too.
    """
    same, turns = (
        defaultdict[tuple[str, str], list[_Draft]](list),
        defaultdict[tuple[str, int], list[_Draft]](list),
    )
    for draft in drafts:
        if not draft.echo:
            same[draft.role, draft.texts()].append(draft)
            turns[draft.role, draft.turn].append(draft)
    shadows = dict[int, _Draft]()
    for echo in drafts:
        if echo.echo and (text := echo.texts()):
            twin = _take_twin(echo, same[echo.role, text]) or _whole(text, turns[echo.role, echo.turn])
            if twin is not None:
                shadows[id(echo)] = twin
    return shadows


def _take_twin(echo: _Draft, same: list[_Draft]) -> _Draft | None:
    for place, draft in enumerate(same):
        if abs(draft.turn - echo.turn) <= 1:
            return same.pop(place)
    return None


def _whole(text: str, said: list[_Draft]) -> _Draft | None:
    """The message that holds this text, or the last of those that it holds one after the other."""
    texts = [draft.texts() for draft in said]
    holder = next((draft for draft, other in zip(said, texts, strict=True) if text in other), None)
    return holder or (said[-1] if said and text == "".join(texts) else None)


class _Ids:
    """Gives each message an id of its own: what the provider says, once, else what follows from the text."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, draft: _Draft) -> str:
        name = draft.id or draft.metadata.get("messageId") or str(uuid5(_NAMESPACE, _encodable(draft.name)))
        id, count = name, 1
        while id in self._taken:
            count += 1
            id = str(uuid5(_NAMESPACE, f"{_encodable(name)}\n{count}"))
        self._taken.add(id)
        return id


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _message(id: str, draft: _Draft) -> StandardMessage:
    values = {
        "id": id,
        "role": draft.role,
        "timestamp": draft.timestamp,
        "content": typed_blocks(draft.blocks),
        "usage": draft.usage,
        "metadata": _metadata({**draft.metadata, "source": draft.source}),
        "error": draft.error,
        "_original": draft.originals,
    }
    return StandardMessage.model_validate({key: value for key, value in values.items() if value is not None})


def _metadata(values: Record) -> MessageMetadata:
    """Without what is not of the type that its name promises: it stays in the records."""
    known = {key: value for key, value in values.items() if value is not None}
    try:
        return MessageMetadata.model_validate(known, strict=True)
    except ValidationError as error:
        wrong = {problem["loc"][0] for problem in error.errors()}
        return MessageMetadata.model_validate(
            {key: value for key, value in known.items() if key not in wrong}
        )
