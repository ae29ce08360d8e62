"""Requests to an OpenTelemetry backend, and what its answers mean."""

import asyncio
import gzip
import json
import random
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import httpx2
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ash_client.retry import retry_delays
from ash_server.cli.forward.destination import Destination
from ash_server.errors import AshError
from ash_server.settings import is_loopback

TIMEOUT_SECONDS = 30.0
MAX_RETRY_AFTER = 300.0
"""Seconds to wait at most because of `Retry-After`."""
_MIN_DELAY, _MAX_DELAY = 0.5, 60.0
MAX_REFUSED = 5
"""Requests in a row that a backend may refuse before the command ends."""
_MAX_ANSWER = 64 * 1024
_MAX_REASON = 200
_TEMPORARY = frozenset({429, 502, 503, 504})
_MISCONFIGURED = frozenset({401, 403, 404, 405, 407, 415, 421})
"""Statuses that every request would get."""
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"

OtlpSpan = dict[str, Any]


class BackendRefuses(AshError):
    status, code, title = 502, "backend_refuses", "The backend accepts no spans."


class BackendUnavailable(AshError):
    status, code, title = 503, "backend_unavailable", "The backend does not answer."


class Receipt(NamedTuple):
    """The answer to a request that is not repeated."""

    rejected: int = 0
    """Number of spans."""
    reason: str = ""
    """The backend's explanation; a warning if no span was rejected."""


class Backend:
    """Sends spans."""

    def __init__(
        self, destination: Destination, wait: float | None, print_line: Callable[[str], None]
    ) -> None:
        """`wait` is the number of seconds to wait for an unavailable backend; None: without a limit."""
        self._destination = destination
        self._wait = wait
        self._print_line = print_line
        self._is_failing = False
        self._refused = 0
        """Requests in a row that were refused."""
        host = urlsplit(destination.url).hostname or ""
        self._http = httpx2.AsyncClient(
            timeout=TIMEOUT_SECONDS, follow_redirects=False, trust_env=not is_loopback(host)
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, traceback)

    async def send(self, resource: Any, scope: Any, spans: Sequence[OtlpSpan]) -> Receipt:
        """Send the spans of a scope, in smaller requests if they are too large for the backend.

        Raises BackendRefuses, BackendUnavailable.
        """
        body = await asyncio.to_thread(_encode, self._destination, resource, scope, spans)
        answer = await self._send(body)
        if answer.is_success:
            self._refused = 0
            return answer.receipt()
        if answer.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            half = len(spans) // 2
            if not half:
                return Receipt(1, answer.reason())
            one = await self.send(resource, scope, spans[:half])
            other = await self.send(resource, scope, spans[half:])
            return Receipt(one.rejected + other.rejected, one.reason or other.reason)
        self._refused += 1
        if answer.status in _MISCONFIGURED or answer.is_redirect or self._refused > MAX_REFUSED:
            raise BackendRefuses(f"{self._destination.url} answered {answer.reason()}")
        return Receipt(len(spans), answer.reason())

    async def _send(self, body: bytes) -> "BackendAnswer":
        """Return the first answer that is not temporary. Raises BackendUnavailable."""
        delays, start = retry_delays(_MIN_DELAY, _MAX_DELAY), time.monotonic()
        while True:
            after = 0.0
            try:
                async with asyncio.timeout(2 * TIMEOUT_SECONDS):
                    answer = await self._post(body)
            except (httpx2.TransportError, TimeoutError) as error:
                reason = str(error) or type(error).__name__
            else:
                if answer.status not in _TEMPORARY:
                    self._note("")
                    return answer
                reason, after = answer.reason(), answer.retry_after()
            spread = random.uniform(0.8, 1.2)  # many forwarders do not retry at once
            delay = max(next(delays) * spread, min(after, MAX_RETRY_AFTER))
            if self._wait is not None and time.monotonic() - start + delay > self._wait:
                raise BackendUnavailable(f"{self._destination.url} does not answer: {reason}")
            self._note(reason)
            await asyncio.sleep(delay)

    def _note(self, reason: str) -> None:
        """Report the first failure, and the first answer after it."""
        if bool(reason) != self._is_failing:
            self._is_failing = bool(reason)
            url = self._destination.url
            self._print_line(
                f"{url} does not answer ({reason}); trying again" if reason else f"{url} answers"
            )

    async def _post(self, body: bytes) -> "BackendAnswer":
        destination = self._destination
        headers = {
            "user-agent": "ash-forward",
            **destination.headers,
            "content-type": _JSON if destination.is_json else _PROTOBUF,
            "accept-encoding": "identity",
            **({"content-encoding": "gzip"} if destination.is_compressed else {}),
        }
        async with self._http.stream("POST", destination.url, content=body, headers=headers) as response:
            content = b""
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > _MAX_ANSWER:
                    break
            return BackendAnswer(response.status_code, response.headers, content[:_MAX_ANSWER])


def _encode(destination: Destination, resource: Any, scope: Any, spans: Sequence[OtlpSpan]) -> bytes:
    if destination.is_json:
        document = {
            "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]
        }
        body = json.dumps(document, separators=(",", ":")).encode()
    else:
        binary = [
            {name: _binary(value) if name in _IDS else value for name, value in span.items()}
            for span in spans
        ]
        document = {
            "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": binary}]}]
        }
        body = ParseDict(document, ExportTraceServiceRequest()).SerializeToString()
    return gzip.compress(body, 6) if destination.is_compressed else body


_IDS = frozenset({"traceId", "spanId", "parentSpanId"})


def _binary(id: str) -> str:
    """Return an id in base64, as protobuf's JSON has it; OTLP writes it in hexadecimal."""
    return b64encode(bytes.fromhex(id)).decode()


class BackendAnswer(NamedTuple):
    status: int
    headers: httpx2.Headers
    content: bytes
    """The beginning of the body."""

    @property
    def is_success(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def is_redirect(self) -> bool:
        return self.status < HTTPStatus.BAD_REQUEST and not self.is_success

    def receipt(self) -> Receipt:
        """Return the number of rejected spans and the reason: none, if the body is not an answer of OTLP."""
        media_type = self.headers.get("content-type", "")
        if _JSON in media_type:
            with suppress(ValueError, TypeError, AttributeError, OverflowError, RecursionError):
                partial = json.loads(self.content).get("partialSuccess") or {}
                reason = partial.get("errorMessage")
                rejected = max(0, int(partial.get("rejectedSpans") or 0))
                return Receipt(rejected, _short(reason) if isinstance(reason, str) else "")
        elif _PROTOBUF in media_type:
            with suppress(DecodeError):
                success = ExportTraceServiceResponse.FromString(self.content).partial_success
                return Receipt(max(0, success.rejected_spans), _short(success.error_message))
        return Receipt()

    def reason(self) -> str:
        """Return the status, and the explanation in the body of an error."""
        explained = _explanation(self.content)
        return f"{_phrase(self.status)}: {explained}" if explained else _phrase(self.status)

    def retry_after(self) -> float:
        """Return the seconds of `Retry-After`; 0 without it."""
        value = self.headers.get("retry-after", "")
        with suppress(ValueError):
            return max(0.0, float(value))
        with suppress(ValueError, TypeError):
            return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
        return 0.0


def _explanation(content: bytes) -> str:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    texts = [fields.get(name) for name in ("detail", "message", "error")] if isinstance(fields, dict) else []
    return next((_short(text) for text in texts if isinstance(text, str) and text), "")


def _short(text: str) -> str:
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}…"


def _phrase(status: int) -> str:
    with suppress(ValueError):
        return f"{status} {HTTPStatus(status).phrase}"
    return str(status)
