"""Standard messages: the conversation of a session, alike for every provider.

Each record tells its own `Part`s (see `providers`); here they are put together: lines of one API message become one
message, the later form of an item takes the place of the earlier, usage that comes afterwards finds its answer, and
what a format writes twice is kept and marked, so that it counts once.
"""

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, count, takewhile
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid5

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from ash_shared.model.blocks import Block
from ash_shared.model.message import Facts, MessageError, MessageMetadata, StandardMessage, StandardTokenUsage
from ash_shared.providers._kit.contract import Part, Record
from ash_shared.reading.json_text import (
    RawMessage,
    exact_text,
    is_blank,
    is_json,
    message_text,
    shown_text,
    split_lines,
)
from ash_shared.reading.read import Read, read_raw
from ash_shared.reading.typed_blocks import typed_blocks

_NAMESPACE = UUID("5c7bd6a0-6d5c-4a5e-9d0b-0f4d8e1f6b11")
"""Of the ids that are derived from a text; never to be changed."""

MessageRow = tuple[RawMessage] | tuple[RawMessage, str | None]
"""A message, perhaps with its source, as a database driver returns a row."""

Messages = str | bytes | Iterable[RawMessage | MessageRow]


def transform_messages(lines: Messages, source: str | None = None) -> list[StandardMessage]:
    """Return the standard messages of a transcript, in the order in which each begins. Never raises on texts.

    `lines` are the messages of one session, each as its stored text, as the decoded object or list, or as a row
    `(message,)` or `(message, source)`; or one text, which is a JSON document or JSONL. `source` names the format of
    messages without a source of their own. The result has one message for each message of the API, even if it was
    written in several lines. Records outside the conversation, fragments of streams and blank lines add no message.
    Raises TypeError for anything else, such as a single dict.
    """
    fold = _Fold()
    for text, text_source in _texts_with_sources(lines, source):
        fold.add(text, text_source)
    return fold.messages()


def _texts_with_sources(lines: Messages, source: str | None) -> Iterator[tuple[str | bytes, str | None]]:
    if isinstance(lines, str | bytes | bytearray):
        for text in split_transcript(lines):
            yield text, source
        return
    if isinstance(lines, Mapping | BaseModel) or not isinstance(lines, Iterable):
        expected = (
            "one text or an iterable of messages (str, bytes, dict, list or a row of message and source)"
        )
        raise TypeError(f"expected {expected}, got {type(lines).__name__}")
    for line in lines:
        if isinstance(line, tuple):
            message, own_source = _split_row(line)
            yield message_text(message), own_source or source
        else:
            yield message_text(line), source


def _split_row(row: tuple[Any, ...]) -> tuple[RawMessage, str | None]:
    if len(row) not in (1, 2):
        raise TypeError(f"expected a row of a message and its source, got {len(row)} columns")
    message, own_source = row if len(row) == 2 else (*row, None)
    if not isinstance(own_source, str | None):
        raise TypeError(
            f"expected a row of a message and its source, got a source of type {type(own_source).__name__}"
        )
    return message, own_source


def split_transcript(text: str | bytes) -> Sequence[str | bytes]:
    """Return the lines of a text, or the text itself if it is one JSON document."""
    text = exact_text(text)
    if _is_document(text):
        return [text]
    return split_lines(text) if isinstance(text, str) else text.split(b"\n")


