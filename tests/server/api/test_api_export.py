"""An export contains the bytes that were imported."""

import socket
from urllib.parse import urlsplit
from uuid import UUID

import httpx2
import pytest
from httpx2 import AsyncClient
from litestar import Litestar

from ash_server.store.connections.pool import connect
from ash_server.store.sessions import set_lacks_final_newline

NDJSON = {"Content-Type": "application/x-ndjson"}
LARGE = "x" * 1_000_000


@pytest.mark.parametrize("lacks_newline", [True, False])
@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["a"],
        ["", ""],
        ['{"a":1}\r', "", "\ufeff{}", "two\nlines", '{"type":"te'],
        [LARGE] * 3,
        ["m"] * 1000,
    ],
)
async def test_export_equals_the_imported_file(
    client: AsyncClient, session: str, shared_database_url: str, texts: list[str], lacks_newline: bool
) -> None:
    if texts:
        await client.post(f"{session}/messages", json=[{"content": text} for text in texts])
    async with await connect(shared_database_url) as conn:
        await set_lacks_final_newline(conn, UUID(session.rpartition("/")[2]), lacks_newline)

    exported = await client.get(f"{session}/export")

    whole = "".join(text + "\n" for text in texts)
    assert exported.content == (whole.removesuffix("\n") if lacks_newline else whole).encode()
    assert exported.headers["content-type"] == "application/x-ndjson"
    assert (
        exported.headers["content-disposition"]
        == f'attachment; filename="{session.rpartition("/")[2]}.jsonl"'
    )


async def test_chunks_are_exported(client: AsyncClient, session: str) -> None:
    lines = b'{"type":"stream_event","event":{"type":"ping"}}\n{"type":"user","message":{"content":"a"}}\n'
    await client.post(f"{session}/messages", content=lines, headers=NDJSON)

    exported = await client.get(f"{session}/export", params={"format": "jsonl"})

    assert exported.content == lines


@pytest.mark.slow
def test_stalled_downloads_do_not_block_other_requests(server: str, app: Litestar) -> None:
    session = f"{server}/api/sessions/{httpx2.post(f'{server}/api/sessions', json={}).json()['id']}"
    for _ in range(8):
        httpx2.post(f"{session}/messages", json=[{"content": LARGE}] * 7).raise_for_status()
    stalled = [_ask(f"{session}/export") for _ in range(4)]

    listed = httpx2.get(f"{session}/messages", params={"limit": 1})
    for reader in stalled:
        reader.close()
    exported = httpx2.get(f"{session}/export")

    assert listed.status_code == 200
    assert len(exported.content) == 56 * (len(LARGE) + 1)


def _ask(address: str) -> socket.socket:
    """Send a request and read only the first bytes."""
    parts = urlsplit(address)
    reader = socket.create_connection((parts.hostname or "", parts.port or 0))
    reader.sendall(f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    assert reader.recv(15) == b"HTTP/1.1 200 OK"
    return reader
