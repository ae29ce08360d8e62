"""The machine, the key and the project of sessions."""

import json
import socket
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_client import AsyncAshClient
from ash_server import Store
from ash_server.app import create_app
from ash_server.settings import Settings
from ash_server.transfer.importing.file_import import import_file
from ash_server.transfer.pushing import push_file
from tests.server.api.conftest import SECRET, bearer, create_key, served
from tests.server.app_client import app_client
from tests.shared.records import claude

HOST = socket.gethostname()


def write_transcript(folder: Path, *, session: str | None = "s1") -> Path:
    path = folder / "work.jsonl"
    fields: dict[str, Any] = {"uuid": "u1", "cwd": "/work/app/.claude/worktrees/fix"}
    fields |= {} if session is None else {"sessionId": session}
    path.write_text(json.dumps(claude.line("user", "Go", **fields)) + "\n")
    return path


async def creators(connection: AsyncConnection) -> list[tuple[Any, ...]]:
    query = "SELECT machine, key_id, project FROM sessions ORDER BY created_at"
    return await (await connection.execute(query)).fetchall()


async def key_id_of(store: Store, name: str) -> UUID:
    [key] = [key for key in await store.keys.list_keys() if key.name == name]
    return key.id


async def test_request_that_creates_a_session_states_machine_and_key(
    store: Store, database_url: str, connection: AsyncConnection
) -> None:
    key = await create_key(store, "laptop", "default", "read", "write")
    app = create_app(Settings(secret=SECRET), database_url=database_url)
    async with app_client(app) as client:
        statuses = [
            (
                await client.post(
                    "/api/sessions",
                    json={"externalId": "a"},
                    headers={**bearer(key), **({} if machine is None else {"Ash-Machine": machine})},
                )
            ).status_code
            for machine in ("laptop", "other", None, "x" * 254)
        ]

    assert statuses == [201, 200, 200, 400]
    assert await creators(connection) == [("laptop", await key_id_of(store, "laptop"), None)]


@pytest.mark.slow
async def test_clients_state_their_host(
    store: Store, database_url: str, tmp_path: Path, connection: AsyncConnection
) -> None:
    key = await create_key(store, "laptop", "default", "read", "write")
    app = create_app(Settings(secret=SECRET), database_url=database_url)
    with served(app) as url:
        async with AsyncAshClient(url, key) as client:
            await client.create_session(external_id="a")
            await push_file(client, write_transcript(tmp_path), [])
            await push_file(client, write_transcript(tmp_path, session=None), [])
    id = await key_id_of(store, "laptop")

    assert await creators(connection) == [(HOST, id, None), *[(HOST, id, "/work/app")] * 2]


@pytest.mark.parametrize("identify", [True, False])
async def test_import_states_this_host(
    identify: bool, store: Store, tmp_path: Path, connection: AsyncConnection
) -> None:
    """A later reading and a replacement keep what the first import stored."""
    path = write_transcript(tmp_path)
    imported = await import_file(store, path, "work", identify=identify)
    await connection.execute("UPDATE sessions SET machine = 'before'")
    await store.messages.reindex(imported.session_id)
    await import_file(store, path, "work", identify=identify, replace=True)

    assert await creators(connection) == [("before", None, "/work/app")]


async def test_project_is_that_of_the_first_folder(store: Store, connection: AsyncConnection) -> None:
    session = await store.sessions.create()
    for folder in (None, "/work/app", "/work/other"):
        fields = {} if folder is None else {"cwd": folder}
        await store.messages.append(session.id, [json.dumps(claude.user("Go", **fields))])
    appended = await creators(connection)
    await store.messages.reindex(session.id)

    assert appended == await creators(connection) == [(None, None, "/work/app")]


async def test_long_names_are_cut(store: Store, connection: AsyncConnection) -> None:
    session = await store.sessions.create(machine="m" * 300)
    await store.messages.append(session.id, [json.dumps(claude.user("Go", cwd="/" + "é\0" * 5000))])
    [(machine, _, project)] = await creators(connection)

    assert (len(machine), len(project)) == (253, 1000)
