"""Behaviour that needs a real connection."""

import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest
from litestar import Litestar

from ash_server.api.http.server import protocol
from ash_server.app import create_app
from tests.cluster import not_on_cluster
from tests.server.api.conftest import Access, served
from tests.waiting import TIMEOUT


@contextmanager
def connected(server: str) -> Iterator[socket.socket]:
    with socket.create_connection(
        (urlsplit(server).hostname or "", urlsplit(server).port or 0), timeout=TIMEOUT
    ) as sock:
        yield sock


def head(server: str, path: str, *headers: str, method: str = "POST") -> bytes:
    lines = (
        f"{method} {path} HTTP/1.1",
        f"Host: {urlsplit(server).netloc}",
        "Connection: close",
        *headers,
        "",
        "",
    )
    return "\r\n".join(lines).encode()


def answer_to(server: str, request: bytes) -> str:
    with connected(server) as sock:
        sock.sendall(request)
        return b"".join(iter(lambda: sock.recv(65536), b"")).decode()


@pytest.fixture
def server(shared_server: str) -> str:
    return shared_server


@pytest.fixture
def messages(server: str) -> str:
    """The path of a session's messages."""
    return f"/api/sessions/{httpx2.post(f'{server}/api/sessions', json={}).json()['id']}/messages"


def test_limits_chunked_bodies(server: str, messages: str) -> None:
    piece = b"100000\r\n" + b"a" * 0x100000 + b"\r\n"
    request = head(server, messages, "Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")

    response = answer_to(server, request + piece * 8 + b"1\r\na\r\n0\r\n\r\n")

    assert response.startswith("HTTP/1.1 413 ")
    assert '"code":"body_too_large"' in response


def test_rejects_content_length_before_the_body(server: str, messages: str) -> None:
    request = head(server, messages, "Content-Type: application/json", "Content-Length: 99999999")

    assert answer_to(server, request).startswith("HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Content-Type: application/json"], 201),
        (["Content-Type: text/plain"], 201),
        (["Content-Type: text/html"], 415),
        (["Content-Type: text/plain", "Content-Type: application/json"], 415),
        (["Content-Type: application/json", "Content-Encoding: gzip"], 415),
        (["Content-Type: application/json", "Content-Encoding: identity"], 201),
        (["Content-Type: application/json", "Origin: https://evil.example"], 403),
        (["Content-Type: application/json", "Origin: http://127.0.0.1", "Origin: https://evil.example"], 403),
        (["Content-Type: application/json", "Content-Type: text/plain"], 415),
        (["Content-Type: application/json", "Content-Encoding: identity", "Content-Encoding: gzip"], 415),
        (["Content-Type: application/json", "Host: evil.example"], 421),
        ([], 415),
    ],
)
def test_headers(server: str, messages: str, headers: list[str], status: int) -> None:
    body = b'{"content":"a"}'

    response = answer_to(server, head(server, messages, *headers, f"Content-Length: {len(body)}") + body)

    assert int(response.split(" ")[1]) == status


@pytest.mark.parametrize("query", ["q=50%", "q=%2", "q=%zz", "q%=a", "%"])
def test_rejects_invalid_percent_escapes(server: str, query: str) -> None:
    response = answer_to(server, head(server, f"/api/sessions?{query}", method="GET"))

    assert response.startswith("HTTP/1.1 400 ")
    assert '"code":"invalid_parameter"' in response


def test_disconnect_during_the_body_stores_nothing(server: str, messages: str) -> None:
    with connected(server) as sock:
        sock.sendall(
            head(server, messages, "Content-Type: application/x-ndjson", "Content-Length: 100") + b"a\n" * 20
        )

    assert httpx2.get(server + messages).json() == {"messages": []}


def test_body_timeout(server: str, messages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "BODY_TIMEOUT_SECONDS", 0.2)
    request = head(server, messages, "Content-Type: application/x-ndjson", "Content-Length: 100")

    response = answer_to(server, request + b"a\n")

    assert response.startswith("HTTP/1.1 408 ")
    assert '"code":"body_timeout"' in response


