"""OpenTelemetry traces of requests, enabled by the standard variables (`OTEL_EXPORTER_OTLP_ENDPOINT`).

A span has the method, route, status and duration of a request. The framework's plugin also records addresses, which
contain ids of sessions and the words of searches.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from litestar.types import Scope

from ash_server.settings import SettingsError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROPAGATED = (b"traceparent", b"tracestate")


class Tracing:
    """Records requests as spans."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer("ash_server")
        self._propagator = TraceContextTextMapPropagator()

    def record(self, scope: Scope, fields: Mapping[str, str | int], started: int, ended: int) -> None:
        """Record a request that has ended; times are in nanoseconds since 1970."""
        from opentelemetry.trace import SpanKind, StatusCode

        headers = {
            name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _PROPAGATED
        }
        method, route, status = fields["method"], fields["route"], int(fields["status"])
        span = self._tracer.start_span(
            f"{method} {route}" if route else "unknown path",
            context=self._propagator.extract(headers),
            kind=SpanKind.SERVER,
            attributes={
                "http.request.method": method
                if route
                else "_OTHER",  # a client may send any word as the method
                "http.response.status_code": status,
                **({"http.route": route} if route else {}),
            },
            start_time=started,
        )
        if status >= 500:
            span.set_status(StatusCode.ERROR)
        span.end(ended)


@contextmanager
def configured_tracing(environ: Mapping[str, str]) -> Iterator[Tracing | None]:
    """Send traces while entered, if an endpoint is configured. Raises SettingsError if the packages are missing."""
    endpoint = next((name for name in _ENDPOINTS if environ.get(name)), None)
    if endpoint is None:
        yield None
        return
    provider = _exporting_provider(endpoint)
    try:
        yield Tracing(provider)
    finally:
        provider.shutdown()


def _exporting_provider(endpoint: str) -> "TracerProvider":
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"{endpoint} is set, but OpenTelemetry is not installed: "
            "`pip install 'PATH/TO/CLONE[otel]'`, or unset it"
        ) from error
    resource = Resource.create({"service.name": "ash"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