def _is_document(text: str | bytes) -> bool:
    """Whether it is one JSON value, which may be written over several lines."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        return False
    except ValueError:  # also what it says of halves of surrogate pairs and of a mark of byte order
        return is_json(text)
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
    name: "_Name"
    """What its id is derived from, if it has none of its own."""
    id: str | None
    source: str
    role: str
    adjoins: bool
    echo: bool
    timestamp: int | None = None
    blocks: list[Block] = field(default_factory=list)
    usage: Block | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    error: Block | None = None
    originals: list[Any] = field(default_factory=list)

    def said(self) -> str:
        return "".join(str(block.get(block["type"])) for block in self.blocks if block["type"] in _SAID)

    def is_prompt(self) -> bool:
        """Whether a turn begins with it."""
        return (
            self.role == "user"
            and not self.metadata.get("synthetic")
            and all(block["type"] != "tool_result" for block in self.blocks)
        )


_SAID = frozenset({"text", "thinking"})


class _Where(NamedTuple):
    """What a part was read in."""

    read: Read
    facts: Facts
    source: str
    name: "_Name"


class _Fold:
    """The way through the lines of one session."""

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._line = -1
        self._turn = 0
        self._last: _Draft | None = None
        """Of those that count, as are the next two."""
        self._answer: _Draft | None = None
        self._prompt: _Draft | None = None
        self._prompt_said = ""
        self._repeated_answer: _Draft | None = None
        self._by_key: dict[tuple[str, str], _Draft] = {}
        """Of this turn."""
        self._kept: dict[str, _Draft] = {}
        self._lines_seen: set[tuple[str, str]] = set()
        self._known: dict[str, str] = {}
        self._usage_keys: set[str] = set()
        self._costs: dict[str | None, float] = {}
        self._results: dict[str, Block] = {}
        self._retracted: set[str] = set()
        self._places: dict[str, int] = {}
        self._rewound: list[tuple[int, int]] = []

    def hear(self, raw: str | bytes, source: str | None) -> None:
        """Takes from a line what it says of the session, and nothing else."""
        for read in _each(read_raw(raw, source)):
            self._remember(read.facts())

    def add(self, raw: str | bytes, source: str | None) -> None:
        self._line += 1
        if is_blank(raw):
            return
        line, number = _Line(raw), count()
        for read in _each(read_raw(raw, source)):
            facts = read.facts()
            self._remember(facts)
            if not self._is_repeated(facts, line):
                for part in read.parts():
                    name = _Name(line, next(number))
                    self._join(part, _Where(read, facts, shown_text(read.source(source)), name))

    def last_prompt(self) -> int | None:
        """The line of the last prompt behind the first line that became a message."""
        prompt = self._prompt
        return prompt.line if prompt is not None and prompt.line > self._drafts[0].line else None

    def messages(self) -> list[StandardMessage]:
        shadows = _find_shadows(self._drafts)
        ids = _Ids()
        named = {id(draft): ids.take(draft) for draft in self._drafts}
        for place in {place for first, end in _merged(self._rewound) for place in range(first, end)}:
            self._drafts[place].metadata["retracted"] = True
        for draft in self._drafts:
            if id(draft) in shadows:
                draft.metadata["shadowOf"] = named[id(shadows[id(draft)])]
            if draft.id in self._retracted:
                draft.metadata["retracted"] = True
            draft.blocks = [self._with_result(block) for block in draft.blocks]
        return [_message(named[id(draft)], draft) for draft in self._drafts]

    def _is_repeated(self, facts: Facts, line: "_Line") -> bool:
        """Whether the same line, with an id of its own, was there before."""
        if facts.uuid is None:
            return False
        known = (facts.uuid, line.digest) in self._lines_seen
        self._lines_seen.add((facts.uuid, line.digest))
        return known

    def _remember(self, facts: Facts) -> None:
        told = {"sessionId": facts.session_id, "cliVersion": facts.client_version, "model": facts.model}
        self._known.update({key: value for key, value in told.items() if value})

    def _join(self, part: Part, where: _Where) -> None:
        self._retracted.update(part.retracts)
        if part.rewinds_to is not None:
            self._rewound.append((self._places.get(part.rewinds_to, 0), len(self._drafts)))
        for call, more in part.results.items():
            self._results.setdefault(call, {}).update(more)
        if part.usage_key in self._usage_keys:
            if part.role is None:
                return
            part = replace(part, usage=None)
        if part.usage_key is not None:
            self._usage_keys.add(part.usage_key)
        draft = self._draft_for(part, where)
        if draft is not None:
            self._write(draft, part, where)
        if part.usage_of_turn:
            self._end_turn(part, draft)

    def _draft_for(self, part: Part, where: _Where) -> _Draft | None:
        """The message that a part belongs to. None for one that adds to an answer, where there is none."""
        if part.role is None:
            answer = self._answer or self._repeated_answer
            is_its_error = part.error is None or (answer is not None and answer.turn == self._turn)
            return answer if is_its_error else self._begin(part, where)
        if part.key is not None:
            known = self._kept.get(part.key) if part.keeps_key else self._by_key.get((part.role, part.key))
            if known is not None:
                return known
        last = self._last
        if part.adjoins and last is not None and last.adjoins and last.role == part.role:
            return last
        return self._begin(part, where)

    def _begin(self, part: Part, where: _Where) -> _Draft:
        facts = where.facts
        draft = _Draft(
            line=self._line,
            turn=self._turn,
            name=where.name,
            id=part.id or facts.uuid,
            source=where.source,
            role=part.role or "system",
            adjoins=part.adjoins,
            echo=part.echo,
            blocks=[] if part.role else list(where.read.reading.blocks),
            metadata={key: self._known.get(key) for key in _KNOWN_OF[part.role == "assistant"]},
        )
        self._places.setdefault(draft.id or "", len(self._drafts))
        self._drafts.append(draft)
        self._point_at(draft, part)
        return draft

    def _point_at(self, draft: _Draft, part: Part) -> None:
        if not draft.echo:
            self._last = draft
        if draft.role == "assistant":
            self._answer, self._repeated_answer = (
                (self._answer, draft) if draft.echo else (draft, self._repeated_answer)
            )
        if part.key is not None and part.role is not None:
            self._by_key[part.role, part.key] = draft
            if part.keeps_key:
                self._kept[part.key] = draft

    def _write(self, draft: _Draft, part: Part, where: _Where) -> None:
        is_new, original = not draft.originals, _original(part, where.read)
        is_same = not is_new and (
            original is draft.originals[-1] or (part.replaces and part.blocks == draft.blocks)
        )
        if part.replaces:
            draft.blocks = list(part.blocks)
        else:
            draft.blocks += part.blocks
        draft.metadata.update({key: value for key, value in part.metadata.items() if value is not None})
        draft.error = part.error or draft.error
        if draft.timestamp is None and (is_new or part.role is not None):
            draft.timestamp = where.facts.timestamp if part.timestamp is None else part.timestamp
        if part.usage is not None and not part.usage_of_turn:
            draft.usage = part.usage
            draft.adjoins &= part.role is not None  # the answer is counted: what follows is another
        if not is_same:
            draft.originals.append(original)
        if is_new and part.role is not None and draft.is_prompt():
            self._begin_turn(draft, part)

    def _begin_turn(self, prompt: _Draft, part: Part) -> None:
        """A prompt that was just said in the form that counts begins none."""
        said = prompt.said()
        if prompt.echo and self._prompt is not None and self._prompt_said == said:
            return
        self._turn += 1
        prompt.turn = self._turn
        self._by_key = {(prompt.role, part.key): prompt} if part.key is not None else {}
        if not prompt.echo:
            self._prompt, self._prompt_said = prompt, said

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

    def _with_result(self, block: Block) -> Block:
        more = self._results.get(block.get("tool_use_id") or "") if block["type"] == "tool_result" else None
        return {**more, **block} if more else block


_KNOWN_OF = {True: ("sessionId", "cliVersion", "model"), False: ("sessionId", "cliVersion")}
"""What a session says of its messages; the model, of answers alone."""


def _merged(stretches: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The same places, each once."""
    end = 0
    for first, last in sorted(stretches):
        if last > end:
            yield max(first, end), last
            end = last


