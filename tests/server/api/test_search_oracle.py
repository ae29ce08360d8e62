"""No parameter reveals the beginning of a secret to a client that sees redacted texts."""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import quote
from uuid import uuid4

import pytest
from httpx2 import AsyncClient

from ash_server.app import create_app
from ash_server.history_tools import _TOOLS
from ash_server.settings import Settings
from ash_server.store import Store
from tests.openapi_document import DOCUMENT
from tests.server.api.conftest import SECRET, bearer, create_key
from tests.server.app_client import app_client
from tests.shared.records import claude
from tests.waiting import until

DIGITS = "31415926535897932384626433832795"
TOKEN = f"xoxb-{DIGITS[:10]}-{DIGITS[10:]}"
AWS_KEY = "wJalr/XUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE12"
PASSWORD = "correct-horse.battery"
AWS_TEXT = f"aws_secret_access_key={AWS_KEY}"
URL = f"redis://cache:{PASSWORD}@db.example/0"

WHOLE, PARTS, NOT_A_TEXT = "compared as a whole", "parts are compared", "not compared with a stored text"
DECISIONS = {
    "listSessions": {
        **dict.fromkeys(("q", "externalIdPrefix", "project", "edited"), PARTS),
        **dict.fromkeys(("source", "providerSessionId", "externalId", "reference", "tag"), WHOLE),
        **dict.fromkeys(("branch", "machine", "person", "model", "tool"), WHOLE),
        **dict.fromkeys(
            ("after", "limit", "sort", "parentId", "since", "until", "errors", "usage", "key", "cause"),
            NOT_A_TEXT,
        ),
        **dict.fromkeys(("starred", "archived", "activity"), NOT_A_TEXT),
    },
    "search": {
        **dict.fromkeys(("q", "project", "edited"), PARTS),
        **dict.fromkeys(("source", "person", "tool", "branch", "machine", "model", "tag"), WHOLE),
        **dict.fromkeys(
            ("in", "role", "sessionId", "since", "until", "perSession", "after", "limit"), NOT_A_TEXT
        ),
        **dict.fromkeys(("starred", "archived", "errors"), NOT_A_TEXT),
    },
    "countSessions": {
        "project": PARTS,
        **dict.fromkeys(("source", "branch", "model", "machine", "person", "tag"), WHOLE),
        **dict.fromkeys(("starred", "archived", "errors", "since", "until"), NOT_A_TEXT),
    },
    "compareSessions": dict.fromkeys(("a", "b"), WHOLE),
    "searchSession": {"q": PARTS, **dict.fromkeys(("in", "after", "before", "at", "limit"), NOT_A_TEXT)},
    "listEvents": {
        **dict.fromkeys(("after", "agent"), WHOLE),
        **dict.fromkeys(("before", "at", "message", "limit", "collapse", "type"), NOT_A_TEXT),
    },
    "followEvents": {"after": WHOLE, **dict.fromkeys(("collapse", "Last-Event-ID"), NOT_A_TEXT)},
    "followEventsOverWebSocket": {"after": WHOLE},
    "getUsage": {
        "project": PARTS,
        **dict.fromkeys(("model", "source", "machine", "agent"), WHOLE),
        **dict.fromkeys(("by", "timezone", "since", "until", "key", "session", "cost", "limit"), NOT_A_TEXT),
    },
    "getUsageStatus": {"session": WHOLE, "since": NOT_A_TEXT},
    "listDrift": {"source": WHOLE, **dict.fromkeys(("reason", "since", "limit"), NOT_A_TEXT)},
    "listMessages": dict.fromkeys(
        ("after", "before", "limit", "parsed", "content", "kind", "role", "type"), NOT_A_TEXT
    ),
    "listStandardMessages": dict.fromkeys(("after", "limit", "visible"), NOT_A_TEXT),
    "exportSession": {"format": NOT_A_TEXT},
    "getChanges": {"path": PARTS, **dict.fromkeys(("turn", "diffs"), NOT_A_TEXT)},
    "listAnswers": dict.fromkeys(("after", "limit"), NOT_A_TEXT),
    "listProjects": {"after": WHOLE, **dict.fromkeys(("limit", "usage"), NOT_A_TEXT)},
    "listAudit": dict.fromkeys(("before", "limit"), NOT_A_TEXT),
    "projectSession": {"name": NOT_A_TEXT},
    "getMessage": {"sequence": NOT_A_TEXT},
}
"""The comparison made for each parameter of a read route; routes that are not listed have no parameters.

Writes compare complete ids and texts with stored ones, so a writer can confirm a text that it already knows.
"""
OF_ALL = {"session_id", "redact", "Ash-Sequence"}

