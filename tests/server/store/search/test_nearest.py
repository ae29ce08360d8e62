"""Words that are near to a word without results."""

import json
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.search import nearest
from ash_server.store.search.index import index_pending
from ash_server.store.search.nearest import is_within_two_edits, suggest_queries
from ash_server.store.search.query import find
from ash_server.store.search.within import find_in_session
from ash_server.store.sessions import create_session
from ash_server.store.statements import Sql
from tests.shared.records import claude

PASSWORD = "redis://cache:cantilever@db.example/0"
LINES = [
    claude.line("user", f"Look around the orchard at {PASSWORD}, past the Ladder and the ladders.", {}),
    claude.line("assistant", [{"type": "text", "text": "Der Kühlschrank и мельница."}], {}),
    claude.line("user", [{"type": "tool_result", "tool_use_id": "t", "content": "a quince"}], {}),
]

SUGGESTED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a missing letter": ("ochard", {}, ["orchard"]),
    "another letter": ("orchald", {}, ["orchard"]),
    "one letter too many": ("orrchard", {}, ["orchard"]),
    "swapped letters": ("Orhcard", {}, ["orchard"]),
    "two edits after the beginning": ("orchrrds", {}, ["orchard"]),
    "several words": ("laddes", {}, ["ladder", "ladders"]),
    "accents": ("kühlshrank", {}, ["kuhlschrank"]),
    "another script": ("мелница", {}, ["мельница"]),
    "one of several words": ("around, (ochard) ladder", {}, ["around, orchard ladder"]),
    "two words": ("ochard laddr", {}, ["orchard ladder"]),
    "a word without near ones": ("ochard zzzzzz", {}, []),
    "a tool result": ("quinze", {}, []),
    "a tool result, everywhere": ("quinze", {"place": "everything"}, ["quince"]),
    "a short word": ("ato", {}, []),
    "a number": ("12345", {}, []),
    "a phrase": ('"ochard"', {}, []),
    "a path": ("ochard/laddr", {}, []),
    "words of different events": ("ladder мельница", {}, []),
    "a word of a secret": ("cantilver", {}, ["cantilever"]),
    "a word of a secret, for clients that see redacted texts": ("cantilver", {"redact": True}, []),
    "a word next to a secret": ("ochard", {"redact": True}, ["orchard"]),
}


@pytest.fixture
async def orchard(connection: AsyncConnection, session_id: UUID) -> UUID:
    await append(connection, session_id, [prepare_message(session_id, json.dumps(each)) for each in LINES])
    await index_pending(connection)
    return session_id


async def test_suggests_queries_with_stored_words(connection: AsyncConnection, orchard: UUID) -> None:
    pages = {name: await find(connection, q, **filters) for name, (q, filters, _) in SUGGESTED.items()}
    within = {
        name: await find_in_session(connection, orchard, q, **{"place": "conversation", **filters})
        for name, (q, filters, _) in SUGGESTED.items()
    }
    expected = {name: words for name, (_, _, words) in SUGGESTED.items()}

    assert {name: page.suggestions or [] for name, page in pages.items()} == expected
    assert {name: page.suggestions or [] for name, page in within.items()} == expected


async def test_searches_of_a_session_suggest_only_its_words(
    connection: AsyncConnection, orchard: UUID
) -> None:
    other = (await create_session(connection)).session.id
    await append(connection, other, [prepare_message(other, json.dumps(claude.line("user", "A heron.", {})))])
    await index_pending(connection)
    suggestions = [
        (await find_in_session(connection, session, "ochard")).suggestions for session in (orchard, other)
    ]

    assert suggestions == [["orchard"], None]


async def test_a_slow_lookup_suggests_nothing(
    connection: AsyncConnection, orchard: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "_TIMEOUT_MS", 1)
    params = {"others": "redacted", "session_id": None}
    slow = Sql("words @@ {query} AND pg_sleep(60) IS NOT NULL")

    assert await suggest_queries(connection, "ochard", slow, params) == []
    assert await suggest_queries(connection, "orchard", slow, params) == []
    assert (await find(connection, "orchard")).results


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("", "", True),
        ("", "ab", True),
        ("", "abc", False),
        ("heron", "heron", True),
        ("heron", "herons", True),
        ("heron", "ehrno", True),
        ("heron", "hnoer", False),
        ("heron", "eron", True),
        ("heron", "haran", True),
        ("heron", "haran2", False),
        ("abcdef", "badcfe", False),
    ],
)
def test_words_within_two_edits(one: str, other: str, expected: bool) -> None:
    assert (is_within_two_edits(one, other), is_within_two_edits(other, one)) == (expected, expected)
