"""No response to a client that sees redacted texts contains the binary values of a database."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterator

import httpx2
import pytest
from websockets.sync.client import connect

from ash_client import AshClient
from ash_server.history_tools import _TOOLS
from ash_server.transfer.importing.databases.row_lines import encode_row, to_json
from tests.secret_samples import SECRETS
from tests.server.api.conftest import SHARED
from tests.server.api.http.test_redaction_of_each_form import (
    API,
    PAGES,
    assistant,
    call_tool,
    redacted,
    user,
)
from tests.shared.records.antigravity import generation
from tests.waiting import TIMEOUT, wait_until

TEXT = f"heron {SECRETS['github token']} {SECRETS['slack token']}"
BLOBS = {
    "text": TEXT.encode(),
    "message": generation(b"\2", TEXT, input=70, output=9),
    "UTF-16": TEXT.encode("utf-16"),
    "compressed": gzip.compress(TEXT.encode(), mtime=0),
    "several slices": TEXT.encode() * 300,
}
ENCODED = {name: b64encode(data).decode() for name, data in BLOBS.items()}
PIECE = 12
HIDDEN = "[redacted: binary data]"


def rows() -> Iterator[str]:
    """Yield rows with each value in a column and in the key, and a tool result with the same rows."""
    for index, data in enumerate(BLOBS.values()):
        columns = {"idx": index, "data": to_json(data), "heron": "heron"}
        for table in ("steps", "gen_metadata", "heron"):
            yield encode_row(table, index, columns).decode()
        yield encode_row("steps", to_json(data), {"idx": index}).decode()


def lines() -> Iterator[str]:
    yield from rows()
    output = "\n".join(["heron", *rows()])
    yield json.dumps(assistant({"type": "tool_use", "id": "c1", "name": "run", "input": {"row": output}}))
    yield json.dumps(user([{"type": "tool_result", "tool_use_id": "c1", "content": output}]))
    yield f"heron {output}"


@pytest.fixture(scope=SHARED)
def session_id(shared_server: str) -> str:
    with AshClient(shared_server) as ash:
        session = ash.create_session(source="antigravity")
        ash.append(session.id, list(lines()))
    return str(session.id)


def shown_in(text: str) -> set[str]:
    """Return the names of the values of which the text contains a part."""
    plain = text.replace("\\", "")
    return {
        name
        for name, value in ENCODED.items()
        if any(value[at : at + PIECE] in plain for at in range(0, min(len(value), 600) - PIECE, PIECE))
    }


@pytest.mark.slow
def test_no_response_shows_a_part(shared_server: str, session_id: str) -> None:
    addresses = [
        *(f"/api/sessions/{session_id}{path}" for path in API),
        *(f"/sessions/{session_id}{suffix}" for suffix in PAGES),
        f"/api/search?q=heron&in=everything&limit=100&sessionId={session_id}",
        *(f"/api/sessions/{session_id}/messages/{sequence}" for sequence in (1, 2, 3, 4)),
    ]
    shown, plain = dict[str, set[str]](), dict[str, set[str]]()
    with httpx2.Client(base_url=shared_server, timeout=TIMEOUT) as http:
        wait_until(lambda: "pending" not in http.get(f"/api/sessions/{session_id}/search?q=heron").json())
        for address in addresses:
            for media_type in ("application/json", "text/plain") if "/messages/" in address else ("*/*",):
                headers = {"Accept": media_type}
                place = f"{address.replace(session_id, '')} {media_type}"
                plain[place] = shown_in(http.get(address, headers=headers).raise_for_status().text)
                shown[place] = shown_in(http.get(redacted(address), headers=headers).raise_for_status().text)
        for name in _TOOLS:
            shown[name] = shown_in(call_tool(http, name, session_id))
        export = http.get(f"/api/sessions/{session_id}/export?redact=1").text

    assert {place for place, names in shown.items() if names} == set()
    without_texts = ("kind=chunk", "session-summary", "item-counts", "changes")
    assert [each for each, names in plain.items() if bool(names) is any(map(each.count, without_texts))] == []
    assert export.count(HIDDEN) == 4 * len(list(rows()))


@pytest.mark.slow
def test_no_stream_shows_a_part(shared_server: str, session_id: str) -> None:
    address = f"{shared_server}/api/sessions/{session_id}/events"
    texts = dict[str, str]()
    for query in ("", "?redact=1"):
        frames, events = list[str](), list[str]()
        with connect(
            f"{address}/ws{query}".replace("http", "ws", 1), open_timeout=TIMEOUT, max_size=None
        ) as socket:
            while not frames or "caught_up" not in frames[-1]:
                frames.append(str(socket.recv(TIMEOUT)))
        with httpx2.stream("GET", f"{address}/stream{query}", timeout=TIMEOUT) as stream:
            for line in stream.iter_lines():
                events.append(line)
                if line == "event: caught_up":
                    break
        texts |= {f"WebSocket{query}": "\n".join(frames), f"events{query}": "\n".join(events)}

    assert {name: shown_in(text) for name, text in texts.items()} == {
        "WebSocket": set(ENCODED),
        "WebSocket?redact=1": set(),
        "events": set(ENCODED),
        "events?redact=1": set(),
    }
    assert all(HIDDEN in text for name, text in texts.items() if "redact" in name)


def test_values_are_not_found_by_a_part(shared_server: str, session_id: str) -> None:
    with httpx2.Client(base_url=shared_server, timeout=TIMEOUT) as http:
        address = f"/api/sessions/{session_id}/search"
        wait_until(lambda: "pending" not in http.get(f"{address}?q=heron").json())

        def found(q: str, **params: int) -> bool:
            query: dict[str, str | int] = {"q": q, "in": "everything", **params}
            return bool(http.get(address, params=query).raise_for_status().json()["hits"])

        assert {name for name, value in ENCODED.items() if found(value[:PIECE], redact=1)} == set()
        assert {name for name, value in ENCODED.items() if found(value[:PIECE])} != set()
        assert found('"binary data"', redact=1)
