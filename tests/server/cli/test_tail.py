"""`ash tail`: the log for people and for programs, each event once, even if the server fails."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit
from uuid import UUID

import psutil
import pytest
from psycopg import AsyncConnection
from rich.console import Console

import ash_server
from ash_client import AshClient
from ash_server.cli import replay as recorded
from ash_server.cli.common.output.event_lines import EventPrinter, headline
from ash_server.cli.replay import with_due_times
from ash_server.cli.tail import JsonPrinter, TailOptions, _Follower
from ash_server.store.connections.pool import connect
from ash_server.store.log.events import append_events
from ash_server.store.log.notify import notify
from ash_server.store.sessions import create_session, session_id_for
from ash_shared import Context, Normalizer, parse_jsonl
from ash_shared.model.message import LAST_SEQUENCE
from tests.conftest import POOLER
from tests.marking import slow_after
from tests.ports import free_port
from tests.server.cli.test_cli import Ran, ran_here
from tests.server.cli.test_cli_serve import COMMAND, answer, serving
from tests.shared.records.events import token_usage, wire_event
from tests.waiting import TIMEOUT, until, wait_until

PAGE = Path(__file__).parents[3] / "docs" / "live.md"
RECORDING = Path(ash_server.__file__).parent / "recordings" / recorded.RECORDING
NOWHERE = "http://127.0.0.1:9"


def variables(home: Path, url: str) -> dict[str, str]:
    path = f"{COMMAND.parent}:{os.environ['PATH']}"
    return {**POOLER, "PATH": path, "HOME": str(home), "ASH_HOME": str(home), "ASH_URL": url}


def run(home: Path, url: str, *arguments: str) -> Ran:
    return ran_here(arguments, variables(home, url), home)


def event(type: str, number: int = 1, **payload: Any) -> dict[str, Any]:
    place = {"sessionId": "", "turnId": "t1", "responseId": "r1"}
    return wire_event(type, id=f"e{number}", timestamp=1000 * number, **place, **payload)


def printed(*events: dict[str, Any]) -> str:
    shown = StringIO()
    printer = EventPrinter(Console(file=shown, width=40, highlight=False))
    for each in events:
        printer.show(json.dumps(each))
    return shown.getvalue()


CALL: dict[str, Any] = {"toolCallId": "c1", "toolName": "Bash"}
LINES = "\n".join(map(str, range(9)))

CASES = {
    "a streamed text is not repeated": (
        [
            event("assistant_chunk", text="Wind from "),
            event("assistant_chunk", text="the west."),
            event("assistant_done", text="Wind from the west."),
            event("assistant_done", text="And rain."),
        ],
        "● Wind from the west.\n● And rain.\n",
    ),
    "the missing rest of a streamed text": (
        [event("assistant_chunk", text="Wind "), event("assistant_done", text="Wind from the west.")],
        "● Wind from the west.\n",
    ),
    "a streamed text with a missing beginning": (
        [event("assistant_chunk", text="the west"), event("assistant_done", text="Wind from the west.")],
        "● the west.\n",
    ),
    "a complete text that differs from its chunks": (
        [event("thinking_chunk", text="Hm"), event("thinking_done", text="So")],
        "✻ Hm\n✻ So\n",
    ),
    "two concurrent streams": (
        [
            event("assistant_chunk", text="Mine"),
            event("assistant_chunk", parentToolCallId="c1", text="yours"),
            event("assistant_done", text="Mine, whole"),
            event("assistant_done", parentToolCallId="c1", text="yours"),
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
            event("turn_end", 4, usage=token_usage(1, 2), costUsd=0.5),
        ],
        "> Look\n  here\n→ Bash ls -l\n    0\n    1\n    2\n    3\n    … 5 more lines\n  ✗ No.\n"
        "─ the turn has ended · 3 tokens · $0.5000 · 3.0 s\n",
    ),
    "a turn with inconsistent times": (
        [
            event("turn_start", 5, trigger="user"),
            event("turn_end", 4),
            event("turn_start", 5, trigger="user"),
            event("turn_end", 10**9),
        ],
        "─ the turn has ended\n" * 2,
    ),
    "prompts of another agent": (
        [
            event("user_message", text="Test it.", fromAgentId="plan\x1bner"),
            event("user_audio", transcription="And this.", fromAgentId="planner"),
            event("user_message", text="Mine.", fromAgentId=""),
            event("user_message", text="Mine.", fromAgentId=None),
        ],
        "> from plan␛ner · Test it.\n· user_audio from planner · And this.\n> Mine.\n> Mine.\n",
    ),
    "errors and interruptions": (
        [
            event("error", code="overloaded", message="Later."),
            event("interrupt", reason="user_cancel"),
            event("turn_end", partial=True),
        ],
        "✗ overloaded: Later.\n! interrupted: user_cancel\n─ the turn was cut off\n",
    ),
    "unknown and raw events": (
        [event("holo", n=7), event("raw", source="x", raw={"a": 1})],
        '· holo {"n": 7}\n· raw {"a": 1}\n',
    ),
    "a rebuild": (
        [event("assistant_chunk", text="Wi"), event("reset"), event("assistant_done", text="Wind")],
        "● Wi\nthe log was rebuilt\n● Wind\n",
    ),
    "a reset before any output": (
        [event("reset"), event("assistant_done", text="Wind")],
        "● Wind\n",
    ),
    "a deleted message": (
        [
            {**event("retraction", eventIds=["e"], reason="deleted"), "id": "e"},
            {**event("retraction", eventIds=["e"], messageSequences=[2], reason="deleted"), "id": "f"},
        ],
        '· retraction {"eventIds": ["e"], "messageSequences": [2], "reason": "deleted"}\n',
    ),
    "control characters": (
        [
            event("assistant_chunk", text="\x1b[2J\u202e\r"),
            event("tool_call", toolCallId="c", toolName="\x1b]0;x", args="\x1b[31m\u2066"),
            event("tool_result", toolCallId="c", result=[{"type": "text", "text": "\x9b1m"}]),
            event("ho\x1blo", text="\x1b[5m"),
        ],
        '● ␛[2J\\u202e␍\n→ ␛]0;x ␛[31m\\u2066\n    \\x9b1m\n· ho␛lo {"text": "\\u001b[5m"}\n',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_prints_events_as_text(name: str) -> None:
    events, expected = CASES[name]

    assert printed(*events) == expected


def test_truncates_long_lines() -> None:
    assert len(headline(event("user_message", text="word " * 1000))) == 160
    assert (
        headline(event("user_message", text="Test it.", fromAgentId="planner")) == "from planner · Test it."
    )


@pytest.fixture(scope="module")
def addresses(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    with serving(server_url, template, tmp_path_factory.mktemp("home")) as pair:
        yield pair


@pytest.fixture
def server(addresses: tuple[str, str]) -> str:
    return addresses[0]


@pytest.fixture
async def store(addresses: tuple[str, str]) -> AsyncIterator[AsyncConnection]:
    """A connection to the server's database."""
    async with await connect(addresses[1]) as conn:
        yield conn


