"""Messages over HTTP: stored and returned verbatim, and parsed."""

import json
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid5

import msgspec
import pytest
from httpx2 import AsyncClient

from ash_server import NewMessage, Store
from ash_server.api.http import caching
from ash_server.store.connections.pool import connect
from ash_server.store.message_pages import list_messages, to_message
from ash_shared.parsing.parse import PARSER_VERSION
from tests.shared.records import claude

NDJSON = {"Content-Type": "application/x-ndjson"}

TEXT = '{"type":"user","uuid":"u-1","message":{"role":"user","content":"Go on."}}'
CALL = json.dumps(
    claude.line(
        "assistant",
        [
            claude.thinking("x" * 500, signature="s"),
            claude.call("t", "Bash", command="ls"),
        ],
    )
)
RECORD = '{"type":"file-history-snapshot","messageId":"m"}'
PLAIN = "[INFO] started"

ALL = [TEXT, CALL, RECORD, PLAIN]


@pytest.fixture
async def filled(client: AsyncClient, session: str) -> str:
    """The URL of a session's messages: ALL of them, numbered from 1."""
    await client.post(f"{session}/messages", json=[{"content": content} for content in ALL])
    return f"{session}/messages"


class _Message(msgspec.Struct):
    parsed: msgspec.Raw


class _Page(msgspec.Struct):
    messages: list[_Message]


_decode = msgspec.json.Decoder(_Page).decode


async def contents(client: AsyncClient, session: str) -> list[str]:
    page = await client.get(f"{session}/messages", params={"limit": 1000})
    return [message["content"] for message in page.json()["messages"]]


async def test_repeated_message_returns_200_with_its_sequence(client: AsyncClient, session: str) -> None:
    """Each session has its own ids and sequences."""
    other = (await client.post("/api/sessions", json={})).json()["id"]
    await client.post(f"/api/sessions/{other}/messages", json=[{"content": "x"}, {"content": "y", "id": "a"}])
    states = []
    for status, created in ((201, True), (200, False)):
        response = await client.post(f"{session}/messages", json={"content": PLAIN, "id": "a"})

        assert (response.status_code, response.json()) == (
            status,
            {"messages": [{"id": "a", "sequence": 1, "created": created}]},
        )
        states.append((await client.get(session)).json())
    assert states[0] == states[1]


async def test_fallback_id_is_for_texts_without_provider_id(client: AsyncClient, session: str) -> None:
    line = '{"type":"user","uuid":"u1","message":{"role":"user","content":"Go on."}}'
    for _ in range(2):
        batch = [{"content": text, "fallbackId": text} for text in (PLAIN, line)]
        await client.post(f"{session}/messages", json=batch)
        await client.post(
            f"{session}/messages",
            params={"fallbackId": "long"},
            content="long",
            headers={"Content-Type": "text/plain"},
        )
    stored = (await client.get(f"{session}/messages")).json()["messages"]

    ids = {each["content"]: each["id"] for each in stored}
    assert (len(stored), ids[PLAIN], ids["long"]) == (3, PLAIN, "long")
    assert ids[line] not in (line, "u1")


@pytest.mark.slow
async def test_long_text_is_stored_verbatim(client: AsyncClient, session: str) -> None:
    long = " " + "é" * 2**22 + "\r\n\n"
    query = {"id": "a&1", "source": "pi", "role": "user"}
    cases: list[tuple[str | bytes, str, tuple[int, Any]]] = [
        (long, "text/plain", (201, {"messages": [{"id": "a&1", "sequence": 1, "created": True}]})),
        (
            long,
            "text/plain; charset=utf-8",
            (200, {"messages": [{"id": "a&1", "sequence": 1, "created": False}]}),
        ),
        ("other", "text/plain", (409, "id_conflict")),
        ("a\0", "text/plain", (422, "nul_byte")),
        (b"\xff", "text/plain", (400, "invalid_utf8")),
        ("{}", "application/json", (400, "invalid_parameter")),
        (b"x" * (2**26 + 1), "text/plain", (413, "body_too_large")),
    ]
    for content, media_type, expected in cases:
        headers = {"Content-Type": media_type}
        response = await client.post(f"{session}/messages", params=query, content=content, headers=headers)
        body = response.json()
        assert (response.status_code, body.get("code", body)) == expected
    [stored] = (await client.get(f"{session}/messages")).json()["messages"]
    assert (stored["content"], stored["source"], stored["role"]) == (long, "pi", "user")


