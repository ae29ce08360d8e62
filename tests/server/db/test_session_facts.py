"""Session fields collected from messages."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.db.messages import append
from ash_server.db.session_facts import SessionFacts, collect_facts
from ash_server.db.sessions import Session, create_session, get_session, get_writer_fields, update_session
from ash_shared.model.message import Facts
from tests.server.db.test_messages import message

SECOND = 1000
TIMES = {number: datetime(2026, 11, 2, 9, 0, number, tzinfo=UTC) for number in range(10)}
NEVER = 10**15


def at(second: int) -> int:
    return round(TIMES[second].timestamp() * SECOND)


def collected(session: Session) -> dict[str, Any]:
    dumped: dict[str, Any] = session.model_dump(by_alias=True)
    keys = {"title", "prompt", "firstAt", "lastAt", "source"}
    return {**{key: value for key, value in dumped.items() if key in keys}, **session.metadata}


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "nothing": ([{}], {}),
    "a later and an earlier time": (
        [
            {"facts": Facts(timestamp=at(5))},
            {"facts": Facts(timestamp=at(7))},
            {"facts": Facts(timestamp=at(2))},
        ],
        {"firstAt": TIMES[2], "lastAt": TIMES[7]},
    ),
    "invalid times": (
        [
            {"facts": Facts(timestamp=NEVER)},
            {"facts": Facts(timestamp=0)},
            {"facts": Facts(timestamp=-1)},
            {"facts": Facts(timestamp=at(1))},
        ],
        {"firstAt": TIMES[1], "lastAt": TIMES[1]},
    ),
    "the first prompt": ([{}, {"prompt": "one\n two"}, {"prompt": "three"}], {"title": "one two"}),
    "a blank prompt": ([{"prompt": " \0\n"}, {"prompt": "three"}], {"title": "three"}),
    "the last title from a tool": (
        [{"facts": Facts(title="a")}, {"prompt": "say"}, {"facts": Facts(title="b")}, {"prompt": "more"}],
        {"title": "b", "prompt": "say"},
    ),
    "a tool's title after a prompt": (
        [{"prompt": "say"}, {"facts": Facts(title="a")}],
        {"title": "a", "prompt": "say"},
    ),
    "a tool's title equal to the prompt": (
        [{"prompt": "say"}, {"facts": Facts(title="say")}],
        {"title": "say"},
    ),
    "a long title": ([{"facts": Facts(title="ä" * 1000)}], {"title": "ä" * 200}),
    "the last client and the last id": (
        [
            {"facts": Facts(client_version="1", session_id="a")},
            {"facts": Facts(client_version="2")},
            {"facts": Facts(session_id="b\0")},
        ],
        {"cliVersion": "2", "sessionId": "b"},
    ),
    "the first known source": (
        [{"source": "unknown"}, {"source": "codex"}, {"source": "pi"}],
        {"source": "codex"},
    ),
}


@pytest.mark.parametrize("batch", [1, 2, 10])
@pytest.mark.parametrize(("messages", "expected"), CASES.values(), ids=CASES)
async def test_collects_fields_from_messages(
    connection: AsyncConnection,
    session_id: UUID,
    messages: list[dict[str, Any]],
    expected: dict[str, Any],
    batch: int,
) -> None:
    """The batch size does not matter."""
    new = [message(str(number), **described) for number, described in enumerate(messages)]
    merged = SessionFacts()
    for start in range(0, len(new), batch):
        await append(connection, session_id, new[start : start + batch])
        merged = merged.merge(collect_facts([each.described for each in new[start : start + batch]]))

    assert collected(await get_session(connection, session_id)) == {"source": "claude", **expected}
    assert merged == collect_facts([each.described for each in new])


async def test_duplicate_message_changes_no_fields(connection: AsyncConnection, session_id: UUID) -> None:
    await append(connection, session_id, [message("a", prompt="first")])
    await append(connection, session_id, [message("a", facts=Facts(title="other", timestamp=at(1)))])

    assert collected(await get_session(connection, session_id)) == {"source": "claude", "title": "first"}


async def test_keeps_title_set_by_person(connection: AsyncConnection) -> None:
    titled = (await create_session(connection, title="given")).session.id
    patched = (await create_session(connection)).session.id
    await append(connection, patched, [message("a", facts=Facts(title="a tool's"))])
    await update_session(connection, patched, title="patched")
    for session_id in (titled, patched):
        await append(connection, session_id, [message("b", prompt="say", facts=Facts(title="a tool's"))])

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
    session_id = (await create_session(connection, metadata={"team": "a", "sessionId": "mine"})).session.id
    new = message("a", prompt="say", facts=Facts(session_id="theirs", client_version="2"))
    await append(connection, session_id, [new])

    assert (await get_session(connection, session_id)).metadata == {
        "team": "a",
        "sessionId": "mine",
        "cliVersion": "2",
    }
    assert await get_writer_fields(connection, session_id) == {
        "id": session_id,
        "parent_id": None,
        "title": None,
        "metadata": {"team": "a", "sessionId": "mine"},
    }
