"""`?redact=1` on every route that shows texts of a session."""

import itertools
import json
from base64 import b64encode
from functools import partial
from typing import Any

import httpx2
import pytest
from httpx2 import AsyncClient
from websockets.sync.client import connect

from ash_server.app import create_app
from ash_server.keys.digests import digest, new_key_text, shown_prefix
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.keys import NewKey
from tests.server.app_client import app_client
from tests.shared.records import claude, cursor, gemini
from tests.waiting import TIMEOUT, until

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"
REDACTED = "[redacted: github token]"
LINE = json.dumps(
    claude.line("user", f"é heron {TOKEN} is my token", uuid="u1"),
    ensure_ascii=False,
)

READS = [
    "",
    "/messages?parsed=true&content=true",
    "/messages/1",
    "/events",
    "/standard-messages",
    "/projections/atif",
    "/projections/openai-messages",
    "/projections/otel-genai",
    "/projections/otlp",
    "/projections/session-summary",
    "/projections/ui-messages",
    "/export",
    "/search?q=heron",
]
PAGES = ["", ".md", ".json", ".jsonl", ".html"]


@pytest.fixture
async def session_id(client: AsyncClient) -> str:
    """A session with a token in its title and its only message."""
    id = (await client.post("/api/sessions", json={"title": f"Use {TOKEN}"})).json()["id"]
    (await client.post(f"/api/sessions/{id}/messages", json={"content": LINE})).raise_for_status()
    await until(partial(has_hit, client, id, "heron"))
    return str(id)


async def has_hit(client: AsyncClient, session_id: str, word: str) -> bool:
    """True if the message is indexed: other tests may keep the index busy."""
    return bool((await client.get(f"/api/sessions/{session_id}/search?q={word}")).json()["hits"])


@pytest.mark.slow
async def test_no_read_shows_a_secret(client: AsyncClient, session_id: str) -> None:
    api = [f"/api/sessions/{session_id}{read}" for read in READS]
    addresses = [
        *api,
        *(f"/sessions/{session_id}{suffix}" for suffix in PAGES),
        f"/api/sessions?q={session_id}",
        f"/api/search?q=heron&sessionId={session_id}",
    ]
    for address in addresses:
        plain = await client.get(address)
        redacted = await client.get(f"{address}{'&' if '?' in address else '?'}redact=1")
        assert (plain.status_code, redacted.status_code) == (200, 200), address
        assert TOKEN in plain.text, address
        assert TOKEN not in redacted.text, address
        assert REDACTED in redacted.text, address
        is_other = "search" in address or address.endswith(".md")  # snippets, and the heading in Markdown
        assert redacted.text == plain.text.replace(TOKEN, REDACTED) or is_other, address


@pytest.mark.parametrize("name", ["otel-genai", "otlp"])
async def test_documents_are_redacted_before_they_are_encoded(client: AsyncClient, name: str) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": TOKEN}
    content = [{"type": "document", "source": source}]
    line = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": content}}
    id = (await client.post("/api/sessions", json={})).json()["id"]
    await client.post(f"/api/sessions/{id}/messages", json={"content": json.dumps(line)})

    redacted = await client.get(f"/api/sessions/{id}/projections/{name}?redact=1")

    assert b64encode(REDACTED.encode()) in redacted.content


async def test_snippets_contain_no_part_of_a_secret(client: AsyncClient, session_id: str) -> None:
    text = f"{'x ' * 110}{TOKEN} osprey"
    (await client.post(f"/api/sessions/{session_id}/messages", json={"content": text})).raise_for_status()
    search = f"/api/sessions/{session_id}/search?redact=1"

    await until(partial(has_hit, client, session_id, "osprey"))
    (hit,) = (await client.get(f"{search}&q=osprey")).json()["hits"]
    (start, end) = hit["marks"][0]
    by_token = await client.get(f"{search}&q={TOKEN}")
    assert hit["snippet"][start:end] == "osprey"
    assert TOKEN[4:12] not in hit["snippet"] + by_token.text


PIECES = TOKEN[:20], TOKEN[20:]
STREAMS: dict[str, list[dict[str, Any]]] = {
    "claude": [
        {
            "type": "stream_event",
            "uuid": f"u{len(piece)}",
            "session_id": "s",
            "event": {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": piece},
            },
        }
        for piece in PIECES
    ],
    "cursor": [cursor.message_line("assistant", piece, timestamp_ms=1) for piece in PIECES],
    "gemini": [gemini.response({"text": each}) for each in PIECES],
    "gemini_cli": [
        {
            "type": "message",
            "timestamp": "2026-11-02T09:14:07Z",
            "role": "assistant",
            "content": piece,
            "delta": True,
        }
        for piece in PIECES
    ],
}
"""Pieces of an answer, by source. In all formats but the first, each piece is a message."""