@pytest.mark.parametrize(("chunks", "status"), [("0\r\n\r\n", 200), ("2\r\n{}\r\n0\r\n\r\n", 400)])
def test_chunks_of_an_operation_without_body(server: str, messages: str, chunks: str, status: int) -> None:
    httpx2.post(server + messages, json={"content": "a"})

    response = answer_to(
        server, head(server, f"{messages}/pop", "Transfer-Encoding: chunked") + chunks.encode()
    )

    assert response.startswith(f"HTTP/1.1 {status} ")


def test_operation_without_body_waits_for_the_end_of_a_request(
    server: str, messages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An incomplete request deletes nothing."""
    httpx2.post(server + messages, json={"content": "a"})
    monkeypatch.setattr(protocol, "BODY_TIMEOUT_SECONDS", 0.2)

    response = answer_to(server, head(server, f"{messages}/pop", "Transfer-Encoding: chunked"))

    assert response.startswith("HTTP/1.1 408 ")
    assert len(httpx2.get(server + messages).json()["messages"]) == 1


class Place(NamedTuple):
    server: str
    messages: str
    """The path of a session's messages."""
    headers: dict[str, str]

    def head(self, *headers: str) -> bytes:
        keys = (f"{name}: {value}" for name, value in self.headers.items())
        return head(self.server, self.messages, *keys, *headers)


@pytest.fixture
def place(access: Access) -> Iterator[Place]:
    """A session of a server without and one with keys."""
    with served(create_app(access.settings, database_url=access.database_url)) as server:
        created = httpx2.post(f"{server}/api/sessions", json={}, headers=access.headers).json()
        yield Place(server, f"/api/sessions/{created['id']}/messages", access.headers)


def test_slow_bodies_do_not_block_other_requests(place: Place) -> None:
    request = place.head("Content-Type: application/x-ndjson", "Content-Length: 100")
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(place.server)) for _ in range(50)]
        for part in (request, b"a", b"\n", b"b"):
            for sock in slow:
                sock.sendall(part)
            answer = httpx2.post(place.server + place.messages, json={"content": "a"}, headers=place.headers)
            assert answer.status_code == 201


def drip(server: str, request: bytes) -> str:
    """Send a body byte by byte until the server closes the connection; return the response."""
    answer, end = b"", time.monotonic() + TIMEOUT
    with connected(server) as sock:
        sock.sendall(request)
        sock.settimeout(0.02)
        while time.monotonic() < end:
            try:
                sock.sendall(b"a")
                received = sock.recv(65536)
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                return answer.decode()
            if not received:
                return answer.decode()
            answer += received
    pytest.fail("the server continues reading")


LIMITS = (0.2, 1, 5)
"""Seconds for headers and bodies, each tried after the one before: a busy server may need a longer limit."""
NDJSON = "Content-Type: application/x-ndjson"
DRIPPED = {
    "a body that is read": ("POST", "MESSAGES", (NDJSON, "KEY"), 408),
    "chunks": ("POST", "MESSAGES", (NDJSON, "KEY", "Transfer-Encoding: chunked"), 408),
    "without a key": ("POST", "MESSAGES", (NDJSON,), 401),
    "with a wrong key": ("POST", "MESSAGES", (NDJSON, "Authorization: Bearer ash_wrong"), 401),
    "a body of another type": ("POST", "MESSAGES", ("Content-Type: text/html", "KEY"), 415),
    "a body that is too large": ("POST", "MESSAGES", (NDJSON, "KEY", "Content-Length: 99999999"), 413),
    "an operation without body": ("POST", "MESSAGES/pop", ("KEY",), 400),
    "a list": ("GET", "MESSAGES", ("KEY",), 400),
    "a page": ("GET", "/", ("KEY",), 200),
    "an unknown path": ("POST", "/nowhere", (), 404),
    "a method that is not allowed": ("PUT", "MESSAGES", ("KEY",), 405),
    "health": ("GET", "/health/live", (), 400),
    "sign-in": ("POST", "/login", ("Content-Type: application/x-www-form-urlencoded",), 408),
    "tools": ("POST", "/mcp", ("Content-Type: application/json", "KEY"), 408),
    "tools without a key": ("POST", "/mcp", ("Content-Type: application/json",), 401),
}


