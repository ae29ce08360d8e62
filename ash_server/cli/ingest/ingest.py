r"""`ash ingest`: a stream on its way from one program to another, stored as it passes.

Two threads. The one that reads passes every byte on at once, whatever becomes of it otherwise, and adds it to the
backlog. The one that sends takes whole lines from the front of the backlog, and takes them out once the server has
acknowledged them. Every line has an id that follows from the run and its number, so that it may be sent again after an
answer that was lost, and even by another process, and is stored once.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from shlex import join, quote
from typing import Any, NamedTuple, TextIO, TypeVar
from uuid import uuid4

from ash_server.cli.client import (
    AWAY,
    LATER,
    NotAsh,
    Refused,
    Server,
    as_uuid,
    find_beginning,
    pauses,
    short_id,
    url_option,
    why,
)
from ash_server.cli.ingest.backlog import MOST_BYTES, Backlog, Line
from ash_server.cli.output.terminal import complain, counted, visible
from ash_server.errors import AshError
from ash_server.settings import Settings
from ash_shared.providers import discover
from ash_shared.reading.read import read_raw

_PIECE = 64 * 1024
_HEAD_LINES = 100
"""So many lines may tell the format, as of a file."""
_SHORTEST_ID = 8
"""Digits: so many `ash sessions` shows. What is shorter is rather a name."""
_AFTER_INTERRUPT = 2.0
"""Seconds that the program ahead, which was interrupted too, has for its last lines."""
_HARD = 2
"""Who interrupts so often wants the end now."""
_RARELY = 30.0
_CONFLICT = 409
_SHOWN = 5

T = TypeVar("T")

USELESS = frozenset({401, 403, 405, 421})
"""Statuses that every other batch would get, too."""


class Wishes(NamedTuple):
    name: str
    source: str | None
    prompt: str | None
    ends: bool
    """Whether to close what is open when the input ends."""
    wait: float
    """Seconds that a server may be away when the input has ended."""
    run: str
    first: int
    """The number of the first line."""


class Progress:
    """What a person is told meanwhile, on standard error."""

    def __init__(self) -> None:
        # Where both are the same terminal, a line that is written anew would run into what passes.
        self._is_live = _is_terminal(sys.stderr) and not _is_terminal(sys.stdout)
        self._shown = ""
        self._at = time.monotonic()
        self._complaints = 0

    def say(self, text: str) -> None:
        self._clear()
        complain(text)

    def refuse(self, line: int, reason: str) -> None:
        self._complaints += 1
        if self._complaints <= _SHOWN:
            self.say(f"line {line} was passed on and not stored: {reason}")

    def count(self, stored: int, waiting: int) -> None:
        text = f"{counted(stored, 'line')} stored, {waiting:,} waiting"
        if self._is_live:
            self._clear()
            self._shown = f"ash: {text}"
            sys.stderr.write(self._shown)
            sys.stderr.flush()
        elif time.monotonic() - self._at > _RARELY:
            self._at = time.monotonic()
            complain(text)

    def end(self) -> None:
        self._clear()
        if self._complaints > _SHOWN:
            complain(f"and {counted(self._complaints - _SHOWN, 'line')} more that were not stored")

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * len(self._shown) + "\r")
            self._shown = ""


class Sender:
    """Brings the backlog into a session of the server."""

    def __init__(
        self, server: Server, wishes: Wishes, backlog: Backlog, progress: Progress, longest: int
    ) -> None:
        self.stored = self.refused = 0
        self.session: str | None = None
        self.source = wishes.source
        self.has_prompted = wishes.prompt is None
        self.is_done = False
        """Whether all is stored, or refused for what it is."""
        self.last_answer = time.monotonic()
        self._server = server
        self._wishes = wishes
        self._backlog = backlog
        self._progress = progress
        self._longest = longest
        self._is_away = False
        self._prompted_at = time.time_ns() // 1_000_000

    def run(self) -> None:
        try:
            self._reach("GET", "/health/live")
            while (lines := self._next()) is not None:
                self._bring(lines)
                self._backlog.forget(lines)
                self._progress.count(self.stored, self._backlog.read - self.stored - self.refused)
            if self.session and self._wishes.ends:
                self._reach("POST", f"/api/sessions/{self.session}/end")
            self.is_done = True
        except AshError as error:
            self._progress.say(f"nothing more is sent, all is passed on: {error.detail}")

    def _next(self) -> list[Line] | None:
        """The next lines, of a session that is known; None where nothing follows."""
        while lines := self._backlog.lines():
            if self.session is not None or self._open(lines):
                return lines
        return None

    def _open(self, lines: Sequence[Line]) -> bool:
        """Whether the session is known; it is not yet while no line has told the format."""
        self.source = self.source or next(filter(None, map(_source_of, lines[:_HEAD_LINES])), None)
        may_come = len(lines) < _HEAD_LINES and sum(line.size for line in lines) < MOST_BYTES
        if self.source is None and may_come and not self._backlog.has_ended:
            return False
        self.session = self._session()
        self._progress.say(
            f"what comes is stored in session {self.session}; see it with "
            f"`{follow(self._server, self.session)}`"
        )
        if self._wishes.prompt is not None:
            self._tell_prompt(self._wishes.prompt)
            self.has_prompted = True
        return True

    def _session(self) -> str:
        """The one with this id, or this beginning of one; else that of this name, which may be a new one."""
        name = self._wishes.name
        if (id := as_uuid(name)) is not None:
            return str(self._reach("GET", f"/api/sessions/{id}")["id"])
        if len(name) >= _SHORTEST_ID:
            found = self._insist(partial(find_beginning, self._server, name))
            if found is not None:
                return str(found["id"])
        new = {"source": self.source or "unknown", "externalId": name}
        return str(self._reach("POST", "/api/sessions", new)["id"])

    def _tell_prompt(self, text: str) -> None:
        """A turn of the user's begins; that of a stream that was left before is closed."""
        turn = f"{self._wishes.run}/turn"
        told = {"timestamp": self._prompted_at, "turnId": turn}
        start = {"id": turn, **told, "type": "turn_start", "payload": {"trigger": "user"}}
        said = {"id": f"{self._wishes.run}/prompt", **told, "type": "user_message", "payload": {"text": text}}
        self._reach("POST", f"/api/sessions/{self.session}/end")
        try:
            self._reach("POST", f"/api/sessions/{self.session}/events", [start, said])
        except Refused as refused:
            if refused.status != _CONFLICT:  # else this run told it before, at another time
                raise

    def _bring(self, lines: Sequence[Line]) -> None:
        """Each line is stored, or refused for what it is."""
        messages = []
        for line in lines:
            if line.data is None:
                self._refuse(
                    line.number,
                    f"it has {line.size:,} bytes, and a message may have {self._longest:,}; "
                    "ASH_MAX_MESSAGE_BYTES is the limit, for `ash serve` and for `ash ingest`",
                )
            else:
                try:
                    messages.append(self._message(line.number, line.data.decode()))
                except UnicodeDecodeError as error:
                    self._refuse(line.number, f"byte {error.start + 1} of it is not UTF-8")
        self._send(messages)

    def _message(self, number: int, text: str) -> dict[str, str]:
        """Its source is the stream's: a line that shows none belongs to it, too."""
        source = {"source": self.source} if self.source else {}
        return {"id": f"{self._wishes.run}/{number}", "content": text, **source}

    def _send(self, messages: list[dict[str, str]]) -> None:
        """All of them, without those that the server refuses for what they are."""
        while messages:
            try:
                self._reach("POST", f"/api/sessions/{self.session}/messages", messages)
            except Refused as refused:
                if refused.status in USELESS or refused.status == 404:
                    raise
                if refused.index is None and len(messages) > 1:
                    half = len(messages) // 2
                    self._send(messages[:half])
                    messages = messages[half:]
                    continue
                offender = messages.pop(refused.index or 0)
                self._refuse(int(offender["id"].rpartition("/")[2]), refused.detail)
            else:
                self.stored += len(messages)
                return

    def _refuse(self, number: int, reason: str) -> None:
        self.refused += 1
        self._progress.refuse(number, reason)

    def _reach(self, method: str, path: str, body: Any = None) -> Any:
        return self._insist(partial(self._server.ask, method, path, body))

    def _insist(self, ask: Callable[[], T]) -> T:
        """The answer, however long the server is away. Raises Refused, NotAsh."""
        waits = pauses()
        while True:
            try:
                answer = ask()
            except Refused as refused:
                if refused.status not in LATER:
                    raise
                self._miss(refused.detail)
            except AWAY as error:
                self._miss(why(error))
            else:
                self._meet()
                return answer
            time.sleep(next(waits))

    def _miss(self, reason: str) -> None:
        if not self._is_away:
            self._is_away = True
            self._progress.say(
                f"no server answers at {self._server.url} ({reason}); `ash serve` starts one. All is passed on, and "
                "kept to be sent when it is there"
            )

    def _meet(self) -> None:
        self.last_answer = time.monotonic()
        if self._is_away:
            self._is_away = False
            self._progress.say(f"the server at {self._server.url} answers")