async def write_log(
    connection: AsyncConnection, name: str, *types: str, first: int = 1, more: str = ""
) -> None:
    session = (await create_session(connection, source="claude", external_id=name)).session
    payload = {"turn_start": {"trigger": "user"}, "turn_end": {}}
    events = [
        {**event(type, number), "payload": payload.get(type, {"text": f"{number}{more}"})}
        for number, type in enumerate(types, start=first)
    ]
    await append_events(connection, session.id, events)
    await notify(connection, [session.id])


TURN = ("turn_start", "user_message", "assistant_chunk", "assistant_done", "turn_end")

RANGES: dict[tuple[str, ...], list[int]] = {
    ("--no-follow",): [1, 2, 3, 4, 5],
    ("--until-end",): [1, 2, 3, 4, 5],
    ("--no-follow", "--after", "3"): [4, 5],
    ("--no-follow", "-n", "2"): [4, 5],
    ("--no-follow", "-n", "0"): [],
    ("--until-end", "-n", "2"): [4, 5],
    ("--until-end", "-n", "0"): [],
    ("--until-end", "--after", "5"): [],
}


async def test_after_and_last_select_the_start(server: str, store: AsyncConnection, tmp_path: Path) -> None:
    await write_log(store, "the log", *TURN)
    session = session_id_for("claude", "the log")
    stored = answer(f"{server}/api/sessions/{session}/events")["events"]

    for arguments, sequences in RANGES.items():
        ran = run(tmp_path, server, "tail", "the log", "--json", *arguments)

        assert (arguments, ran.code, ran.err) == (arguments, 0, "")
        assert [json.loads(line) for line in ran.out.splitlines()] == [stored[each - 1] for each in sequences]
    for reference in (str(session), str(session)[:8], "the log"):
        shown = run(tmp_path, server, "tail", reference, "--no-follow")
        assert shown == Ran(0, "> 2\n● 4\n─ the turn has ended · 4.0 s\n", "")


