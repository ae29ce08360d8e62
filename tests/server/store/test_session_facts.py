"""Facts about a session derived from its messages."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

import ash_server
from ash_server.store import session_facts
from ash_server.store.messages import append
from ash_server.store.session_facts import FROM_PERSON, FROM_TOOL, RecordFacts, collect_facts
from ash_server.store.session_rows import get_session
from ash_server.store.sessions import create_session, get_writer_fields, update_session
from ash_shared.conversation.transcript import split_transcript
from ash_shared.model.message import Description, RecordHeader, StatedTotal
from ash_shared.model.session import Session
from ash_shared.parsing.parse import describe_message
from tests.marking import slow_unless
from tests.server.store.test_messages import message
from tests.shared.sample_files import CORPUS

SECOND = 1000
TIMES = {number: datetime(2026, 11, 2, 9, 0, number, tzinfo=UTC) for number in range(10)}
NEVER = 10**15


def at(second: int) -> int:
    return round(TIMES[second].timestamp() * SECOND)


def collected(session: Session) -> dict[str, Any]:
    dumped: dict[str, Any] = session.model_dump(by_alias=True)
    keys = {
        "title",
        "prompt",
        "firstAt",
        "lastAt",
        "source",
        "agentId",
        "folder",
        "branch",
        "commit",
        "cause",
    }
    return {**{key: value for key, value in dumped.items() if key in keys}, **session.metadata}


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "nothing": ([{}], {}),
    "a later and an earlier time": (
        [
            {"header": RecordHeader(timestamp=at(5))},
            {"header": RecordHeader(timestamp=at(7))},
            {"header": RecordHeader(timestamp=at(2))},
        ],
        {"firstAt": TIMES[2], "lastAt": TIMES[7]},
    ),
    "a record with several times": (
        [
            {"header": RecordHeader(timestamp=at(5), last_timestamp=at(8))},
            {"header": RecordHeader(timestamp=at(7), last_timestamp=at(3))},
            {"header": RecordHeader(last_timestamp=NEVER)},
        ],
        {"firstAt": TIMES[3], "lastAt": TIMES[8]},
    ),
    "invalid times": (
        [
            {"header": RecordHeader(timestamp=NEVER)},
            {"header": RecordHeader(timestamp=0)},
            {"header": RecordHeader(timestamp=-1)},
            {"header": RecordHeader(timestamp=at(1))},
        ],
        {"firstAt": TIMES[1], "lastAt": TIMES[1]},
    ),
    "the first prompt": ([{}, {"prompt": "one\n two"}, {"prompt": "three"}], {"title": "one two"}),
    "a blank prompt": ([{"prompt": " \0\n"}, {"prompt": "three"}], {"title": "three"}),
    "the last title from a tool": (
        [
            {"header": RecordHeader(title="a")},
            {"prompt": "say"},
            {"header": RecordHeader(title="b")},
            {"prompt": "more"},
        ],
        {"title": "b", "prompt": "say"},
    ),
    "a tool's title after a prompt": (
        [{"prompt": "say"}, {"header": RecordHeader(title="a")}],
        {"title": "a", "prompt": "say"},
    ),
    "a tool's title equal to the prompt": (
        [{"prompt": "say"}, {"header": RecordHeader(title="say")}],
        {"title": "say"},
    ),
    "a name of the person before a title of the tool": (
        [
            {"header": RecordHeader(title="first name", is_title_of_person=True)},
            {"header": RecordHeader(title="name", is_title_of_person=True)},
            {"header": RecordHeader(title="tool's")},
        ],
        {"title": "name"},
    ),
    "a name of the person after a title of the tool": (
        [
            {"header": RecordHeader(title="tool's")},
            {"header": RecordHeader(title="name", is_title_of_person=True)},
        ],
        {"title": "name"},
    ),
    "a long title": ([{"header": RecordHeader(title="ä" * 1000)}], {"title": "ä" * 200}),
    "the last client and the last id": (
        [
            {"header": RecordHeader(client_version="1", session_id="a")},
            {"header": RecordHeader(client_version="2")},
            {"header": RecordHeader(session_id="b\0")},
        ],
        {"cliVersion": "2", "sessionId": "b"},
    ),
    "the first agent": (
        [
            {},
            {"header": RecordHeader(agent="a\0")},
            {"header": RecordHeader(agent="b")},
            {"header": RecordHeader(agent="")},
        ],
        {"agentId": "a"},
    ),
    "no agent in a main session": (
        [{"header": RecordHeader(agent="")}, {"header": RecordHeader(agent="a")}],
        {},
    ),
    "the first folder and commit, and the last branch": (
        [
            {"header": RecordHeader(folder=" ", branch="main", commit="c" * 2000)},
            {"header": RecordHeader(folder="/a\0", branch="fix", commit="c1")},
            {"header": RecordHeader(folder="/b", branch="", commit="c2")},
        ],
        {"folder": "/a", "branch": "fix", "commit": "c1"},
    ),
    "the first cause": ([{}, {"cause": "schedule"}, {"cause": "person"}], {"cause": "schedule"}),
    "the first known source": (
        [{"source": "unknown"}, {"source": "codex"}, {"source": "pi"}],
        {"source": "codex"},
    ),
}


@pytest.mark.parametrize("batch", [1, 2, 10])
async def test_collects_fields_from_messages(connection: AsyncConnection, batch: int) -> None:
    """The batch size does not matter."""
    stored = {}
    for name, (messages, _) in CASES.items():
        session_id = (await create_session(connection)).session.id
        new = [message(str(number), **described) for number, described in enumerate(messages)]
        merged = RecordFacts()
        for start in range(0, len(new), batch):
            await append(connection, session_id, new[start : start + batch])
            merged = merged.merge(collect_facts([each.described for each in new[start : start + batch]]))
        assert merged == collect_facts([each.described for each in new]), name
        stored[name] = collected(await get_session(connection, session_id))

    assert stored == {name: {"source": "claude", **expected} for name, (_, expected) in CASES.items()}


def test_last_stated_cost_counts() -> None:
    totals = [None, StatedTotal(2, ("opus",)), StatedTotal(0, ("h\0" * 300,)), None]
    facts = collect_facts([message("a", header=RecordHeader(stated_total=each)).described for each in totals])
    assert (facts.stated_cost, facts.stated_models) == (0, ["h" * 200])


async def test_duplicate_message_changes_no_fields(connection: AsyncConnection, session_id: UUID) -> None:
    await append(connection, session_id, [message("a", prompt="first")])
    await append(connection, session_id, [message("a", header=RecordHeader(title="other", timestamp=at(1)))])

    assert collected(await get_session(connection, session_id)) == {"source": "claude", "title": "first"}


async def test_keeps_title_set_by_person(connection: AsyncConnection) -> None:
    titled = (await create_session(connection, title="given")).session.id
    patched = (await create_session(connection)).session.id
    await append(connection, patched, [message("a", header=RecordHeader(title="a tool's"))])
    await update_session(connection, patched, title="patched")
    for session_id in (titled, patched):
        await append(
            connection, session_id, [message("b", prompt="say", header=RecordHeader(title="a tool's"))]
        )

    assert [(await get_session(connection, each)).title for each in (titled, patched)] == ["given", "patched"]

    await update_session(connection, patched, title=None)
    assert collected(await get_session(connection, patched)) == {"source": "claude", "prompt": "say"}
    await append(connection, patched, [message("c", prompt="again")])
    assert collected(await get_session(connection, patched)) == {
        "source": "claude",
        "title": "again",
        "prompt": "say",
    }


async def test_collected_fields_do_not_replace_writer_fields(connection: AsyncConnection) -> None:
    key = UUID(int=7)
    metadata = {"team": "a", "sessionId": "mine"}
    created = await create_session(connection, metadata=metadata, machine="laptop", key_id=key)
    session_id = created.session.id
    new = message("a", prompt="say", header=RecordHeader(session_id="theirs", client_version="2"))
    await append(connection, session_id, [new])

    assert (await get_session(connection, session_id)).metadata == {
        "team": "a",
        "sessionId": "mine",
        "cliVersion": "2",
    }
    assert await get_writer_fields(connection, session_id) == {
        "id": session_id,
        "parent_id": None,
        "parent_external_id": None,
        "title": None,
        "metadata": metadata,
        "machine": "laptop",
        "key_id": key,
    }


# The rules are stated three times: for a list of messages, for two facts, and in SQL.

SEEDS = 150

GIVEN = [
    RecordFacts(),
    RecordFacts(source="pi"),
    RecordFacts(title="a person's", title_priority=FROM_PERSON),
]
"""Facts that the creator of a session gave."""

OUTDATED = RecordFacts(
    first_at=TIMES[0],
    last_at=TIMES[9],
    title="outdated",
    title_priority=FROM_TOOL,
    first_prompt="outdated",
    client_version="0",
    provider_session_id="outdated",
    project="outdated",
    folder="outdated",
    branch="outdated",
    git_commit="outdated",
    cause="program",
    stated_cost=9,
    stated_models=["outdated"],
)

SERVER = Path(ash_server.__file__).parent
SESSIONS = Path(__file__).parents[2] / "shared" / "sessions"
MATERIAL = {
    path.name: path for path in [SERVER / "samples", SERVER / "recordings", SESSIONS, *CORPUS.glob("*/")]
}


def any_facts(choose: random.Random) -> RecordFacts:
    """Random facts as `collect_facts` may return them."""
    titles = [
        (None, 0),
        ("one", 1),
        ("two", 1),
        ("tool's", 2),
        ("tool's other", 2),
        ("name", 3),
        ("other", 3),
    ]
    title, rank = choose.choice(titles)
    times = sorted(choose.sample(list(TIMES.values()), 2))
    cost, models = choose.choice([(None, None), (0, []), (5, ["opus"])])
    first_at, last_at = choose.choice([(None, None), (times[0], times[0]), (times[0], times[1])])
    return RecordFacts(
        source=choose.choice(["unknown", "claude", "codex"]),
        first_at=first_at,
        last_at=last_at,
        title=title,
        title_priority=rank,
        first_prompt=choose.choice([None, "say", "more"]),
        client_version=choose.choice([None, "1", "2"]),
        provider_session_id=choose.choice([None, "a", "b"]),
        agent_id=choose.choice([None, "", "x"]),
        project=choose.choice([None, "/work", "/other"]),
        folder=choose.choice([None, "/work/a", "/other"]),
        branch=choose.choice([None, "main", "fix"]),
        git_commit=choose.choice([None, "c1", "c2"]),
        cause=choose.choice([None, "person", "schedule"]),
        stated_cost=cost,
        stated_models=models,
    )


async def assert_merged_alike(
    connection: AsyncConnection, first: RecordFacts, later: Sequence[RecordFacts]
) -> None:
    """The session's row is the same for Python and SQL, and again after others if it is set to all facts at once."""
    created = await create_session(connection, source=first.source, title=first.title)
    session_id = created.session.id
    expected = reduce(RecordFacts.merge, later, first)

    for facts in later:
        await update(connection, session_facts.SQL.merge, session_id, facts)
    assert await facts_of(connection, session_id) == expected
    await update(connection, session_facts.SQL.merge, session_id, OUTDATED)
    await update(
        connection, session_facts.SQL.replace, session_id, reduce(RecordFacts.merge, later, RecordFacts())
    )
    assert await facts_of(connection, session_id) == expected