async def test_addresses_of_older_clients_append_as_well(client: AsyncClient, session: str) -> None:
    """An `ash push` from before the first release sends long texts and commits to addresses of their own."""
    text = await client.post(
        f"{session}/messages/text",
        params={"id": "a", "source": "pi"},
        content="x" * 2_000_000,
        headers={"Content-Type": "text/plain"},
    )
    commit = {"messages": [{"content": "y" * 2_000_000, "id": "b"}], "metadata": {"n": 1}}
    committed = await client.post(f"{session}/messages/commit", json={**commit, "expectedSequence": 1})

    assert (text.json(), committed.json()) == (
        {"messages": [{"id": "a", "sequence": 1, "created": True}]},
        {"messages": [{"id": "b", "sequence": 2, "created": True}]},
    )
    assert (await client.get(session)).json()["metadata"] == {"n": 1}


@pytest.mark.slow
async def test_each_form_of_a_body_has_its_limit(client: AsyncClient, session: str) -> None:
    long = "x" * (8 * 2**20)
    bodies: list[tuple[str, str]] = [
        (json.dumps([{"content": long}]), "application/json"),
        (json.dumps({"content": long}), "application/json"),
        (long + "\n", "application/x-ndjson"),
        (json.dumps({"messages": [{"content": long}]}), "application/json"),
        (json.dumps({"messages": [{"content": "a"}, {"content": long}]}), "application/json"),
        (long, "text/plain"),
    ]
    answers = [
        await client.post(f"{session}/messages", content=body, headers={"Content-Type": media_type})
        for body, media_type in bodies
    ]

    assert [each.json().get("code") for each in answers] == [
        *["body_too_large"] * 3,
        None,
        "message_too_large",
        None,
    ]


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        ({"expectedSequence": 0}, {"messages": [{"content": "a"}]}, 201),
        ({"expectedSequence": 0}, {"messages": [{"content": "a"}], "expectedSequence": 0}, 201),
        ({"expectedSequence": 0}, {"messages": [{"content": "a"}], "expectedSequence": 1}, 400),
        ({"expectedSequence": 1}, {"messages": [{"content": "a"}]}, 409),
        ({"expectedSequence": 1}, [{"content": "a"}], 409),
        ({"source": "pi"}, [{"content": "a"}], 400),
        ({"id": "a"}, {"messages": [{"content": "a"}]}, 400),
        ({}, {"messages": [{"content": "a"}], "content": "b"}, 400),
        ({}, {}, 400),
    ],
)
async def test_options_of_the_query_and_of_the_body(
    client: AsyncClient, session: str, query: dict[str, Any], body: Any, expected: int
) -> None:
    answer = await client.post(f"{session}/messages", params=query, json=body)

    assert answer.status_code == expected
    assert (await client.get(session)).json()["messageCount"] == (expected == 201)


async def test_partly_stored_batch_returns_201(client: AsyncClient, session: str) -> None:
    await client.post(f"{session}/messages", json={"content": "b", "id": "b"})

    response = await client.post(f"{session}/messages", json=[{"content": c, "id": c} for c in "abc"])

    assert response.status_code == 201
    assert [tuple(message.values()) for message in response.json()["messages"]] == [
        ("a", 2, True),
        ("b", 1, False),
        ("c", 3, True),
    ]


async def test_line_with_a_provider_id_is_stored_once(client: AsyncClient, session: str) -> None:
    session_id = UUID(session.rpartition("/")[2])

    first = await client.post(f"{session}/messages", content=f"{TEXT}\n{TEXT}", headers=NDJSON)
    again = await client.post(f"{session}/messages", json=[{"content": TEXT}, {"content": TEXT + " "}])

    appended = [message for response in (first, again) for message in response.json()["messages"]]
    ids = [str(uuid5(session_id, "u-1" + text)) for text in (TEXT, TEXT + " ")]
    assert [tuple(message.values()) for message in appended] == [
        (ids[0], 1, True),
        (ids[0], 1, False),
        (ids[0], 1, False),
        (ids[1], 2, True),
    ]
    assert await contents(client, session) == [TEXT, TEXT + " "]


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a\r", "b\r"]),
        ("\n\n \t\r\na\n\n", ["a"]),
        ("  {}  \n", ["  {}  "]),
        ("\ufeff{}\n{} {}\n", ["\ufeff{}", "{} {}"]),
        ("a\u2028b\u0085c\x0bd\x0ce\x1cf\n", ["a\u2028b\u0085c\x0bd\x0ce\x1cf"]),
        ('{"type":"te\n', ['{"type":"te']),
    ],
)
async def test_lines_are_stored_verbatim(
    client: AsyncClient, session: str, body: str, stored: list[str]
) -> None:
    response = await client.post(f"{session}/messages", content=body.encode(), headers=NDJSON)

    assert response.status_code == 201
    assert await contents(client, session) == stored


