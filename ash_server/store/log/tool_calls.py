"""Tool calls and the files that they concern, and the counts of a session that follow from them.

The lock of the session's counters orders reads and writes, as it does for the state of the normaliser.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from msgspec.structs import replace
from psycopg import AsyncConnection

from ash_server.store.connections.driver import execute_numbered
from ash_server.store.log.stored_json import MIN_SIZE
from ash_server.store.statements import number_parameters, statements
from ash_server.store.text import storable
from ash_shared.eventlog.facts.lines import LineFacts
from ash_shared.eventlog.facts.tool_uses import ToolOutcome, ToolUse, UsedFile

MAX_TOOL = 100
"""Characters of the name of a tool, an MCP server and a skill."""

_BATCH_SIZE = 1000
"""Calls per statement."""

_DAY = 24 * 60 * 60 * 1000

_FAILURES = ("failed", "denied")

_Row: TypeAlias = Mapping[str, Any]
"""The columns of a call and a file; without a tool, it changes a stored row."""

SQL = statements(__file__)

_WRITE = number_parameters(SQL.write)

_encode = msgspec.json.Encoder().encode


class PlacedUse(NamedTuple):
    """A tool call, with the message that stated it first."""

    message_sequence: int | None
    """None: a posted event states it."""
    use: ToolUse
    outcome: str = ""

    def with_outcome(self, result: ToolOutcome) -> "PlacedUse":
        return self._replace(
            use=replace(self.use, files=merge_files(self.use.files, result.files)), outcome=result.outcome
        )


class PlacedTurn(NamedTuple):
    """The turn of a tool call, with the message that stated it first."""

    key: str
    message_sequence: int
    turn: int


class FactCounts(NamedTuple):
    """The counts of a session that its tool calls give."""

    tool_call_count: int
    tool_failure_count: int
    files_changed: int
    lines_added: int
    lines_removed: int


class NewFacts:
    """The facts that some messages add to their session."""

    def __init__(self) -> None:
        self.prompts = 0
        self.turns = 0
        self.active_ms = 0
        self._written: list[Sequence[PlacedUse | ToolOutcome]] = []
        """Calls that are written before the others."""
        self._uses: dict[str, PlacedUse] = {}
        self._outcomes: dict[str, ToolOutcome] = {}
        """Outcomes of calls in earlier messages, if these are stored."""

    def add(self, line: LineFacts, message_sequence: int | None) -> None:
        """Add the facts of a message, or of a posted event without a sequence."""
        self.prompts += line.prompts
        self.turns += line.turns
        self.active_ms += line.active_ms
        for call in line.calls:
            if isinstance(call, ToolUse):
                self._add_use(call, message_sequence)
            else:
                self._add_outcome(call)

    def batches(self) -> Iterator[Sequence[PlacedUse | ToolOutcome]]:
        """Yield calls and results with different keys, to be written one after the other."""
        for calls in (*self._written, self._calls()):
            for start in range(0, len(calls), _BATCH_SIZE):
                yield calls[start : start + _BATCH_SIZE]

    def counts(self) -> FactCounts:
        """Count the calls of a session that is not stored, of which these are all facts."""
        uses: dict[str, PlacedUse] = {}
        for call in chain.from_iterable(self.batches()):
            if isinstance(call, PlacedUse):
                known = uses.get(call.use.key)
                uses[call.use.key] = (
                    call if known is None or call.outcome else call._replace(outcome=known.outcome)
                )
            elif call.key in uses:
                uses[call.key] = uses[call.key].with_outcome(call)
        changed = [
            file
            for use in uses.values()
            for file in use.use.files
            if use.outcome == "ok" and file.path and file.action != "read"
        ]
        return FactCounts(
            tool_call_count=len(uses),
            tool_failure_count=sum(use.outcome in _FAILURES for use in uses.values()),
            files_changed=len({file.path for file in changed}),
            lines_added=sum(file.added or 0 for file in changed),
            lines_removed=sum(file.removed or 0 for file in changed),
        )

    def copy(self) -> "NewFacts":
        copied = NewFacts()
        copied.prompts, copied.turns, copied.active_ms = self.prompts, self.turns, self.active_ms
        copied._written = list(self._written)
        copied._uses, copied._outcomes = dict(self._uses), dict(self._outcomes)
        return copied

    def differences(self, other: "NewFacts") -> set[str]:
        """Return the keys of calls with other values than the number of their turn, or only in one of both."""
        own, others = self._by_key(), other._by_key()
        keys = own.keys() | others.keys()
        return {key for key in keys if not _equal_except_turn(own.get(key, []), others.get(key, []))}

    def other_turns(self, other: "NewFacts") -> list[PlacedTurn]:
        """Return the turns of the other calls that differ by nothing else."""
        own, others = self._by_key(), other._by_key()
        both = [(calls, others.get(key, [])) for key, calls in own.items()]
        return [
            PlacedTurn(call.use.key, call.message_sequence, call.use.turn)
            for one, two in both
            if one != two and _equal_except_turn(one, two)
            for call in two
            if isinstance(call, PlacedUse) and call.message_sequence is not None
        ]

    def only(self, keys: Container[str]) -> "NewFacts":
        """Return the calls with these keys, and their results."""
        selected = NewFacts()
        selected._written = [[call for call in calls if _key(call) in keys] for calls in self._written]
        selected._uses = {key: use for key, use in self._uses.items() if key in keys}
        selected._outcomes = {key: result for key, result in self._outcomes.items() if key in keys}
        return selected

    def _by_key(self) -> dict[str, list[PlacedUse | ToolOutcome]]:
        calls: dict[str, list[PlacedUse | ToolOutcome]] = {}
        for call in chain.from_iterable(self.batches()):
            calls.setdefault(_key(call), []).append(call)
        return calls

    def _calls(self) -> Sequence[PlacedUse | ToolOutcome]:
        return [*self._uses.values(), *self._outcomes.values()]

    def _add_use(self, use: ToolUse, message_sequence: int | None) -> None:
        if use.key in self._outcomes:  # a result of an earlier call, if that is stored
            self._written.append(self._calls())
            self._uses, self._outcomes = {}, {}
        known = self._uses.get(use.key)
        if known is None:
            self._uses[use.key] = PlacedUse(message_sequence, use)
        else:
            time = use.time if known.use.time is None else known.use.time
            self._uses[use.key] = known._replace(use=replace(use, time=time, turn=known.use.turn))

    def _add_outcome(self, result: ToolOutcome) -> None:
        known = self._uses.get(result.key)
        if known is not None:
            self._uses[result.key] = known.with_outcome(result)
            return
        earlier = self._outcomes.get(result.key)
        if earlier is not None:
            result = replace(result, files=merge_files(earlier.files, result.files))
        self._outcomes[result.key] = result


def _equal_except_turn(
    one: Sequence[PlacedUse | ToolOutcome], two: Sequence[PlacedUse | ToolOutcome]
) -> bool:
    """True if calls are equal except for the numbers of their turns, which count for posted events."""
    return one == two or list(map(_without_turn, one)) == list(map(_without_turn, two))


def _without_turn(call: PlacedUse | ToolOutcome) -> PlacedUse | ToolOutcome:
    if isinstance(call, ToolOutcome) or call.message_sequence is None:
        return call
    return call._replace(use=replace(call.use, turn=0))


def _key(call: PlacedUse | ToolOutcome) -> str:
    return call.use.key if isinstance(call, PlacedUse) else call.key


def merge_files(stated: Sequence[UsedFile], reported: Sequence[UsedFile]) -> tuple[UsedFile, ...]:
    """Return the files of a call with the lines that its result reports, in the same order."""
    both = zip(stated, reported, strict=False)
    merged = (
        one._replace(path=one.path or two.path, added=two.added, removed=two.removed) for one, two in both
    )
    return (*merged, *stated[len(reported) :], *reported[len(stated) :])


def encode_calls(facts: NewFacts, now: int) -> list[str]:
    """Return tool calls and results as JSON for the parameter `calls`, to be written one after the other.

    Times more than a day after `now`, in milliseconds, are unknown.
    """
    batches = ([row for call in batch for row in _rows(call, now + _DAY)] for batch in facts.batches())
    return [_encode(rows).decode() for rows in batches]


async def write_calls(conn: AsyncConnection, session_id: UUID, encoded: Iterable[str]) -> None:
    """Store tool calls and results, and add the changes of their counts to the counters of the session."""
    for calls in encoded:
        await execute_numbered(conn, _WRITE, {"session_id": session_id, "calls": calls})


async def write_facts(conn: AsyncConnection, session_id: UUID, facts: NewFacts, now: int) -> None:
    """Store the tool calls and results; see `encode_calls`."""
    await write_calls(conn, session_id, encode_calls(facts, now))


async def delete_calls(conn: AsyncConnection, session_id: UUID) -> None:
    await conn.execute(SQL.delete, [session_id])


async def reset_facts(conn: AsyncConnection, session_id: UUID) -> None:
    """Delete the tool calls of a session and set all counts of facts to 0."""
    await delete_calls(conn, session_id)
    await conn.execute(SQL.reset_counters, [session_id])


async def replace_facts(conn: AsyncConnection, session_id: UUID, facts: NewFacts, now: int) -> None:
    """Replace all facts of a session."""
    await reset_facts(conn, session_id)
    await write_facts(conn, session_id, facts, now)
    await add_activity(conn, session_id, facts)


async def change_calls(
    conn: AsyncConnection, session_id: UUID, keys: Sequence[str], facts: NewFacts, now: int
) -> None:
    """Replace the calls with these keys."""
    if keys:
        await conn.execute(SQL.remove, {"session_id": session_id, "keys": keys})
        await write_facts(conn, session_id, facts, now)


async def set_turns(conn: AsyncConnection, session_id: UUID, turns: Sequence[PlacedTurn]) -> None:
    """Set the turns of calls that these messages stated first."""
    if turns:
        columns = map(list, zip(*turns, strict=True))
        await conn.execute(SQL.set_turns, [*columns, session_id])


async def move_turns(
    conn: AsyncConnection, session_id: UUID, moved: int, last_turn: int, last_message: int
) -> None:
    """Add `moved` to the numbers of the turns of all calls that were first stated after a message in `last_turn`."""
    await conn.execute(SQL.move_turns, [moved, session_id, last_turn, last_turn, last_message])


async def has_posted(conn: AsyncConnection, session_id: UUID, turn: int) -> bool:
    """True if posted events state calls or answers in a turn, without a place among the messages."""
    found = {"session_id": session_id, "turn": turn}
    return await (await conn.execute(SQL.has_posted, found)).fetchone() is not None


async def has_posted_reset(conn: AsyncConnection, session_id: UUID) -> bool:
    """True if posted events number the turns from 1 again, so that turns have equal numbers."""
    return await (await conn.execute(SQL.has_posted_reset, [session_id])).fetchone() is not None


async def find_first_messages(
    conn: AsyncConnection, session_id: UUID, keys: Sequence[str]
) -> list[int | None]:
    """Return the messages that stated these calls first; None for a posted event."""
    rows = await (await conn.execute(SQL.find_first_messages, [session_id, keys])).fetchall()
    return [message for (message,) in rows]


async def find_last_stated(
    conn: AsyncConnection, session_id: UUID, ids: Iterable[str], between: tuple[int, int]
) -> int:
    """Return the last event after one and up to another that states one of these calls; 0 if none does.

    `ids` are the ids as JSON. They are not looked up in an index, but the events are not derived again.
    """
    fields = [f'"toolCallId":{id}' for id in ids]
    row = await (await conn.execute(SQL.find_last_stated, [session_id, *between, fields])).fetchone()
    return (row[0] if row else None) or 0


def stated_id(payload: Mapping[str, Any]) -> str | None:
    """Return the id of the call as every event with the call states it in JSON; None if others may differ.

    Keys are digests of ids as text, so a number has the key of a text.
    """
    id = payload.get("toolCallId")
    if not isinstance(id, str) or not _ID.match(id):
        return None
    encoded = _encode(id)
    return encoded.decode() if len(encoded) < MIN_SIZE else None


_ID = re.compile(r"(?!None$|True$|False$)[A-Za-z_]|[0-9a-f]{8}-")
"""The beginning of an id that is not the text of another JSON value."""


async def change_activity(conn: AsyncConnection, session_id: UUID, facts: NewFacts, before: NewFacts) -> None:
    """Replace the counts of some messages that no tool call gives."""
    changes = (facts.prompts - before.prompts, facts.turns - before.turns, facts.active_ms - before.active_ms)
    if any(changes):
        await conn.execute(SQL.add_activity, [*changes, session_id])


async def add_activity(conn: AsyncConnection, session_id: UUID, facts: NewFacts) -> None:
    """Add the counts that no tool call gives; an append adds them with its events."""
    await conn.execute(SQL.add_activity, [facts.prompts, facts.turns, facts.active_ms, session_id])


def _rows(call: PlacedUse | ToolOutcome, latest: int) -> Sequence[_Row]:
    return _rows_of_outcome(call) if isinstance(call, ToolOutcome) else _rows_of_use(call, latest)


def _rows_of_use(placed: PlacedUse, latest: int) -> Sequence[_Row]:
    use = placed.use
    call = {
        "key": use.key,
        "message_sequence": placed.message_sequence,
        "time": use.time if use.time is not None and use.time <= latest else None,
        "turn": use.turn,
        "tool": _cut(use.tool),
        "mcp_server": _cut(use.mcp_server),
        "skill": _cut(use.skill),
        "outcome": placed.outcome,
    }
    files = use.files or (UsedFile("shell" if use.is_shell else "", ""),)  # type: ignore[arg-type]
    return [{**call, "number": number, **_file(file)} for number, file in enumerate(files)]


def _rows_of_outcome(result: ToolOutcome) -> Sequence[_Row]:
    call = {"key": result.key, "outcome": result.outcome}
    if not result.files:
        return [{**call, "number": 0}]
    return [{**call, "number": number, **_file(file)} for number, file in enumerate(result.files)]


def _file(file: UsedFile) -> dict[str, Any]:
    return {"action": file.action, "path": storable(file.path), "added": file.added, "removed": file.removed}


def _cut(name: str) -> str:
    return storable(name)[:MAX_TOOL]
