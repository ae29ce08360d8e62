"""`ash tail`: follow the event log of a session.

The cursor is the only state: after a lost connection the stream continues at the cursor, without gaps or duplicates.
"""

import sys
import time
from collections.abc import Generator
from contextlib import closing
from http.client import HTTPResponse
from shlex import join
from typing import Literal, NamedTuple
from urllib.parse import urlencode

import rich_click as click

from ash_server.cli.client import (
    RETRYABLE_STATUSES,
    UNAVAILABLE,
    NoServer,
    Refused,
    Server,
    describe_error,
    find_session,
    may_be_id_prefix,
    retry_delays,
    server_at,
    short_id,
    url_arguments,
)
from ash_server.cli.options import session_argument, url_option
from ash_server.cli.output.event_lines import EventPrinter
from ash_server.cli.output.terminal import stdout_console, visible_json, warn
from ash_server.errors import SessionNotFound
from ash_shared.model.event_types import CATALOGUE
from ash_shared.model.message import LAST_SEQUENCE

_SILENCE_TIMEOUT = 45
"""Seconds without even a heartbeat after which the connection is considered lost."""

_POLL_BY_NAME, _POLL_BY_PREFIX = 0.5, 3.0
"""Seconds between two lookups of a missing session; a lookup by id prefix needs the list of all sessions."""

_PAGE = 1000


@click.command("tail")
@session_argument
@click.option("--after", type=click.IntRange(0, LAST_SEQUENCE), help="Start after this sequence.")
@click.option("-n", "--last", type=click.IntRange(0, 1000), help="Start with this many of the last events.")
@click.option("--until-end", is_flag=True, help="Stop when no turn is open, or when the open one ends.")
@click.option("--no-follow", "follows", flag_value=False, default=True, help="Stop after the stored events.")
@click.option("--json", "as_json", is_flag=True, help="One event per line, as the API sends it.")
@url_option
def command(
    session: str,
    url: str | None,
    *,
    after: int | None,
    last: int | None,
    until_end: bool,
    follows: bool,
    as_json: bool,
) -> int:
    """Follow a session, until Ctrl-C.

    SESSION is an id, the beginning of one, or a name (external id); the session may not exist yet. Reconnects when an
    unavailable server is available again.

    \b
    ash tail fix
    ash tail fix -n 20 --until-end
    ash tail fix --json | jq -r 'select(.type == "tool_call").payload.toolName'
    """
    if after is not None and last is not None:
        raise click.UsageError("--after and --last exclude each other.")
    return _tail(server_at(url), session, TailOptions(after, last, follows, until_end, as_json))


class TailOptions(NamedTuple):
    after: int | None
    last: int | None
    """Number of events from the end to start with."""
    follows: bool
    until_end: bool
    as_json: bool


class ServerEvent(NamedTuple):
    """One server-sent event."""

    sequence: int | None
    """None for a control event of the stream, which is not in the log."""
    name: str
    data: str


class JsonPrinter:
    """Prints each event as one line of JSON."""

    def show(self, data: str) -> None:
        print(visible_json(data) if sys.stdout.isatty() else data, flush=True)  # noqa: T201

    def pause(self) -> None:
        """Nothing to do: every line is complete."""

    def restart(self) -> None:
        """Nothing to do: sequences show the restart."""


def tail_command(server: Server, session: str) -> str:
    """Return the command line that follows this session."""
    return join(["ash", "tail", short_id(session), *url_arguments(server)])


def _tail(server: Server, reference: str, options: TailOptions) -> int:
    """Follow until a condition of the options, or until an interrupt, which is a normal end."""
    printer = JsonPrinter() if options.as_json else EventPrinter(stdout_console())
    try:
        return _Follower(server, options, printer).run(reference)
    except _OutputError as output_error:
        raise output_error.error from None
    except KeyboardInterrupt:
        pass
    printer.pause()
    return 0


class _OutputError(Exception):
    """Standard output cannot be written; not to be confused with errors of the connection."""

    def __init__(self, error: OSError) -> None:
        self.error = error


