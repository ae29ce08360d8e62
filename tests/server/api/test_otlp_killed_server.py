"""OpenTelemetry's exporter sends spans from several threads while the server, a process, is killed and restarted."""

import asyncio
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext, TraceFlags, format_span_id, format_trace_id

from ash_server.store import Store
from benchmarks.deployment import ServerProcess
from tests.conftest import POOLER
from tests.ports import free_port
from tests.server.api.conftest import SECRET, create_key
from tests.waiting import TIMEOUT, until

THREADS, REQUESTS, SPANS = 4, 16, 6

pytestmark = pytest.mark.slow


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(database_url, tmp_path / "server", ASH_SECRET=SECRET, **POOLER)
    process.port = free_port()
    process.start()
    yield process
    process.stop()


def span(number: int, conversation: str) -> ReadableSpan:
    context = SpanContext(number + 1, number + 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return ReadableSpan(
        "chat",
        context,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": conversation,
            "gen_ai.prompt": f"Prompt {number}",
            "gen_ai.usage.output_tokens": 3,
        },
        start_time=1_780_000_000_000_000_000 + number,
        end_time=1_780_000_000_000_000_001 + number,
    )


def requests_of(thread: int) -> list[list[ReadableSpan]]:
    """Each request has spans of a long conversation, of new ones, and of one that all threads share."""
    first = thread * REQUESTS * SPANS
    return [
        [
            span(number, (f"long {thread}", f"own {number}", "shared")[number % 3])
            for number in range(start, start + SPANS)
        ]
        for start in range(first, first + REQUESTS * SPANS, SPANS)
    ]


class Senders:
    """Threads that repeat each request until the server acknowledges it."""

    def __init__(self, address: str, key: str) -> None:
        self._exporters = [
            OTLPSpanExporter(
                f"{address}/v1/traces",
                headers={"Authorization": f"Bearer {key}"},
                compression=Compression.Gzip if thread % 2 else None,
            )
            for thread in range(THREADS)
        ]
        self.is_up = Event()
        self.acknowledged: list[Sequence[ReadableSpan]] = []

    def send_all(self, thread: int) -> None:
        for request in requests_of(thread):
            while self._exporters[thread].export(request) is not SpanExportResult.SUCCESS:
                assert self.is_up.wait(TIMEOUT)
            self.acknowledged.append(request)

    def close(self) -> None:
        for each in self._exporters:
            each.shutdown()  # type: ignore[no-untyped-call]


async def stored_ids(store: Store) -> list[str]:
    page = await store.sessions.list_sessions(source="otel", limit=1000)
    return [
        message.id
        for session in page.sessions
        for message in await store.messages.list_messages(session.id, limit=1000)
    ]


async def test_acknowledged_spans_are_stored_once(server: ServerProcess, store: Store) -> None:
    senders = Senders(server.address, await create_key(store, "agent", "default", "write"))
    senders.is_up.set()
    loop = asyncio.get_running_loop()

    with ThreadPoolExecutor(THREADS) as threads:
        sending = [loop.run_in_executor(threads, senders.send_all, number) for number in range(THREADS)]
        await until(lambda: len(senders.acknowledged) >= THREADS * REQUESTS // 3)
        senders.is_up.clear()
        server.stop(signal.SIGKILL)
        acknowledged = {id_of(each) for request in [*senders.acknowledged] for each in request}
        stored = {*await stored_ids(store)}
        await asyncio.to_thread(server.start)
        senders.is_up.set()
        assert acknowledged <= stored
        await asyncio.gather(*sending)

        expected = sorted(
            id_of(each) for thread in range(THREADS) for request in requests_of(thread) for each in request
        )
        assert sorted(await stored_ids(store)) == expected
        again = [loop.run_in_executor(threads, senders.send_all, number) for number in range(THREADS)]
        await asyncio.gather(*again)
    senders.close()

    assert sorted(await stored_ids(store)) == expected


def id_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{format_trace_id(span.context.trace_id)}-{format_span_id(span.context.span_id)}"
