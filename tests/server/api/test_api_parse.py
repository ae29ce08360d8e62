"""Parsing over HTTP without storing."""

import json

import pytest
from httpx2 import AsyncClient

from ash_shared.parsing.parse import parse_message

TEXTS = [
    "",
    "plain words",
    '{"type":"te',
    '{"type":"user","message":{"role":"user","content":"Go on."}}',
    '[{"type":"text","text":"a"},{"type":"holo_frame"}]',
    r'{"type":"text","text":"\ud83d\u0000"}',
    "a\0b",
    "[" * 300 + "]" * 300,
    "[" * 100_000,
    "[1e400, 18446744073709551617]",
]


@pytest.mark.parametrize("source", [None, "claude", "elsewhere"])
@pytest.mark.parametrize("text", TEXTS)
async def test_parses_like_the_library(client: AsyncClient, text: str, source: str | None) -> None:
    response = await client.post("/api/parse", json={"content": text, "source": source})

    assert response.status_code == 200
    assert response.json() == json.loads(parse_message(text, source).model_dump_json())


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_body"),
        ({"content": 5}, 400, "invalid_body"),
        ({"content": "a", "raw": "a"}, 400, "invalid_body"),
        ({"content": "a", "source": ""}, 400, "invalid_body"),
        ([], 400, "invalid_body"),
        ({"content": "a" * (2**20 + 1)}, 413, "message_too_large"),
    ],
)
async def test_rejects_invalid_bodies(client: AsyncClient, body: object, status: int, code: str) -> None:
    response = await client.post("/api/parse", json=body)

    assert (response.status_code, response.json()["code"]) == (status, code)
