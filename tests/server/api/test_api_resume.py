"""The command that continues a session, in the API, the store and the clients."""

import json
from typing import Any
from uuid import uuid4

import pytest
from httpx2 import AsyncClient

from ash_client import AsyncAshClient
from ash_server import Store
from ash_server.errors import SessionNotFound
from tests.shared.records import claude

ID = "0f3c2b1a-9d8e-4c7b-a6f5-1e2d3c4b5a69"
TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"


def prompt(**fields: Any) -> str:
    return json.dumps(claude.line("user", "Go", uuid="u1", sessionId=ID) | fields)


async def create(client: AsyncClient, *lines: str, machine: str = "anvil") -> str:
    headers = {"Ash-Machine": machine}
    session = (await client.post("/api/sessions", json={}, headers=headers)).json()["id"]
    body = [{"content": each} for each in lines]
    (await client.post(f"/api/sessions/{session}/messages", json=body)).raise_for_status()
    return str(session)


EXPECTED = {
    "arguments": ["claude", "--resume", ID],
    "folder": "/srv/a b",
    "machine": "anvil",
    "command": f"cd '/srv/a b' && claude --resume {ID}",
}


async def test_command_of_a_session(client: AsyncClient) -> None:
    session = await create(client, prompt(cwd="/srv/a b"), prompt(uuid="u2", cwd="/srv/elsewhere"))

    assert (await client.get(f"/api/sessions/{session}/resume")).json() == EXPECTED


async def test_store(store: Store) -> None:
    session = await store.sessions.create(machine="anvil")
    await store.messages.append(session.id, [prompt(cwd="/srv/a b")])

    assert (await store.sessions.get_resume(session.id)).model_dump() == EXPECTED


async def test_reason_why_there_is_no_command(client: AsyncClient) -> None:
    session = await create(client, prompt(agentId="a1", isSidechain=True))

    assert (await client.get(f"/api/sessions/{session}/resume")).json() == {
        "machine": "anvil",
        "reason": "It is the session of a subagent. Its parent can be continued.",
    }


async def test_client(shared_server: str) -> None:
    async with AsyncAshClient(shared_server) as ash:
        session = await ash.create_session(source="langchain")

        assert (await ash.get_resume(session.id)).reason is not None


async def test_folder_with_a_secret(client: AsyncClient) -> None:
    session = await create(client, prompt(cwd=f"/srv/it's {TOKEN}"))

    assert TOKEN in (await client.get(f"/api/sessions/{session}/resume")).text
    assert (await client.get(f"/api/sessions/{session}/resume?redact=1")).json() == {
        "reason": "The name of its folder contains a secret."
    }


async def test_unknown_session(client: AsyncClient, store: Store) -> None:
    assert (await client.get(f"/api/sessions/{uuid4()}/resume")).status_code == 404
    with pytest.raises(SessionNotFound):
        await store.sessions.get_resume(uuid4())
