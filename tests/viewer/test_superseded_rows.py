"""A session with changed rows: every reader has the newest versions once, and stored messages have all."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import httpx2
import pytest
from playwright.async_api import Page, expect

from tests.server.api.test_mcp import connected, read
from tests.server.cli.test_cli import ran_here
from tests.server.cli.test_cli_serve import serving
from tests.server.subscribers import SseSubscriber, WebSocketSubscriber, running, stored_events
from tests.shared.providers.test_opencode_rows import (
    BEGAN,
    Row,
    finish_row,
    message_row,
    session_row,
    text_row,
    tool_row,
)
from tests.viewer.sessions import Session

INPUT = {"command": "ls"}
VERSIONS: list[list[Row]] = [
    [
        session_row(),
        message_row("msg_1", "user"),
        text_row("prt_1", "msg_1", "Sort the basket.", 1),
        message_row("msg_2", "assistant", 2),
        text_row("prt_2", "msg_2", "The halfw", 3),
        tool_row("prt_3", "msg_2", "running", input=INPUT),
    ],
    [
        text_row("prt_2", "msg_2", "The complete answer.", 3),
        tool_row("prt_3", "msg_2", "completed", input=INPUT, output="pears"),
        message_row("msg_2", "assistant", 2, finish="stop"),
        finish_row("prt_4", "msg_2"),
    ],
    [tool_row("prt_3", "msg_2", "completed", input=INPUT, output="plums")],
    [
        message_row("msg_3", "user", 10),
        text_row("prt_5", "msg_3", "Sort by colour.", 11),
        message_row("msg_4", "assistant", 12),
        text_row("prt_6", "msg_4", "Reverted soon.", 13),
    ],
    [session_row(revert=json.dumps({"messageID": "msg_3"}), time_updated=BEGAN + 9_000)],
]
WORDS = ("halfw", "complete answer", "pears", "plums", "Reverted soon")
NEWEST = (0, 1, 0, 1, 0)
WITH_REVERTED = (0, 1, 0, 1, 1)
ALL = (1, 1, 1, 1, 1)

SHOWN = """
() => [...document.querySelectorAll('.chat-log :is(.text, .assistant-text, .tool-result, .retraction)')]
  .map((element) => element.textContent)
