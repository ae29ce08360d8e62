"""Compare two sessions: facts, tools, files and prompts."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ash_shared.model.event_types import PROMPTS
from ash_shared.model.reports.comparison import (
    FACT_NAMES,
    ChangedLines,
    CommonBeginning,
    ComparedFact,
    ComparedFile,
    ComparedPrompt,
    ComparedTool,
    FactName,
    FactValue,
    PromptPair,
    SessionComparison,
    ToolCount,
)
from ash_shared.model.reports.facts import SessionFacts
from ash_shared.model.session import Session
from ash_shared.model.times import datetime_of
from ash_shared.projections._retractions import is_main, is_prompt

PROMPT_EVENTS = ("reset", "retraction", "turn_start", *sorted(PROMPTS))
"""The types of the events that prompts are collected from."""
MAX_PROMPTS = 1000
"""Prompts of a session that are compared."""
MAX_PROMPT_TEXT = 2000
"""Characters of a prompt in a comparison. The whole texts are compared."""

_Side = TypeVar("_Side")
_Value = TypeVar("_Value", bound=Hashable)
_Text: TypeAlias = tuple[str, bytes]
_Places: TypeAlias = tuple[int | None, int | None]


class Prompt(NamedTuple):
    """A prompt of a person in the main conversation."""

    text: str
    sequence: int
    message_sequence: int | None = None
    timestamp: int | None = None
    id: str | None = None
    names: frozenset[str] = frozenset()
    """Ids that a retraction may use for its record."""
    digest: bytes = b""
    """The digest of a text that is shortened, so that long prompts take little memory."""

    @property
    def compared(self) -> _Text:
        return self.text, self.digest


class ComparedSession(NamedTuple):
    """The facts of a session, with its usage, and its prompts."""

    facts: SessionFacts
    prompts: Sequence[Prompt]
    has_more_prompts: bool = False

    @property
    def session(self) -> Session:
        return self.facts.session


class PromptLog:
    """Collects prompts from events in wire form and log order, without retracted ones.

    `redact` edits each text before it is kept.
    """

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._clear()

    def _clear(self) -> None:
        self.prompts: list[Prompt] = []
        self._turns: list[int] = []
        """The sequence of the first event of each turn."""
        self._turn_ids: set[str] = set()

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event; types other than `PROMPT_EVENTS` are ignored."""
        kind, payload = event["type"], event["payload"]
        if kind == "reset":
            self._clear()
        elif kind == "retraction":
            self._retract(payload)
        elif kind == "turn_start":
            self._start_turn(event)
        elif is_prompt(event) and is_main(event):
            self._add_prompt(event, payload)

    def _start_turn(self, event: Mapping[str, Any]) -> None:
        turn = event.get("turnId")
        if turn is None or turn not in self._turn_ids:
            if turn is not None:
                self._turn_ids.add(turn)
            self._turns.append(event.get("sequence") or 0)

    def _add_prompt(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        texts = (payload.get(name) for name in ("visibleText", "text", "transcription"))
        text = next((each for each in texts if isinstance(each, str)), "")
        if not text.strip():
            return
        names = (event.get(name) for name in ("recordId", "responseId"))
        whole = self._redact(text)
        shown = _shorten(whole)
        self.prompts.append(
            Prompt(
                shown,
                event.get("sequence") or 0,
                event.get("messageSequence"),
                event.get("timestamp"),
                event.get("id"),
                frozenset(name for name in names if isinstance(name, str)),
                b"" if shown == whole else sha256(whole.encode(errors="surrogatepass")).digest(),
            )
        )

    def _retract(self, payload: Mapping[str, Any]) -> None:
        ids, names = (set(payload.get(key) or ()) for key in ("eventIds", "messageIds"))
        first = self._first_retracted(payload)
        self.prompts = [
            prompt
            for prompt in self.prompts
            if prompt.id not in ids
            and names.isdisjoint(prompt.names)
            and (first is None or prompt.sequence < first)
        ]

    def _first_retracted(self, payload: Mapping[str, Any]) -> int | None:
        """Return the sequence of the first retracted event, if it and all later ones are retracted."""
        record, turns = payload.get("fromMessageId"), payload.get("turns")
        if isinstance(record, str):
            return next((prompt.sequence for prompt in self.prompts if record in prompt.names), None)
        if isinstance(turns, int) and turns > 0:
            first = self._turns[-turns] if turns <= len(self._turns) else 0
            del self._turns[-turns:]
            return first
        return None


def compare_sessions(a: ComparedSession, b: ComparedSession) -> SessionComparison:
    """Return the comparison. Redact texts before: they are compared as they are."""
    common = _common_beginning(a.session, b.session)
    files, more_files = _compare_files(a.facts, b.facts)
    return SessionComparison(
        a=a.session,
        b=b.session,
        common=common,
        facts=list(_compare_facts(a.session, b.session)),
        tools=_compare_tools(a.facts, b.facts),
        files=files,
        more_files=more_files,
        prompts=list(_compare_prompts(a, b, common)),
        more_prompts=a.has_more_prompts or b.has_more_prompts,
    )


def _common_beginning(a: Session, b: Session) -> CommonBeginning | None:
    if a.copy_of == b.id:
        return CommonBeginning(messages=a.copied_messages or 0, original=b.id)
    if b.copy_of == a.id:
        return CommonBeginning(messages=b.copied_messages or 0, original=a.id)
    if a.copy_of is None or a.copy_of != b.copy_of:
        return None
    both = min(a.copied_messages or 0, b.copied_messages or 0)
    return CommonBeginning(messages=both, original=a.copy_of)


def _compare_facts(a: Session, b: Session) -> Iterator[ComparedFact]:
    one, other = _facts_of(a), _facts_of(b)
    for name in FACT_NAMES:
        values = one.get(name), other.get(name)
        if values != (None, None):
            yield ComparedFact(name=name, a=values[0], b=values[1], is_equal=values[0] == values[1])


def _facts_of(session: Session) -> dict[FactName, FactValue]:
    version = session.metadata.get("cliVersion")
    usage = session.total_usage or session.usage
    facts: dict[FactName, FactValue | None] = {
        "agent": session.agent,
        "version": version if isinstance(version, str) else None,
        "models": session.models or None,
        "project": session.project,
        "folder": None if session.folder == session.project else session.folder,
        "branch": session.branch,
        "commit": session.commit,
        "machine": session.machine,
        "person": session.person,
        "cause": session.cause,
        "firstAt": None if session.first_at is None else session.first_at.isoformat(),
        "durationMs": session.duration_ms,
        "activeMs": session.active_ms,
        "prompts": session.prompt_count,
        "turns": session.turn_count,
        "toolCalls": session.tool_call_count,
        "toolFailures": session.tool_failure_count,
        "errors": session.error_count,
        "filesChanged": session.files_changed,
        "linesAdded": session.lines_added,
        "linesRemoved": session.lines_removed,
        "messages": session.message_count,
    }
    if usage is not None and usage.answers:
        facts |= {
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "cacheReadTokens": usage.cache_read_input_tokens,
            "cacheWriteTokens": usage.cache_creation_input_tokens,
            "costUsd": usage.cost_usd,
        }
    return {name: value for name, value in facts.items() if value is not None}


def _compare_tools(a: SessionFacts, b: SessionFacts) -> list[ComparedTool]:
    one, other = _tools_of(a), _tools_of(b)
    rows = [
        ComparedTool(tool=tool, a=one.get(tool), b=other.get(tool), is_equal=one.get(tool) == other.get(tool))
        for tool in {**one, **other}
    ]
    return sorted(rows, key=lambda row: (-sum(side.calls for side in (row.a, row.b) if side), row.tool))


def _tools_of(facts: SessionFacts) -> dict[str, ToolCount]:
    """Return the calls by tool. Redacted names may be equal."""
    counts: dict[str, ToolCount] = {}
    for each in facts.tools:
        known = counts.get(each.tool, ToolCount(calls=0, failures=0))
        counts[each.tool] = ToolCount(calls=known.calls + each.calls, failures=known.failures + each.failures)
    return counts


def _compare_files(a: SessionFacts, b: SessionFacts) -> tuple[list[ComparedFile], bool]:
    one, other = _files_of(a), _files_of(b)
    rows = [
        ComparedFile(path=path, a=one.get(path), b=other.get(path), is_equal=one.get(path) == other.get(path))
        for path in {**one, **other}
    ]
    rows.sort(key=lambda row: (row.a is None or row.b is None, row.a is None, row.path))
    return rows, a.more_files or b.more_files


def _files_of(facts: SessionFacts) -> dict[str, ChangedLines]:
    """Return the changes by path. The same file has other absolute paths in other folders of a repository."""
    files: dict[str, ChangedLines] = {}
    for each in facts.files:
        if each.changes:
            path = _relative_path(each.path, facts.session)
            known = files.get(path, ChangedLines(changes=0))
            files[path] = ChangedLines(
                changes=known.changes + each.changes,
                added=_sum(known.added, each.added),
                removed=_sum(known.removed, each.removed),
            )
    return files


def _relative_path(path: str, session: Session) -> str:
    for root in (session.project, session.folder):
        folder = (root or "").rstrip("/\\")
        if folder and path.startswith(folder) and path[len(folder) : len(folder) + 1] in ("/", "\\"):
            return path[len(folder) + 1 :] or path
    return path


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)