def test_slow_bodies_are_cut_off(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of route does this, even after the response."""
    expected = {name: case[3] for name, case in DRIPPED.items() if place.headers or case[3] != 401}
    statuses = dict.fromkeys(expected, 0)
    httpx2.get(place.server, headers=place.headers)  # the first page bundles the viewer, which takes longer
    for seconds in LIMITS:
        monkeypatch.setattr(protocol, "BODY_TIMEOUT_SECONDS", seconds)
        names = [name for name in expected if statuses[name] != expected[name]]
        with ThreadPoolExecutor(len(DRIPPED)) as threads:
            answers = threads.map(lambda name: drip(place.server, dripped(place, *DRIPPED[name])), names)
            statuses |= {name: int(answer.split(" ")[1]) for name, answer in zip(names, answers, strict=True)}
        if statuses == expected:
            break

    assert statuses == expected


def dripped(place: Place, method: str, path: str, headers: tuple[str, ...], _: int) -> bytes:
    """Return a request without its body."""
    is_chunked = "Transfer-Encoding: chunked" in headers
    has_length = any("Content-Length" in each for each in headers)
    sent = [each for each in headers if each != "KEY"]
    sent += [f"{name}: {value}" for name, value in place.headers.items() if "KEY" in headers]
    sent += [] if is_chunked or has_length else ["Content-Length: 10000"]
    lines = [f"{method} {path.replace('MESSAGES', place.messages)} HTTP/1.1"]
    lines += [f"Host: {urlsplit(place.server).netloc}", *sent, "", "10000\r\n" if is_chunked else ""]
    return "\r\n".join(lines).encode()


@pytest.mark.slow
def test_body_of_a_pipelined_request_has_its_own_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow request after one that is answered in time is also cut off."""
    monkeypatch.setattr(protocol, "BODY_TIMEOUT_SECONDS", 1)
    host = f"Host: {urlsplit(place.server).netloc}"
    first = f"GET /health/live HTTP/1.1\r\n{host}\r\n\r\n"
    second = f"POST /nowhere HTTP/1.1\r\n{host}\r\nContent-Length: 100000\r\n\r\n"

    answers = drip(place.server, (first + second).encode())

    assert re.findall("HTTP/1.1 ([0-9]+)", answers) in (["200", "404"], ["200", "408"])


def test_refuses_without_reading_the_body(place: Place) -> None:
    json_body = ("Content-Type: application/json", "Content-Length: 8000000")
    requests = {
        401: head(place.server, place.messages, *json_body),
        413: place.head(json_body[0], "Content-Length: 70000000"),
        415: place.head(*json_body, "Content-Encoding: gzip"),
        431: place.head(*json_body, f"X-Long: {LONG}"),
    }
    if not place.headers:
        del requests[401]

    answers = {status: answer_to(place.server, request) for status, request in requests.items()}

    assert {status: int(answer.split(" ")[1]) for status, answer in answers.items()} == {
        status: status for status in requests
    }


LONG = "x" * protocol.MAX_HEADER_BYTES
REFUSED_REQUESTS = {
    "a long header": (
        f"GET /health/live HTTP/1.1\r\nHost: a\r\nX-Long: {LONG}\r\n\r\n",
        431,
        "headers_too_large",
    ),
    "many headers": (
        "GET /health/live HTTP/1.1\r\n" + "A: b\r\n" * 40_000 + "\r\n",
        431,
        "headers_too_large",
    ),
    "a header without an end": (f"GET /health/live HTTP/1.1\r\nX-Long: {LONG}", 431, "headers_too_large"),
    "a long address": (f"GET /{LONG} HTTP/1.1\r\nHost: a\r\n\r\n", 431, "headers_too_large"),
    "an address without an end": (f"GET /{LONG}", 431, "headers_too_large"),
    "another protocol": ("SSH-2.0-OpenSSH_9.6\r\n", 400, "invalid_request"),
    "an invalid length": ("POST /api/parse HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400, "invalid_request"),
    "an invalid header": ("GET / HTTP/1.1\r\nA B: c\r\n\r\n", 400, "invalid_request"),
    "an address that is not ASCII": ("GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400, "invalid_request"),
}


@pytest.mark.parametrize("name", REFUSED_REQUESTS)
def test_refuses_what_is_not_http_with_a_problem(server: str, name: str) -> None:
    request, status, code = REFUSED_REQUESTS[name]

    header, _, body = answer_to(server, request.encode("latin-1")).partition("\r\n\r\n")

    assert int(header.split(" ")[1]) == status
    assert "content-type: application/problem+json" in header
    assert (json.loads(body)["status"], json.loads(body)["code"]) == (status, code)


def test_accepts_long_headers_below_the_limit(server: str) -> None:
    request = head(server, "/health/live", f"X-Long: {LONG[1000:]}", method="GET")

    assert answer_to(server, request).startswith("HTTP/1.1 200 ")


@pytest.mark.slow
def test_header_timeout(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a header without an end, in the first or a later request of a connection, and for silence."""
    started = b"GET /health/live HTTP/1.1\r\nHost: a\r\n"
    complete = head(server, "/health/live", method="GET").replace(b"Connection: close\r\n", b"")
    requests = {b"": [], started: ["408"], b"G": ["408"], complete + started: ["200", "408"]}
    for seconds in LIMITS:
        monkeypatch.setattr(protocol, "HEADER_TIMEOUT_SECONDS", seconds)
        answers = {request: answer_to(server, request) for request in requests}
        statuses = {request: re.findall(r"HTTP/1\.1 (\d+)", answer) for request, answer in answers.items()}
        if statuses == requests:
            break

    assert statuses == requests
    assert all('"code":"headers_timeout"' in answers[request] for request in requests if request)


def test_http_1_0_gets_no_chunks(server: str, messages: str) -> None:
    for _ in range(3):
        httpx2.post(server + messages, json={"content": "x" * 100_000})
    path = messages.replace("/messages", "/export")

    def answer(version: str) -> tuple[str, str]:
        request = head(server, path, method="GET").replace(b"HTTP/1.1", f"HTTP/{version}".encode())
        header, _, body = answer_to(server, request).partition("\r\n\r\n")
        return header, body

    assert "transfer-encoding: chunked" in answer("1.1")[0]
    header, body = answer("1.0")
    assert "transfer-encoding" not in header
    assert body == ("x" * 100_000 + "\n") * 3
    known = head(server, "/health/live", method="GET").replace(b"HTTP/1.1", b"HTTP/1.0")
    assert "content-length: " in answer_to(server, known)


@pytest.mark.slow
def test_readers_that_stall_hold_no_connection(server: str, messages: str) -> None:
    for _ in range(60):
        httpx2.post(server + messages, json={"content": "x" * 1_000_000})
    request = head(server, messages.replace("/messages", "/export"), method="GET")
    with ExitStack() as stalled:
        for _ in range(12):
            sock = stalled.enter_context(connected(server))
            sock.sendall(request)
            assert sock.recv(16)
        assert len(answer_to(server, request)) > 60_000_000
        assert httpx2.get(server + messages, params={"limit": 1}).status_code == 200


@not_on_cluster("distributed tables have no triggers")
def test_a_full_disk_is_named(app: Litestar, database_url: str) -> None:
    full = """
        CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
        CREATE TRIGGER full_disk BEFORE INSERT ON messages EXECUTE FUNCTION fail();
    """
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(full)
    with served(app) as server:
        session = httpx2.post(f"{server}/api/sessions", json={}).json()["id"]
        response = httpx2.post(f"{server}/api/sessions/{session}/messages", json={"content": "a"})

    assert (response.status_code, response.json()["code"]) == (507, "disk_full")