async def test_fields_of_the_request_take_precedence(client: AsyncClient, session: str) -> None:
    await client.post(f"{session}/messages", json={"content": TEXT, "role": "tool", "source": "elsewhere"})

    message = (await client.get(f"{session}/messages/1")).json()

    assert (message["role"], message["source"], message["kind"]) == ("tool", "elsewhere", "message")


@pytest.mark.parametrize("expected", [0, 2])
async def test_wrong_expected_sequence_stores_nothing(
    client: AsyncClient, session: str, expected: int
) -> None:
    await client.post(f"{session}/messages?expectedSequence=0", json={"content": "a", "id": "a"})

    repeated = await client.post(
        f"{session}/messages?expectedSequence={expected}", json={"content": "a", "id": "a"}
    )
    refused = await client.post(f"{session}/messages?expectedSequence={expected}", json={"content": "b"})
    accepted = await client.post(f"{session}/messages?expectedSequence=1", json={"content": "b"})

    assert (refused.status_code, refused.json()["code"], refused.json()["currentSequence"]) == (
        409,
        "sequence_mismatch",
        1,
    )
    assert repeated.json()["messages"] == [{"id": "a", "sequence": 1, "created": False}]
    assert accepted.json()["messages"][0]["sequence"] == 2


async def test_parsed_page_equals_the_library(
    client: AsyncClient, filled: str, shared_database_url: str
) -> None:
    page = await client.get(filled, params={"parsed": "true"})

    session_id = UUID(filled.split("/")[3])
    async with await connect(shared_database_url) as conn:
        expected = [to_message(session_id, each) for each in await list_messages(conn, session_id)]
    assert page.json() == {"messages": [message.model_dump(mode="json") for message in expected]}
    assert len(expected) == len(ALL)


async def test_pages_without_texts_have_the_same_blocks(client: AsyncClient, filled: str) -> None:
    pages = [
        await client.get(filled, params={"parsed": "true", "content": each}) for each in ("false", "true")
    ]
    copied, parsed = [[bytes(each.parsed) for each in _decode(page.content).messages] for page in pages]

    assert copied == parsed != []


@pytest.mark.parametrize(
    ("query", "absent"),
    [
        ({}, {"parsed"}),
        ({"parsed": "false"}, {"parsed"}),
        ({"parsed": "true"}, set()),
        ({"content": "false"}, {"content", "parsed"}),
        ({"content": "false", "parsed": "true"}, {"content"}),
    ],
)
async def test_optional_fields_of_a_page(
    client: AsyncClient, filled: str, query: dict[str, str], absent: set[str]
) -> None:
    everything = {"id", "sessionId", "role", "kind", "source", "content", "sequence", "createdAt", "parsed"}

    page = await client.get(filled, params=query)

    assert [set(message) for message in page.json()["messages"]] == [everything - absent] * len(ALL)


@pytest.mark.parametrize(
    ("query", "sequences", "cursors"),
    [
        ({"limit": "2"}, [1, 2], {"nextAfter": 2}),
        ({"after": "2", "limit": "2"}, [3, 4], {"nextAfter": 4}),
        ({"after": "4", "limit": "2"}, [], {}),
        ({"after": "9007199254740991"}, [], {}),
        ({"before": "9007199254740991", "limit": "3"}, [2, 3, 4], {"prevBefore": 2}),
        ({"before": "2", "limit": "3"}, [1], {}),
        ({"before": "4", "after": "1"}, [2, 3], {}),
        ({"kind": "record"}, [3], {}),
        ({"kind": "message"}, [1, 2, 4], {}),
        ({"kind": "record,chunk"}, [3], {}),
        ({"role": "assistant"}, [2], {}),
        ({"role": "tool"}, [], {}),
        ({"type": "tool_use"}, [2], {}),
        ({"type": "text"}, [1, 4], {}),
        ({"type": "text", "limit": "1"}, [1], {"nextAfter": 1}),
        ({"after": "1", "before": "4", "limit": "1"}, [3], {"prevBefore": 3}),
        ({"kind": "chunk"}, [], {}),
        ({"role": "user", "type": "text", "after": "1"}, [4], {}),
        ({"role": "user", "type": "text", "before": "4", "limit": "1"}, [1], {"prevBefore": 1}),
    ],
)
async def test_pages_and_filters(
    client: AsyncClient, filled: str, query: dict[str, str], sequences: list[int], cursors: dict[str, int]
) -> None:
    page = (await client.get(filled, params=query)).json()

    assert [message["sequence"] for message in page.pop("messages")] == sequences
    assert page == cursors


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "application/json"),
        ("text/plain", "text/plain; charset=utf-8"),
        ("text/plain;q=0.9, application/json;q=0.1", "text/plain; charset=utf-8"),
    ],
)
async def test_get_message_as_json_or_text(
    client: AsyncClient, filled: str, accept: str | None, media_type: str
) -> None:
    headers = {} if accept is None else {"Accept": accept}
    page = (await client.get(filled, params={"parsed": "true"})).json()["messages"]

    response = await client.get(f"{filled}/2", headers=headers)

    assert response.headers["content-type"] == media_type
    shown: Any = response.json() if media_type == "application/json" else response.content
    assert shown == (page[1] if media_type == "application/json" else CALL.encode())


