"""Webhooks: which addresses are accepted, what is sent, and what counts as delivered."""

import hmac
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from threading import Thread
from uuid import UUID

import pytest

from ash_server.budgets.webhook import Delivery, WebhookFailed, check_webhook_url, deliver
from ash_server.errors import InvalidBudget

ID = UUID(int=7)
BODY = b'{"spentUsd":51.2}'


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/ash?team=1",
        "https://hooks.example.com:8443/",
        "http://localhost:9000/hook",
        "http://127.0.0.1:9000/hook",
        "http://[::1]:9000/hook",
    ],
)
def test_accepted_urls(url: str) -> None:
    assert check_webhook_url(url) == url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://hooks.example.com/", "begins with https://"),
        ("http://localhost.example.com/", "begins with https://"),
        ("ftp://localhost/", "begins with https://"),
        ("https://user:secret@hooks.example.com/", "user name or password"),
        ("https://@hooks.example.com/", "user name or password"),
        ("https:///path", "is a URL of at most 2000"),
        ("https://hooks.example.com/\n", "is a URL of at most 2000"),
        ("https://höhe.example.com/", "is a URL of at most 2000"),
        ("https://hooks.example.com/" + "x" * 2000, "is a URL of at most 2000"),
        ("https://hooks.example.com:99999/", "is not a URL"),
        ("https://[::1/", "is not a URL"),
        ("", "is a URL of at most 2000"),
    ],
)
def test_refused_urls(url: str, message: str) -> None:
    with pytest.raises(InvalidBudget, match=message):
        check_webhook_url(url)


@contextmanager
def receiver(answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the port of a server that sends `answer` to its first request, and the requests."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                received = connection.recv(65536)
                while received and not received.endswith(BODY):
                    received += connection.recv(65536)
                requests.append(received)
                connection.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], requests
        with socket.socket() as connection:
            connection.connect(listener.getsockname())  # if nobody else did
        thread.join()


OK = b"HTTP/1.1 204 No Content\r\n\r\n"


async def test_request() -> None:
    with receiver(OK) as (port, requests):
        await deliver(Delivery(ID, f"http://127.0.0.1:{port}/hook?team=1", "secret", BODY), 1_000)

    head, _, body = requests[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    expected = hmac.new(b"secret", b"1000." + BODY, sha256).hexdigest()
    assert (first, body) == ("POST /hook?team=1 HTTP/1.1", BODY)
    assert {name: headers[name] for name in ("host", "content-type", "ash-delivery", "ash-signature")} == {
        "host": f"127.0.0.1:{port}",
        "content-type": "application/json",
        "ash-delivery": str(ID),
        "ash-signature": f"t=1000,v1={expected}",
    }


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", "the receiver answered 500"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "the receiver answered 302"),
        (b"", "disconnected"),
        (b"nonsense\r\n\r\n", "."),
    ],
    ids=["error", "redirect", "end", "nonsense"],
)
async def test_failures(answer: bytes, message: str) -> None:
    with receiver(answer) as (port, _), pytest.raises(WebhookFailed, match=message):
        await deliver(Delivery(ID, f"http://127.0.0.1:{port}/", "secret", BODY), 0)


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "[fe80::1]",
        "[fd00::1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::a00:1]",
        "[2002:a00:1::]",
        "[::]",
    ],
)
async def test_private_addresses_are_refused(host: str) -> None:
    with pytest.raises(WebhookFailed, match=r"has the private address .*: allow it with ASH_WEBHOOK_HOSTS="):
        await deliver(Delivery(ID, f"https://{host}/", "secret", BODY), 0)


async def test_names_of_private_addresses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of someone else may have the address of this machine; only the literal and `localhost` are accepted."""
    resolved = socket.getaddrinfo("127.0.0.1", None, type=socket.SOCK_STREAM)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: resolved)
    delivery = Delivery(ID, "https://hooks.example.com/", "secret", BODY)

    with pytest.raises(WebhookFailed, match=r"hooks\.example\.com has the private address 127\.0\.0\.1"):
        await deliver(delivery, 0)


async def test_allowed_host_may_be_private(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = socket.getaddrinfo("127.0.0.1", None, type=socket.SOCK_STREAM)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: resolved)
    with receiver(OK) as (port, requests):
        url = f"http://hooks.internal:{port}/"
        await deliver(Delivery(ID, url, "secret", BODY), 0, allowed_hosts={"hooks.internal"})

    assert f"host: hooks.internal:{port}".encode() in requests[0].lower()
