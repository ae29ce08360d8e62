"""Request ids and the log of requests."""

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from httpx2 import AsyncClient

from ash_server.logs import configure_logging
from ash_server.settings import Settings
from tests.conftest import at_database, new_database
from tests.server.cli.test_cli_serve import running

CANARY = "canary-91c4"
LINE = f'{{"type":"user","message":{{"role":"user","content":"{CANARY}"}}}}'


@pytest.mark.parametrize(
    ("header", "is_kept"),
    [
        ({}, False),
        ({"X-Request-Id": "proxy-17.a_B"}, True),
        ({"X-Request-Id": "two words"}, False),
        ({"X-Request-Id": "a" * 65}, False),
    ],
)
async def test_responses_have_a_request_id(
    client: AsyncClient, header: dict[str, str], is_kept: bool
) -> None:
    for path in ("/health/live", "/nowhere"):
        id = (await client.get(path, headers=header)).headers["x-request-id"]
        assert (id == header.get("X-Request-Id")) is is_kept
        assert is_kept or re.fullmatch("[0-9a-f]{32}", id)


@pytest.mark.slow
def test_server_logs_requests_as_json(server_url: str, template: str, tmp_path: Path) -> None:
    with new_database(server_url, f"TEMPLATE {template} STRATEGY FILE_COPY") as name:
        settings = {"ASH_LOG_LEVEL": "info", "ASH_LOG_FORMAT": "json"}
        url = at_database(server_url, name)
        with running("serve", "--port", "0", home=tmp_path, ASH_DATABASE_URL=url, **settings) as ash:
            address = ash.address
            session = f"{address}/api/sessions/{httpx2.post(f'{address}/api/sessions', json={}).json()['id']}"
            httpx2.post(f"{session}/messages", json={"content": LINE}, headers={"X-Request-Id": "r1"})
            httpx2.post(f"{session}/messages", content=CANARY, headers={"X-Request-Id": "r2"})
            httpx2.get(f"{address}/{CANARY}", headers={"X-Request-Id": "r3"})
            ash.process.terminate()
            _, stderr = ash.process.communicate()

    entries = {entry.get("request_id"): entry for entry in map(json.loads, stderr.splitlines())}
    route = "/api/sessions/{session_id}/messages"
    assert {id: fields(entries[id]) for id in ("r1", "r2", "r3")} == {
        "r1": ("info", "request", "POST", route, 201),
        "r2": ("info", "request", "POST", route, 415),
        "r3": ("info", "request", "GET", "", 404),
    }
    assert CANARY not in stderr


def fields(entry: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(entry[name] for name in ("level", "event", "method", "route", "status"))


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_log_has_no_message_of_an_exception(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    root, log = logging.getLogger(), logging.getLogger("ash_server.test")
    before = root.handlers, root.level
    root.handlers = []
    try:
        configure_logging(Settings(log_format=log_format))
        log.info("not logged")
        try:
            raise ValueError(CANARY)
        except ValueError:
            log.exception("failed")
        future = asyncio.new_event_loop().create_future()
        future.set_exception(ValueError(CANARY))
        future.get_loop().call_exception_handler({"message": "Never retrieved", "future": future})
        future.exception()  # now it is retrieved
        future.get_loop().close()
    finally:
        root.handlers, root.level = before

    written = capsys.readouterr().err
    assert "not logged" not in written
    assert CANARY not in written
    words = ("failed", "ValueError", Path(__file__).name, "error", "Never retrieved")
    assert all(word in written for word in words)
