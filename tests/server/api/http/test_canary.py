"""A canary in every place of every request appears in no log entry, no error, no metric, and not in the document."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import httpx2
import psycopg
import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

from ash_server.app import create_app
from ash_server.history_tools import _TOOLS
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.keys import SCOPES
from tests.conftest import at_database, new_database
from tests.openapi_document import DOCUMENT
from tests.server.api.conftest import SECRET, bearer, create_key
from tests.server.cli.test_cli_serve import running
from tests.shared.records import claude
from tests.waiting import TIMEOUT

pytestmark = pytest.mark.slow

CANARY = "canary-4b7e"
OPERATIONS = [
    (method.upper(), path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]


@cache
def paths() -> list[str]:
    return [route.path_format for route in create_app(Settings(), database_url="postgresql://").routes]


HEADERS = dict.fromkeys(("User-Agent", "Referer", "X-Canary", "Accept-Language"), CANARY)
LINES = [
    claude.line("user", CANARY, uuid=CANARY, cwd=CANARY),
    claude.line("assistant", [{"type": CANARY}], {"model": CANARY}),
    {"type": CANARY, CANARY: CANARY, "version": CANARY},
    {"type": "text", "text": [CANARY]},
]
MESSAGES: list[Any] = [
    [{"content": json.dumps(line), "source": CANARY} for line in LINES],
    {"content": CANARY, "id": CANARY},
    {"content": f"{CANARY} again", "id": CANARY},
    {"content": CANARY * 200_000},
]

# Errors of statements, with the row in their message and detail.
FAILING_WRITES = """
    CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'cannot store %', NEW USING ERRCODE = 'check_violation', DETAIL = NEW::text;
    END $$;
    CREATE TRIGGER fail BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION fail()