@pytest.mark.parametrize("source", STREAMS)
async def test_pieces_of_a_stream_have_no_text(client: AsyncClient, source: str) -> None:
    id = (await client.post("/api/sessions", json={"source": source})).json()["id"]
    lines = [{"content": json.dumps(record)} for record in STREAMS[source]]
    (await client.post(f"/api/sessions/{id}/messages", json=lines)).raise_for_status()
    messages = f"/api/sessions/{id}/messages"
    every = f"{messages}?kind=message,record,chunk&redact=1"
    addresses = [
        every,
        f"{every}&parsed=true",
        f"{every}&parsed=true&content=false",
        f"{messages}/1?redact=1",
        f"/api/sessions/{id}/export?redact=1",
        f"/sessions/{id}.jsonl?redact=1",
    ]
    answers = [await client.get(address) for address in addresses]

    stored = (await client.get(every.removesuffix("&redact=1"))).json()["messages"]
    assert [message["source"] for message in stored] == [source, source]
    assert [answer.status_code for answer in answers] == [200] * len(addresses)
    assert [answer.url for answer in answers if any(piece in answer.text for piece in PIECES)] == []


LONG = f"ask_{TOKEN}_{'x' * 60}"
"""A name that the APIs of the vendors do not accept, and its first characters contain part of the token."""
CALLS = [
    claude.line("user", "Will it rain?", uuid="u1"),
    claude.line("assistant", [claude.call(LONG, LONG)], {"id": "m1"}, uuid="u2"),
    claude.line("user", [claude.tool_result(LONG, "No")], uuid="u3"),
]


@pytest.mark.parametrize("name", ["openai-messages", "anthropic-messages"])
async def test_shortened_names_and_ids_contain_no_part_of_a_secret(client: AsyncClient, name: str) -> None:
    id = (await client.post("/api/sessions", json={"source": "claude"})).json()["id"]
    lines = [{"content": json.dumps(record)} for record in CALLS]
    (await client.post(f"/api/sessions/{id}/messages", json=lines)).raise_for_status()
    address = f"/api/sessions/{id}/projections/{name}"
    plain, redacted = [(await client.get(f"{address}{query}")).text for query in ("", "?redact=1")]

    assert TOKEN[:16] in plain
    assert TOKEN[:8] not in redacted
    assert redacted.count("ask__redacted__github") == plain.count(TOKEN[:16]) == 3


UNKNOWN_CHUNKS: dict[str, list[dict[str, Any]]] = {
    "openai_responses": [
        {"type": "response.verse.delta", "item_id": "i1", "output_index": 0, "delta": f"heron {piece}"}
        for piece in PIECES
    ],
    "claude": [
        {
            "type": "stream_event",
            "uuid": f"u{len(piece)}",
            "session_id": "s",
            "event": {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "verse_delta", "verse": f"heron {piece}"},
            },
        }
        for piece in PIECES
    ],
    "gemini": [
        {"event_type": "content.delta", "delta": {"type": "verse", "verse": f"heron {piece}"}}
        for piece in PIECES
    ],
}
"""Pieces of an answer in chunks of unknown types, which the event log contains as `raw` events."""


@pytest.mark.parametrize("source", UNKNOWN_CHUNKS)
async def test_unknown_chunks_have_no_text(client: AsyncClient, source: str) -> None:
    id = (await client.post("/api/sessions", json={"source": source})).json()["id"]
    lines = [{"content": json.dumps(record)} for record in UNKNOWN_CHUNKS[source]]
    (await client.post(f"/api/sessions/{id}/messages", json=lines)).raise_for_status()
    await until(partial(has_hit, client, id, "heron"))
    addresses = [
        *(
            f"/api/sessions/{id}{path}"
            for path in ("/events", "/projections/ui-messages", "/standard-messages")
        ),
        f"/api/sessions/{id}/export?format=events",
        *(f"/sessions/{id}{suffix}" for suffix in PAGES),
        f"/api/sessions/{id}/messages?kind=message,record,chunk&parsed=true",
    ]
    answers = [
        await client.get(f"{address}{'&' if '?' in address else '?'}redact=1") for address in addresses
    ]
    events = [
        (await client.get(f"/api/sessions/{id}/events{query}")).json()["events"]
        for query in ("", "?redact=1")
    ]
    found = [
        (await client.get(f"/api/sessions/{id}/search?q={word}&redact=1")).json()["hits"]
        for word in ("heron", PIECES[1])
    ]

    assert [answer.status_code for answer in answers] == [200] * len(addresses)
    assert [answer.url for answer in answers if any(piece in answer.text for piece in PIECES)] == []
    assert [event["type"] for event in events[0]].count("raw") == len(PIECES)
    assert [{**event, "payload": None} for event in events[1]] == [
        {**event, "payload": None} for event in events[0]
    ]
    assert found == [[], []]