class _Follower:
    """Follows one session, across lost connections."""

    def __init__(self, server: Server, options: TailOptions, printer: JsonPrinter | EventPrinter) -> None:
        self._server = server
        self._options = options
        self._printer = printer
        self._path = ""
        self._cursor = 0
        self._has_caught_up = False
        self._has_open_turn = False
        self._problem: Literal["unavailable", "missing"] | None = None
        """The problem reported last; each is reported once."""

    def run(self, reference: str) -> int:
        delays = retry_delays()
        while True:
            try:
                if not self._path and not self._find(reference):
                    continue
                with closing(self._stream()) as stream:
                    for event in stream:
                        delays = retry_delays()
                        self._process(event)
                        if self._is_finished():
                            self._printer.pause()
                            return 0
            except Refused as refused:
                if refused.code == "session_not_found":
                    self._warn("the session was deleted")
                    return 1
                self._recover(refused)
            except UNAVAILABLE as error:
                self._note_unavailable(describe_error(error))
            time.sleep(next(delays))

    def _find(self, reference: str) -> bool:
        session = find_session(self._server, reference)
        self._note_available()
        if session is not None:
            path = f"/api/sessions/{session['id']}/events"
            self._cursor = self._start_cursor(path)
            self._has_open_turn = self._options.until_end and self._is_turn_open(path, self._cursor)
            self._path = path
            return True
        if not self._options.follows:
            raise SessionNotFound(f"no session matches {reference!r}")
        self._report("missing", f"no session matches {reference!r} yet; waiting for it, until Ctrl-C")
        time.sleep(_POLL_BY_PREFIX if may_be_id_prefix(reference) else _POLL_BY_NAME)
        return False

    def _start_cursor(self, path: str) -> int:
        if self._options.last is None:
            return self._options.after or 0
        query = {"before": LAST_SEQUENCE, "limit": max(1, self._options.last), **self._collapse_parameter()}
        events = self._server.request("GET", f"{path}?{urlencode(query)}")["events"]
        if not events:
            return 0
        return int(events[0]["sequence"]) - 1 if self._options.last else int(events[-1]["sequence"])

    def _is_turn_open(self, path: str, cursor: int) -> bool:
        """True if the last turn that starts before the cursor is still open at the cursor."""
        before = cursor + 1
        while before > 1:
            query = {"before": before, "limit": _PAGE, "collapse": "true"}
            page = self._server.request("GET", f"{path}?{urlencode(query)}")
            for event in reversed(page["events"]):
                if event["type"] in _OPENS_TURN:
                    return _OPENS_TURN[event["type"]]
            before = int(page.get("prevBefore", 0))
        return False

    def _collapse_parameter(self) -> dict[str, str]:
        """Omit chunks whose complete content follows, except with --json."""
        return {"collapse": "false" if self._options.as_json else "true"}

    def _stream(self) -> Generator[ServerEvent, None, None]:
        query = urlencode({"after": self._cursor, **self._collapse_parameter()})
        path = f"{self._path}/stream?{query}"
        with self._server.open("GET", path, accept="text/event-stream", timeout=_SILENCE_TIMEOUT) as response:
            self._note_available()
            yield from _read_server_events(response)
        self._note_unavailable("the connection was closed")

    def _process(self, event: ServerEvent) -> None:
        if event.sequence is None:
            self._has_caught_up = self._has_caught_up or event.name == "caught_up"
            return
        if event.sequence <= self._cursor:
            return
        self._cursor = event.sequence
        if event.name in _OPENS_TURN:
            self._has_open_turn = _OPENS_TURN[event.name]
        try:
            self._printer.show(event.data)
        except OSError as error:
            raise _OutputError(error) from error

    def _is_finished(self) -> bool:
        """True if a condition of the options is met. An empty log does not meet --until-end: a turn may still start."""
        if not self._has_caught_up:
            return False
        turn_ended = self._cursor > 0 and not self._has_open_turn
        return not self._options.follows or (self._options.until_end and turn_ended)

    def _recover(self, refused: Refused) -> None:
        if refused.code == "cursor_ahead":
            self._warn("the log is shorter than the part already read: starting again")
            self._printer.restart()
            self._cursor, self._has_open_turn = 0, False
        elif refused.status in RETRYABLE_STATUSES:
            self._note_unavailable(refused.detail)
        else:
            raise refused

    def _note_available(self) -> None:
        if self._problem == "unavailable":
            self._problem = None
            self._warn(f"{self._server.url} answers")

    def _note_unavailable(self, reason: str) -> None:
        if not self._options.follows:
            raise NoServer(f"{self._server.url} does not answer: {reason}")
        self._report("unavailable", f"{self._server.url} does not answer ({reason}); retrying")

    def _report(self, problem: Literal["unavailable", "missing"], text: str) -> None:
        if self._problem != problem:
            self._warn(text)
        self._problem = problem

    def _warn(self, text: str) -> None:
        self._printer.pause()
        warn(text)


_OPENS_TURN = {name: row.turn == "start" for name, row in CATALOGUE.items() if row.turn is not None}


def _read_server_events(response: HTTPResponse) -> Generator[ServerEvent, None, None]:
    """Parse a stream of server-sent events; an incomplete one at its end is dropped."""
    fields: dict[str, str] = {}
    for line in response:
        if line == b"\n":
            if "data" in fields:
                id = fields.get("id")
                name = fields.get("event", "message")
                if name == "closed" and id is None:
                    return
                yield ServerEvent(int(id) if id else None, name, fields["data"])
            fields = {}
        elif line.endswith(b"\n"):
            name, _, value = line.decode().rstrip("\n").partition(": ")
            fields[name] = value
