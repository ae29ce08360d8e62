"""Metrics for Prometheus."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from httpx2 import AsyncClient
from litestar import Litestar
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.parser import text_string_to_metric_families

from ash_server.api.metrics import WorkerCollector
from ash_server.errors import KeyInvalid
from ash_server.keys import ring
from ash_server.settings import Settings
from ash_server.store import Store
from tests.cluster import not_on_cluster
from tests.server.api.conftest import SECRET as KEY_SECRET
from tests.server.api.conftest import bearer, create_key
from tests.shared.records import claude
from tests.shared.records.events import wire_event
from tests.waiting import wait_until

SECRET = "canary-7f3b"
LINE = f'{{"type":"user","uuid":"u1","message":{{"role":"user","content":"{SECRET}"}}}}'
UNKNOWN = (
    '{"type":"assistant","uuid":"u2","message":{"role":"assistant","content":[{"type":"hologram","data":1}]}}'
)
EVENT = wire_event("user_message", text=SECRET, id="e1")
ROUTE = "/api/sessions/{session_id}/messages"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(metrics: httpx2.Response) -> Samples:
    families = text_string_to_metric_families(metrics.text)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def request_key(method: str, route: str, status: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return key("ash_requests_total", method=method, route=route, status=status)


@pytest.mark.slow
async def test_counts_requests_and_stored_entries(own_client: AsyncClient) -> None:
    before = read(await own_client.get("/metrics"))
    session = f"/api/sessions/{(await own_client.post('/api/sessions', json={})).json()['id']}"
    for _ in range(2):  # the second append stores nothing
        await own_client.post(f"{session}/messages", json=[{"content": LINE}, {"content": UNKNOWN}])
    await own_client.post(f"{session}/events", json=EVENT)
    await own_client.post(f"{session}/messages", json={"content": 1})
    response = await own_client.get("/metrics")
    after = read(response)

    expected = {
        key("ash_appended_total", log="messages"): 2,
        key("ash_appended_total", log="events"): 1,
        request_key("POST", ROUTE, "201"): 1,
        request_key("POST", ROUTE, "200"): 1,
        request_key("POST", ROUTE, "400"): 1,
    }
    assert response.headers["content-type"].startswith("text/plain")
    assert {name: after[name] - before.get(name, 0) for name in expected} == expected
    gauges = {
        key("ash_database_up"): 1,
        key("ash_unrecognized_blocks", source="claude", reason="unknown_type"): 1,
        key("ash_streams_open", to="events"): 0,
        key("ash_streams_open", to="sessions"): 0,
        key("ash_stream_lag_events"): 0,
    }
    assert {name: after[name] for name in gauges} == gauges
    assert after[key("ash_database_bytes")] > 0
    assert after[key("ash_tasks")] > 0
    assert key("ash_search_pending_events") in after
    assert SECRET not in response.text
    assert session.rpartition("/")[2] not in response.text


@pytest.mark.slow
def test_counts_open_streams(server: str) -> None:
    session = httpx2.post(f"{server}/api/sessions", json={}).json()["id"]
    addresses = {"events": f"/api/sessions/{session}/events/stream", "sessions": "/api/sessions/stream"}

    def has_open(name: str, number: int) -> bool:
        return read(httpx2.get(f"{server}/metrics"))[key("ash_streams_open", to=name)] == number

    for name, address in addresses.items():
        with httpx2.stream("GET", f"{server}{address}"):
            wait_until(partial(has_open, name, 1))
        wait_until(partial(has_open, name, 0))


@not_on_cluster("the database has one name on all nodes")
class TestWithoutDatabase:
    """Metrics are read when they matter most, by keys that were valid before."""

    @pytest.fixture
    def settings(self, monkeypatch: pytest.MonkeyPatch) -> Settings:
        monkeypatch.setattr(ring, "_REMEMBERED_SECONDS", 0.0)
        return Settings(secret=KEY_SECRET)

    @pytest.mark.slow
    async def test_known_keys(
        self,
        own_client: AsyncClient,
        app: Litestar,
        store: Store,
        server_url: str,
        database_url: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        admin, unused, reader = [
            await create_key(store, name, "default", scope)
            for name, scope in (("admin", "admin"), ("unused", "admin"), ("reader", "read"))
        ]
        before = [await own_client.get("/metrics", headers=bearer(key)) for key in (admin, reader)]
        take_away(app, server_url, database_url)
        after = [await own_client.get("/metrics", headers=bearer(key)) for key in (admin, reader, unused)]
        sessions = await own_client.get("/api/sessions", headers=bearer(reader))
        monkeypatch.setattr(ring, "_RECALLED_SECONDS", 0.0)
        later = await own_client.get("/metrics", headers=bearer(admin))

        assert [each.status_code for each in before] == [200, 403]
        assert [each.status_code for each in (*after, sessions, later)] == [200, 403, 503, 503, 503]
        assert read(after[0])[key("ash_database_up")] == 0

    @pytest.mark.slow
    async def test_without_keys(
        self, own_client: AsyncClient, app: Litestar, server_url: str, database_url: str
    ) -> None:
        await own_client.get("/metrics")
        take_away(app, server_url, database_url)

        metrics = await own_client.get("/metrics")

        assert (metrics.status_code, read(metrics)[key("ash_database_up")]) == (200, 0)

    async def test_streams_go_on(
        self, own_client: AsyncClient, app: Litestar, store: Store, server_url: str, database_url: str
    ) -> None:
        """With a key, unless it has expired meanwhile."""
        keys: ring.KeyRing = app.state.key_ring
        valid = await keys.identify(await create_key(store, "reader", "default", "read"), None)
        assert valid.key
        expired = valid._replace(key=valid.key._replace(expires_at=valid.key.created_at))
        take_away(app, server_url, database_url)

        assert await keys.find_refusal(valid) is None
        assert isinstance(await keys.find_refusal(expired), KeyInvalid)

    @pytest.mark.slow
    async def test_streams_go_on_without_keys(
        self, own_client: AsyncClient, app: Litestar, server_url: str, database_url: str
    ) -> None:
        keys: ring.KeyRing = app.state.key_ring
        anyone = await keys.identify(None, None)
        take_away(app, server_url, database_url)

        assert await keys.find_refusal(anyone) is None


def take_away(app: Litestar, server_url: str, database_url: str) -> None:
    """End the connections to the database, and let it accept no others."""
    connections = app.state.store._connections
    connections.pool.timeout = connections.owner_pool.timeout = 0.2
    with psycopg.connect(database_url) as conn:
        name = conn.info.dbname
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])


@pytest.mark.slow
async def test_usage_by_source_and_model(own_client: AsyncClient) -> None:
    usage = {
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 1_000_000,
    }
    records = [
        claude.line(
            "assistant",
            [claude.text("Done.")],
            {"id": f"m{number}", "model": model, "usage": usage},
            uuid=f"u{number}",
            timestamp="2026-11-02T09:00:00Z",
        )
        for number, model in enumerate(("claude-opus-4-5", "new"))
    ]
    session = (await own_client.post("/api/sessions", json={})).json()["id"]
    lines = [{"content": json.dumps(each)} for each in records]
    await own_client.post(f"/api/sessions/{session}/messages", json=lines)
    samples = {
        name: value
        for name, value in read(await own_client.get("/metrics")).items()
        if "ash_usage" in name[0]
    }

    counts = {"input": 1, "output": 2, "cache_read": 3, "cache_write": 1_000_000}
    labels = [{"source": "claude", "model": model} for model in ("claude-opus-4-5", "new")]
    assert samples == {
        **{key("ash_usage_answers_total", **each): 1 for each in labels},
        **{
            key("ash_usage_tokens_total", **each, type=type): count
            for each in labels
            for type, count in counts.items()
        },
    }


def test_files_that_a_worker_has_just_created_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "counter_2.db").touch()
    stored: Any = MmapedDict(str(tmp_path / "counter_1.db"))  # type: ignore[no-untyped-call]
    stored.write_value(mmap_key("appended", "appended_total", ["log"], ["messages"], "Entries."), 3.0, 0.0)
    stored.close()

    metrics = WorkerCollector(None, str(tmp_path)).collect()

    assert [(each.name, each.labels, each.value) for metric in metrics for each in metric.samples] == [
        ("appended_total", {"log": "messages"}, 3.0)
    ]
