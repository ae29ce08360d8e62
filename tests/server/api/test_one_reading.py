"""The API returns the standard messages that the library returns, for whole sessions and in pages."""

import json
from collections.abc import Iterator
from importlib.resources import files
from itertools import islice
from typing import Any

import pytest
from httpx2 import AsyncClient

from ash_shared import transform_messages
from tests.marking import slow_after
from tests.shared.sample_files import CORPUS

NDJSON = {"Content-Type": "application/x-ndjson"}
OWN = {
    path.name: path.read_text().splitlines()
    for folder in ("samples", "recordings")
    for path in (files("ash_server") / folder).iterdir()
}
FOLDERS = sorted(CORPUS.glob("*/"))
MAX_FILES = 4
"""Files of a folder of the corpus. All files take some minutes."""
MAX_FILE_BYTES = 200_000
MAX_SINGLE_POSTS = 30
MAX_PAGES = 30
"""Pages of a session that are read with one limit, about."""
LIMITS = (1, 10, 100, 1000)


def corpus_samples() -> Iterator[tuple[str, list[str]]]:
    for folder in FOLDERS:
        small = (path for path in sorted(folder.glob("*.json*")) if path.stat().st_size < MAX_FILE_BYTES)
        for path in islice(small, MAX_FILES):
            text = path.read_bytes().decode().replace("\0", "")
            lines = [text] if path.suffix == ".json" else [line for line in text.split("\n") if line.strip()]
            yield f"{folder.name}/{path.name}", lines[:1000]


async def stored(client: AsyncClient, requests: list[list[str]]) -> str:
    """Store texts in a new session and return the address of its standard messages."""
    created = await client.post("/api/sessions", json={})
    address = f"/api/sessions/{created.json()['id']}"
    for texts in requests:
        sent = await client.post(f"{address}/messages", json=[{"content": text} for text in texts])
        sent.raise_for_status()
    return f"{address}/standard-messages"


async def pages_of(client: AsyncClient, address: str, limit: int) -> list[list[dict[str, Any]]]:
    pages, after = list[list[dict[str, Any]]](), 0
    while after is not None:
        page = (await client.get(address, params={"after": after, "limit": limit})).json()
        pages.append(page["messages"])
        after = page.get("nextAfter")
    return pages


def joined(pages: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [message for page in pages for message in page]


def read_by_library(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(message.model_dump_json()) for message in transform_messages(lines)]


async def differences(client: AsyncClient, lines: list[str]) -> list[str]:
    """Return the ways of storing and reading the lines that result in messages that differ from the library's."""
    expected, differing = read_by_library(lines), []
    address = await stored(client, [lines])
    differing += [
        f"limit {limit}"
        for limit in LIMITS
        if len(lines) <= limit * MAX_PAGES and joined(await pages_of(client, address, limit)) != expected
    ]
    if 1 < len(lines) <= MAX_SINGLE_POSTS:
        address = await stored(client, [[line] for line in lines])
        if joined(await pages_of(client, address, 1000)) != expected:
            differing.append("line by line")
    return differing


@pytest.mark.parametrize("name", slow_after(4, OWN))
async def test_own_samples(client: AsyncClient, name: str) -> None:
    assert await differences(client, OWN[name]) == []


@pytest.mark.slow
@pytest.mark.skipif(not FOLDERS, reason="no ../shared/corpus next to the repository")
async def test_corpus(client: AsyncClient) -> None:
    differing = {name: await differences(client, lines) for name, lines in corpus_samples()}

    assert {name: ways for name, ways in differing.items() if ways} == {}


async def test_usage_at_the_end_of_streamed_answers_counts(client: AsyncClient) -> None:
    """In a stream with partial messages, the lines of answers contain only the initial usage."""
    address = await stored(client, [OWN["kite-wind.jsonl"]])

    messages = joined(await pages_of(client, address, 1000))

    own = [message for message in messages if "parentToolUseId" not in message["metadata"]]
    assert sum(message.get("usage", {}).get("output_tokens", 0) for message in own) == 647


async def test_larger_limits_give_longer_pages(client: AsyncClient) -> None:
    lines = OWN["csv-export.jsonl"]
    address = await stored(client, [lines])

    pages = [
        (await client.get(address, params={"limit": limit})).json() for limit in range(1, len(lines) + 1)
    ]
    lengths = [len(page["messages"]) for page in pages]

    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 1