def _compare_prompts(
    a: ComparedSession, b: ComparedSession, common: CommonBeginning | None
) -> Iterator[PromptPair]:
    copied = _copied_by(a.session, common), _copied_by(b.session, common)
    one, other = ([prompt.compared for prompt in side.prompts] for side in (a, b))
    for left, right in align(one, other):
        pair = _at(a.prompts, left), _at(b.prompts, right)
        is_equal = pair[0] is not None and pair[1] is not None and pair[0].compared == pair[1].compared
        is_copied = is_equal and any(map(_is_within, pair, copied))
        yield PromptPair(a=_shown(pair[0]), b=_shown(pair[1]), is_equal=is_equal, is_copied=is_copied)


def _is_within(prompt: Prompt | None, last_message: int) -> bool:
    """True if a stored message up to this one contains the prompt."""
    return (
        prompt is not None and prompt.message_sequence is not None and prompt.message_sequence <= last_message
    )


def _copied_by(session: Session, common: CommonBeginning | None) -> int:
    """Return the last message of the common beginning in a copy; 0 in the original."""
    return 0 if common is None or common.original == session.id else common.messages


def _at(values: Sequence[_Side], place: int | None) -> _Side | None:
    return None if place is None else values[place]


def _shown(prompt: Prompt | None) -> ComparedPrompt | None:
    if prompt is None:
        return None
    return ComparedPrompt(
        sequence=prompt.sequence,
        message_sequence=prompt.message_sequence,
        at=datetime_of(prompt.timestamp),
        text=_shorten(prompt.text),
    )


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_PROMPT_TEXT else f"{text[: MAX_PROMPT_TEXT - 1]}…"


