"""Send queued lines to a session of the server."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from ash_server.cli.client import (
    RETRYABLE_STATUSES,
    UNAVAILABLE,
    Refused,
    Server,
    as_uuid,
    describe_error,
    find_by_id_prefix,
    retry_delays,
)
from ash_server.cli.ingest.line_queue import MAX_BATCH_BYTES, LineQueue, QueuedLine
from ash_server.cli.ingest.progress import Progress
from ash_server.cli.tail import tail_command
from ash_server.errors import AshError
from ash_server.transfer.importing.lines import MAX_LINE_BYTES
from ash_shared.reading.read import read_raw

_MAX_HEAD_LINES = 100
"""Lines read to detect the format, as for a file."""
_MIN_ID_PREFIX = 8
"""Digits that `ash sessions` shows at least. A shorter text is only looked up as a name."""
_MAX_BATCHED_BYTES = 512 * 1024
"""A longer line is sent alone. Half the limit of a message over HTTP, unless the operator has changed it."""
_NOT_FOUND, _CONFLICT = 404, 409

T = TypeVar("T")

FATAL_STATUSES = frozenset({401, 403, 405, 421})
"""Statuses that do not depend on the batch: every other batch would be rejected, too."""


class IngestOptions(NamedTuple):
    name: str
    source: str | None
    prompt: str | None
    ends: bool
    """End open texts, calls and turns when the input ends."""
    wait: float
    """Seconds to wait for an unavailable server after the input has ended."""
    run: str
    first: int
    """Number of the first line."""


class Sender:
    """Sends the queue, in the sender thread."""

    def __init__(
        self,
        server: Server,
        options: IngestOptions,
        queue: LineQueue,
        progress: Progress,
    ) -> None:
        self.stored = self.refused = 0
        self.session: str | None = None
        self.source = options.source
        self.has_sent_prompt = options.prompt is None
        self.is_done = False
        """True once every line is stored or refused."""
        self.last_answer = time.monotonic()
        self._server = server
        self._options = options
        self._queue = queue
        self._progress = progress
        self._is_unavailable = False
        self._prompted_at = time.time_ns() // 1_000_000

    def run(self) -> None:
        try:
            self._request("GET", "/health/live")
            while (lines := self._next_batch()) is not None:
                self._send_lines(lines)
                self._queue.acknowledge(lines)
                self._progress.report_counts(self.stored, self._queue.read - self.stored - self.refused)
            if self.session and self._options.ends:
                self._request("POST", f"/api/sessions/{self.session}/end")
            self.is_done = True
        except AshError as error:
            self._progress.print_line(f"sending has stopped, input is still passed on: {error.detail}")

    def _next_batch(self) -> list[QueuedLine] | None:
        """Return the next lines once the session is known; None after the end."""
        while lines := self._queue.next_batch():
            if self.session is not None or self._open_session(lines):
                return lines
        return None

    def _open_session(self, lines: Sequence[QueuedLine]) -> bool:
        """Find or create the session. Return False if the format is not known yet and further lines may show it."""
        self.source = self.source or next(filter(None, map(_detect_source, lines[:_MAX_HEAD_LINES])), None)
        is_full = len(lines) >= _MAX_HEAD_LINES or sum(line.size for line in lines) >= MAX_BATCH_BYTES
        if self.source is None and not is_full and not self._queue.has_ended:
            return False
        self.session = self._find_or_create_session()
        self._progress.print_line(
            f"storing input in session {self.session}; view it with "
            f"`{tail_command(self._server, self.session)}`"
        )
        if self._options.prompt is not None:
            self._send_prompt(self._options.prompt)
            self.has_sent_prompt = True
        return True

    def _find_or_create_session(self) -> str:
        """Return the session with this id or id prefix, else the one with this name, which may be new."""
        name = self._options.name
        if (id := as_uuid(name)) is not None:
            return str(self._request("GET", f"/api/sessions/{id}")["id"])
        if len(name) >= _MIN_ID_PREFIX:
            session = self._retry(partial(find_by_id_prefix, self._server, name))
            if session is not None:
                return str(session["id"])
        new = {"source": self.source or "unknown", "externalId": name}
        return str(self._request("POST", "/api/sessions", new)["id"])

    def _send_prompt(self, text: str) -> None:
        """End the open turn of an earlier stream, and begin a turn with the prompt."""
        turn = f"{self._options.run}/turn"
        common = {"timestamp": self._prompted_at, "turnId": turn}
        start = {"id": turn, **common, "type": "turn_start", "payload": {"trigger": "user"}}
        prompt = {
            "id": f"{self._options.run}/prompt",
            **common,
            "type": "user_message",
            "payload": {"text": text},
        }
        self._request("POST", f"/api/sessions/{self.session}/end")
        try:
            self._request("POST", f"/api/sessions/{self.session}/events", [start, prompt])
        except Refused as refused:
            # On a conflict, an earlier process of this run has stored the prompt.
            if refused.status != _CONFLICT:
                raise

    def _send_lines(self, lines: Sequence[QueuedLine]) -> None:
        """Send lines in order: long ones alone, the others in batches."""
        for is_long, group in groupby(lines, lambda line: line.size > _MAX_BATCHED_BYTES):
            if is_long:
                for line in group:
                    self._send_long_line(line)
            else:
                self._send_batch(group)

    def _send_batch(self, lines: Iterable[QueuedLine]) -> None:
        messages = []
        for line in lines:
            try:
                text = (line.data or b"").decode()
            except UnicodeDecodeError as error:
                self._report_refused(line.number, f"byte {error.start + 1} is not valid UTF-8")
            else:
                messages.append({**self._fields(line.number), "content": text})
        self._post_messages(messages)

    def _send_long_line(self, line: QueuedLine) -> None:
        """Send a line as the body of a request, whose size is limited as for a line of a file."""
        if line.data is None:
            reason = f"it has {line.size:,} bytes, more than the {MAX_LINE_BYTES:,} of a line"
            self._report_refused(line.number, reason)
            return
        query = urlencode(self._fields(line.number))
        try:
            self._request("POST", f"/api/sessions/{self.session}/messages/text?{query}", line.data)
        except Refused as refused:
            if refused.status in FATAL_STATUSES or refused.status == _NOT_FOUND:
                raise
            self._report_refused(line.number, refused.detail)
        else:
            self.stored += 1

    def _fields(self, number: int) -> dict[str, str]:
        """Return the id of a line, and the format of the stream, even if the line alone does not show it."""
        source = {"source": self.source} if self.source else {}
        return {"id": f"{self._options.run}/{number}", **source}

    def _post_messages(self, messages: list[dict[str, str]]) -> None:
        """Post all messages except refused ones, which are found by the index in the response, else by bisection."""
        while messages:
            try:
                self._request("POST", f"/api/sessions/{self.session}/messages", messages)
            except Refused as refused:
                if refused.status in FATAL_STATUSES or refused.status == _NOT_FOUND:
                    raise
                if refused.index is None and len(messages) > 1:
                    half = len(messages) // 2
                    self._post_messages(messages[:half])
                    messages = messages[half:]
                    continue
                message = messages.pop(refused.index or 0)
                self._report_refused(int(message["id"].rpartition("/")[2]), refused.detail)
            else:
                self.stored += len(messages)
                return

    def _report_refused(self, number: int, reason: str) -> None:
        self.refused += 1
        self._progress.report_refused(number, reason)

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        return self._retry(partial(self._server.request, method, path, body))

    def _retry(self, request: Callable[[], T]) -> T:
        """Repeat the request until the server is available. Raises Refused, NotAsh."""
        delays = retry_delays()
        while True:
            try:
                answer = request()
            except Refused as refused:
                if refused.status not in RETRYABLE_STATUSES:
                    raise
                self._note_unavailable(refused.detail)
            except UNAVAILABLE as error:
                self._note_unavailable(describe_error(error))
            else:
                self._note_available()
                return answer
            time.sleep(next(delays))

    def _note_unavailable(self, reason: str) -> None:
        if not self._is_unavailable:
            self._is_unavailable = True
            self._progress.print_line(
                f"no server answers at {self._server.url} ({reason}); `ash serve` starts one. Input is passed on, and "
                "queued until the server answers"
            )

    def _note_available(self) -> None:
        self.last_answer = time.monotonic()
        if self._is_unavailable:
            self._is_unavailable = False
            self._progress.print_line(f"the server at {self._server.url} answers")


def _detect_source(line: QueuedLine) -> str | None:
    source = read_raw(line.data or b"", None).source(None)
    return None if source == "unknown" else source