def _each(read: Read) -> Iterator[Read]:
    if read.elements:
        for element in read.elements:
            yield from _each(element)
    else:
        yield read


def _original(part: Part, read: Read) -> Any:
    """The decoded record, or the piece of it that the part is; the text itself where there is none."""
    if part.original is not None:
        return part.original
    return read.reading.blocks[0].get("text") if read.record is None else read.record


def _find_shadows(drafts: Sequence[_Draft]) -> Mapping[int, _Draft]:
    """For each draft that only repeats: the one whose text it repeats, of those that count.

    Twins of the same text stand for each other one by one, in one turn or the next. A text that is part of another of
    its turn, or is all of them together, repeats them, too.
    """
    if not any(draft.echo for draft in drafts):
        return {}
    twins, turns = (
        defaultdict[tuple[str, str], deque[_Draft]](deque),
        defaultdict[tuple[str, int], _Said](_Said),
    )
    for draft in drafts:
        if not draft.echo:
            twins[draft.role, draft.said()].append(draft)
            turns[draft.role, draft.turn].add(draft)
    shadows = dict[int, _Draft]()
    for echo in drafts:
        if echo.echo and (text := echo.said()):
            twin = _take_twin(echo, twins[echo.role, text]) or turns[echo.role, echo.turn].holder(text)
            if twin is not None:
                shadows[id(echo)] = twin
    return shadows


