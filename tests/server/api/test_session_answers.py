"""The usage and cost of the answers of a session."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from httpx2 import AsyncClient

from ash_server.app import create_app
from ash_server.settings import Settings
from tests.server.app_client import app_client
from tests.shared.records import claude

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"
PRICES = {"opus": {"input": 1, "output": 10, "cache_read": 0.1, "cache_write": 2}}


@pytest.fixture
async def client(database_url: str, tmp_path: Path) -> AsyncIterator[AsyncClient]:
    prices = tmp_path / "own.json"
    prices.write_text(json.dumps(PRICES))
    async with app_client(create_app(Settings(prices=prices), database_url=database_url)) as client:
        yield client


def line(role: str, content: str, **more: Any) -> str:
    return json.dumps(
        claude.line(
            role,
            [claude.text(content)],
            more,
            uuid=str(uuid4()),
            timestamp="2026-03-10T11:00:00Z",
        )
    )


def answer(id: str, model: str, output: int) -> str:
    usage = {"input_tokens": 1000, "output_tokens": output, "cache_read_input_tokens": 10_000}
    return line("assistant", "Done.", id=id, model=model, usage=usage)


async def store_session(client: AsyncClient, *lines: str) -> str:
    session = (await client.post("/api/sessions", json={"source": "claude"})).json()["id"]
    body = [{"content": each} for each in lines]
    (await client.post(f"/api/sessions/{session}/messages", json=body)).raise_for_status()
    return f"/api/sessions/{session}/answers"


async def test_answers(client: AsyncClient) -> None:
    address = await store_session(
        client,
        line("user", "One."),
        answer("m1", "opus", 5),
        answer("m1", "opus", 100),
        line("user", "Two."),
        answer("m2", "nobody", 7),
    )
    page = (await client.get(address)).raise_for_status().json()
    counts = {"input_tokens": 1000, "cache_read_input_tokens": 10_000, "cache_creation_input_tokens": 0}
    known = {"messageSequence": 2, "turn": 1, "model": "opus", "output_tokens": 100, "costUsd": 0.003}
    unknown = {"messageSequence": 5, "turn": 2, "model": "nobody", "output_tokens": 7}
    assert page == {
        "answers": [{**known, **counts, "isReported": False}, {**unknown, **counts, "isReported": False}]
    }

    pages = [(await client.get(address, params={"after": after, "limit": 2})).json() for after in (0, 2, 4)]
    assert [
        ([each["messageSequence"] for each in page["answers"]], page.get("nextAfter")) for page in pages
    ] == [
        ([2], 2),
        ([], 4),
        ([5], None),
    ]


async def test_redacted_models(client: AsyncClient) -> None:
    address = await store_session(client, answer("m1", TOKEN, 5))
    assert TOKEN in (await client.get(address)).text
    assert TOKEN not in (await client.get(address, params={"redact": "1"})).text


async def test_unknown_session(client: AsyncClient) -> None:
    response = await client.get(f"/api/sessions/{uuid4()}/answers")
    assert (response.status_code, response.json()["code"]) == (404, "session_not_found")