UNTIL_END = {
    "a turn that is open": (TURN[:3], TURN[4:], ("--after", "0"), [1, 2, 3, 4]),
    "a turn that began after the first event shown": (TURN[:3], TURN[4:], ("-n", "1"), [3, 4]),
    "a log that is empty": ((), TURN, (), [1, 2, 3, 4, 5]),
}


@pytest.mark.parametrize("name", slow_after(1, UNTIL_END))
async def test_until_end_stops_with_the_turn(
    name: str, server: str, store: AsyncConnection, tmp_path: Path
) -> None:
    before, then, arguments, sequences = UNTIL_END[name]
    shown, ended = tmp_path / "shown", tmp_path / "ended"
    await write_log(store, name, *before)
    with terminal(tmp_path, server) as reader:
        typed(
            reader, f"ash tail '{name}' --json --until-end {' '.join(arguments)} > {shown}; echo $? > {ended}"
        )
        if before:
            await asyncio.to_thread(wait_for, f'"sequence":{len(before)}', shown)
        await until(lambda: is_connected_to(server))
        assert not ended.exists()
        await write_log(store, name, *then, first=len(before) + 1)
        await asyncio.to_thread(wait_for, "0", ended)

    assert [json.loads(line)["sequence"] for line in shown.read_text().splitlines()] == sequences


@pytest.mark.slow
async def test_long_session_starts_near_its_end(server: str, store: AsyncConnection, tmp_path: Path) -> None:
    """The output starts within an open answer; its beginning is not printed, not even when it is complete."""
    session = (await create_session(store, source="claude", external_id="joined")).session
    numbers = [f"{number} " for number in range(1, 1501)]
    prompt = [event("turn_start", 1, trigger="user"), event("user_message", 2, text="Count.")]
    chunks = [event("assistant_chunk", number, text=text) for number, text in enumerate(numbers, start=3)]
    await append_events(store, session.id, [*prompt, *chunks])
    shown, errors = tmp_path / "shown", tmp_path / "errors"
    with terminal(tmp_path, server) as reader:
        typed(reader, f"ash tail joined --until-end > {shown} 2> {errors}")
        await asyncio.to_thread(wait_for, "1500", shown)
        end = [event("assistant_done", 1503, text="".join([*numbers, "Done."])), event("turn_end", 1504)]
        await append_events(store, session.id, end)
        await notify(store, [session.id])
        await asyncio.to_thread(wait_for, "the turn has ended", shown)

    assert shown.read_text() == "● " + "".join(numbers[-1000:]) + "Done.\n─ the turn has ended\n"
    assert errors.read_text() == "ash: starting with the last 1,000 events; --after 0 shows all\n"
    whole = run(tmp_path, server, "tail", "joined", "--after", "0", "--until-end")
    assert whole.out.startswith("> Count.\n● 1 2 3 ")