def _take_twin(echo: _Draft, twins: deque[_Draft]) -> _Draft | None:
    """The first of these that is near enough; those of turns long gone stand for none that follow."""
    while twins and twins[0].turn < echo.turn - 1:
        twins.popleft()
    return twins.popleft() if twins and twins[0].turn <= echo.turn + 1 else None


class _Said:
    """What the messages of one role say in one turn."""

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._texts: list[str] = []
        self._whole: str | None = None
        self._ends: list[int] = []
        self._found = 0
        self._budget = 0

    def add(self, draft: _Draft) -> None:
        self._drafts.append(draft)
        self._texts.append(draft.said())

    def holder(self, text: str) -> _Draft | None:
        """The message that holds this text, or the last of them where it is what they say one after the other."""
        if (start := self._find(text)) < 0:
            return None
        place = bisect_right(self._ends, start)
        inside = start + len(text) <= self._ends[place]
        return self._drafts[place] if inside else self._drafts[-1] if text == self._whole else None

    def _find(self, text: str) -> int:
        """Where it stands: mostly behind what was found last, as pieces of a stream do.

        Searching from the beginning has an end when it has cost a few times what is said.
        """
        if self._whole is None:
            self._whole = "".join(self._texts)
            self._ends = list(accumulate(map(len, self._texts)))
            self._budget = _SEARCHES * len(self._whole) + _SEARCHED
        if self._whole.startswith(text, self._found):
            start = self._found
        elif self._budget < 0:
            return -1
        else:
            self._budget -= len(self._whole)
            start = self._whole.find(text)
        self._found = start + len(text) if start >= 0 else self._found
        return start


_SEARCHES, _SEARCHED = 50, 10_000_000


class _Ids:
    """Gives each message an id of its own: what the provider says, once, else what follows from the text."""

    def __init__(self) -> None:
        self._times = Counter[str]()

    def take(self, draft: _Draft) -> str:
        told = draft.id or draft.metadata.get("messageId")
        name = told if told and told.__class__ is str else draft.name.id()
        id = name
        while id in self._times:
            self._times[name] += 1
            id = _derived_id(name, self._times[name])
        self._times[id] = 1
        return id


class _Line:
    """A text of the session."""

    def __init__(self, raw: str | bytes) -> None:
        self._raw = raw

    @cached_property
    def digest(self) -> str:
        raw = self._raw.encode("utf-8", "surrogatepass") if isinstance(self._raw, str) else self._raw
        return blake2b(raw, digest_size=16).hexdigest()


class _Name(NamedTuple):
    """A part by the line it was read in, and its place among the parts of that line."""

    line: _Line
    number: int

    def id(self) -> str:
        return _derived_id(self.line.digest, self.number)


def _derived_id(text: str, number: int) -> str:
    name = f"{text}\n{number}".encode("utf-8", "backslashreplace").decode()
    return str(uuid5(_NAMESPACE, name))


def _message(id: str, draft: _Draft) -> StandardMessage:
    values = {
        "id": id,
        "role": draft.role,
        "timestamp": draft.timestamp,
        "content": typed_blocks(draft.blocks),
        "usage": _checked(StandardTokenUsage, draft.usage),
        "metadata": _metadata({**draft.metadata, "source": draft.source}),
        "error": _checked(MessageError, draft.error),
        "_original": draft.originals,
    }
    return StandardMessage.model_validate({key: value for key, value in values.items() if value is not None})


Checked = TypeVar("Checked", bound=BaseModel)


def _checked(model: type[Checked], values: Any) -> Checked | None:
    """None for what is not of the form that its name promises: it stays in the records."""
    try:
        return None if values is None else model.model_validate(values, strict=True)
    except ValidationError:
        return None


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