"""
LATEST = ["Sort the basket.", "plums", "The complete answer."]
REVERTED = ["Sort by colour.", "Reverted soon.", "Earlier content was revoked"]


class Server(NamedTuple):
    address: str
    database_url: str
    home: Path

    async def get(self, path: str) -> str:
        async with httpx2.AsyncClient(base_url=self.address) as client:
            response = await client.get(path)
        response.raise_for_status()
        return response.text

    def run(self, *arguments: str) -> str:
        variables = {"ASH_DATABASE_URL": self.database_url, "ASH_HOME": str(self.home)}
        done = ran_here(arguments, {**variables, "HOME": str(self.home)}, self.home)
        assert done.code == 0, done.err
        return done.out


@pytest.fixture(scope="module")
def server(server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("superseded")
    with serving(server_url, template, home) as (address, database_url):
        yield Server(address, database_url, home)


@pytest.fixture
async def session(server: Server) -> AsyncIterator[Session]:
    async with httpx2.AsyncClient(base_url=server.address) as client:
        created = await client.post("/api/sessions", json={"source": "opencode"})
        yield Session(client, created.json()["id"])


Door = Callable[[Server, str], Awaitable[str]]


def at(path: str) -> Door:
    return lambda server, id: server.get(path.format(id=id))


def command(*arguments: str) -> Door:
    async def run(server: Server, id: str) -> str:
        return server.run(*(argument.format(id=id) for argument in arguments))

    return run


def pages(limit: int) -> Door:
    async def read_pages(server: Server, id: str) -> str:
        texts, after = list[str](), 0
        while after is not None:
            query = f"after={after}&limit={limit}"
            page = json.loads(await server.get(f"/api/sessions/{id}/standard-messages?{query}"))
            texts += [json.dumps(message["content"]) for message in page["messages"]]
            after = page.get("nextAfter")
        return "".join(texts)

    return read_pages


async def export_json(server: Server, id: str) -> str:
    messages = json.loads(await server.get(f"/sessions/{id}.json"))["messages"]
    return json.dumps([message["content"] for message in messages])


def tool(name: str) -> Door:
    async def call(server: Server, id: str) -> str:
        async with connected(server.address) as client:
            return json.dumps(await read(client, name, session_id=id))

    return call


DOORS: dict[str, tuple[Door, tuple[int, ...]]] = {
    "pages of one message": (pages(1), WITH_REVERTED),
    "pages of two messages": (pages(2), WITH_REVERTED),
    "a page": (pages(100), WITH_REVERTED),
    "ui-messages": (at("/api/sessions/{id}/projections/ui-messages"), NEWEST),
    "openai-messages": (at("/api/sessions/{id}/projections/openai-messages"), NEWEST),
    "anthropic-messages": (at("/api/sessions/{id}/projections/anthropic-messages"), NEWEST),
    "atif": (at("/api/sessions/{id}/projections/atif"), NEWEST),
    "otel-genai": (at("/api/sessions/{id}/projections/otel-genai"), (0, 1, 0, 0, 0)),
    "markdown": (at("/sessions/{id}.md"), WITH_REVERTED),
    "standard messages": (export_json, WITH_REVERTED),
    "stored messages": (at("/sessions/{id}.jsonl"), ALL),
    "export": (at("/api/sessions/{id}/export?format=jsonl"), ALL),
    "events": (at("/api/sessions/{id}/events?limit=100&collapse=true"), ALL),
    "ash export": (command("export", "{id}"), ALL),
    "ash events": (command("events", "{id}", "--collapse", "--limit", "100", "--json"), ALL),
    "ash messages": (command("messages", "{id}"), ALL),
    "read_messages": (tool("read_messages"), ALL),
}


@pytest.mark.slow
async def test_doors(server: Server, session: Session) -> None:
    for rows in VERSIONS:
        await session.write(*rows)

    counts = {}
    for name, (door, _) in DOORS.items():
        text = await door(server, session.id)
        counts[name] = tuple(map(text.count, WORDS))
    summary = json.loads(await server.get(f"/api/sessions/{session.id}/projections/session-summary"))

    assert counts == {name: expected for name, (_, expected) in DOORS.items()}
    assert (summary["toolCalls"], summary["usage"]["input_tokens"], summary["costUsd"]) == (
        {"bash": 1},
        50,
        0.1,
    )
    assert (summary["userMessages"], summary["lastText"]) == (1, "The complete answer.")


async def test_followers(server: Server, session: Session) -> None:
    """They receive the same events from the beginning and from between two versions."""
    id = UUID(session.id)
    first = [SseSubscriber(server.address, id), WebSocketSubscriber(server.address, id)]
    async with running(*first):
        await session.write(*VERSIONS[0])
        before = await stored_events(server.database_url, id)
        joined = [SseSubscriber(server.address, id), WebSocketSubscriber(server.address, id)]
        for each in joined:
            each.events = [*before]
        async with running(*joined):
            for rows in VERSIONS[1:]:
                await session.write(*rows)
            events = await stored_events(server.database_url, id)
            for each in (*first, *joined):
                await each.wait_for_sequence(events[-1][0])

    assert [each.events for each in (*first, *joined)] == [events] * 4


@pytest.mark.slow
async def test_page(page: Page, server: Server, session: Session) -> None:
    """A page that was open from the beginning, one that is opened later, and the export show the same."""
    await session.write(*VERSIONS[0])
    await page.goto(session.address)
    await expect(page.locator(".chat-log")).to_contain_text("The halfw")
    for rows, text in zip(VERSIONS[1:], ("complete", "plums", "soon", "content was revoked"), strict=True):
        await session.write(*rows)
        await expect(page.locator(".chat-log")).to_contain_text(text)
    shown = [await page.evaluate(SHOWN)]
    for address in (session.address, f"{session.address}.html"):
        await page.goto(address)
        await expect(page.locator(".chat-log")).to_contain_text("content was revoked")
        shown.append(await page.evaluate(SHOWN))

    assert shown == [[*LATEST, *REVERTED]] * 3


@pytest.mark.slow
async def test_hit_in_an_older_version_leads_to_its_place(page: Page, session: Session) -> None:
    for rows in VERSIONS:
        await session.write(*rows)
    found = await session.client.get(f"/api/sessions/{session.id}/search", params={"q": "halfw"})
    [hit] = found.json()["hits"]

    await page.goto(f"{session.address}?message={hit['sequence']}#e-{hit['eventId']}")

    await expect(page.locator(".toast")).to_have_text(
        "This place no longer exists: the nearest item is shown."
    )
