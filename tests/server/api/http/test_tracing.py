"""Traces of requests for OpenTelemetry."""

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx2 import AsyncClient
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ash_server.api.http.tracing import Tracing, configured_tracing
from ash_server.app import create_app
from ash_server.settings import Settings, SettingsError
from tests.server.app_client import app_client

CANARY = "canary-4d7e"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
async def traced_client(database_url: str, exporter: InMemorySpanExporter) -> AsyncIterator[AsyncClient]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = create_app(Settings(), database_url=database_url, tracing=Tracing(provider))
    async with app_client(app, raise_app_exceptions=False) as client:
        yield client


def facts(span: ReadableSpan) -> tuple[str, dict[str, Any], str]:
    return span.name, dict(span.attributes or {}), span.status.status_code.name


async def test_spans_have_route_and_status_only(
    traced_client: AsyncClient, exporter: InMemorySpanExporter
) -> None:
    session = (await traced_client.post("/api/sessions", json={"title": CANARY})).json()["id"]
    await traced_client.get(f"/api/sessions/{session}", headers={"User-Agent": CANARY})
    await traced_client.get("/api/search", params={"q": CANARY})
    await traced_client.request(CANARY.upper(), f"/{CANARY}")

    spans = exporter.get_finished_spans()
    assert [facts(span) for span in spans] == [
        ("POST /api/sessions", attributes("POST", 201, "/api/sessions"), "UNSET"),
        ("GET /api/sessions/{session_id}", attributes("GET", 200, "/api/sessions/{session_id}"), "UNSET"),
        ("GET /api/search", attributes("GET", 200, "/api/search"), "UNSET"),
        ("unknown path", attributes("_OTHER", 404), "UNSET"),
    ]
    exported = "".join(span.to_json() for span in spans).lower()
    assert not [text for text in (CANARY, session, "127.0.0.1") if text in exported]
    assert all((span.start_time or 0) <= (span.end_time or 0) for span in spans)


def attributes(method: str, status: int, route: str | None = None) -> dict[str, Any]:
    known = {} if route is None else {"http.route": route}
    return {"http.request.method": method, "http.response.status_code": status, **known}


async def test_spans_continue_the_trace_of_the_client(
    traced_client: AsyncClient, exporter: InMemorySpanExporter
) -> None:
    await traced_client.get("/health/live", headers={"traceparent": PARENT})

    [span] = exporter.get_finished_spans()
    assert span.parent is not None
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{span.parent.span_id:016x}" == PARENT.split("-")[2]


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with (
        pytest.raises(SettingsError, match=rf"{name} is set, but .* `pip install 'PATH/TO/CLONE\[otel\]'`"),
        configured_tracing({name: "http://127.0.0.1:1"}),
    ):
        pass


def test_nothing_is_traced_unless_configured() -> None:
    with configured_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}) as tracing:
        assert tracing is None