@pytest.mark.parametrize(("last", "cursor"), [(3, 11), (4, 2), (9, 0), (None, 11)])
def test_last_events_are_on_several_pages(last: int | None, cursor: int) -> None:
    """A page without chunks may be short, or empty, although others precede it."""
    pages = {LAST_SEQUENCE: ([12, 15, 16], 11), 11: ([], 6), 6: ([1, 3], None)}

    class Server:
        def list_events(self, session: UUID, *, before: int, limit: int, collapse: bool) -> Any:
            sequences, prev_before = pages[before]
            events = [SimpleNamespace(sequence=sequence) for sequence in sequences[-limit:]]
            return SimpleNamespace(events=events, prev_before=prev_before)

    options = TailOptions(None, last, until_end=False, follows=True, as_json=False)
    follower = _Follower(cast("AshClient", Server()), options, JsonPrinter())

    assert follower._start_cursor(UUID(int=1)) == cursor


@pytest.mark.slow
async def test_stops_when_its_output_is_closed(server: str, store: AsyncConnection, tmp_path: Path) -> None:
    await write_log(store, "long", *TURN * 50, more="x" * 10_000)  # more than a pipe holds
    with terminal(tmp_path, server) as reader:
        typed(reader, "(ash tail long --json; echo $? > code) | head -1")
        first, rest = reader.communicate(timeout=TIMEOUT)

    assert (json.loads(first)["sequence"], rest, (tmp_path / "code").read_text()) == (1, "", "1\n")


async def test_lists_the_sessions_of_an_ambiguous_reference(
    server: str, store: AsyncConnection, tmp_path: Path
) -> None:
    for source in ("codex", "cursor"):
        await create_session(store, source=source, external_id="twice")

    ran = run(tmp_path, server, "tail", "twice", "--no-follow")

    each = r"[0-9a-f-]{36} \((?:codex|cursor), \d{4}-\d\d-\d\d \d\d:\d\d\)"
    assert (ran.code, ran.out) == (1, "")
    assert re.fullmatch(f"ash: several sessions match 'twice': {each}, {each}\n", ran.err)


def test_no_follow_rejects_a_missing_session(server: str, tmp_path: Path) -> None:
    assert run(tmp_path, server, "tail", "x", "--no-follow") == Ran(1, "", "ash: no session matches 'x'\n")


def test_no_follow_reports_an_unreachable_server(tmp_path: Path) -> None:
    ran = run(tmp_path, NOWHERE, "tail", "x", "--no-follow")

    assert (ran.code, ran.out, ran.err.partition(": [")[0]) == (1, "", f"ash: {NOWHERE} does not answer")


def test_after_and_last_exclude_each_other(tmp_path: Path) -> None:
    assert run(tmp_path, NOWHERE, "tail", "x", "--after", "1", "-n", "1").code == 2


def test_due_times_follow_timestamps() -> None:
    lines = [
        b"{}\n",
        b'{"timestamp":"2026-10-27T09:00:00Z"}\n',
        b"no\n",
        b'{"timestamp":"2026-10-27T09:00:02Z"}\n',
        b"{}",
    ]

    assert [(round(due, 2), line) for due, line in with_due_times(lines)] == list(
        zip((0.04, 0.08, 0.12, 2.08, 2.12), lines, strict=True)
    )


def test_recognises_every_line_of_the_recording() -> None:
    messages = [line.message for line in parse_jsonl(RECORDING.read_text())]
    reasons = {block.reason for reading in messages for block in reading.parsed if block.type == "raw"}

    assert {reading.source for reading in messages} == {"claude"}
    assert reasons == {"control", "stream_fragment"}


# --- The terminals of docs/live.md


def commands() -> list[str]:
    """Return the commands of the page for the terminals, in order."""
    section = PAGE.read_text().split("terminals, each")[1].split("## Exactly once")[0]
    return re.findall(r"^(?:\$ |`)(kill.+?|ash.+?)(?:`.*)?$", section, re.MULTILINE)


