"""Metrics for Prometheus.

Requests (`http.requests`) and appends are counted as they happen; gauges of the store, its subscribers and its database
are read when the metrics are requested. No metric contains an id or content of a message.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Literal, Protocol

from litestar import Controller, Response, get
from litestar.datastructures import State
from litestar.types import Scope
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Counter, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ash_server.api.http.access import WITHOUT_DATABASE, client_of, needs
from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.openapi_operations import operation, text
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.db.tenants import DEFAULT
from ash_server.errors import DatabaseUnavailable, SchemaMismatch, ScopeMissing
from ash_server.live.session_feed import SessionFeeds
from ash_server.repositories.statistics import Statistics
from ash_server.store import Store

_PLAIN = "text/plain"
_EXAMPLE = (
    "# HELP ash_appended_total Stored entries; entries that were already stored are not counted.\n"
    "# TYPE ash_appended_total counter\n"
    'ash_appended_total{log="messages"} 1042.0\n'
)
_appended = Counter(
    "ash_appended", "Stored entries; entries that were already stored are not counted.", ["log"]
)


class _Appended(Protocol):
    @property
    def created(self) -> bool: ...


def count_appended(log: Literal["messages", "events"], stored: Iterable[_Appended]) -> None:
    _appended.labels(log).inc(sum(each.created for each in stored))


class MetricsController(Controller):
    path = "/metrics"
    tags = ("health",)

    @get(
        opt={**needs("admin"), **WITHOUT_DATABASE},
        media_type=_PLAIN,
        operation_id="metrics",
        summary="Read metrics",
        description="Metrics in the text format of Prometheus. Those of the database are absent while it is "
        "unavailable. Needs the scope `admin` and the tenant `default`, since they cover all tenants.",
        response_description="The metrics.",
        responses=error_responses(*READ_ERRORS),
        operation_class=operation(responses={200: {_PLAIN: text("One metric per line.", example=_EXAMPLE)}}),
    )
    async def metrics(self, store: InjectedStore, state: State, scope: Scope) -> Response[bytes]:
        if client_of(scope).tenant != DEFAULT:
            raise ScopeMissing("The metrics of the server need a key of the tenant `default`.")
        gauges = [*_stream_gauges(store, state.session_feeds), _task_gauge(), *await _database_gauges(store)]
        content = generate_latest(REGISTRY) + generate_latest(_Gauges(gauges))
        return Response(content, media_type=CONTENT_TYPE_LATEST)


class _Gauges(Collector):
    def __init__(self, gauges: Iterable[Metric]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        return self._gauges


def _stream_gauges(store: Store, feeds: SessionFeeds) -> Iterator[Metric]:
    subscriptions = store.hub.count_subscriptions()
    streams = GaugeMetricFamily("ash_streams_open", "Open subscriptions.", labels=["to"])
    streams.add_metric(["events"], subscriptions.subscribers)
    streams.add_metric(["sessions"], feeds.subscriber_count)
    yield streams
    yield GaugeMetricFamily(
        "ash_stream_lag_events",
        "Stored events that the slowest subscriber has not read, as of the last poll.",
        subscriptions.lag,
    )


def _task_gauge() -> Metric:
    return GaugeMetricFamily("ash_tasks", "Tasks of the event loop.", len(asyncio.all_tasks()))


async def _database_gauges(store: Store) -> list[Metric]:
    try:
        statistics = await store.read_statistics()
    except (DatabaseUnavailable, SchemaMismatch):
        return [_up(0)]
    return [_up(1), *_statistics_gauges(statistics)]


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
    pool = GaugeMetricFamily("ash_database_connections", "Connections of the pool.", labels=["state"])
    for state, count in statistics.connections.items():
        pool.add_metric([state], count)
    yield pool
