"""The transport of the asynchronous client, with a server that sends the bytes of each test."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from ash_client import AsyncAshClient
from ash_client.plain_http import PlainTransport
from tests.waiting import until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    def __init__(self, answer: Answer) -> None:
        self.url = ""
        self.connections = 0
        self.answer = answer
        self._ended = 0

    @property
    def open_connections(self) -> int:
        return self.connections - self._ended

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self.answer(reader, writer)
        finally:
            self._ended += 1
            writer.close()


@asynccontextmanager
async def serving(answer: Answer | bytes) -> AsyncIterator[tuple[Server, httpx2.AsyncClient]]:
    """Send the bytes for each request, or let `answer` serve each connection."""
    server = Server(_repeating(answer) if isinstance(answer, bytes) else answer)
    listener = await asyncio.start_server(server.serve, "127.0.0.1")
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener, httpx2.AsyncClient(transport=PlainTransport(60), timeout=10) as client:
        yield server, client


def _repeating(response: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await _request(reader):
            writer.write(response)

    return answer


async def _request(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


@pytest.mark.parametrize(
    ("response", "body"),
    [
        (OK, b"ok"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\nX-End: 1\r\n\r\n",
            b"ok",
        ),
        (b"HTTP/1.1 102 Processing\r\nX-Of: 102\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
    ids=["length", "chunks", "informational", "no content"],
)
async def test_reads_responses_and_keeps_the_connection(response: bytes, body: bytes) -> None:
    async with serving(response) as (server, client):
        answers = [await client.get(server.url) for _ in range(3)]

    assert [(each.content, each.headers.get("X-Of"), each.headers.get("X-End")) for each in answers] == [
        (body, None, None)
    ] * 3
    assert server.connections == 1


async def test_sends_the_request() -> None:
    received = bytearray()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await _request(reader))
        received.extend(await reader.readexactly(100_000))
        writer.write(OK)

    async with serving(answer) as (server, client):
        await client.post(f"{server.url}/a%20b?c=d", content=b"x" * 100_000, headers={"X-Name": "value"})

    head, _, body = bytes(received).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /a%20b?c=d HTTP/1.1\r\n")
    assert {b"Host: " + server.url.removeprefix("http://").encode(), b"X-Name: value"} <= {
        *head.split(b"\r\n")
    }
    assert body == b"x" * 100_000


async def test_reads_a_body_that_ends_with_the_connection() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nok")

    async with serving(answer) as (server, client):
        assert [(await client.get(server.url)).content for _ in range(2)] == [b"ok", b"ok"]
        assert server.connections == 2


@pytest.mark.parametrize("response", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", b"SSH-2.0\r\n"])
async def test_incomplete_and_foreign_responses_are_errors(response: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(response)

    async with serving(answer) as (server, client):
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(server.url)


async def test_does_not_use_connections_that_the_server_has_closed() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(OK)

    async with serving(answer) as (server, client):
        for _ in range(3):
            assert (await client.get(server.url)).content == b"ok"
            await until(lambda: server.open_connections == 0)
        assert server.connections == 3


async def test_bytes_after_a_response_are_not_the_next_response() -> None:
    async with serving(OK + OK.replace(b"ok", b"no")) as (server, client):
        assert [(await client.get(server.url)).content for _ in range(2)] == [b"ok", b"ok"]
        assert server.connections == 2


async def test_reads_a_refusal_of_a_body_that_is_not_read() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(OK.replace(b"200 OK", b"413 Content Too Large"))
        await writer.drain()

    async with serving(answer) as (server, client):
        assert (await client.post(server.url, content=b"x" * 20_000_000)).status_code == 413


async def test_cancelled_request_closes_its_connection() -> None:
    asked = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await _request(reader)
        asked.set()
        await reader.read()

    async with serving(answer) as (server, client):
        request = asyncio.ensure_future(client.get(server.url))
        await asked.wait()
        request.cancel()
        await until(lambda: server.open_connections == 0)


async def test_silent_server_is_a_timeout() -> None:
    async def answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(answer) as (server, client):
        with pytest.raises(httpx2.ReadTimeout):
            await client.get(server.url, timeout=0.01)


async def test_header_with_a_line_end_is_not_sent() -> None:
    async with serving(OK) as (server, client):
        with pytest.raises(httpx2.LocalProtocolError):
            await client.get(server.url, headers={"Authorization": "Bearer a\r\nX-Other: b"})
        assert server.connections == 0


def test_client_works_on_several_event_loops() -> None:
    connections: list[object] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            connections.append(self.connection)

        def do_GET(self) -> None:  # named by the library
            self.wfile.write(OK)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = AsyncAshClient(f"http://127.0.0.1:{server.server_port}")
        assert [asyncio.run(client._http.get("/")).content for _ in range(2)] == [b"ok", b"ok"]
        asyncio.run(client.close())
        server.shutdown()
    assert len(connections) == 2


@pytest.mark.parametrize(
    ("url", "proxy", "is_plain"),
    [
        ("http://127.0.0.1:1", "http://proxy.example", True),
        ("http://ash.example", "", True),
        ("http://ash.example", "http://proxy.example", False),
        ("https://ash.example", "", False),
    ],
)
def test_is_used_without_tls_and_proxy(
    monkeypatch: pytest.MonkeyPatch, url: str, proxy: str, is_plain: bool
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    if proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy)

    assert isinstance(AsyncAshClient(url)._http._transport, PlainTransport) is is_plain