@contextmanager
def terminal(home: Path, url: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A shell with its own process group, so that Ctrl-C reaches its processes."""
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = {**variables(home, url), **more}
    with subprocess.Popen(
        ["bash"], **pipes, text=True, env=environment, cwd=home, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def typed(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def wait_for(text: str, file: Path) -> None:
    wait_until(lambda: file.exists() and text in file.read_text())


def is_connected_to(server: str) -> bool:
    """True if a local process has a connection to the server."""
    port = urlsplit(server).port
    return any(
        each.status == psutil.CONN_ESTABLISHED and each.raddr and each.raddr.port == port
        for each in psutil.net_connections("tcp")
    )


class Followed(NamedTuple):
    """Exit codes and output of each terminal, and the stored events and lines."""

    codes: list[int]
    writer: str
    people: str
    programs: list[Any]
    events: list[Any]
    lines: list[str]


def run_commands(database_url: str, folder: Path) -> Followed:
    """Run the page's commands at double speed, with a second reader.

    The stream stops after a tool's result until the server is killed: a busy machine might be late for that.
    """
    serve, follow, feed, kill, again, stop = commands()
    url = f"http://127.0.0.1:{(port := free_port())}"
    people, programs, errors = folder / "people", folder / "programs", folder / "errors"
    with (
        terminal(folder, url, ASH_PORT=str(port), ASH_DATABASE_URL=database_url) as server,
        terminal(folder, url) as reader,
        terminal(folder, url) as program,
        terminal(folder, url) as writer,
    ):
        typed(server, serve)
        typed(reader, f"{follow} > {people}")
        typed(program, f"{follow} --json > {programs}")
        first = next(number for number, line in enumerate(lines_of_recording(), 1) if "tool_result" in line)
        held = f"replay --speed 2 | {{ sed --unbuffered {first}q; until test -e killed; do sleep 0.1; done; cat; }}"
        typed(writer, f"{feed.replace('replay', held)} 2> {errors}")
        wait_for("tool_result", programs)
        typed(server, f"{kill}; wait; touch killed")
        wait_for("no server answers", errors)
        typed(server, again)
        writer.communicate(timeout=TIMEOUT)
        wait_for("turn_end", programs)
        wait_for("the turn has ended", people)
        session = f"{url}/api/sessions/{session_id_for('claude', 'kite')}"
        events = answer(f"{session}/events?limit=1000")["events"]
        lines = answer(f"{session}/messages?kind=message,record,chunk&limit=1000")["messages"]
        for each in (reader, program):
            os.killpg(each.pid, signal.SIGINT)
            each.communicate(timeout=TIMEOUT)
        typed(server, f"{stop}; wait")
        server.communicate(timeout=TIMEOUT)
    return Followed(
        [each.returncode for each in (writer, reader, program)],
        errors.read_text(),
        people.read_text(),
        [json.loads(line) for line in programs.read_text().splitlines()],
        events,
        [each["content"] for each in lines],
    )


def lines_of_recording() -> list[str]:
    return RECORDING.read_text().splitlines()


@pytest.mark.slow
def test_documented_session_survives_a_killed_server(database_url: str, tmp_path: Path) -> None:
    recording = RECORDING.read_bytes()

    followed = run_commands(database_url, tmp_path)

    assert followed.codes == [0, 0, 0], followed.writer
    assert "no server answers" in followed.writer
    assert (tmp_path / "passed.jsonl").read_bytes() == recording
    assert followed.lines == recording.decode().splitlines()
    assert followed.programs == followed.events
    assert [each["sequence"] for each in followed.events] == list(range(1, len(followed.events) + 1))
    whole = [each for each in followed.events if not each["type"].endswith("chunk")]
    assert words(followed.people) == words(printed(*whole))


def test_page_shows_the_printed_events() -> None:
    shown = PAGE.read_text().split("has shown:\n\n```\n")[1].split("```")[0]
    numbers, normalizer = count(1), Normalizer()
    context = Context("s", lambda: f"e{next(numbers)}", lambda: 1)
    lines = lines_of_recording()
    events = [event.model_dump() for line in lines for event in normalizer.normalize(line, context)]

    story = words(printed(*(event for event in events if not event["type"].endswith("chunk"))))

    for line in shown.splitlines():
        assert words(line.removesuffix("…")) in story


def words(text: str) -> str:
    """Split into words: line breaks differ where a connection was cut within a line."""
    return re.sub(r"[\s●✻]+", "", text)