def ingest(server: Server, wishes: Wishes) -> int:
    """Standard input to standard output, and to the server. The exit code: 0 where all of it is stored."""
    settings = Settings.from_environment(os.environ)
    backlog, progress = Backlog(wishes.first, settings.max_message_bytes), Progress()
    sender = Sender(server, wishes, backlog, progress, settings.max_message_bytes)
    thread = threading.Thread(target=sender.run, daemon=True)
    with _signals() as interrupts:
        thread.start()
        _pass_through(backlog, interrupts, progress)
        backlog.end()
        _wait(thread, sender, wishes.wait, interrupts)
    progress.end()
    if sender.is_done:
        backlog.close()
        _sum_up(server, sender, wishes)
        return 1 if sender.refused else 0
    _save(server, sender, wishes, backlog, settings)
    return 1


def follow(server: Server, session: str) -> str:
    """The command that does."""
    return join(["ash", "tail", short_id(session), *url_option(server)])


def new_run() -> str:
    return uuid4().hex[:16]


def made_up_name(run: str) -> str:
    """And says it: somebody may want to follow, or to send more."""
    name = f"stream-{run[:8]}"
    complain(f"the session is called {name}")
    return name


class _Interrupts:
    """How often the process was asked to end, and until when it reads on."""

    def __init__(self) -> None:
        self.count = 0
        self.reads_until = float("inf")

    def note(self, *_: object) -> None:
        self.count += 1
        self.reads_until = 0.0 if self.count >= _HARD else time.monotonic() + _AFTER_INTERRUPT


