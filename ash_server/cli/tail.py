"""`ash tail`: the log of a session as it grows, for a person or for a program.

It keeps nothing but its cursor: when the server goes away it comes back with it, and what it shows has neither a gap
nor anything twice.
"""

import sys
import time
from collections.abc import Generator
from contextlib import closing
from http.client import HTTPResponse
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from ash_server.cli.client import (
    AWAY,
    LATER,
    NoServer,
    Refused,
    Server,
    find_session,
    may_begin_id,
    pauses,
    why,
)
from ash_server.cli.output.event_lines import Story
from ash_server.cli.output.terminal import complain, output, visible_json
from ash_server.errors import SessionNotFound
from ash_shared.model.message import LAST_SEQUENCE

_SILENCE = 45
"""Seconds without even a heartbeat, after which the connection is taken for lost."""
_LOOKS, _LOOKS_THROUGH = 0.5, 3.0
"""Seconds until a session that is not there yet is looked for again: by its name; and where it may be meant by the
beginning of its id, which needs the list of all."""
_PAGE = 1000


class Wishes(NamedTuple):
    after: int | None
    last: int | None
    """Begin with so many events from the end."""
    follows: bool
    until_end: bool
    as_json: bool


class ServerEvent(NamedTuple):
    """One message of the stream."""

    sequence: int | None
    """None of what is not an event of the log, but tells of the stream."""
    name: str
    data: str


class Lines:
    """Each event on a line of standard output, as it came."""

    def show(self, data: str) -> None:
        print(visible_json(data) if sys.stdout.isatty() else data, flush=True)  # noqa: T201

    def pause(self) -> None:
        """Nothing is ever half written."""

    def restart(self) -> None:
        """A program sees it by the sequences."""


def tail(server: Server, reference: str, wishes: Wishes) -> int:
    """Until it is interrupted, which is how it ends, or until what the wishes say."""
    show = Lines() if wishes.as_json else Story(output())
    try:
        return _Follower(server, wishes, show).run(reference)
    except _Unread as unread:
        raise unread.error from None
    except KeyboardInterrupt:
        pass
    show.pause()
    return 0


class _Unread(Exception):
    """Standard output takes nothing: not to be mixed up with a server that is away."""

    def __init__(self, error: OSError) -> None:
        self.error = error


class _Follower:
    def __init__(self, server: Server, wishes: Wishes, show: Lines | Story) -> None:
        self._server = server
        self._wishes = wishes
        self._show = show
        self._address = ""
        self._cursor = 0
        self._has_caught_up = False
        self._is_open = False
        """Whether a turn is."""
        self._matter: Literal["away", "missing"] | None = None
        """What was said to be the matter, once."""

    def run(self, reference: str) -> int:
        waits = pauses()
        while True:
            try:
                if not self._address and not self._find(reference):
                    continue
                with closing(self._stream()) as stream:
                    for told in stream:
                        waits = pauses()
                        self._take(told)
                        if self._is_over():
                            self._show.pause()
                            return 0
            except Refused as refused:
                if refused.code == "session_not_found":
                    self._complain("the session was deleted")
                    return 1
                self._recover(refused)
            except AWAY as error:
                self._lose(why(error))
            time.sleep(next(waits))

    def _find(self, reference: str) -> bool:
        session = find_session(self._server, reference)
        self._meet()
        if session is not None:
            address = f"/api/sessions/{session['id']}/events"
            self._cursor = self._start(address)
            self._is_open = self._wishes.until_end and self._is_open_at(address, self._cursor)
            self._address = address
            return True
        if not self._wishes.follows:
            raise SessionNotFound(f"no session goes by {reference!r}")
        self._say("missing", f"no session goes by {reference!r} yet; this waits for it, until Ctrl-C")
        time.sleep(_LOOKS_THROUGH if may_begin_id(reference) else _LOOKS)
        return False

    def _start(self, address: str) -> int:
        if self._wishes.last is None:
            return self._wishes.after or 0
        query = {"before": LAST_SEQUENCE, "limit": max(1, self._wishes.last), **self._form()}
        found = self._server.ask("GET", f"{address}?{urlencode(query)}")["events"]
        if not found:
            return 0
        return int(found[0]["sequence"]) - 1 if self._wishes.last else int(found[-1]["sequence"])

    def _is_open_at(self, address: str, cursor: int) -> bool:
        """Whether a turn began ahead of it that had not ended."""
        before = cursor + 1
        while before > 1:
            query = {"before": before, "limit": _PAGE, "collapse": "true"}
            page = self._server.ask("GET", f"{address}?{urlencode(query)}")
            for event in reversed(page["events"]):
                if event["type"] in _TURNS:
                    return _TURNS[event["type"]]
            before = int(page.get("prevBefore", 0))
        return False

    def _form(self) -> dict[str, str]:
        """A person needs no pieces of what is whole already; a program gets the log."""
        return {"collapse": "false" if self._wishes.as_json else "true"}

    def _stream(self) -> Generator[ServerEvent, None, None]:
        query = urlencode({"after": self._cursor, **self._form()})
        path = f"{self._address}/stream?{query}"
        with self._server.open("GET", path, accept="text/event-stream", seconds=_SILENCE) as response:
            self._meet()
            yield from _server_events(response)
        self._lose("the connection has ended")

    def _take(self, told: ServerEvent) -> None:
        if told.sequence is None:
            self._has_caught_up = self._has_caught_up or told.name == "caught_up"
            return
        if told.sequence <= self._cursor:
            return
        self._cursor = told.sequence
        if told.name in _TURNS:
            self._is_open = _TURNS[told.name]
        try:
            self._show.show(told.data)
        except OSError as error:
            raise _Unread(error) from error

    def _is_over(self) -> bool:
        """An empty log waits for its first turn."""
        if not self._has_caught_up:
            return False
        return not self._wishes.follows or (self._wishes.until_end and self._cursor > 0 and not self._is_open)

    def _recover(self, refused: Refused) -> None:
        if refused.code == "cursor_ahead":
            self._complain("the log is shorter than what was seen of it: it begins anew")
            self._show.restart()
            self._cursor, self._is_open = 0, False
        elif refused.status in LATER:
            self._lose(refused.detail)
        else:
            raise refused

    def _meet(self) -> None:
        if self._matter == "away":
            self._matter = None
            self._complain(f"{self._server.url} answers")

    def _lose(self, reason: str) -> None:
        if not self._wishes.follows:
            raise NoServer(f"{self._server.url} does not answer: {reason}")
        self._say("away", f"{self._server.url} does not answer ({reason}); this goes on when it does")

    def _say(self, matter: Literal["away", "missing"], text: str) -> None:
        if self._matter != matter:
            self._complain(text)
        self._matter = matter

    def _complain(self, text: str) -> None:
        self._show.pause()
        complain(text)


_TURNS = {"turn_start": True, "turn_end": False, "reset": False}


def _server_events(response: HTTPResponse) -> Generator[ServerEvent, None, None]:
    """Of a stream of server-sent events. One that is cut off is none."""
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