def align(a: Sequence[_Value], b: Sequence[_Value]) -> Iterator[_Places]:
    """Yield the places of equal texts, and of the texts between them, side by side.

    Equal texts are a longest common subsequence, with the common beginning as far as it goes.
    """
    left = right = 0
    for one, other in [*_common_places(a, b), (len(a), len(b))]:
        for place in range(max(one - left, other - right)):
            yield (
                left + place if left + place < one else None,
                right + place if right + place < other else None,
            )
        if one < len(a) and other < len(b):
            yield one, other
        left, right = one + 1, other + 1


def _common_places(a: Sequence[_Value], b: Sequence[_Value]) -> list[tuple[int, int]]:
    head = _common_length(a, b)
    tail = _common_length(a[head:][::-1], b[head:][::-1])
    middle = _longest_common(a[head : len(a) - tail], b[head : len(b) - tail])
    return [
        *((place, place) for place in range(head)),
        *((head + one, head + other) for one, other in middle),
        *((len(a) - place, len(b) - place) for place in range(tail, 0, -1)),
    ]


def _common_length(a: Iterable[_Value], b: Iterable[_Value]) -> int:
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return count


def _longest_common(a: Sequence[_Value], b: Sequence[_Value]) -> list[tuple[int, int]]:
    """Return the places of a longest common subsequence (Hunt and Szymanski): fast for texts that rarely repeat."""
    places: dict[_Value, list[int]] = {}
    for place, text in enumerate(b):
        places.setdefault(text, []).append(place)
    ends: list[int] = []
    """The smallest last place in `b` of a common subsequence, by its length."""
    chains: list[Any] = []
    """The last pair of each of them, with the pair before it."""
    for one, text in enumerate(a):
        for other in reversed(places.get(text, ())):
            length = bisect_left(ends, other)
            pair = (one, other, chains[length - 1] if length else None)
            ends[length : length + 1], chains[length : length + 1] = [other], [pair]
    found = list[tuple[int, int]]()
    last = chains[-1] if chains else None
    while last is not None:
        one, other, last = last
        found.append((one, other))
    return found[::-1]
