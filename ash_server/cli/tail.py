"""`ash tail`: follow the event log of a session.

The cursor is the only state: after a lost connection the stream continues at the cursor, without gaps or duplicates.
"""

import sys
import time
from collections.abc import Generator
from contextlib import closing
from shlex import join
from typing import Literal, NamedTuple
from uuid import UUID

import rich_click as click

from ash_client import ApiError, AshClient
from ash_client.retry import retry_delays
from ash_client.server_events import ServerEvent
from ash_server.cli.common.client import (
    find_session,
    is_unavailable,
    own_url,
    server_at,
    server_to_read,
    short_id,
    url_arguments,
)
from ash_server.cli.common.options import own_server_option, session_argument, url_option
from ash_server.cli.common.output.event_lines import EventPrinter
from ash_server.cli.common.output.terminal import stdout_console, visible_json, warn
from ash_server.errors import SessionNotFound
from ash_shared.model.event_types import CATALOGUE
from ash_shared.model.message import LAST_SEQUENCE

_POLL = 0.5
"""Seconds between two lookups of a missing session."""

_PAGE = 1000
"""The size of a page, and the number of events shown first of a longer session."""


@click.command("tail")
@session_argument
@click.option("--after", type=click.IntRange(0, LAST_SEQUENCE), help="Start after this sequence.")
@click.option("-n", "--last", type=click.IntRange(0, 1000), help="Start with this many of the last events.")
@click.option("--until-end", is_flag=True, help="Stop when no turn is open, or when the open one ends.")
@click.option("--no-follow", "follows", flag_value=False, default=True, help="Stop after the stored events.")
@click.option("--json", "as_json", is_flag=True, help="One event per line, as the API sends it.")
@url_option
@own_server_option
def command(
    session: str,
    url: str | None,
    *,
    is_local: bool,
    after: int | None,
    last: int | None,
    until_end: bool,
    follows: bool,
    as_json: bool,
) -> int:
    """Follow a session, until Ctrl-C.

    SESSION is an id or its first characters, or a name (external id); it need not exist yet. For a session of more than
    1,000 events, the output starts with the last 1,000, unless --after, -n, --no-follow or --json is used. Reconnects
    when an unavailable server is available again.

    \b
    ash tail fix
    ash tail fix -n 20 --until-end
    ash tail fix --json | jq -r 'select(.type == "tool_call").payload.toolName'
    """
    if after is not None and last is not None:
        raise click.UsageError("--after and --last exclude each other.")
    with server_at(server_to_read(url, is_local=is_local) or own_url()) as server:
        return _tail(server, session, TailOptions(after, last, follows, until_end, as_json))


class TailOptions(NamedTuple):
    after: int | None
    last: int | None
    """Number of events from the end to start with."""
    follows: bool
    until_end: bool
    as_json: bool


class JsonPrinter:
    """Prints each event as one line of JSON."""

    def show(self, data: str) -> None:
        print(visible_json(data) if sys.stdout.isatty() else data, flush=True)  # noqa: T201

    def pause(self) -> None:
        """Nothing to do: every line is complete."""

    def restart(self) -> None:
        """Nothing to do: sequences show the restart."""


def tail_command(server: AshClient, session: UUID) -> str:
    """Return the command line that follows this session."""
    return join(["ash", "tail", short_id(session), *url_arguments(server)])


def _tail(server: AshClient, reference: str, options: TailOptions) -> int:
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

    def __init__(self, server: AshClient, options: TailOptions, printer: JsonPrinter | EventPrinter) -> None:
        self._server = server
        self._options = options
        self._printer = printer
        self._session: UUID | None = None
        self._cursor = 0
        self._has_caught_up = False
        self._has_open_turn = False
        self._problem: Literal["unavailable", "missing"] | None = None
        """The problem reported last; each is reported once."""

    def run(self, reference: str) -> int:
        delays = retry_delays()
        while True:
            try:
                session = self._session or self._find(reference)
                if session is None:
                    continue
                with closing(self._stream(session)) as stream:
                    for event in stream:
                        delays = retry_delays()
                        self._note_available()
                        self._process(event)
                        if self._is_finished():
                            self._printer.pause()
                            return 0
            except ApiError as error:
                if error.code == "session_not_found":
                    self._warn("the session was deleted")
                    return 1
                self._recover(error)
            time.sleep(next(delays))

    def _find(self, reference: str) -> UUID | None:
        session = find_session(self._server, reference)
        self._note_available()
        if session is not None:
            self._cursor = self._start_cursor(session.id)
            self._has_open_turn = self._options.until_end and self._is_turn_open(session.id, self._cursor)
            self._session = session.id
            return session.id
        if not self._options.follows:
            raise SessionNotFound(f"no session matches {reference!r}")
        self._report("missing", f"no session matches {reference!r} yet; waiting for it, until Ctrl-C")
        time.sleep(_POLL)
        return None

    def _start_cursor(self, session: UUID) -> int:
        after, last, follows, *_ = self._options
        shows_all = last is None and not (follows and self._collapses)
        if after is not None or shows_all:
            return after or 0
        limit = _PAGE if last is None else max(1, last)
        sequences, before = list[int](), LAST_SEQUENCE
        while before and len(sequences) < (1 if last is None else limit):  # a page may be short
            page = self._server.list_events(
                session, before=before, limit=limit - len(sequences), collapse=self._collapses
            )
            sequences[:0] = [event.sequence or 0 for event in page.events]
            before = page.prev_before or 0
        if not sequences:
            return 0
        if last is None and before:
            self._warn(f"starting with the last {len(sequences):,} events; --after 0 shows all")
        return sequences[-1] if last == 0 else sequences[0] - 1

    def _is_turn_open(self, session: UUID, cursor: int) -> bool:
        """True if the last turn that starts before the cursor is still open at the cursor."""
        before = cursor + 1
        while before > 1:
            page = self._server.list_events(session, before=before, limit=_PAGE, collapse=True)
            for event in reversed(page.events):
                if event.type in _OPENS_TURN:
                    return _OPENS_TURN[event.type]
            before = page.prev_before or 0
        return False

    @property
    def _collapses(self) -> bool:
        """Omit chunks followed by their complete content, except with --json."""
        return not self._options.as_json

    def _stream(self, session: UUID) -> Generator[ServerEvent, None, None]:
        return self._server.stream_events(session, after=self._cursor, collapse=self._collapses)

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

    def _recover(self, error: ApiError) -> None:
        if error.code == "cursor_ahead":
            self._warn("the log is shorter than the part already read: starting again")
            self._printer.restart()
            self._cursor, self._has_open_turn = 0, False
        elif is_unavailable(error) and self._options.follows:
            self._report("unavailable", f"{self._server.url} does not answer ({error.detail}); retrying")
        else:
            raise error

    def _note_available(self) -> None:
        if self._problem == "unavailable":
            self._problem = None
            self._warn(f"{self._server.url} answers")

    def _report(self, problem: Literal["unavailable", "missing"], text: str) -> None:
        if self._problem != problem:
            self._warn(text)
        self._problem = problem

    def _warn(self, text: str) -> None:
        self._printer.pause()
        warn(text)


_OPENS_TURN = {name: row.turn == "start" for name, row in CATALOGUE.items() if row.turn is not None}