async def test_a_comparison_shows_no_text(client: AsyncClient) -> None:
    id = (await client.post("/api/sessions", json={})).json()["id"]
    content = json.dumps(STREAMS["claude"][0])
    (
        await client.post(f"/api/sessions/{id}/messages", json={"content": content, "id": "one"})
    ).raise_for_status()
    compared = [
        (
            await client.post(
                f"/api/sessions/{id}/messages/compare{query}", json=[{"id": "one", "sha256": "0" * 64}]
            )
        ).json()
        for query in ("", "?redact=1")
    ]

    assert compared == [
        {"equal": [], "different": {"id": "one", "content": content}},
        {"equal": [], "different": {"id": "one"}},
    ]


def test_streams_are_redacted(shared_server: str) -> None:
    id = httpx2.post(f"{shared_server}/api/sessions", json={}).json()["id"]
    httpx2.post(f"{shared_server}/api/sessions/{id}/messages", json={"content": LINE})
    address = f"{shared_server}/api/sessions/{id}/events"

    with httpx2.stream("GET", f"{address}/stream?redact=1") as stream:
        lines = []
        for line in stream.iter_lines():
            lines.append(line)
            if line == "event: caught_up":
                break
    with connect(f"{address}/ws?redact=1".replace("http", "ws", 1), open_timeout=TIMEOUT) as socket:
        frames: list[str] = []
        while not frames or "caught_up" not in frames[-1]:
            frames.append(str(socket.recv()))

    with httpx2.stream("GET", f"{shared_server}/api/sessions/{id}/ui-stream?redact=1") as stream:
        prompt = [next(stream.iter_lines())]

    with httpx2.stream("GET", f"{shared_server}/api/sessions/{id}/ag-ui?redact=1") as stream:
        said = list(itertools.islice(filter(None, stream.iter_lines()), 3))

    for texts in (lines, frames, prompt, said):
        text = "\n".join(texts)
        assert REDACTED in text
        assert TOKEN not in text


@pytest.mark.parametrize("value", ["0", "false"])
async def test_redaction_can_be_turned_off(client: AsyncClient, session_id: str, value: str) -> None:
    assert TOKEN in (await client.get(f"/api/sessions/{session_id}/export?redact={value}")).text


@pytest.mark.parametrize(
    "query", ["redact=yes", "redact=True", "redact=", "redact=1&redact=0", "redact=1&%72edact=1", "Redact=1"]
)
async def test_rejects_other_values(client: AsyncClient, session_id: str, query: str) -> None:
    routes = [
        f"/api/sessions/{session_id}/export",
        *(f"/sessions/{session_id}{suffix}" for suffix in PAGES),
        "/",
    ]
    answers = [await client.get(f"{route}?{query}") for route in routes]

    assert {(each.status_code, each.json()["code"]) for each in answers} == {(400, "invalid_parameter")}
    assert [TOKEN in each.text for each in answers] == [False] * len(routes)


@pytest.mark.slow
async def test_redacting_key(store: Store) -> None:
    secret = "s" * 32
    text = new_key_text()
    new = NewKey("shared", shown_prefix(text), digest(secret.encode(), text), ("read",), None, redacts=True)
    await store.keys.create("default", new)
    other_text = new_key_text()
    other = NewKey("all", shown_prefix(other_text), digest(secret.encode(), other_text), ("read",), None)
    await store.keys.create("default", other)
    session = await store.sessions.create(source="claude", title=f"Use {TOKEN}")
    await store.messages.append(session.id, [LINE])
    app = create_app(Settings(secret=secret), database_url=store.url)

    async with app_client(app) as client:
        for address in (f"/api/sessions/{session.id}/export", "/api/search?q=heron", "/api/sessions"):
            for query in ("", "redact=0", "redact=1"):
                separator = "&" if "?" in address else "?"
                answer = await client.get(
                    f"{address}{separator}{query}", headers={"Authorization": f"Bearer {text}"}
                )
                assert (answer.status_code, TOKEN in answer.text) == (200, False), address
                assert REDACTED in answer.text, address
        messages = f"/api/sessions/{session.id}/messages"
        unredacted = await client.get(messages, headers={"Authorization": f"Bearer {other_text}"})
        sent = {"Authorization": f"Bearer {text}", "If-None-Match": unredacted.headers["etag"]}
        redacted = await client.get(messages, headers=sent)
        assert [TOKEN in each.text for each in (unredacted, redacted)] == [True, False]