async def test_unknown_sequence_is_not_found(client: AsyncClient, filled: str) -> None:
    for sequence in (5, 2**53 - 1):
        assert (await client.get(f"{filled}/{sequence}")).json()["code"] == "message_not_found"


async def test_a_deleted_message_keeps_only_its_place(client: AsyncClient, session: str, filled: str) -> None:
    deleted = [await client.delete(f"{filled}/1") for _ in range(2)]
    page = (await client.get(filled, params={"parsed": True})).json()["messages"]
    all_kinds: dict[str, Any] = {"parsed": True, "kind": "message,record,chunk,deleted"}
    places = (await client.get(filled, params=all_kinds)).json()["messages"]
    blocks = (await client.get(filled, params={**all_kinds, "content": False})).json()["messages"]
    one, unknown = await client.get(f"{filled}/1"), await client.delete(f"{filled}/99")
    again = await client.post(filled, json=[{"content": TEXT}, {"content": "new", "id": "n"}])

    assert [(each.status_code, each.content) for each in deleted] == [(204, b"")] * 2
    assert [each["sequence"] for each in page] == [2, 3, 4]
    assert [each["sequence"] for each in places] == [each["sequence"] for each in blocks] == [1, 2, 3, 4]
    assert places[0].keys() == blocks[0].keys() == {*page[0].keys()} - {"content", "parsed"}
    assert (places[0]["kind"], places[0]["role"], places[0]["source"]) == ("deleted", "system", "unknown")
    assert (one.status_code, one.json()["code"]) == (410, "message_deleted")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "message_not_found")
    assert again.json()["messages"] == [
        {"id": places[0]["id"], "sequence": 1, "created": False, "deleted": True},
        {"id": "n", "sequence": 5, "created": True},
    ]
    assert await contents(client, session) == [CALL, RECORD, PLAIN, "new"]


async def test_pop_returns_the_last_message_and_deletes_it(client: AsyncClient, filled: str) -> None:
    await client.delete(f"{filled}/3")
    popped = [await client.post(f"{filled}/pop") for _ in range(4)]

    assert [each.status_code for each in popped] == [200, 200, 200, 404]
    assert [each.json().get("content") for each in popped] == [PLAIN, CALL, TEXT, None]
    assert popped[2].json()["parsed"] == [{"type": "text", "text": "Go on."}]
    assert popped[3].json()["code"] == "message_not_found"


@pytest.mark.parametrize("body", ["{}", "null", " ", '{"sequence": 1}'])
async def test_pop_refuses_a_body(client: AsyncClient, filled: str, body: str) -> None:
    refused = await client.post(f"{filled}/pop", content=body, headers={"Content-Type": "application/json"})

    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_body")
    assert refused.json()["detail"] == "This operation does not accept a body."
    assert len((await client.get(filled)).json()["messages"]) == 4


# --- ETag and 304


PAGES = [
    "",
    "?parsed=true",
    "?parsed=true&content=false",
    "?before=9&limit=2",
    "?role=user",
    "?after=99",
    "/1",
]


@pytest.mark.parametrize("path", PAGES)
async def test_unchanged_messages_are_not_sent_again(client: AsyncClient, filled: str, path: str) -> None:
    first = await client.get(filled + path)
    tag = first.headers["etag"]
    again = await client.get(filled + path, headers={"If-None-Match": tag})
    listed = await client.get(filled + path, headers={"If-None-Match": f'"a", {tag}'})
    other = await client.get(filled + path, headers={"If-None-Match": '"a"'})

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert (listed.status_code, other.status_code, other.content) == (304, 200, first.content)
    assert {each.headers["cache-control"] for each in (first, again, other)} == {"no-cache, private"}


