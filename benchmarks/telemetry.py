"""P18: spans over OTLP/HTTP, stored with their events; without a network."""

import json
from itertools import count
from typing import Any, NamedTuple

from httpx2 import ASGITransport, AsyncClient
from litestar import Litestar
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ash_server.app import create_app
from ash_server.settings import Settings
from benchmarks.measure import AsyncRun, take_turns_async
from benchmarks.table import Row

_FLOOR = 1000
"""Spans per second on two cores."""
_HISTORY = 7
"""Messages before each answer that its span repeats."""
_WORDS = "one two three four five six seven eight nine ten " * 3


class Size(NamedTuple):
    spans: int
    """Spans of a request; the default of the SDKs is 512."""
    conversations: tuple[int, ...]
    """Conversations of a request, by case."""
    rounds: int


FULL = Size(spans=500, conversations=(1, 25, 500), rounds=7)
SMOKE = Size(spans=10, conversations=(2,), rounds=1)


async def measure(url: str, size: Size) -> list[Row]:
    app = create_app(Settings(), database_url=url)
    async with app.lifespan(), _client(app) as client:
        cases = {str(number): _export(client, size.spans, number) for number in size.conversations}
        times = await take_turns_async(cases, size.rounds)
    return [
        Row(
            "P18",
            f"spans stored; {size.spans} in a request, conversations: {conversations}",
            size.spans / times.typical(conversations),
            _FLOOR,
            unit=" per s",
        )
        for conversations in cases
    ]


def _client(app: Litestar) -> AsyncClient:
    transport = ASGITransport(app)  # type: ignore[arg-type]  # Litestar types its messages
    return AsyncClient(transport=transport, base_url="http://127.0.0.1:4100", timeout=None)


def _export(client: AsyncClient, spans: int, conversations: int) -> AsyncRun:
    """Return a function that exports new conversations each time."""
    runs = count()

    async def run() -> None:
        body = _request(f"{conversations}-{next(runs)}", spans, conversations)
        answer = await client.post(
            "/v1/traces", content=body, headers={"Content-Type": "application/x-protobuf"}
        )
        assert (answer.status_code, answer.content) == (200, b""), answer.text

    return run


def _request(name: str, spans: int, conversations: int) -> bytes:
    export = ExportTraceServiceRequest()
    scoped = export.resource_spans.add().scope_spans.add()
    for number in range(spans):
        turn, conversation = divmod(number, conversations)
        span = scoped.spans.add(
            trace_id=f"{name} {conversation}".rjust(16).encode()[-16:],
            span_id=(number + 1).to_bytes(8),
            name="chat",
            start_time_unix_nano=(1_780_000_000 + 2 * number) * 10**9,
            end_time_unix_nano=(1_780_000_001 + 2 * number) * 10**9,
        )
        messages = [_message(place) for place in range(max(0, 2 * turn + 1 - _HISTORY), 2 * turn + 2)]
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": f"{name}-{conversation}",
            "gen_ai.request.model": "model",
            "gen_ai.input.messages": json.dumps(messages[:-1]),
            "gen_ai.output.messages": json.dumps(messages[-1:]),
        }
        for key, value in attributes.items():
            span.attributes.add(key=key).value.string_value = value
        span.attributes.add(key="gen_ai.usage.output_tokens").value.int_value = 30
    body: bytes = export.SerializeToString()
    return body


def _message(place: int) -> dict[str, Any]:
    role = "assistant" if place % 2 else "user"
    return {"role": role, "parts": [{"type": "text", "content": f"{place}: {_WORDS}"}]}
