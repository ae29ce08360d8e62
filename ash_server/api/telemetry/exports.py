"""The sessions of the spans and log records in a request."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from ash_server.api.telemetry.encoding import OtlpFields, OtlpItem, log_fields, span_fields, to_text
from ash_server.errors import TooDeep
from ash_server.store.prepare import NewMessage
from ash_shared.providers.otel.spans import TelemetrySpan, conversation_of, is_of_agent, spans_of

SOURCE = "otel"

MAX_ATTRIBUTES = 20_000
"""Attributes of a span. OpenInference writes a conversation as one attribute for each field of each message."""
MAX_TOTAL_BYTES = 64 * 1024 * 1024
"""Bytes of the spans of a request, each with its resource and scope, which its text repeats."""
_TRACE_BYTES, _SPAN_BYTES = 16, 8
_MAX_NAME = 200
"""Characters of the id of a conversation in the name of a session; longer ones are named by their digest."""


class ReadItem(NamedTuple):
    """A span or a log record that is stored."""

    span: TelemetrySpan
    text: str
    id: str

    @property
    def time(self) -> int:
        return self.span.end or self.span.start or 0


class TelemetryExport:
    """The items of a request by session, and the reasons why others are not stored."""

    def __init__(self) -> None:
        self.sessions: Mapping[str, list[NewMessage]] = {}
        self.rejected = 0
        self._reasons: dict[str, int] = {}

    def reject(self, reason: str, count: int = 1) -> None:
        self.rejected += count
        self._reasons[reason] = self._reasons.get(reason, 0) + count

    @property
    def message(self) -> str:
        """The reasons, with the number of items for each."""
        return " ".join(f"{count}: {reason}" for reason, count in self._reasons.items())


def read_spans(items: Iterator[OtlpItem], max_bytes: int) -> TelemetryExport:
    return _read(items, _span_problem, span_fields, _span_id, max_bytes)


def read_logs(items: Iterator[OtlpItem], max_bytes: int) -> TelemetryExport:
    return _read(items, _log_problem, log_fields, _log_id, max_bytes)


def _span_problem(span: Any) -> str | None:
    has_ids = len(span.trace_id) == _TRACE_BYTES and len(span.span_id) == _SPAN_BYTES
    if not (has_ids and any(span.trace_id) and any(span.span_id)):
        return "A span needs a trace id of 16 bytes and a span id of 8, not only zeros."
    return None


def _log_problem(log: Any) -> str | None:
    if len(log.trace_id) not in (0, _TRACE_BYTES) or len(log.span_id) not in (0, _SPAN_BYTES):
        return "A log record has a trace id of 16 bytes and a span id of 8, or none."
    return None


def _span_id(span: TelemetrySpan, text: str) -> str:
    return f"{span.trace_id}-{span.span_id}"


def _log_id(log: TelemetrySpan, text: str) -> str:
    """Return an id that repeated exports have in common: log records have none."""
    return "log-" + blake2b(text.encode(), digest_size=16).hexdigest()


def _read(
    items: Iterator[OtlpItem],
    find_problem: Callable[[Any], str | None],
    to_fields: Callable[[Any], OtlpFields],
    to_id: Callable[[TelemetrySpan, str], str],
    max_bytes: int,
) -> TelemetryExport:
    export, read, total = TelemetryExport(), dict[str, ReadItem](), 0
    for item in items:
        problem = find_problem(item.message) or _size_problem(item, max_bytes)
        if problem is not None:
            export.reject(problem)
            continue
        total += item.context_bytes + item.message.ByteSize()
        if total > MAX_TOTAL_BYTES:
            export.reject(
                f"With their resources and scopes, the spans of a request have at most {MAX_TOTAL_BYTES} bytes."
            )
            continue
        try:
            record = item.context(to_fields(item.message))
        except TooDeep as error:
            export.reject(error.detail)
            continue
        span = spans_of(record)[0]
        if not is_of_agent(span):
            export.reject(
                "Only spans and log records of agents and models are stored: of the GenAI conventions, OpenInference, "
                "OpenLLMetry, Claude Code or Codex."
            )
            continue
        text = to_text(record)
        if len(text.encode()) > max_bytes:
            export.reject(f"A span has at most {max_bytes} bytes (ASH_MAX_MESSAGE_BYTES).")
            continue
        id = to_id(span, text)
        if read.setdefault(id, ReadItem(span, text, id)).text != text:
            export.reject("Another span of the request has the same id.")
    export.sessions = _by_session(list(read.values()))
    return export


def _size_problem(item: OtlpItem, max_bytes: int) -> str | None:
    if len(item.message.attributes) > MAX_ATTRIBUTES:
        return f"A span has at most {MAX_ATTRIBUTES} attributes."
    if item.message.ByteSize() + item.context_bytes > max_bytes:
        return f"A span has at most {max_bytes} bytes (ASH_MAX_MESSAGE_BYTES)."
    return None


def _by_session(items: list[ReadItem]) -> Mapping[str, list[NewMessage]]:
    """Return the messages by the name of their session, in order of their ends."""
    conversations = _conversations_by_trace(items)
    sessions = defaultdict[str, list[NewMessage]](list)
    for item in sorted(items, key=lambda item: item.time):
        trace = item.span.trace_id or ""
        own = conversation_of(item.span) or conversations.get(trace)
        name = f"conversation:{_shortened(own)}" if own else f"trace:{trace or item.id}"
        sessions[name].append(NewMessage(item.text, id=item.id, source=SOURCE))
    return sessions


def _conversations_by_trace(items: list[ReadItem]) -> Mapping[str, str]:
    """Return the conversation of each trace, if its spans name only one."""
    named = defaultdict[str, set[str]](set)
    for item in items:
        conversation = conversation_of(item.span)
        if conversation and item.span.trace_id:
            named[item.span.trace_id].add(conversation)
    return {trace: next(iter(ids)) for trace, ids in named.items() if len(ids) == 1}


def _shortened(name: str) -> str:
    if len(name) <= _MAX_NAME and name.isprintable():
        return name
    return blake2b(name.encode("utf-8", "replace"), digest_size=16).hexdigest()