async def update(connection: AsyncConnection, changes: str, session_id: UUID, facts: RecordFacts) -> None:
    query = f"UPDATE sessions SET {changes} WHERE id = %(session_id)b"
    await connection.execute(query, {"session_id": session_id, **facts._asdict()})


async def facts_of(connection: AsyncConnection, session_id: UUID) -> RecordFacts:
    query = f"SELECT {', '.join(RecordFacts._fields)} FROM sessions WHERE id = %s"
    rows = await (await connection.execute(query, [session_id])).fetchall()
    return RecordFacts(*rows[0])


async def test_sql_merges_facts_as_python_does(connection: AsyncConnection) -> None:
    for seed in range(SEEDS):
        choose = random.Random(seed)
        later = [any_facts(choose) for _ in range(choose.randrange(6))]
        await assert_merged_alike(connection, choose.choice(GIVEN), later)


@pytest.mark.parametrize("material", slow_unless(lambda name: name in ("samples", "recordings"), MATERIAL))
async def test_sql_merges_the_facts_of_messages(connection: AsyncConnection, material: str) -> None:
    """In whatever batches the messages come."""
    choose = random.Random(material)
    for number, messages in enumerate(transcripts(MATERIAL[material])):
        batches = [collect_facts(batch) for batch in cut(messages, choose)]

        assert reduce(RecordFacts.merge, batches, RecordFacts()) == collect_facts(messages)
        await assert_merged_alike(connection, GIVEN[number % len(GIVEN)], batches)


def transcripts(folder: Path) -> Iterator[list[Description]]:
    for path in sorted(folder.iterdir()):
        if folder == SESSIONS:
            for session in json.loads(path.read_text()).values():
                yield described(map(json.dumps, session["lines"]))
        elif path.suffix in (".json", ".jsonl"):
            yield described(split_transcript(path.read_bytes().decode(errors="replace")))


def described(texts: Iterable[str | bytes]) -> list[Description]:
    return [describe_message(text) for text in texts]


def cut(messages: list[Description], choose: random.Random) -> Iterator[list[Description]]:
    """Cut into up to six batches."""
    while messages:
        size = choose.randint(1 + len(messages) // 6, len(messages))
        yield messages[:size]
        messages = messages[size:]
