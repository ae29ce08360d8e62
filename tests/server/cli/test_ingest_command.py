"""`ash ingest`: every byte is passed on, and every line is stored once, even if the server fails."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from ash_client import AshClient
from ash_server.cli.ingest import line_queue
from ash_server.cli.ingest.line_queue import LineQueue
from ash_server.store.sessions import session_id_for
from ash_shared.providers import discover
from tests.server.cli.test_cli_serve import COMMAND, answer, serving
from tests.waiting import TIMEOUT, wait_until

USER = b'{"type":"user","message":{"role":"user","content":"hi"}}'
CALL = b'{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}]}}'
ANSWER = b'{"type":"assistant","message":{"id":"m2","content":[{"type":"text","text":"Done."}]}}'
NOWHERE = "http://127.0.0.1:9"


class Ran(NamedTuple):
    code: int
    passed: bytes
    stderr: list[str]


def variables(home: Path, url: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "ASH_HOME": str(home), "ASH_URL": url}


def run(url: str, home: Path, stream: bytes, *arguments: str) -> Ran:
    done = subprocess.run(
        [COMMAND, "ingest", *arguments],
        input=stream,
        capture_output=True,
        env=variables(home, url),
        check=False,
        timeout=TIMEOUT,
    )
    return Ran(done.returncode, done.stdout, done.stderr.decode().splitlines())


@contextmanager
def started(url: str, home: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    streams: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([COMMAND, "ingest", *arguments], env=variables(home, url), **streams) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture(scope="module")
def server(server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Shared by all tests; each uses its own session names."""
    with serving(server_url, template, tmp_path_factory.mktemp("home")) as (address, _):
        yield address


def pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin
    assert process.stdout
    return process.stdin, process.stdout


def stored(url: str, session: UUID | str) -> list[str]:
    kinds = "kind=message,record,chunk&limit=1000"
    page = answer(f"{url}/api/sessions/{session}/messages?{kinds}")
    return [message["content"] for message in page["messages"]]


def events(url: str, session: UUID | str) -> list[tuple[str, Any]]:
    page = answer(f"{url}/api/sessions/{session}/events?limit=1000")
    return [(event["type"], event["payload"]) for event in page["events"]]


STREAMS = {
    "whole lines": (USER + b"\n" + ANSWER + b"\n", [USER.decode(), ANSWER.decode()], []),
    "a last line without an end": (USER + b"\n" + ANSWER, [USER.decode(), ANSWER.decode()], []),
    "blank lines and carriage returns": (
        USER + b"\r\n\n" + ANSWER + b"\n",
        [USER.decode() + "\r", "", ANSWER.decode()],
        [],
    ),
    "an unknown format": (b"one\ntwo\n", ["one", "two"], []),
    "bytes that are not UTF-8": (
        USER + b"\n\xff\xfe\nlast\n",
        [USER.decode(), "last"],
        ["ash: line 2 was passed on but not stored: byte 1 is not valid UTF-8"],
    ),
    "a NUL": (
        USER + b"\nn\0l\n" + ANSWER + b"\n",
        [USER.decode(), ANSWER.decode()],
        [
            "ash: line 2 was passed on but not stored: "
            "the message contains a NUL character, which PostgreSQL cannot store"
        ],
    ),
    "a long line": (
        USER + b"\n" + b"x" * 2**23 + b"\n" + ANSWER + b"\n",
        [USER.decode(), "x" * 2**23, ANSWER.decode()],
        [],
    ),
    "a line that is too long": (
        USER + b"\n" + b"x" * (2**26 + 1) + b"\n" + ANSWER + b"\n",
        [USER.decode(), ANSWER.decode()],
        [
            "ash: line 2 was passed on but not stored: it has 67,108,866 bytes, more than the 67,108,864 of a line"
        ],
    ),
}


@pytest.mark.slow
def test_passes_input_on_and_stores_its_lines(server: str, home: Path) -> None:
    for name, (stream, lines, stderr) in STREAMS.items():
        is_unknown = name == "an unknown format"
        session = session_id_for("unknown" if is_unknown else "claude", name)

        ran = run(server, home, stream, "--session", name)

        first, *between, last = ran.stderr[:-1] if is_unknown else ran.stderr
        view = f"view it with `ash tail {str(session)[:8]}`"
        assert (name, ran.code, ran.passed == stream) == (name, 1 if stderr else 0, True)
        assert (name, first) == (name, f"ash: storing input in session {session}; {view}")
        assert (name, between) == (name, stderr)
        assert re.fullmatch(
            rf"ash: {len(lines)} lines? stored.* in session {session}, which has \d+ events?; {re.escape(view)}",
            last,
        )
        assert ran.stderr[-1].startswith("ash: no format was recognized: ") is is_unknown
        assert (name, stored(server, session)) == (name, lines)