TOOLS = {
    "list_projects": dict.fromkeys(("after", "limit", "usage"), NOT_A_TEXT),
    "list_sessions": {
        **dict.fromkeys(("q", "source", "project", "edited", "tag"), "listSessions"),
        **dict.fromkeys(("branch", "machine", "person", "model", "tool"), "listSessions"),
        **dict.fromkeys(
            ("since", "until", "errors", "usage", "limit", "after", "sort", "starred"), NOT_A_TEXT
        ),
    },
    "search": {
        **dict.fromkeys(("q", "source", "project", "person", "tool", "edited"), "search"),
        "session_id": "listSessions",
        **dict.fromkeys(("place", "since", "until", "limit", "after"), NOT_A_TEXT),
    },
    "read_messages": {
        "session_id": "listSessions",
        **dict.fromkeys(("after", "limit", "kind"), NOT_A_TEXT),
    },
    "read_session_summary": {"session_id": "listSessions"},
    "read_session_facts": {"session_id": "listSessions"},
    "read_changes": {
        "session_id": "listSessions",
        "path": "getChanges",
        **dict.fromkeys(("turn", "diffs"), NOT_A_TEXT),
    },
    "get_usage": {
        **dict.fromkeys(("project", "model", "source", "machine", "agent"), "getUsage"),
        "session_id": "listSessions",
        **dict.fromkeys(("by", "timezone", "since", "until", "cost", "limit", "key"), NOT_A_TEXT),
    },
}
"""The route that receives each tool argument."""


def test_each_parameter_of_a_read_has_a_decision() -> None:
    parameters = {
        operation["operationId"]: {each["name"] for each in operation.get("parameters", ())} - OF_ALL
        for operations in DOCUMENT["paths"].values()
        for method, operation in operations.items()
        if method == "get"
    }

    assert {name: names for name, names in parameters.items() if names} == {
        name: set(decisions) for name, decisions in DECISIONS.items()
    }


def test_undocumented_routes_compare_only_the_reference_of_a_session() -> None:
    documented = set(DOCUMENT["paths"])
    app = create_app(Settings(), database_url="postgresql://")
    names = {
        (route.path_format, *sorted(route.path_parameters))
        for route in app.routes
        if route.path_format not in documented and route.path_parameters
    }

    assert names == {
        ("/sessions/{reference}", "reference"),  # compared as a whole
        # Older addresses of `…/messages`, by the id of a session:
        ("/api/sessions/{session_id}/messages/commit", "session_id"),
        ("/api/sessions/{session_id}/messages/text", "session_id"),
        # Names of files:
        ("/docs/{name}", "name"),
        ("/shares/{share_id}", "share_id"),  # compared as a whole
        ("/openapi.json/{path}", "path"),
        ("/viewer/{digest}/{path}", "digest", "path"),
        ("/viewer/{name}", "name"),
    }


def test_each_argument_of_a_tool_has_a_decision() -> None:
    arguments = {name: set(tool.arguments.model_fields) for name, tool in _TOOLS.items()}

    assert arguments == {name: set(decisions) for name, decisions in TOOLS.items()}


