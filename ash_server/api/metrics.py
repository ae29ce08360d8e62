"""Metrics for Prometheus.

Requests (`http.requests`) and appends are counted as they happen; gauges of the process and of the database, and the
usage of models, are read when the metrics are requested. Of several worker processes, each answers for all: it adds the
counters, and has the gauges of each process, which the others have set a moment ago. No metric contains an id or
content of a message.
"""

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

from litestar import Controller, Response, get
from litestar.datastructures import State
from litestar.types import Scope
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import WITHOUT_DATABASE, client_of, needs
from ash_server.api.http.openapi.operations import documents, text
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.errors import DatabaseUnavailable, SchemaMismatch, ScopeMissing
from ash_server.live.replica import Replica
from ash_server.live.session_feed import SessionFeeds
from ash_server.logs import is_worker
from ash_server.store import Store
from ash_server.store.connections.tenants import DEFAULT
from ash_server.store.maintenance.statistics import Statistics
from ash_server.store.usage.reports import ModelTokens
from ash_server.tasks import BackgroundTask

_PLAIN = "text/plain"
_appended = Counter(
    "ash_appended", "Stored entries; entries that were already stored are not counted.", ["log"]
)

_process_gauge = partial(Gauge, multiprocess_mode="liveall")
_streams = _process_gauge("ash_streams_open", "Open subscriptions.", ["to"])
_lag = _process_gauge(
    "ash_stream_lag_events", "Stored events that the slowest subscriber has not read, as of the last poll."
)
_tasks = _process_gauge("ash_tasks", "Tasks of the event loop.")
_connections = _process_gauge("ash_database_connections", "Connections of the pool.", ["state"])

_SET_SECONDS = 2.0
"""The interval between updates of the gauges of a worker process."""


class _Appended(Protocol):
    @property
    def created(self) -> bool: ...


def count_appended(log: Literal["messages", "events"], stored: Iterable[_Appended]) -> None:
    count_created(log, sum(each.created for each in stored))


def count_created(log: Literal["messages", "events"], number: int) -> None:
    _appended.labels(log).inc(number)


class MetricsController(Controller):
    path = "/metrics"
    tags = ("health",)

    @get(
        opt=needs("admin") | WITHOUT_DATABASE | documents(answer={_PLAIN: text("One metric per line.")}),
        media_type=_PLAIN,
        operation_id="metrics",
        response_description="The metrics.",
        responses=error_responses(*READ_ERRORS),
    )
    async def metrics(self, store: InjectedStore, state: State, scope: Scope) -> Response[bytes]:
        """Read metrics.

        Returns metrics in the text format of Prometheus, without database metrics while it is unavailable.
        Needs the scope `admin` and the tenant `default`, since they cover all tenants.
        """
        if client_of(scope).tenant != DEFAULT:
            raise ScopeMissing("The metrics of the server need a key of the tenant `default`.")
        set_gauges(state.store, state.session_feeds)
        gauges = [*_replica_gauges(state.replica), *await _database_gauges(store)]
        content = _generate_own() + generate_latest(_Gauges(gauges))
        return Response(content, media_type=CONTENT_TYPE_LATEST)


class GaugeSetter(BackgroundTask):
    """Keeps a worker's gauges current: any worker may answer for all workers."""

    def __init__(self, store: Store, feeds: SessionFeeds) -> None:
        self._store = store
        self._feeds = feeds

    async def _run(self) -> None:
        while is_worker():
            set_gauges(self._store, self._feeds)
            await asyncio.sleep(_SET_SECONDS)


def set_gauges(store: Store, feeds: SessionFeeds) -> None:
    """Update this process's gauges."""
    subscriptions = store.hub.count_subscriptions()
    _streams.labels("events").set(subscriptions.subscribers)
    _streams.labels("sessions").set(feeds.subscriber_count)
    _lag.set(subscriptions.lag)
    _tasks.set(len(asyncio.all_tasks()))
    for state, count in store.count_connections().items():
        _connections.labels(state).set(count)


def _generate_own() -> bytes:
    """Return this process's metrics, or the sums over all workers."""
    if not is_worker():
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    WorkerCollector(registry)
    return generate_latest(registry)


class WorkerCollector(MultiProcessCollector):
    """Collects the metrics of all workers, except from the empty files that a worker has just created."""

    def __init__(self, registry: CollectorRegistry | None, folder: str | None = None) -> None:
        super().__init__(registry, folder)  # type: ignore[no-untyped-call]

    def collect(self) -> Iterable[Metric]:
        files = [str(path) for path in Path(self._path).glob("*.db") if not _is_empty(path)]
        metrics: Iterable[Metric] = self.merge(files)  # type: ignore[no-untyped-call]
        return metrics


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except FileNotFoundError:  # of a worker that has ended
        return True


class _Gauges(Collector):
    def __init__(self, gauges: Iterable[Metric]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        return self._gauges


def _replica_gauges(replica: Replica | None) -> Iterator[Metric]:
    if replica is None:
        return
    status = replica.status
    yield GaugeMetricFamily("ash_replica_used", "1 if reads go to the replica.", status.is_used)
    if status.lag_seconds is not None:
        yield GaugeMetricFamily(
            "ash_replica_lag_seconds",
            "Age of the oldest change that the replica does not have.",
            status.lag_seconds,
        )


async def _database_gauges(store: Store) -> list[Metric]:
    try:
        statistics = await store.read_statistics()
    except (DatabaseUnavailable, SchemaMismatch):
        return [_up(0)]
    return [_up(1), *_statistics_gauges(statistics)]


def _usage_counters(models: Iterable[ModelTokens]) -> Iterator[Metric]:
    answers = CounterMetricFamily("ash_usage_answers", "Answers of models.", labels=["source", "model"])
    tokens = CounterMetricFamily("ash_usage_tokens", "Tokens of models.", labels=["source", "model", "type"])
    for source, model, count, *counts in models:
        answers.add_metric([source, model], count)
        for type, value in zip(_TOKEN_TYPES, counts, strict=True):
            tokens.add_metric([source, model, type], value)
    yield answers
    yield tokens


_TOKEN_TYPES = ModelTokens._fields[3:]


def _up(value: int) -> Metric:
    return GaugeMetricFamily(
        "ash_database_up", "1 if the database is available with the right schema.", value
    )


def _statistics_gauges(statistics: Statistics) -> Iterator[Metric]:
    yield GaugeMetricFamily("ash_database_bytes", "Size of the database.", statistics.database_bytes)
    yield GaugeMetricFamily(
        "ash_search_pending_events",
        "Stored events that are not in the search index.",
        statistics.search_pending,
    )
    drift = GaugeMetricFamily(
        "ash_unrecognized_blocks",
        "Unknown and malformed blocks of stored messages.",
        labels=["source", "reason"],
    )
    for source, reason, count in statistics.drift:
        drift.add_metric([source, reason], count)
    yield drift
    yield from _usage_counters(statistics.models)
