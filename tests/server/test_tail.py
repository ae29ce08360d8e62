"""`ash tail`: the log for a person and for a program, each event once, whatever becomes of the server."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from psycopg import AsyncConnection
from rich.console import Console

import ash_server
from ash_server.commands import replay as recorded
from ash_server.commands.replay import timed
from ash_server.commands.story import Story, headline
from ash_server.db.events import append_events
from ash_server.db.sessions import create_session, session_id_for
from ash_shared import parse_jsonl
from tests.server.test_cli_serve import COMMAND, answer, running
from tests.test_readme import README

RECORDING = Path(ash_server.__file__).parent / "recordings" / recorded.RECORDING
NOWHERE = "http://127.0.0.1:9"


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def variables(home: Path, url: str) -> dict[str, str]:
    path = f"{COMMAND.parent}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "ASH_HOME": str(home), "ASH_URL": url}


def run(home: Path, url: str, *arguments: str) -> Ran:
    done = subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=variables(home, url),
        check=False,
        timeout=60,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def event(type: str, number: int = 1, *, lane: str | None = None, **payload: Any) -> dict[str, Any]:
    within = {"parentToolCallId": lane} if lane else {}
    return {
        "id": f"e{number}",
        "timestamp": 1000 * number,
        "sessionId": "s",
        "type": type,
        "turnId": "t1",
        "responseId": "r1",
        "payload": {**payload, **within},
    }


def told(*events: dict[str, Any]) -> str:
    shown = StringIO()
    story = Story(Console(file=shown, width=40, highlight=False))
    for each in events:
        story.show(json.dumps(each))
    return shown.getvalue()


CALL: dict[str, Any] = {"toolCallId": "c1", "toolName": "Bash"}
LINES = "\n".join(map(str, range(9)))

STORIES = {
    "what was said in pieces is not said again": (
        [
            event("assistant_chunk", text="Wind from "),
            event("assistant_chunk", text="the west."),
            event("assistant_done", text="Wind from the west."),
            event("assistant_done", text="And rain."),
        ],
        "● Wind from the west.\n● And rain.\n",
    ),
    "of what was missed the rest is said": (
        [event("assistant_chunk", text="Wind "), event("assistant_done", text="Wind from the west.")],
        "● Wind from the west.\n",
    ),
    "a whole that is another text is said whole": (
        [event("thinking_chunk", text="Hm"), event("thinking_done", text="So")],
        "✻ Hm\n✻ So\n",
    ),
    "two who speak at once": (
        [
            event("assistant_chunk", text="Mine"),
            event("assistant_chunk", lane="c1", text="yours"),
            event("assistant_done", text="Mine, whole"),
            event("assistant_done", lane="c1", text="yours"),
        ],
        "● Mine\n  │ ● yours\n● , whole\n",
    ),
    "a turn": (
        [
            event("turn_start", 1, trigger="user"),
            event("user_message", text="Look\nhere"),
            event("tool_input_chunk", **CALL, chunk='{"co', offset=0),
            event("tool_call", **CALL, args={"timeout": 3, "command": "ls  -l"}),
            event("tool_output_chunk", **CALL, chunk="a", offset=0),
            event("tool_result", toolCallId="c1", result=LINES),
            event("tool_result", toolCallId="c2", result=None, error={"code": "failed", "message": "No."}),
            event(
                "turn_end", 4, usage={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}, costUsd=0.5
            ),
        ],
        "> Look\n  here\n→ Bash ls -l\n    0\n    1\n    2\n    3\n    … 5 lines more\n  ✗ No.\n"
        "─ the turn has ended · 3 tokens · $0.5000 · 3.0 s\n",
    ),
    "what goes wrong": (
        [
            event("error", code="overloaded", message="Later."),
            event("interrupt", reason="user_cancel"),
            event("turn_end", partial=True),
        ],
        "✗ overloaded: Later.\n! interrupted: user_cancel\n─ the turn was left\n",
    ),
    "what no table knows": (
        [event("holo", n=7), event("raw", source="x", raw={"a": 1})],
        '· holo {"n": 7}\n· raw {"a": 1}\n',
    ),
    "another reading": (
        [event("assistant_chunk", text="Wi"), event("reset"), event("assistant_done", text="Wind")],
        "● Wi\nthe log begins anew\n● Wind\n",
    ),
    "nothing steers the terminal": (
        [
            event("assistant_chunk", text="\x1b[2J\u202e\r"),
            event("tool_call", toolCallId="c", toolName="\x1b]0;x", args="\x1b[31m\u2066"),
            event("tool_result", toolCallId="c", result=[{"type": "text", "text": "\x9b1m"}]),
            event("ho\x1blo", text="\x1b[5m"),
        ],
        '● ␛[2J\\u202e␍\n→ ␛]0;x ␛[31m\\u2066\n    \\x9b1m\n· ho␛lo {"text": "\\u001b[5m"}\n',
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_a_person_reads(name: str) -> None:
    events, expected = STORIES[name]

    assert told(*events) == expected


def test_a_line_that_is_long_is_cut() -> None:
    assert len(headline(event("user_message", text="word " * 1000))) == 160


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[str]:
    with running("serve", "--port", "0", home=tmp_path, ASH_DATABASE_URL=database_url) as ash:
        yield ash.address


async def write_log(connection: AsyncConnection, *types: str, more: str = "") -> None:
    session = (await create_session(connection, source="claude", external_id="the log")).session
    payload = {"turn_start": {"trigger": "user"}, "turn_end": {}}
    events = [
        {**event(type, number), "payload": payload.get(type, {"text": f"{number}{more}"})}
        for number, type in enumerate(types, start=1)
    ]
    await append_events(connection, session.id, events)


TURN = ("turn_start", "user_message", "assistant_chunk", "assistant_done", "turn_end")

RANGES: dict[tuple[str, ...], list[int]] = {
    ("--no-follow",): [1, 2, 3, 4, 5],
    ("--until-end",): [1, 2, 3, 4, 5],
    ("--no-follow", "--after", "3"): [4, 5],
    ("--no-follow", "-n", "2"): [4, 5],
    ("--no-follow", "-n", "0"): [],
}


async def test_which_part_of_a_log(server: str, connection: AsyncConnection, tmp_path: Path) -> None:
    await write_log(connection, *TURN)
    session = session_id_for("claude", "the log")
    stored = answer(f"{server}/api/sessions/{session}/events")["events"]

    for arguments, sequences in RANGES.items():
        ran = run(tmp_path, server, "tail", "the log", "--json", *arguments)

        assert (arguments, ran.code, ran.err) == (arguments, 0, "")
        assert [json.loads(line) for line in ran.out.splitlines()] == [stored[each - 1] for each in sequences]
    for reference in (str(session), str(session)[:8], "the log"):
        shown = run(tmp_path, server, "tail", reference, "--no-follow")
        assert shown == Ran(0, "> 2\n● 4\n─ the turn has ended · 4.0 s\n", "")


async def test_nobody_reads_any_more(server: str, connection: AsyncConnection, tmp_path: Path) -> None:
    await write_log(connection, *TURN * 50, more="x" * 10_000)  # more than a pipe holds
    with terminal("(ash tail 'the log' --json; echo $? > code) | head -1", tmp_path, server) as reader:
        first, said = reader.communicate(timeout=20)

    assert (json.loads(first)["sequence"], said, (tmp_path / "code").read_text()) == (1, "", "1\n")


def test_a_session_that_is_not_there(server: str, tmp_path: Path) -> None:
    assert run(tmp_path, server, "tail", "x", "--no-follow") == Ran(1, "", "ash: no session goes by 'x'\n")


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    ran = run(tmp_path, NOWHERE, "tail", "x", "--no-follow")

    assert (ran.code, ran.out, ran.err.partition(": [")[0]) == (1, "", f"ash: {NOWHERE} does not answer")


def test_both_ends_of_the_log_exclude_each_other(tmp_path: Path) -> None:
    assert run(tmp_path, NOWHERE, "tail", "x", "--after", "1", "-n", "1").code == 2


def test_a_recording_tells_when_its_lines_came() -> None:
    lines = [
        b"{}\n",
        b'{"timestamp":"2026-10-27T09:00:00Z"}\n',
        b"no\n",
        b'{"timestamp":"2026-10-27T09:00:02Z"}\n',
        b"{}",
    ]

    assert [(round(due, 2), line) for due, line in timed(lines)] == list(
        zip((0.04, 0.08, 0.12, 2.08, 2.12), lines, strict=True)
    )


def test_the_recording_is_read_whole() -> None:
    readings = [line.reading for line in parse_jsonl(RECORDING.read_text())]
    reasons = {block.reason for reading in readings for block in reading.parsed if block.type == "raw"}

    assert {reading.source for reading in readings} == {"claude"}
    assert reasons == {"control", "stream_fragment"}


# --- The README's two terminals


def commands(title: str) -> list[str]:
    """Those that the section shows for the two terminals, without what stands beside them."""
    section = README.read_text().split(f"\n## {title}\n")[1].split("two terminals")[1].split("Both end")[0]
    return re.findall(r"^\$ (.+?)(?: +#.*)?$", section, re.MULTILINE)


@contextmanager
def terminal(command: str, home: Path, url: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {command}" if "|" not in command else command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables(home, url),
        cwd=home,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(text: str, file: Path, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while text not in (file.read_text() if file.exists() else ""):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_two_terminals_and_a_server_that_is_killed(database_url: str, tmp_path: Path) -> None:
    serve, follow, feed, *in_between = commands("Live")
    assert (serve, in_between) == ("ash serve &", ["kill -9 %1", "ash serve &"])
    recording = RECORDING.read_bytes()
    options: dict[str, Any] = {"home": tmp_path, "ASH_DATABASE_URL": database_url}

    with running("serve", "--port", "0", **options) as first:
        url, port = first.address, first.address.rpartition(":")[2]
        people, programs = tmp_path / "people", tmp_path / "programs"
        with (
            terminal(f"{follow} > {people}", tmp_path, url) as reader,
            terminal(f"{follow} --json > {programs}", tmp_path, url) as program,
            terminal(feed, tmp_path, url) as feeding,
        ):
            wait_for("tool_result", programs)
            first.process.kill()
            first.process.wait()
            time.sleep(1.5)
            with running("serve", "--port", port, **options):
                _, said = feeding.communicate(timeout=60)
                wait_for("turn_end", programs)
                wait_for("the turn has ended", people)
                session = session_id_for("claude", "kite")
                stored = answer(f"{url}/api/sessions/{session}/events?limit=1000")["events"]
                passed = answer(f"{url}/api/sessions/{session}/messages?kind=message,record,chunk&limit=1000")
                for process in (reader, program):
                    process.send_signal(signal.SIGINT)
                    assert process.wait(10) == 0

    assert feeding.returncode == 0, said
    assert "no server answers" in said
    assert (tmp_path / "passed.jsonl").read_bytes() == recording
    assert [each["content"] for each in passed["messages"]] == recording.decode().splitlines()
    assert [json.loads(line) for line in programs.read_text().splitlines()] == stored
    assert [each["sequence"] for each in stored] == list(range(1, len(stored) + 1))
    whole = [each for each in stored if not each["type"].endswith("chunk")]
    assert words(people.read_text()) == words(told(*whole))


def words(story: str) -> str:
    """It without its lines, of which there is one more where the reader was cut off in the middle of one."""
    return re.sub(r"[\s●✻]+", "", story)
