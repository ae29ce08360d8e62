"""P5: a typed page of messages over HTTP, compared with the same page as strings and as models; without a network."""

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from litestar import Litestar, get
from litestar.plugins.pydantic import PydanticPlugin

from ash_server.app import create_app
from ash_server.settings import Settings
from ash_server.store.connections.pool import connect, open_pool
from ash_server.store.message_pages import StoredMessage, list_messages
from ash_shared import Message, parse_message_content
from ash_shared.model.pages import MessagePage
from benchmarks.database import fill
from benchmarks.measure import AsyncRun, Times, take_turns_async
from benchmarks.samples import Samples
from benchmarks.table import Row

_TYPED = "typed"
_STRINGS = "strings"
_MODELS = "models"


class Size(NamedTuple):
    messages: int
    pages: int
    """Pages requested in one run."""
    rounds: int


FULL = Size(messages=2_000, pages=40, rounds=25)
SMOKE = Size(messages=200, pages=2, rounds=1)


async def measure(url: str, samples: Samples, size: Size) -> list[Row]:
    mix = await _compare(url, samples.lines, size)
    all_lines = await _compare(url, samples.folders["claude_code_jsonl"], size)
    page = "page of 100 typed messages"
    return [
        Row("P5", f"{page}, against their strings", mix.speed(_TYPED, _STRINGS), floor=1),
        Row(
            "P5",
            f"{page} of all types of lines, against their strings",
            all_lines.speed(_TYPED, _STRINGS),
            floor=0.85,
        ),
        Row("P5", f"{page}, against a handler of models", mix.speed(_TYPED, _MODELS), floor=2),
    ]


async def _compare(url: str, lines: list[bytes], size: Size) -> Times:
    texts = [line.decode() for line in islice(cycle(lines), size.messages)]
    async with await connect(url) as conn:
        session_id = await fill(conn, texts)
    ash = create_app(Settings(), database_url=url)
    async with ash.lifespan(), open_pool(url) as pool:
        models = _app_of_models(pool)
        path = f"/api/sessions/{session_id}/messages"
        afters = list(islice(cycle(range(0, size.messages, 100)), size.pages))
        cases = {
            _TYPED: requests(ash, path, afters, parsed="true", content="false"),
            _STRINGS: requests(ash, path, afters, parsed="false", content="true"),
            _MODELS: requests(models, f"/{session_id}", afters),
        }
        return await take_turns_async(cases, size.rounds)


def _app_of_models(pool: Any) -> Litestar:
    """The common implementation: the same query, with pydantic models that the framework encodes."""

    @get("/{session_id:uuid}")
    async def list_models(session_id: UUID, after: int) -> MessagePage:
        async with pool.connection() as conn:
            rows = await list_messages(conn, session_id, after=after)
        models = [_to_model(session_id, row) for row in rows]
        return MessagePage(messages=models, nextAfter=rows[-1].sequence)

    return Litestar([list_models], plugins=[PydanticPlugin(prefer_alias=True)], openapi_config=None)


def _to_model(session_id: UUID, stored: StoredMessage) -> Message:
    return Message(
        id=stored.id,
        session_id=str(session_id),
        role=stored.role,
        kind=stored.kind,
        source=stored.source,
        sequence=stored.sequence,
        created_at=stored.created_at,
        parsed=parse_message_content(stored.content, stored.source),
    )


def requests(
    app: Litestar, path: str, afters: Sequence[int], *, key: str | None = None, **query: str
) -> AsyncRun:
    async def run() -> None:
        for after in afters:
            status = await _request(app, path, urlencode({"after": after, **query}), key)
            assert status == 200, (path, status)

    return run


async def _request(app: Any, path: str, query: str, key: str | None) -> int:
    """Return the status; the body is discarded."""
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        statuses.append(event.get("status", 0))

    await app(_scope(path, query, key), receive, send)
    return statuses[0]


def _scope(path: str, query: str, key: str | None) -> dict[str, Any]:
    authorization = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1:4100"), (b"accept", b"application/json"), *authorization],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 4100),
        "state": {},
    }