def test_source_option_sets_the_format(server: str, home: Path) -> None:
    for name, warnings in (
        ("claude", []),
        ("cladue", [f"ash: unknown source 'cladue'; known sources: {', '.join(discover())}"]),
    ):
        ran = run(server, home, b"one\n", "--session", "named", "--source", name)
        assert (ran.code, ran.stderr[:-2], len(ran.stderr)) == (0, warnings, 2 + len(warnings))


def test_empty_input_stores_nothing(server: str, home: Path) -> None:
    assert run(server, home, b"", "--session", "empty") == Ran(
        0, b"", ["ash: the input was empty, nothing is stored"]
    )
    assert answer(f"{server}/api/sessions?q=empty")["sessions"] == []


def test_passes_bytes_on_at_once_and_stores_complete_lines(server: str, home: Path) -> None:
    session = session_id_for("claude", "slow")
    with started(server, home, "--session", "slow") as process:
        stdin, stdout = pipes(process)
        stdin.write(USER + b"\n" + ANSWER[:20])
        stdin.flush()
        passed = os.read(stdout.fileno(), 1000)
        wait_until(lambda: stored_or_empty(server, session))

        assert passed == USER + b"\n" + ANSWER[:20]
        assert stored_or_empty(server, session) == [USER.decode()]
        rest, _ = process.communicate(ANSWER[20:])
        assert (rest, stored(server, session)) == (ANSWER[20:], [USER.decode(), ANSWER.decode()])


def stored_or_empty(url: str, session: UUID) -> list[str]:
    with suppress(OSError):  # an HTTPError is one
        return stored(url, session)
    return []


def test_closes_the_turn_at_the_end_unless_no_end(server: str, home: Path) -> None:
    for name, arguments, end in (
        ("ended", (), [("turn_end", {"partial": True})]),
        ("left open", ("--no-end",), []),
    ):
        run(server, home, USER + b"\n" + CALL + b"\n", "--session", name, *arguments)

        log = events(server, session_id_for("claude", name))
        assert (name, [each for each in log if each[0] == "turn_end"]) == (name, end)


def test_prompt_option_begins_a_turn(server: str, home: Path) -> None:
    codex = (
        b'{"type":"thread.started","thread_id":"h1"}\n{"type":"turn.started"}\n'
        b'{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"Hello."}}\n'
        b'{"type":"turn.completed","usage":{"input_tokens":3,"cached_input_tokens":0,"output_tokens":2}}\n'
    )
    for turns in (1, 2):
        run(server, home, codex, "--session", "greeting", "--prompt", "Say hello")

        log = events(server, session_id_for("codex", "greeting"))
        assert [each[0] for each in log] == [
            "turn_start",
            "user_message",
            "assistant_done",
            "turn_end",
        ] * turns
        assert log[:2] == [("turn_start", {"trigger": "user"}), ("user_message", {"text": "Say hello"})]


@pytest.mark.slow
def test_continues_an_existing_session(server: str, home: Path) -> None:
    """Also one that a person has archived."""
    session = session_id_for("claude", "first")
    run(server, home, USER + b"\n", "--session", "first")
    with AshClient(server) as client:
        client.update_labels(session, archived=True)

    for reference in (str(session), str(session)[:8], str(session)[:13].upper()):
        again = run(server, home, USER + b"\n", "--session", reference)
        assert (again.code, f"in session {session}" in again.stderr[0]) == (0, True)
    other = run(server, home, USER + b"\n", "--session", "20261121")
    absent = run(server, home, USER + b"\n", "--session", str(UUID(int=7)))

    assert stored(server, session) == [USER.decode()] * 4
    assert (other.code, stored(server, session_id_for("claude", "20261121"))) == (0, [USER.decode()])
    assert (absent.code, absent.passed, absent.stderr[0]) == (
        1,
        USER + b"\n",
        "ash: sending has stopped, input is still passed on: No session has this id.",
    )


@pytest.mark.slow
def test_saves_unsent_lines_and_resumes(server: str, home: Path) -> None:
    """Sending the saved lines again stores no duplicates."""
    stream = ANSWER + b"\n" + CALL
    options = ("--session", "very late", "--prompt", "It's late", "--wait", "2")
    session = session_id_for("claude", "very late")

    ran = run(server, home, stream, *options, "--url", NOWHERE)
    assert (ran.code, ran.passed) == (1, stream)
    assert ran.stderr[0].startswith(f"ash: no server answers at {NOWHERE} (")
    match = re.search(
        rf"To send them: (ash ingest .* --url {NOWHERE} .* > /dev/null) \(delete the file ", ran.stderr[1]
    )
    assert match
    for _ in range(2):
        command, environment = match[1].replace(NOWHERE, server), variables(home, NOWHERE)
        environment["PATH"] = f"{COMMAND.parent}:{environment['PATH']}"
        later = subprocess.run(command, shell=True, env=environment, check=False, capture_output=True)
        assert (later.returncode, stored(server, session)) == (0, [ANSWER.decode(), CALL.decode()]), (
            later.stderr
        )
        assert [each[0] for each in events(server, session)] == [
            *("turn_start", "user_message", "assistant_done", "tool_call", "interrupt", "turn_end")
        ]
    assert f"`ash tail {str(session)[:8]} --url {server}`".encode() in later.stderr


