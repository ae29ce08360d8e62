"""Send queued lines to a session of the server."""

import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from ash_client import ApiError, MessageToAppend
from ash_client.requests import MAX_BATCHED_BYTES, append_batch, append_text
from ash_server.cli.common.availability import Availability
from ash_server.cli.common.client import FATAL_STATUSES, as_uuid, find_by_id_prefix, server_at
from ash_server.cli.common.error_messages import error_message
from ash_server.cli.ingest.line_queue import MAX_BATCH_BYTES, LineQueue, QueuedLine
from ash_server.cli.ingest.progress import Progress
from ash_server.cli.tail import tail_command
from ash_server.transfer.importing.lines import MAX_LINE_BYTES
from ash_shared.model.message import declared_source
from ash_shared.parsing.parsed_text import parse_raw

_MAX_HEAD_LINES = 100
"""Lines read to detect the format, as for a file."""
_MIN_ID_PREFIX = 8
"""Digits that `ash sessions` shows at least. A shorter text is only looked up as a name."""
_NOT_FOUND, _CONFLICT = 404, 409
_ADVICE = "`ash serve` starts one. Input is passed on, and queued until the server answers"


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
        url: str | None,
        options: IngestOptions,
        queue: LineQueue,
        progress: Progress,
    ) -> None:
        self.stored = self.refused = 0
        self.session: UUID | None = None
        self.source = options.source
        self.has_sent_prompt = options.prompt is None
        self.is_done = False
        """True once every line is stored or refused."""
        self.availability = Availability(progress.print_line, _ADVICE)
        self.server = server_at(url, self.availability.retry(None))
        self.availability.url = self.server.url
        self._options = options
        self._queue = queue
        self._progress = progress
        self._prompted_at = time.time_ns() // 1_000_000

    def run(self) -> None:
        try:
            self.server.health()
            while (lines := self._next_batch()) is not None and self.session is not None:
                self._send_lines(self.session, lines)
                self._queue.acknowledge(lines)
                self._progress.report_counts(self.stored, self._queue.read - self.stored - self.refused)
            if self.session and self._options.ends:
                self.server.end_session(self.session)
            self.is_done = True
        except ApiError as error:
            self._progress.print_line(
                f"sending has stopped, input is still passed on: {error_message(error)}"
            )

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
        self.session = session = self._find_or_create_session()
        self._progress.print_line(
            f"storing input in session {self.session}; view it with "
            f"`{tail_command(self.server, self.session)}`"
        )
        if self._options.prompt is not None:
            self._send_prompt(session, self._options.prompt)
            self.has_sent_prompt = True
        return True

    def _find_or_create_session(self) -> UUID:
        """Return the session with this id or id prefix, else the one with this name, which may be new."""
        name = self._options.name
        if (id := as_uuid(name)) is not None:
            return self.server.get_session(id).id
        if len(name) >= _MIN_ID_PREFIX:
            session = find_by_id_prefix(self.server, name)
            if session is not None:
                return session.id
        return self.server.create_session(source=self.source or "unknown", external_id=name).id

    def _send_prompt(self, session: UUID, text: str) -> None:
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
        self.server.end_session(session)
        try:
            self.server.post_events(session, [start, prompt])
        except ApiError as error:
            # On a conflict, an earlier process of this run has stored the prompt.
            if error.status != _CONFLICT:
                raise

    def _send_lines(self, session: UUID, lines: Sequence[QueuedLine]) -> None:
        """Send lines in order: long ones alone, the others in batches."""
        for is_long, group in groupby(lines, lambda line: line.size > MAX_BATCHED_BYTES):
            if is_long:
                for line in group:
                    self._send_long_line(session, line)
            else:
                self._send_batch(session, group)

    def _send_batch(self, session: UUID, lines: Iterable[QueuedLine]) -> None:
        messages: list[MessageToAppend] = []
        for line in lines:
            try:
                text = (line.data or b"").decode()
            except UnicodeDecodeError as error:
                self._report_refused(line.number, f"byte {error.start + 1} is not valid UTF-8")
            else:
                messages.append(self._to_message(line.number, text))
        self._post_messages(session, messages)

    def _send_long_line(self, session: UUID, line: QueuedLine) -> None:
        """Send a line as the body of a request. The size limit is the same as for a line of a file."""
        if line.data is None:
            reason = f"it has {line.size:,} bytes, more than the {MAX_LINE_BYTES:,} of a line"
            self._report_refused(line.number, reason)
            return
        message = self._to_message(line.number, line.data.decode(errors="surrogateescape"))
        try:
            self.server.send(append_text(session, message))
        except ApiError as error:
            _raise_if_fatal(error)
            self._report_refused(line.number, error.detail)
        else:
            self.stored += 1

    def _to_message(self, number: int, text: str) -> MessageToAppend:
        """Return a line with its id, and the format of the stream, even if the line alone does not show it."""
        message: MessageToAppend = {"content": text, "id": f"{self._options.run}/{number}"}
        return {**message, "source": self.source} if self.source else message

    def _post_messages(self, session: UUID, messages: list[MessageToAppend]) -> None:
        """Post all messages except refused ones, which are found by the index in the response, else by bisection."""
        while messages:
            try:
                self.server.send(append_batch(session, messages))
            except ApiError as error:
                _raise_if_fatal(error)
                if error.index is None and len(messages) > 1:
                    half = len(messages) // 2
                    self._post_messages(session, messages[:half])
                    messages = messages[half:]
                    continue
                message = messages.pop(error.index or 0)
                self._report_refused(int(message["id"].rpartition("/")[2]), error.detail)
            else:
                self.stored += len(messages)
                return

    def _report_refused(self, number: int, reason: str) -> None:
        self.refused += 1
        self._progress.report_refused(number, reason)


def _raise_if_fatal(error: ApiError) -> None:
    """Raise an error that any other line would meet, too."""
    if error.status is None or error.status in FATAL_STATUSES or error.status == _NOT_FOUND:
        raise error


def _detect_source(line: QueuedLine) -> str | None:
    return declared_source(parse_raw(line.data or b"", None).source(None))