async def test_tags_tell_all_responses_apart(client: AsyncClient, filled: str) -> None:
    """By the query, the media type, redaction and the session."""
    other = filled.replace("/messages", "").rpartition("/")[0] + f"/{await new_session(client)}/messages"
    await client.post(other, json=[{"content": content} for content in ALL])
    addresses = [filled + path for path in (*PAGES, "?redact=1", "?redact=0", "/2")] + [other]
    tags = [(await client.get(address)).headers["etag"] for address in addresses]
    tags.append((await client.get(f"{filled}/1", headers={"Accept": "text/plain"})).headers["etag"])

    assert len(set(tags)) == len(tags)


async def new_session(client: AsyncClient) -> str:
    created = await client.post("/api/sessions", json={})
    return str(created.json()["id"])


async def tag_of(client: AsyncClient, address: str) -> str:
    return (await client.get(address)).headers["etag"]


async def append_one(store: Store, session_id: UUID) -> None:
    await store.messages.append(session_id, [PLAIN])


async def delete_one(store: Store, session_id: UUID) -> None:
    await store.messages.delete(session_id, 2)


async def store_again(store: Store, session_id: UUID) -> None:
    await store.sessions.delete(session_id)
    again = await store.sessions.create(source="claude", external_id="again")
    assert again.id == session_id
    await store.messages.append(
        session_id, [NewMessage(TEXT, id="a"), NewMessage(CALL.replace("ls", "id"), id="b")]
    )


async def parse_with_another_version(_store: Store, _session_id: UUID) -> None:
    vars(caching)["PARSER_VERSION"] += 1


@pytest.mark.parametrize("change", [append_one, delete_one, store_again, parse_with_another_version])
async def test_tags_change_with_the_messages(
    own_client: AsyncClient,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Store, UUID], Awaitable[None]],
) -> None:
    monkeypatch.setattr(caching, "PARSER_VERSION", PARSER_VERSION)
    session = await store.sessions.create(source="claude", external_id="again")
    await store.messages.append(session.id, [NewMessage(TEXT, id="a"), NewMessage(CALL, id="b")])
    address = f"/api/sessions/{session.id}/messages"
    before = await tag_of(own_client, address)
    assert await tag_of(own_client, address) == before

    await change(store, session.id)

    response = await own_client.get(address, headers={"If-None-Match": before})
    assert (response.status_code, response.headers["etag"] == before) == (200, False)


async def test_empty_commit_stores_nothing(client: AsyncClient, session: str) -> None:
    bodies: list[Any] = [{"metadata": {}}, {"messages": []}]
    answers = [await client.post(f"{session}/messages", json=body) for body in bodies]

    assert [(each.status_code, each.json()) for each in answers] == [(200, {"messages": []})] * 2
    assert (await client.get(session)).json()["messageCount"] == 0


async def test_commits_remove_only_keys_that_they_name(client: AsyncClient, session: str) -> None:
    await client.patch(session, json={"metadata": {"null": None, "removed": 1}})
    await client.post(f"{session}/messages", json={"metadata": {"removed": None, "absent": None}})

    assert (await client.get(session)).json()["metadata"] == {"null": None}


async def test_limits_the_metadata_of_commits(client: AsyncClient, session: str) -> None:
    bodies: list[Any] = [
        {"metadata": {"one": "x" * 40_000}},
        {"metadata": {"other": "x" * 40_000}},
        {"metadata": {"lists": [[]] * 500_001}},
    ]
    answers = [await client.post(f"{session}/messages", json=body) for body in bodies]

    codes = [each.json().get("code") for each in answers]
    assert codes == [None, "body_too_large", "batch_too_large"]
    assert (await client.get(session)).json()["metadata"] == bodies[0]["metadata"]


async def test_skips_unknown_fields_of_a_large_body(client: AsyncClient, session: str) -> None:
    """Each of them would take six times its size in memory."""
    body = b"{%b}" % b",".join(b'"field%06d":0' % number for number in range(300_000))
    tracemalloc.start()
    try:
        answer = await client.post(
            f"{session}/messages", content=body, headers={"Content-Type": "application/json"}
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert answer.json()["code"] == "invalid_body"
    assert peak < 8 * len(body)