LINES = [
    claude.line(
        "user", f"heron {TOKEN} and {URL}", uuid=str(uuid4()), sessionId=TOKEN, cwd=f"/home/ada/{TOKEN}/site"
    ),
    claude.line(
        "assistant",
        [
            claude.call("t1", "configure", aws_secret_access_key=AWS_KEY),
            claude.call("t2", "Write", file_path=f"/home/ada/{TOKEN}", content=AWS_TEXT),
        ],
        {"model": TOKEN, "usage": {"input_tokens": 1, "output_tokens": 1}},
        uuid=str(uuid4()),
        cwd=f"/home/ada/{TOKEN}/site",
    ),
]


@pytest.fixture
async def client(store: Store) -> AsyncIterator[AsyncClient]:
    """A client that sees redacted texts. All texts of the session in its store contain secrets."""
    key = await create_key(store, "redacted", "default", "read", redacts=True)
    session = await store.sessions.create(
        source="claude", external_id=f"{TOKEN}/{URL}", title=f"Use {TOKEN} at {URL}"
    )
    await store.sessions.update_labels(session.id, tags=[TOKEN, f"at {URL}"], note=f"Rotate {AWS_TEXT}")
    await store.messages.append(session.id, [json.dumps(line) for line in LINES])
    app = create_app(Settings(secret=SECRET), database_url=store.url)
    async with app_client(app) as client:
        client.headers.update(bearer(key))
        client.session_id = session.id  # type: ignore[attr-defined]
        await until(partial(finds, client, "/api/search", q="heron"))
        yield client


async def finds(client: AsyncClient, path: str, **params: str) -> bool:
    answer = (await client.get(path, params=params)).json()
    return bool(answer.get("sessions") or answer.get("results") or answer.get("hits"))