@pytest.mark.slow
def test_an_interrupt_sends_the_lines_read(server: str, home: Path) -> None:
    with started(server, home, "--session", "cut") as process:
        stdin, stdout = pipes(process)
        stdin.write(USER + b"\nhalf")
        stdin.flush()
        os.read(stdout.fileno(), 1000)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 0

    assert stored(server, session_id_for("claude", "cut")) == [USER.decode(), "half"]


@pytest.mark.slow
def test_a_closed_output_does_not_stop_storing(server: str, home: Path) -> None:
    with started(server, home, "--session", "unread") as process:
        stdin, stdout = pipes(process)
        stdout.close()
        stdin.write((USER + b"\n") * 2000)
        stdin.close()
        assert process.wait(TIMEOUT) == 0

    assert stored(server, session_id_for("claude", "unread")) == [USER.decode()] * 1000  # a page


class LossyProxy(BaseHTTPRequestHandler):
    """A proxy that forwards every request and drops every second response."""

    target: str
    requests = 0

    def do_POST(self) -> None:
        LossyProxy.requests += 1
        body = (
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            if "Content-Length" in self.headers
            else None
        )
        connection = HTTPConnection(urlsplit(self.target).netloc)
        connection.request(self.command, self.path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        if LossyProxy.requests % 2:
            return
        self.send_response(response.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.slow
def test_lost_responses_store_no_duplicates(server: str, home: Path) -> None:
    LossyProxy.target = server
    stream = b"".join(ANSWER.replace(b"Done", b"%d" % number) + b"\n" for number in range(1500))
    with ThreadingHTTPServer(("127.0.0.1", 0), LossyProxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        ran = run(f"http://127.0.0.1:{proxy.server_port}", home, stream, "--session", "lossy")
        proxy.shutdown()

    assert (ran.code, ran.passed == stream) == (0, True)
    assert answer(f"{server}/api/sessions/{session_id_for('claude', 'lossy')}")["messageCount"] == 1500


def test_stops_sending_to_another_kind_of_server(home: Path) -> None:
    class Other(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        ran = run(f"http://127.0.0.1:{other.server_port}", home, USER, "--session", "x")
        other.shutdown()

    assert (ran.code, ran.passed, ran.stderr[0]) == (
        1,
        USER,
        "ash: sending has stopped, input is still passed on: The server at this address is not Ash.",
    )


WRONG = {
    ("--resume", "7"): 2,
    ("--resume", "run/0"): 2,
    ("--url", "localhost:4100"): 1,
}


@pytest.mark.parametrize("arguments", WRONG)
def test_rejects_invalid_options(arguments: tuple[str, str], home: Path) -> None:
    ran = run(NOWHERE, home, USER, "--session", "x", *arguments)

    assert (ran.code, ran.passed, len(ran.stderr)) == (WRONG[arguments], b"", 1)


@pytest.mark.parametrize("in_memory", [10, 10**6])
def test_the_queue_returns_lines_in_any_split_of_the_input(
    monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    """In memory or in a file, while more is added, and again until they are acknowledged."""
    monkeypatch.setattr(line_queue, "_MAX_MEMORY_BYTES", in_memory)
    monkeypatch.setattr(line_queue, "_GATHER_SECONDS", 0.0)
    random = Random(7)
    whole = b"".join(random.choice([b"", b"x", b"yy" * 9, b"z" * 40]) + b"\n" for _ in range(500)) + b"end"
    taken, at = [], 0
    queue = LineQueue(first=5, max_line_bytes=30)
    while at < len(whole):
        step = random.randrange(1, 60)
        queue.add(whole[at : at + step])
        at += step
        if b"\n" in whole[at - step : at] and random.random() < 0.5:
            lines = queue.next_batch()
            assert queue.next_batch()[: len(lines)] == lines
            queue.acknowledge(lines)
            taken += lines
    queue.end()
    while lines := queue.next_batch():
        queue.acknowledge(lines)
        taken += lines

    expected = [None if len(line) > 30 else line for line in whole.split(b"\n")]
    assert [(line.number, line.data) for line in taken] == list(enumerate(expected, start=5))
    assert (queue.read, queue.is_empty()) == (501, True)
    queue.close()


def test_the_queue_is_saved_from_the_first_unacknowledged_line(tmp_path: Path) -> None:
    queue = LineQueue(first=1, max_line_bytes=100)
    queue.add(b"one\ntwo\nthr")
    queue.acknowledge(queue.next_batch()[:1])
    number = queue.save(tmp_path / "new" / "file")
    queue.close()

    assert (number, (tmp_path / "new" / "file").read_bytes()) == (2, b"two\nthr")