"""
FAILING_READS = """
    CREATE FUNCTION show(title text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'cannot show %', title USING ERRCODE = 'check_violation', DETAIL = title;
    END $$;
    CREATE POLICY fail ON sessions AS RESTRICTIVE USING (show(title))
"""
FAILURES = {
    "text": ("", FAILING_WRITES.format("events"), FAILING_WRITES.format("messages"), FAILING_READS),
    "json": ("", FAILING_READS),
}
"""By format of the log."""


@pytest.mark.parametrize("log_format", FAILURES)
async def test_contents_appear_nowhere(
    server_url: str, template: str, tmp_path: Path, log_format: str
) -> None:
    with new_database(server_url, f"TEMPLATE {template} STRATEGY FILE_COPY") as name:
        url = at_database(server_url, name)
        async with Store.open(url) as store:
            key = await create_key(store, CANARY, "default", *SCOPES)
        settings = {"ASH_LOG_LEVEL": "debug", "ASH_LOG_FORMAT": log_format, "ASH_SECRET": SECRET}
        errors: list[httpx2.Response] = []
        ids: set[str] = set()
        with serving(url, tmp_path, **settings) as (address, log):
            for failure in FAILURES[log_format]:
                with psycopg.connect(url, autocommit=True) as conn:
                    conn.execute(failure.encode())
                calls = [each for each in OPERATIONS if each[0] != "GET" or "INSERT" not in failure]
                more, session_id = call_everything(address, key, calls, [] if failure else paths())
                errors += more
                ids.add(session_id)
            async with httpx2.AsyncClient(base_url=address, headers=bearer(key)) as client:
                others = [await client.get(path) for path in ("/metrics", "/openapi.json")]

    shown = {
        f"{error.status_code} {error.request.method} {error.request.url}: {error.text}"
        for error in errors
        if CANARY in f"{error.headers} {error.text}"
    }
    assert shown == set()
    assert {error.status_code for error in errors} >= {400, 401, 404, 405, 409, 413, 415, 421, 422, 500}
    assert [(each.status_code, CANARY in each.text) for each in others] == [(200, False)] * 2
    assert len(log) > 100
    assert [line for line in log if any(text in line for text in (CANARY, key, *ids))] == []


@contextmanager
def serving(url: str, home: Path, **variables: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a server and the lines of its log, which are complete at the end."""
    log: list[str] = []
    with running("serve", "--port", "0", home=home, ASH_DATABASE_URL=url, **variables) as ash:
        reader = Thread(target=lambda: log.extend(ash.process.stderr or ()))
        reader.start()
        yield ash.address, log
        ash.process.terminate()
        reader.join()


def call_everything(
    address: str, key: str, operations: list[tuple[str, str, Any]], more: list[str]
) -> tuple[list[httpx2.Response], str]:
    """Call operations, tools and paths with canaries; return the error responses and the id of a session."""
    with httpx2.Client(base_url=address, headers=HEADERS | bearer(key)) as client:
        session_id, responses = create_session(client)
        send_frames(address, key, session_id)
        call_tools(client, session_id)
        for method, path, operation in sorted(operations, key=lambda each: each[0] == "DELETE"):
            responses += [
                send(client, method, path_of(path, session_id), **options)
                for options in options_of(operation)
            ]
        responses += [
            send(client, method, re.sub(r"\{\w+\}", CANARY, path), params=params)
            for path in more
            for method in ("GET", "PUT")
            for params in ({}, {"q": CANARY})
        ]
        responses += [
            client.get("/api/sessions", headers=headers)
            for headers in (
                {"Authorization": CANARY},
                bearer(f"ash_{CANARY}"),
                {"Cookie": f"ash_session={CANARY}", "Authorization": ""},
                {"Host": f"{CANARY}.example"},
            )
        ]
    return [response for response in responses if response.is_error], session_id


def send(client: httpx2.Client, method: str, path: str, **options: Any) -> httpx2.Response:
    """Return the response without its body, which may be endless, unless it is an error."""
    with client.stream(method, path, **options) as response:
        if response.is_error:
            response.read()
    return response


def create_session(client: httpx2.Client) -> tuple[str, list[httpx2.Response]]:
    """Create a session with the canary in each field, and return its id."""
    fields = {"source": CANARY, "externalId": CANARY, "title": CANARY, "metadata": {CANARY: CANARY}}
    created = client.post("/api/sessions", json=fields)
    others = [client.post("/api/sessions", json={**fields, "source": f"{CANARY} 2"})]
    if created.is_error:
        return str(uuid4()), [created, *others]
    address = f"/api/sessions/{created.json()['id']}/messages"
    return created.json()["id"], [*others, *(client.post(address, json=each) for each in MESSAGES)]


def path_of(path: str, session_id: str) -> str:
    path = path.replace("{session_id}", session_id).replace("{sequence}", "1")
    return path.replace("{name}", "openai-messages")


def options_of(operation: Any) -> Iterator[dict[str, Any]]:
    """Yield the parameters, headers and bodies of calls with canaries."""
    for parameter in operation.get("parameters", []):
        if parameter["in"] != "path":
            place = "params" if parameter["in"] == "query" else "headers"
            yield {place: {parameter["name"]: CANARY}}
    if "requestBody" not in operation:
        yield {}
        return
    for media_type, content in operation["requestBody"]["content"].items():
        examples = [example["value"] for example in content["examples"].values()]
        bodies = [json.dumps(changed) for example in examples for changed in with_canary(example)]
        for body in (CANARY, f"{CANARY}\0", f'{{"{CANARY}', *bodies):
            yield {"content": body, "headers": {"Content-Type": media_type}}
    yield {"content": CANARY, "headers": {"Content-Type": CANARY}}


def with_canary(value: Any) -> Iterator[Any]:
    """Yield the value once with the canary instead of each of its parts."""
    yield CANARY
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        for changed in with_canary(part):
            copy = value.copy()
            copy[name] = changed
            yield copy


def call_tools(client: httpx2.Client, session_id: str) -> None:
    """Call all MCP tools, and unknown ones, with the canary and the id in each argument."""
    calls = [
        *((name, {"q": CANARY, "source": CANARY}) for name in _TOOLS),
        *((name, {"session_id": value}) for name in _TOOLS for value in (session_id, CANARY)),
        ("search", {"q": CANARY, "session_id": session_id}),
        ("list_sessions", {"q": CANARY}),
        (CANARY, {CANARY: CANARY}),
    ]
    headers = {"Accept": "application/json, text/event-stream"}
    for name, values in calls:
        for method in ("tools/call", CANARY):
            message = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": method,
                "params": {"name": name, "arguments": values},
            }
            client.post("/mcp", json=message, headers=headers)


def send_frames(address: str, key: str, session_id: str) -> None:
    """Send frames of text until the server closes the connection, because of the last one."""
    url = f"{address.replace('http', 'ws')}/api/sessions/{session_id}/events/ws"
    for last, query in ((CANARY.encode(), ""), (CANARY * 200, "?after=0"), ("", f"?after={CANARY}")):
        with (
            suppress(ConnectionClosed, InvalidHandshake),
            connect(url + query, additional_headers=HEADERS | bearer(key), open_timeout=TIMEOUT) as socket,
        ):
            socket.send(CANARY)
            socket.send(last)
            for _ in socket:
                pass
