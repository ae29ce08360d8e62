"""After deletions that replace a part of the log, a rebuild changes nothing."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server import Store
from ash_server.store.log import kept_states, rebuild
from ash_server.store.maintenance import deletion, splicing
from tests.marking import slow_unless
from tests.server.store.maintenance.test_deletion_samples import store, stored, tables
from tests.shared.records import claude
from tests.shared.records.events import tool_call, wire_event
from tests.shared.records.openai_chat import delta_chunk

__all__ = ["store", "tables"]

TURNS = 30


def turn(number: int) -> list[dict[str, Any]]:
    usage = {"id": f"a{number}", "model": "claude-opus-4-8", "usage": claude.USAGE}
    records = [
        claude.user(f"task {number}"),
        claude.assistant(claude.call(f"t{number}", file_path=f"/f{number}"), id=f"c{number}"),
        claude.user([claude.tool_result(f"t{number}", "fine")]),
        claude.line("assistant", [claude.text(f"done {number}")], usage),
    ]
    times = [f"2026-01-01T00:{number:02}:{second:02}.000Z" for second in range(len(records))]
    return [{**record, "timestamp": time} for record, time in zip(records, times, strict=True)]


def mixed_turn(random: Random, number: int) -> list[dict[str, Any]]:
    """Return the messages of a turn that may not end, may be compacted, and may contain other agents and totals, calls
    with ids of earlier ones, and an incomplete repetition of its call.
    """
    prompt, *work = turn(number)
    subagent = [
        claude.user("look", isSidechain=True, parent_tool_use_id=f"t{number}"),
        claude.assistant(
            claude.text("seen"), id=f"s{number}", isSidechain=True, parent_tool_use_id=f"t{number}"
        ),
    ]
    again = [
        claude.assistant(claude.call(f"t{number % 4}", "Bash", command="ls"), id=f"g{number}"),
        claude.user([claude.tool_result(f"t{number % 4}", "listed", is_error=number % 3 == 0)]),
    ]
    parts = [
        work,
        again,
        work[:2],
        work[:1] + subagent + work[1:],
        [
            *claude.streamed_text(f"words {number}", id=f"m{number}"),
            claude.message_delta("end_turn", claude.USAGE),
        ],
        [claude.assistant(claude.text("no id"), id=None, usage=claude.USAGE)],
        [claude.result(f"over {number}", total_cost_usd=number / 10, usage=claude.USAGE)],
        [{"type": "system", "subtype": "compact_boundary", "content": "Compacted"}],
        [],
    ]
    chosen = random.sample(parts, random.randint(1, 3))
    return [prompt, *(record for part in chosen for record in part)]


@pytest.mark.parametrize("seed", slow_unless((4).__eq__, range(8)))
async def test_any_deletions_equal_a_rebuild(
    store: Store, tables: AsyncConnection, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(kept_states, "INTERVAL", 5)
    monkeypatch.setattr(rebuild, "_MAX_LOCKED", 0)
    monkeypatch.setattr(rebuild, "_MIN_AHEAD", seed % 2 * 2_000)
    monkeypatch.setattr(splicing, "_COPIED", 7)
    replaced, replace_part = list[bool](), splicing.replace_part

    async def record(*args: Any) -> splicing.Spliced:
        replaced.append(args[2].end is not None)
        return await replace_part(*args)

    monkeypatch.setattr(splicing, "replace_part", record)
    random, session = Random(seed), (await store.sessions.create()).id
    lines = [json.dumps(record) for number in range(25) for record in mixed_turn(random, number)]
    size = 9 if seed < 4 else 30
    for first in range(0, len(lines), size):
        await store.messages.append(session, lines[first : first + size], end=random.random() < 0.1)
        if random.random() < 0.2:
            id = f"p{first}"
            await store.events.append(session, tool_call(id, "Read"))
    prompts = [sequence for sequence, line in enumerate(lines, 1) if '"task ' in line]
    calls = [sequence for sequence, line in enumerate(lines, 1) if '"tool_use"' in line]
    chosen = [
        *random.sample(prompts[::2], 3),
        *random.sample(calls, 3),
        *random.sample(range(1, len(lines)), 3),
    ]
    for sequence in chosen:
        await store.messages.delete(session, sequence)
        if random.random() < 0.3:
            await store.messages.append(session, lines[:5])

    sequences = [each.sequence or 0 for each in await store.events.get_events(session, limit=1000)]
    assert True in replaced
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    before = await stored(store, tables, session)
    await store.events.rebuild(session)
    assert await stored(store, tables, session) == before


STATED_AGAIN = {
    "by a message": lambda store, session: store.messages.append(session, list(map(json.dumps, turn(10)))),
    "by a posted event": lambda store, session: store.events.append(session, tool_call("t10")),
}


@pytest.mark.parametrize("name", STATED_AGAIN)
async def test_calls_that_later_events_state_again_are_as_by_a_rebuild(
    store: Store, tables: AsyncConnection, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(kept_states, "INTERVAL", 5)
    monkeypatch.setattr(rebuild, "_MAX_LOCKED", 0)
    session = (await store.sessions.create()).id
    lines = [json.dumps(record) for number in range(TURNS) for record in turn(number)]
    await store.messages.append(session, lines[:60])
    await store.messages.append(session, lines[60:])
    await STATED_AGAIN[name](store, session)
    await store.messages.append(session, lines[:8])

    await store.messages.delete(session, 42)

    before = await stored(store, tables, session)
    assert any("'Bash'" in row or "'Read'" in row for row in before["facts"])
    await store.events.rebuild(session)
    assert await stored(store, tables, session) == before


async def test_call_that_is_stated_again_during_its_deletion_is_as_by_a_rebuild(
    store: Store, tables: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_states, "INTERVAL", 5)
    monkeypatch.setattr(rebuild, "_MAX_LOCKED", 0)
    session = (await store.sessions.create()).id
    lines = [json.dumps(record) for number in range(TURNS) for record in turn(number)]
    await store.messages.append(session, lines)
    derive_unlocked, derived = deletion._Deletion.derive_unlocked, list[int]()

    async def append_after(self: Any, sequence: int, how: Any) -> None:
        await derive_unlocked(self, sequence, how)
        derived.append(sequence)
        if len(derived) == 1:
            await STATED_AGAIN["by a message"](store, session)

    monkeypatch.setattr(deletion._Deletion, "derive_unlocked", append_after)

    await store.messages.delete(session, 42)

    before = await stored(store, tables, session)
    await store.events.rebuild(session)
    assert derived == [42, 42]
    assert await stored(store, tables, session) == before


POSTED = {
    "a call in the turn of the state": tool_call("p", "Read"),
    "a reset": wire_event("reset"),
}


@pytest.mark.parametrize("name", POSTED)
async def test_turns_after_posted_events_are_numbered_as_by_a_rebuild(
    store: Store, tables: AsyncConnection, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(kept_states, "INTERVAL", 5)
    session = (await store.sessions.create()).id
    lines = [json.dumps(record) for number in range(TURNS) for record in turn(number)]
    for first in range(0, len(lines), 5):
        await store.messages.append(session, lines[first : first + 5])
        if first == 85:
            await store.events.append(session, POSTED[name])
    await store.messages.delete(session, 5)
    await store.messages.append(session, lines[:4])

    before = await stored(store, tables, session)
    await store.events.rebuild(session)

    assert await stored(store, tables, session) == before


async def test_totals_after_a_posted_reset_are_as_by_a_rebuild(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_states, "INTERVAL", 5)
    session = (await store.sessions.create()).id
    random = Random(37)
    lines = [json.dumps(record) for number in range(8) for record in mixed_turn(random, number)]
    await store.messages.append(session, lines[:7])
    await store.messages.append(session, lines[7:16])
    await store.messages.pop(session)
    await store.messages.pop(session)
    await store.events.append(session, POSTED["a reset"])
    for sequence in (12, 2, 7):
        await store.messages.delete(session, sequence)
    before = await store.conversation.read_summary(session), await store.conversation.count_items(session)

    await store.events.rebuild(session)

    after = await store.conversation.read_summary(session), await store.conversation.count_items(session)
    assert before == after


async def test_costs_of_turns_with_equal_numbers_are_as_by_a_rebuild(
    store: Store, tables: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_states, "INTERVAL", 5)
    session = (await store.sessions.create()).id
    total = claude.result("over", total_cost_usd=0.5, usage=claude.USAGE)
    for number in range(12):
        if number == 8:
            await store.events.append(session, POSTED["a reset"])
        records = [*turn(number), total] if number == 10 else turn(number)
        await store.messages.append(session, list(map(json.dumps, records)))
    await store.messages.delete(session, 4 * 9 + 1)

    before = await stored(store, tables, session)
    await store.events.rebuild(session)

    assert await stored(store, tables, session) == before


DAY = 24 * 60 * 60 * 1000

PLAIN = [{"role": "user", "content": "plain"}, {"role": "assistant", "content": "answer"}]
DATED = {"type": "permission-mode", "permissionMode": "plan", "timestamp": "2026-01-02T00:00:00.000Z"}


class Case(NamedTuple):
    appends: Sequence[Sequence[Any]]
    """An append without messages is an end."""
    deleted: int


CASES = {
    "chunks before the part": Case([[delta_chunk({"content": "w "})]] * 13 + [[delta_chunk({}, "stop")]], 13),
    "an end at its beginning": Case([turn(0), turn(1), [], turn(2), turn(3)], 12),
    "a time that later messages continue": Case([turn(0), [DATED], *[PLAIN] * 20], 5),
    "the first time": Case([[*PLAIN, DATED]], 3),
    "a time without messages before": Case([[DATED, *PLAIN, *turn(0)]], 1),
}


@pytest.mark.parametrize("name", CASES)
async def test_has_the_times_and_groups_of_a_rebuild(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(kept_states, "INTERVAL", 4)
    session, (appends, deleted) = (await store.sessions.create()).id, CASES[name]
    for records in appends:
        await store.messages.append(session, list(map(json.dumps, records)), end=not records)
    await store.messages.delete(session, deleted)
    before = await shown(store, session)

    await store.events.rebuild(session)

    assert await shown(store, session) == [
        (*event, pytest.approx(time, abs=DAY / 2)) for *event, time in before
    ]


async def shown(store: Store, session: UUID) -> list[tuple[Any, ...]]:
    events = await store.events.get_events(session, limit=1000, collapse=True)
    derived = [event for event in events if event.type not in ("reset", "retraction")]
    return [(event.type, event.id, event.timestamp) for event in derived]
