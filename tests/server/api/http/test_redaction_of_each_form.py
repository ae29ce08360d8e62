"""No response contains a secret of any form, even if it is cut, escaped, encoded or split across chunks."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from websockets.sync.client import connect

from ash_client import AshClient
from ash_server.history_tools import _TOOLS
from tests.secret_samples import ALNUM, SECRETS
from tests.server.api.conftest import SHARED
from tests.shared.records import claude
from tests.waiting import TIMEOUT, wait_until

PASSWORD = "correct/horse+battery".replace("/", "-")
ALL = {
    **SECRETS,
    "private key": f"-----BEGIN PRIVATE KEY-----\n{ALNUM}\n{ALNUM[::-1]}\n-----END PRIVATE KEY-----",
    "password in a url": f"redis://cache:{PASSWORD}@db.example",
    "authorization header": f"Authorization: Bearer {ALNUM[::-1]}",
    "aws secret key": f"aws_secret_access_key={ALNUM[5:20]}/{ALNUM[20:44]}",
}
PUBLIC = re.compile(
    r"Authorization: Bearer |redis://cache:|@db\.example|aws_secret_access_key=|-----(BEGIN|END) PRIVATE KEY-----"
)
"""The parts of a text around a secret, which are shown."""
PIECE = 8
"""The number of consecutive characters of a secret that no response may contain."""

API = [
    "",
    "/messages?parsed=true&limit=1000",
    "/messages?parsed=true&content=false&limit=1000",
    "/messages?kind=chunk&parsed=true&limit=1000",
    "/events?limit=1000",
    "/events?collapse=true&limit=1000",
    "/standard-messages",
    "/projections/anthropic-messages",
    "/projections/atif",
    "/projections/claude-prompt",
    "/projections/codex-prompt",
    "/projections/openai-messages",
    "/projections/otel-genai",
    "/projections/otlp",
    "/projections/session-summary",
    "/projections/ui-messages",
    "/changes",
    "/facts",
    "/item-counts",
    "/export",
    "/export?format=events",
    "/search?q=heron&limit=100",
]
PAGES = ["", ".md", ".json", ".jsonl", ".html"]


def user(content: Any) -> dict[str, Any]:
    return claude.line("user", content, uuid=str(uuid4()))


def assistant(*content: dict[str, Any]) -> dict[str, Any]:
    return claude.line("assistant", content, {"id": f"msg_{uuid4()}"}, uuid=str(uuid4()))


def priced(secret: str) -> dict[str, Any]:
    """Return an answer with usage, and a secret in its project and model."""
    message = {
        "id": f"msg_{uuid4()}",
        "model": f"a {secret}",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return claude.line(
        "assistant", [{"type": "text", "text": "Done."}], message, uuid=str(uuid4()), cwd=f"/srv/{secret} x"
    )


def chunks(text: str) -> Iterator[dict[str, Any]]:
    """Yield the records of an incomplete streamed answer."""
    pieces = [text[at : at + 9] for at in range(0, len(text), 9)]
    deltas = [claude.block_delta(0, type="text_delta", text=piece) for piece in pieces]
    for event in (claude.message_start(f"msg_{uuid4()}"), claude.block_start(0, claude.text("")), *deltas):
        yield {**claude.stream_event(event), "uuid": str(uuid4())}


def lines(secret: str) -> Iterator[str]:
    """Yield records that contain a secret in every place."""
    within = json.dumps({"text": json.dumps({"text": secret})})
    call = str(uuid4())
    arguments = {"id": call, "name": "Bash", "input": {"command": f"heron {secret}", "env": within}}
    yield json.dumps(user(f"heron {secret}"))
    yield json.dumps(assistant({"type": "text", "text": f"*{secret}* and `{secret}`"}))
    yield json.dumps(assistant({"type": "tool_use", **arguments})).replace("/", "\\/")
    yield json.dumps(user([{"type": "tool_result", "tool_use_id": call, "content": within}]))
    written = {"file_path": f"/srv/{call}", "content": f"a\n{secret}\n"}
    yield json.dumps(assistant({"type": "tool_use", "id": f"{call} 2", "name": "Write", "input": written}))
    escapes = "".join(f"\\u{ord(each):04x}" for each in secret)
    yield json.dumps(user("TEXT")).replace("TEXT", escapes)
    yield secret.replace("\n", " ")


@pytest.fixture(scope=SHARED)
def session_id(shared_server: str) -> str:
    """The id of a session with secrets of all forms and an incomplete last answer."""
    answer = "\n".join(f"heron {secret} more" for secret in ALL.values())
    texts = [*(line for secret in ALL.values() for line in lines(secret)), *map(json.dumps, chunks(answer))]
    with AshClient(shared_server) as ash:
        session = ash.create_session(source="claude")
        ash.append(session.id, texts)
    return str(session.id)


@pytest.fixture(scope=SHARED)
def named(shared_server: str) -> list[str]:
    """The ids of sessions with a name that is cut within a secret, one for each form."""
    ids = []
    with AshClient(shared_server) as ash:
        for secret in ALL.values():
            session = ash.create_session(source="claude", external_id=f"{secret} {uuid4()}")
            ash.append(session.id, [json.dumps(user(f"{'w ' * 95}{secret}")), json.dumps(priced(secret))])
            ids.append(str(session.id))
    return ids


def hidden_parts(secret: str) -> set[str]:
    """Return the parts of a secret that no response may contain."""
    hidden = [part for part in PUBLIC.sub("\n", secret).split("\n") if len(part) >= PIECE]
    return {part[at : at + PIECE] for part in hidden for at in range(len(part) - PIECE + 1)}


HIDDEN = {label: hidden_parts(secret) for label, secret in ALL.items()}


def without_escapes(text: str) -> str:
    """Return a text without the escapes of Markdown, HTML and JSON."""
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    return text.replace("\\", "").replace("&#x27;", "'")


def pieces(text: str) -> set[str]:
    return {text[at : at + PIECE] for at in range(len(text) - PIECE + 1)}


def shown_by(texts: Mapping[str, str]) -> dict[tuple[str, str], set[str]]:
    shown = dict[tuple[str, str], set[str]]()
    for name, text in texts.items():
        shown_pieces = pieces(without_escapes(text))
        shown |= {(name, label): parts & shown_pieces for label, parts in HIDDEN.items()}
    return {name: parts for name, parts in shown.items() if parts}


@pytest.mark.slow
def test_no_response_shows_a_part(shared_server: str, session_id: str) -> None:
    addresses = [
        *(f"/api/sessions/{session_id}{path}" for path in API),
        *(f"/sessions/{session_id}{suffix}" for suffix in PAGES),
        f"/api/search?q=heron&in=everything&limit=100&sessionId={session_id}",
        f"/api/compare?a={session_id}&b={session_id}",
    ]
    texts, plain = dict[str, str](), dict[str, str]()
    with httpx2.Client(base_url=shared_server, timeout=TIMEOUT) as http:
        wait_until(lambda: "pending" not in http.get(f"/api/sessions/{session_id}/search?q=heron").json())
        for address in addresses:
            texts[address] = http.get(redacted(address)).raise_for_status().text
            plain[address] = http.get(address).raise_for_status().text
        for sequence in range(1, 7):
            address = f"/api/sessions/{session_id}/messages/{sequence}?redact=1"
            for media_type in ("application/json", "text/plain"):
                texts[f"{address} {media_type}"] = http.get(address, headers={"Accept": media_type}).text
        texts |= {name: call_tool(http, name, session_id) for name in _TOOLS}

    shown_in_full = {name for name, _ in shown_by(plain)}
    assert shown_in_full == {each for each in addresses if "item-counts" not in each}
    assert shown_by(texts) == {}
    export = texts[f"/api/sessions/{session_id}/export"]
    assert [label for label in ALL if f"[redacted: {label}]" not in export] == []


@pytest.mark.slow
def test_no_name_shows_a_part(shared_server: str, named: list[str]) -> None:
    addresses = [
        "/api/sessions?limit=1000",
        "/api/projects?limit=200&usage=true",
        *(f"/api/sessions/{id}/projections/session-summary" for id in named),
        *(f"/sessions/{id}{suffix}" for id in named for suffix in ("", ".md")),
    ]
    reports = [f"/api/usage?by={by}" for by in ("session", "project", "model", "model,session")]
    as_csv = {"Accept": "text/csv"}
    with httpx2.Client(base_url=shared_server, timeout=TIMEOUT) as http:
        texts = {
            address: http.get(redacted(address)).raise_for_status().text for address in (*addresses, *reports)
        }
        texts |= {
            f"{address} as CSV": http.get(redacted(address), headers=as_csv).text for address in reports
        }
        plain = {address: http.get(address).text for address in (addresses[0], *reports)}

    labels = {address: {label for _, label in shown_by({address: text})} for address, text in plain.items()}
    assert [
        each for each in labels.values() if not each > {"anthropic key", "github token", "json web token"}
    ] == []
    assert shown_by(texts) == {}


def redacted(address: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}redact=1"


def call_tool(http: httpx2.Client, name: str, id: str) -> str:
    arguments = {
        "list_sessions": {"limit": 100},
        "list_projects": {},
        "search": {"q": "heron", "session_id": id, "limit": 50},
        "read_messages": {"session_id": id, "limit": 100, "kind": "message,record,chunk"},
        "read_session_summary": {"session_id": id},
        "read_session_facts": {"session_id": id},
        "read_changes": {"session_id": id, "path": "/srv"},
        "get_usage": {"session_id": id, "by": ["project", "model"]},
    }
    params = {"name": name, "arguments": arguments[name]}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = http.post(
        "/mcp?redact=1", json=message, headers={"Accept": "application/json, text/event-stream"}
    )
    assert not answer.json()["result"].get("isError"), answer.text
    return answer.text


def test_no_stream_shows_a_part(shared_server: str, session_id: str) -> None:
    address = f"{shared_server}/api/sessions/{session_id}"
    frames = list[str]()
    with connect(f"{address}/events/ws?redact=1".replace("http", "ws", 1), open_timeout=TIMEOUT) as socket:
        while not frames or "caught_up" not in frames[-1]:
            frames.append(str(socket.recv(TIMEOUT)))
    with httpx2.stream("GET", f"{address}/events/stream?redact=1", timeout=TIMEOUT) as events:
        lines = list[str]()
        for line in events.iter_lines():
            lines.append(line)
            if line == "event: caught_up":
                break
    running = [first_piece(f"{address}/ui-stream{query}") for query in ("", "?redact=1")]
    texts = {
        "WebSocket": "\n".join(frames),
        "events": "\n".join(lines),
        "AI SDK": running[1],
        "AG-UI": first_piece(f"{address}/ag-ui?redact=1"),
    }

    assert "text-delta" in running[0]
    assert [name for name, text in texts.items() if "[redacted: " not in text] == []
    assert shown_by(texts) == {}


def first_piece(address: str) -> str:
    """Return the content of the running turn so far."""
    with httpx2.stream("GET", address, timeout=TIMEOUT) as turn:
        return next(turn.iter_text())