def prefixes(secret: str) -> Iterator[tuple[str, str]]:
    """Yield each prefix of a secret, and the same prefix with another last character.

    The prefixes end in the middle and at the end of each word, and one letter after it. The shortest are skipped,
    because they also occur in other words.
    """
    words = [match.span() for match in re.finditer("[0-9A-Za-z]+", secret)]
    for end in sorted({end for start, stop in words for end in (start + 1, (start + stop) // 2, stop)}):
        last = secret[end - 1]
        if end >= 3 and last.isalnum():
            yield secret[:end], secret[: end - 1] + ("z" if last != "z" else "y")


class Attack(NamedTuple):
    path: str
    parameter: str
    before: str
    """The text before the guess in the parameter."""
    secret: str
    others: Mapping[str, str] = {}
    """Other parameters."""


def attacks() -> Iterator[Attack]:
    for secret in (TOKEN, AWS_KEY, PASSWORD):
        for path in ("/api/search", "/api/sessions/{}/search"):
            for before in ("", '"', "heron -", "zebra or ", "heron or "):
                yield Attack(path, "q", before, secret, {"in": "everything"})
    yield Attack("/api/search", "q", "configure or ", AWS_KEY, {"in": "everything", "perSession": "1"})
    for before, secret in (("", TOKEN), ("cache:", PASSWORD), (f"{TOKEN}/redis://cache:", PASSWORD)):
        for parameter in ("q", "externalIdPrefix", "externalId", "reference"):
            yield Attack("/api/sessions", parameter, before, secret)
    yield Attack("/api/sessions", "q", "Use ", TOKEN)
    yield Attack("/api/sessions", "q", "", AWS_KEY)
    yield Attack("/api/sessions", "tag", "", TOKEN)
    yield Attack("/api/sessions", "tag", "at redis://cache:", PASSWORD)
    yield Attack("/api/sessions", "project", "", TOKEN)
    yield Attack("/api/sessions", "project", "/home/ada/", TOKEN)
    yield from attacks_on_filters()
    yield Attack("/api/sessions", "providerSessionId", "", TOKEN)
    yield Attack("/api/sessions/{}/events", "agent", "", TOKEN)
    yield Attack("/api/sessions/{}/changes", "path", "", TOKEN)
    yield Attack("/api/sessions/{}/changes", "path", "/home/ada/", TOKEN)
    yield Attack("/api/usage", "project", "", TOKEN)
    yield Attack("/api/usage", "project", "/home/ada/", TOKEN)
    yield Attack("/api/usage", "model", "", TOKEN)


def attacks_on_filters() -> Iterator[Attack]:
    for path, query in (("/api/sessions", {}), ("/api/search", {"q": "heron"})):
        for parameter in ("edited", "project"):
            yield Attack(path, parameter, "", TOKEN, query)
            yield Attack(path, parameter, "/home/ada/", TOKEN, query)
            yield Attack(path, parameter, "", AWS_KEY, query)
        for parameter in ("tool", "branch", "machine", "model", "tag"):
            yield Attack(path, parameter, "", TOKEN, query)
    for parameter in ("project", "branch", "machine", "model", "tag"):
        yield Attack("/api/sessions/counts", parameter, "", TOKEN)
    yield Attack("/api/sessions/counts", "project", "/home/ada/", TOKEN)


@pytest.mark.slow
async def test_no_secret_is_recovered_piece_by_piece(client: AsyncClient) -> None:
    """Responses for a correct and a wrong prefix are equal, including totals and cursors."""
    successes = [attack async for attack in successful_attacks(client)]

    assert successes == []


async def successful_attacks(client: AsyncClient) -> AsyncIterator[tuple[Attack, str]]:
    """Yield the attacks that succeed, with the first correct guess.

    A correct guess with the answer of a wrong one reveals nothing, so most wrong guesses are not sent.
    """
    session_id = client.session_id  # type: ignore[attr-defined]  # of the fixture
    for attack in attacks():

        async def answer(guess: str, attack: Attack = attack) -> tuple[int, str]:
            params = {**attack.others, attack.parameter: attack.before + guess}
            response = await client.get(attack.path.format(session_id), params=params)
            return response.status_code, response.text

        of_wrong = None
        for right, wrong in prefixes(attack.secret):
            of_right = await answer(right)
            if of_right != of_wrong:
                of_wrong = await answer(wrong)
            if of_right != of_wrong:
                yield attack, right
                break


@pytest.mark.slow
async def test_a_reference_with_a_secret_names_no_session(client: AsyncClient) -> None:
    for reference in (TOKEN, f"{TOKEN}/{URL}"):
        assert (await client.get(f"/sessions/{quote(reference)}")).status_code == 404, reference
    assert (await client.get(f"/sessions/{client.session_id}")).status_code == 200  # type: ignore[attr-defined]  # of the fixture


async def test_redacted_texts_are_found(client: AsyncClient) -> None:
    session = f"/api/sessions/{client.session_id}"  # type: ignore[attr-defined]  # of the fixture
    matches = [
        await finds(client, "/api/search", q="heron slack"),
        await finds(client, f"{session}/search", q="configure"),
        await finds(client, "/api/sessions", q="[redacted: slack"),
        await finds(client, "/api/sessions", q="use ["),
        await finds(client, "/api/sessions", q="rotate aws"),
        await finds(client, "/api/sessions", externalIdPrefix="xoxb"),
    ]

    assert matches == [True, True, False, False, True, False]


@pytest.mark.slow
async def test_pages_are_full_whatever_is_left_out(client: AsyncClient, store: Store) -> None:
    for number in range(3):
        await store.sessions.create(title=f"a list of xoxb tokens {number}")
        for _ in range(60):
            await store.sessions.create(title=f"Use {TOKEN}")
    titles, after = list[list[str]](), dict[str, str]()
    while not titles or after:
        page = (await client.get("/api/sessions", params={"q": "xoxb", "limit": "2", **after})).json()
        titles.append([session["title"][-1] for session in page["sessions"]])
        after = {"after": page["nextAfter"]} if "nextAfter" in page else {}

    assert titles == [["2", "1"], ["0"]]
