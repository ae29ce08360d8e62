"""`ash statusline`: the line, what it asks the server, and that nothing delays or breaks it."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ash_server.cli.statusline import line
from ash_server.cli.statusline.line import status_line
from tests.waiting import wait_until

COMMAND = Path(sys.executable).with_name("ash")
SENT = {"session_id": "s-1", "model": {"display_name": "Opus 5"}, "cost": {"total_cost_usd": 1.239}}
ANSWER = {
    "session": {"costUsd": 2.5},
    "today": {"costUsd": 10},
    "block": {"costUsd": 4.005, "endsAtSeconds": 9000},
}


@pytest.mark.parametrize(
    ("sent", "answer", "shown"),
    [
        (SENT, ANSWER, "Opus 5 · session $2.50 · today $10.00 · block $4.00 (2h 30m left)"),
        (SENT, {}, "Opus 5 · session $1.24"),
        (SENT, {"today": {"costUsd": 3}}, "Opus 5 · session $1.24 · today $3.00"),
        (SENT, {"session": {}, "today": {}, "block": {}}, "Opus 5 · session $1.24"),
        ({}, ANSWER, "session $2.50 · today $10.00 · block $4.00 (2h 30m left)"),
        ({}, {"block": {"costUsd": 1, "endsAtSeconds": -60}}, "block $1.00"),
        ({}, {}, "ash"),
        ({"model": {"display_name": "a\x1b[31m\nb"}}, {}, "a[31mb"),
        (
            {"model": "Opus", "cost": {"total_cost_usd": True}},
            {"session": 3, "today": {"costUsd": "1"}},
            "ash",
        ),
        ({"cost": {"total_cost_usd": 1e300}}, {}, "ash"),
    ],
)
def test_line(sent: dict[str, Any], answer: dict[str, Any], shown: str) -> None:
    assert status_line(sent, answer, 0.0) == shown


def run(stdin: bytes, **environment: str) -> tuple[int, str, str]:
    variables = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment}
    ran = subprocess.run(
        [COMMAND, "statusline"], input=stdin, capture_output=True, env=variables, check=False
    )
    return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


@contextmanager
def server(answer: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the URL of a server that sends `answer` to its first request, or nothing, and the requests."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                requests.append(connection.recv(65536))
                if answer is None:
                    connection.recv(1)  # until the client has ended
                else:
                    connection.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        with socket.create_connection(listener.getsockname()):  # a client that was too slow did not connect
            pass
        thread.join()


def test_silent_server_is_not_awaited() -> None:
    with server(None) as (url, _):
        assert run(json.dumps(SENT).encode(), ASH_URL=url) == (0, "Opus 5 · session $1.24\n", "")


def ask(url: str, monkeypatch: pytest.MonkeyPatch, home: str = "/nonexistent") -> dict[str, Any] | None:
    """Ask the server without the deadline, which a busy machine may miss."""
    monkeypatch.setenv("ASH_URL", url)
    monkeypatch.setenv("ASH_HOME", home)
    monkeypatch.delenv("ASH_KEY", raising=False)
    return line._answer("s-1", time.monotonic() + 60)


OK = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (OK + json.dumps(ANSWER).encode(), ANSWER),
        (b"", {}),
        (b"nonsense", {}),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n" + json.dumps(ANSWER).encode(), {}),
        (OK + b"[" * 10_000, {}),
        (OK + b"x" * 100_000, {}),
        (OK + b"\xff", {}),
    ],
    ids=["answer", "end", "nonsense", "status", "brackets", "long", "bytes"],
)
def test_answers(sent: bytes, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with server(sent) as (url, _):
        assert ask(url, monkeypatch) == answer


@pytest.mark.parametrize("stdin", [b"", b"null", b"[1]", b"\xff", b"{" * 100_000, b'{"cost": 7}'])
def test_any_input_gives_a_line(stdin: bytes) -> None:
    assert run(stdin, ASH_URL="http://127.0.0.1:1") == (0, "ash\n", "")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "nonsense", "http://[::1", "http://name.invalid:x", "ftp://a"]
)
def test_any_address_gives_a_line(url: str) -> None:
    assert run(json.dumps(SENT).encode(), ASH_URL=url) == (0, "Opus 5 · session $1.24\n", "")


def saved_keys(home: Path, keys: Mapping[str, str]) -> str:
    (home / "server-keys.json").write_text(json.dumps(keys))
    return str(home)


def test_key_is_sent_to_its_server_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has_key = []
    for is_own in (True, False):
        with server(OK) as (url, requests):
            home = saved_keys(tmp_path, {url if is_own else "http://127.0.0.1:9": "ash_secret"})
            ask(url + "/", monkeypatch, home)
        has_key.append(b"Authorization: Bearer ash_secret\r\n" in requests[0])

    assert has_key == [True, False]


OTHER = {"today": {"costUsd": 4}}


@pytest.mark.parametrize(
    ("changes", "recalled"),
    [
        ({}, OTHER),
        ({"url": "http://127.0.0.1:9"}, {}),
        ({"session": "s-2"}, {}),
        ({"at": 0}, {}),
        ({"at": 1e12 - 1}, {}),
        ({"at": "now"}, {}),
        ({"answer": 7}, {}),
    ],
)
def test_kept_answer(
    changes: dict[str, Any], recalled: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASH_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("ASH_HOME", str(tmp_path))
    line.keep("s-1", OTHER)
    [file] = tmp_path.iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    assert line.recall("s-1") == recalled
    assert file.stat().st_mode & 0o777 == 0o600


def test_answer_after_the_deadline_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(None) as (url, _):
        monkeypatch.setenv("ASH_URL", url)
        assert line._answer("s-1", time.monotonic() - 1) is None


def test_slow_server_is_asked_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with server(OK + json.dumps(OTHER).encode()) as (url, _):
        monkeypatch.setenv("ASH_URL", url)
        monkeypatch.setenv("ASH_HOME", str(tmp_path))
        line._start_refresh("s-1")
        wait_until(lambda: line.recall("s-1") == OTHER)


def test_late_answer_is_replaced_by_the_kept_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with server(None) as (url, _):
        monkeypatch.setenv("ASH_URL", url)
        monkeypatch.setenv("ASH_HOME", str(tmp_path))
        line.keep("s-1", OTHER)
        shown = run(json.dumps(SENT).encode(), ASH_URL=url, ASH_HOME=str(tmp_path))

    assert shown == (0, "Opus 5 · session $1.24 · today $4.00\n", "")


def test_imports_little() -> None:
    """Each import delays a line that Claude Code waits for."""
    ran = subprocess.run(
        [
            sys.executable,
            "-X",
            "importtime",
            "-c",
            "from ash_server.cli.entry import main; main()",
            "statusline",
        ],
        input=b"{}",
        capture_output=True,
        env={**os.environ, "ASH_URL": "http://127.0.0.1:1"},
        check=True,
    )
    imported = {row.rpartition("|")[2].strip() for row in ran.stderr.decode().splitlines()}

    assert imported >= {"json", "ash_server.cli.statusline.line"}
    assert (
        imported & {"typing", "asyncio", "click", "email", "ssl", "threading", "ash_server.cli.main"} == set()
    )
