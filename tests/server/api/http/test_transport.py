"""Behaviour that needs a real connection."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from ash_server.api.http import bodies


@contextmanager
def connected(server: str) -> Iterator[socket.socket]:
    with socket.create_connection(
        (urlsplit(server).hostname or "", urlsplit(server).port or 0), timeout=60
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
def messages(server: str) -> str:
    """The path of a session's messages."""
    return f"/api/sessions/{httpx.post(f'{server}/api/sessions', json={}).json()['id']}/messages"


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
        (["Content-Type: text/plain"], 415),
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

    assert httpx.get(server + messages).json() == {"messages": []}


def test_body_timeout(server: str, messages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_TIMEOUT_SECONDS", 0.2)
    request = head(server, messages, "Content-Type: application/x-ndjson", "Content-Length: 100")

    response = answer_to(server, request + b"a\n")

    assert response.startswith("HTTP/1.1 408 ")
    assert '"code":"body_timeout"' in response


def test_slow_bodies_do_not_block_other_requests(server: str, messages: str) -> None:
    request = head(server, messages, "Content-Type: application/x-ndjson", "Content-Length: 100")
    slow = [
        socket.create_connection((urlsplit(server).hostname or "", urlsplit(server).port or 0))
        for _ in range(50)
    ]
    for sock in slow:
        sock.sendall(request + b"a\n")

    response = httpx.post(server + messages, json={"content": "a"})
    for sock in slow:
        sock.close()

    assert response.status_code == 201