@contextmanager
def _signals() -> Iterator[_Interrupts]:
    interrupts = _Interrupts()
    before = {each: signal.signal(each, interrupts.note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _pass_through(backlog: Backlog, interrupts: _Interrupts, progress: Progress) -> None:
    source, target = sys.stdin.fileno(), _Target(interrupts, progress)
    keep: Callable[[bytes], None] = backlog.add
    while time.monotonic() < interrupts.reads_until:
        if not select.select([source], [], [], 0.2)[0]:
            continue
        data = os.read(source, _PIECE)
        if not data:
            return
        target.write(data)
        try:
            keep(data)
        except OSError as error:  # nowhere to keep it
            progress.say(f"what follows is passed on and not stored: {error.strerror}")
            keep = _drop


def _drop(_: bytes) -> None:
    pass


class _Target:
    """Standard output, as long as somebody reads it: what is stored does not depend on that."""

    def __init__(self, interrupts: _Interrupts, progress: Progress) -> None:
        self._file = sys.stdout.fileno() if sys.stdout else None
        self._interrupts = interrupts
        self._progress = progress

    def write(self, data: bytes) -> None:
        """In pieces that never block, so that who does not read keeps nobody from ending this."""
        rest = memoryview(data)
        while rest and self._file is not None and self._interrupts.count < _HARD:
            if not select.select([], [self._file], [], 0.2)[1]:
                continue
            try:
                rest = rest[os.write(self._file, rest[: select.PIPE_BUF]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                self._file = None
                if not isinstance(error, BrokenPipeError):
                    self._progress.say(f"nothing more is passed on: {error.strerror}")


def _wait(thread: threading.Thread, sender: Sender, seconds: float, interrupts: _Interrupts) -> None:
    """Until all is sent, or the server was away for so long, or a person does not want to wait."""
    begun, asked = time.monotonic(), interrupts.count
    while thread.is_alive() and interrupts.count == asked:
        thread.join(0.05)
        if time.monotonic() - max(begun, sender.last_answer) > seconds:
            return


def _sum_up(server: Server, sender: Sender, wishes: Wishes) -> None:
    if sender.session is None:
        complain("no line came, so nothing is stored")
        return
    refused = f", {sender.refused} refused" if sender.refused else ""
    complain(
        f"{counted(sender.stored, 'line')} stored{refused} in session {sender.session}"
        f"{_events(server, sender.session)}; see it with `{follow(server, sender.session)}`"
    )
    if sender.source is None:
        complain(
            "no line told its format: JSON of it is kept as `raw`, and the rest as text. If it is one that Ash reads, "
            f"name it with --source, in another session; the known ones are {', '.join(discover())}"
        )


def _events(server: Server, session: str) -> str:
    try:
        count = server.ask("GET", f"/api/sessions/{session}")["eventCount"]
        return f", which has {counted(count, 'event')}"
    except (*AWAY, Refused, NotAsh):
        return ""


def _save(server: Server, sender: Sender, wishes: Wishes, backlog: Backlog, settings: Settings) -> None:
    """What is left, with the ids that its lines would have had: some of it may be stored already."""
    stored = f"{counted(sender.stored, 'line')} stored"
    if backlog.is_empty():
        complain(f"{stored}, and the server did not learn that the stream has ended")
        return
    path = settings.home / "unsent" / f"{wishes.run}.jsonl"
    number = backlog.save(path)
    left = counted(backlog.read - sender.stored - sender.refused, "line")
    command = join(["ash", "ingest", "--session", wishes.name, *_options(server, sender, wishes)])
    complain(
        f"{stored}, {left} not. They are kept; to send them: {visible(command)} --resume {wishes.run}/{number} "
        f"< {quote(str(path))} > {os.devnull} (the file is of no use any more when this has told that they are stored)"
    )


def _options(server: Server, sender: Sender, wishes: Wishes) -> list[str]:
    """Those of this run that matter to what it left."""
    return [
        *url_option(server),
        *(["--source", sender.source] if sender.source else []),
        *([] if sender.has_prompted or wishes.prompt is None else ["--prompt", wishes.prompt]),
        *([] if wishes.ends else ["--no-end"]),
    ]


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _source_of(line: Line) -> str | None:
    source = read_raw(line.data or b"", None).source(None)
    return None if source == "unknown" else source
