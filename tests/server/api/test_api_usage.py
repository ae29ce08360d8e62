"""Usage and cost over the API: rows, filters, formats, keys and tenants."""

import csv
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient

from ash_server.app import create_app
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.keys import SCOPES
from tests.server.api.conftest import SECRET, bearer, create_key
from tests.server.app_client import app_client
from tests.shared.records import claude

TOKEN = "xoxb-3141592653-5897932384626433832795"

PRICES = {"opus": {"input": 1, "output": 10, "cache_read": 0.1, "cache_write": 2, "cache_write_1h": 3}}
"""Dollars per million tokens."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    prices = tmp_path / "own.json"
    prices.write_text(json.dumps(PRICES))
    return Settings(home=tmp_path, prices=prices, secret=SECRET)


def answer(
    number: int, moment: str | None, tokens: int, *, model: str = "opus", cwd: str = "/srv/site"
) -> str:
    """Return a record of Claude Code with this many input tokens."""
    record: dict[str, Any] = claude.line(
        "assistant",
        [claude.text("Done.")],
        {"id": f"m{number}", "model": model, "usage": {"input_tokens": tokens, "output_tokens": 0}},
        uuid=f"u{number}",
        cwd=cwd,
        requestId=f"r{number}",
    )
    return json.dumps(record if moment is None else {**record, "timestamp": moment})


async def store_session(client: AsyncClient, lines: list[str], **fields: Any) -> str:
    created = await client.post("/api/sessions", json={"source": "claude", **fields})
    session: str = created.raise_for_status().json()["id"]
    stored = await client.post(
        f"/api/sessions/{session}/messages", json=[{"content": line} for line in lines]
    )
    stored.raise_for_status()
    return session


async def usage(client: AsyncClient, **query: Any) -> dict[str, Any]:
    answered = await client.get("/api/usage", params=query)
    report: dict[str, Any] = answered.raise_for_status().json()
    return report


def tokens(report: Mapping[str, Any]) -> dict[Any, int]:
    (name,) = report["by"]
    return {_value(row[name]): row["input_tokens"] for row in report["rows"]}


def _value(value: Any) -> Any:
    return value["id"] if isinstance(value, dict) else value


@pytest.fixture
async def filled(own_client: AsyncClient) -> AsyncClient:
    """A store with two sessions, one with a subagent's."""
    first = await store_session(
        own_client,
        [
            answer(1, "2026-11-27T23:30:00Z", 1_000_000),
            answer(2, "2026-11-28T00:10:00Z", 2_000_000),
            answer(3, "2026-11-28T06:00:00Z", 4_000_000, model="unheard-of"),
            answer(4, "1970-01-01T00:00:00Z", 8_000_000),
        ],
        externalId="first",
        title="=Fix the build",
    )
    own_client.first = first  # type: ignore[attr-defined]
    own_client.second = await store_session(  # type: ignore[attr-defined]
        own_client, [answer(5, "2026-11-28T07:00:00Z", 16_000_000, cwd="/srv/shop/app")], externalId="second"
    )
    return own_client


async def test_days_in_a_time_zone(filled: AsyncClient) -> None:
    reports = {zone: await usage(filled, timezone=zone) for zone in ("UTC", "Europe/Berlin")}
    assert {zone: tokens(report) for zone, report in reports.items()} == {
        "UTC": {"2026-11-27": 1_000_000, "2026-11-28": 22_000_000, "unknown": 8_000_000},
        "Europe/Berlin": {"2026-11-28": 23_000_000, "unknown": 8_000_000},
    }
    assert reports["UTC"] == await usage(filled)
    assert reports["UTC"]["totals"] == reports["Europe/Berlin"]["totals"]


async def test_costs_and_unpriced_models(filled: AsyncClient) -> None:
    report = await usage(filled, by="model")
    assert [(row["model"], row.get("costUsd"), row["unpricedAnswers"]) for row in report["rows"]] == [
        ("opus", 27.0, 0),
        ("unheard-of", None, 1),
    ]
    assert [(each["model"], each["reason"], each["input_tokens"]) for each in report["unpriced"]] == [
        ("unheard-of", "unknown_model", 4_000_000)
    ]
    assert (report["totals"]["costUsd"], report["totals"]["unpricedAnswers"]) == (27.0, 1)
    assert report["prices"].startswith("genai-prices")


FILTERS: list[tuple[dict[str, str], int]] = [
    ({}, 31),
    ({"since": "2026-11-28T00:00:00Z"}, 22),
    ({"since": "2026-11-28T00:14:59Z"}, 22),
    ({"since": "2026-11-28T00:15:00Z"}, 20),
    ({"until": "2026-11-28T00:00:00Z"}, 1),
    ({"until": "2026-11-28T00:00:01Z"}, 3),
    ({"since": "2026-11-28T01:00:00", "timezone": "Europe/Berlin"}, 22),
    ({"project": "/srv/site"}, 15),
    ({"project": "/srv"}, 31),
    ({"project": "shop"}, 16),
    ({"project": "/srv/sit"}, 0),
    ({"model": "unheard-of"}, 4),
    ({"model": "unheard"}, 0),
    ({"source": "claude"}, 31),
    ({"source": "codex"}, 0),
    ({"agent": "claude"}, 31),
    ({"agent": "openclaude"}, 0),
    ({"machine": "elsewhere"}, 0),
    ({"key": "00000000-0000-0000-0000-000000000001"}, 0),
    ({"session": "00000000-0000-0000-0000-000000000001"}, 0),
]
"""The millions of tokens by the filters."""


@pytest.mark.slow
async def test_filters(filled: AsyncClient) -> None:
    totals = [(await usage(filled, **query))["totals"]["input_tokens"] for query, _ in FILTERS]

    assert totals == [total * 1_000_000 for _, total in FILTERS]


@pytest.mark.slow
async def test_sessions(filled: AsyncClient) -> None:
    report = await usage(filled, by="session")
    first, second = filled.first, filled.second  # type: ignore[attr-defined]
    assert tokens(report) == {second: 16_000_000, first: 15_000_000}
    assert report["rows"][1]["session"] == {
        "id": first,
        "title": "=Fix the build",
        "source": "claude",
        "lastAt": "2026-11-28T06:00:00Z",
    }
    assert tokens(await usage(filled, by="session", session=second)) == {second: 16_000_000}


COST_STATE = json.dumps(
    {"type": "cost-state", "totalCostUSD": 40.5, "modelUsage": {"opus": {}, "claude-haiku-4-5": {}}}
)


@pytest.mark.slow
async def test_stated_cost_of_a_session(own_client: AsyncClient) -> None:
    """It is compared with all usage of the session and its subagents, whatever the filters, and never added."""
    earlier = json.dumps({"type": "cost-state", "totalCostUSD": 3})
    answers = [answer(1, "2026-11-27T09:00:00Z", 1_000_000), answer(2, "2026-11-28T09:00:00Z", 2_000_000)]
    session = await store_session(own_client, [answers[0], earlier, answers[1], COST_STATE])
    await store_session(own_client, [answer(3, "2026-11-27T09:00:00Z", 4_000_000)], parentId=session)
    stated = {"statedCostUsd": 40.5, "statedDifferenceUsd": 33.5, "differenceReason": "calls_outside"}

    for filters in ({}, {"since": "2026-11-28T00:00:00Z"}):
        report = await usage(own_client, by="session", **filters)
        assert report["totals"]["costUsd"] == sum(row["costUsd"] for row in report["rows"])
        assert {row["session"]["id"]: _only(row, stated) for row in report["rows"] if _only(row, stated)} == {
            session: stated
        }
    by_both = await usage(own_client, by="session,model")
    assert [row for row in by_both["rows"] if _only(row, stated)] == []


async def test_stated_cost_without_answers(own_client: AsyncClient) -> None:
    """The session has a row where neither a time nor a model is asked for."""
    session = await store_session(own_client, [COST_STATE])
    shown = {
        name: [row["session"]["id"] for row in (await usage(own_client, by="session", **filters))["rows"]]
        for name, filters in {
            "all": {},
            "source": {"source": "claude"},
            "other": {"source": "codex"},
            "time": {"since": "2026-11-28T00:00:00Z"},
            "model": {"model": "opus"},
        }.items()
    }
    report = await usage(own_client, by="session")

    assert shown == {"all": [session], "source": [session], "other": [], "time": [], "model": []}
    assert (report["rows"][0]["statedCostUsd"], report["totals"]["answers"]) == (40.5, 0)


def _only(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: row[name] for name in names if name in row}


async def test_empty_store(own_client: AsyncClient) -> None:
    report = await usage(own_client)
    assert (report["rows"], report["totals"]["answers"], report["unpriced"]) == ([], 0, [])
    assert "costUsd" not in report["totals"]


async def test_totals_only(filled: AsyncClient) -> None:
    report = await usage(filled, by="")
    assert (report["rows"], report["totals"]["input_tokens"]) == ([], 31_000_000)


REFUSED: list[tuple[dict[str, str], int, str]] = [
    ({"by": "day,model,source"}, 422, "invalid_report"),
    ({"by": "year"}, 422, "invalid_report"),
    ({"timezone": "Mars/Olympus"}, 422, "invalid_report"),
    ({"timezone": "../../etc/passwd"}, 422, "invalid_report"),
    ({"cost": "free"}, 400, "invalid_parameter"),
    ({"limit": "0"}, 400, "invalid_parameter"),
    ({"since": "yesterday"}, 400, "invalid_parameter"),
]


@pytest.mark.slow
async def test_refused_queries(own_client: AsyncClient) -> None:
    answers = [await own_client.get("/api/usage", params=query) for query, _, _ in REFUSED]

    assert [(each.status_code, each.json()["code"]) for each in answers] == [
        (status, code) for _, status, code in REFUSED
    ]


async def test_refusal_lists_the_dimensions(own_client: AsyncClient) -> None:
    answered = await own_client.get("/api/usage", params={"by": "day,model,source"})
    assert answered.json()["detail"] == (
        "by=day,model,source: a report has at most 2 of the dimensions hour, day, week, month, block, session, "
        "project, model, source, machine, agent, key"
    )


async def test_csv_has_the_numbers_of_the_json(filled: AsyncClient) -> None:
    for by in ("day", "session", "model,day"):
        report = await usage(filled, by=by)
        answered = await filled.get("/api/usage", params={"by": by}, headers={"Accept": "text/csv"})
        rows = list(csv.DictReader(StringIO(answered.text, newline="")))
        names = [name for name in rows[0] if name not in ("session", "title")]
        assert answered.headers["content-type"].startswith("text/csv"), by
        assert [[row[name] for name in names] for row in rows] == [
            [str(row.get(name, "")) for name in names] for row in report["rows"]
        ], by
        assert [row["title"] for row in rows if row.get("title")] == (
            ["second", "'=Fix the build"] if by == "session" else []
        ), by


@pytest.mark.slow
async def test_unchanged_report_is_not_sent_again(filled: AsyncClient) -> None:
    first = await filled.get("/api/usage")
    again = await filled.get("/api/usage", headers={"If-None-Match": first.headers["etag"]})
    as_csv = await filled.get(
        "/api/usage", headers={"If-None-Match": first.headers["etag"], "Accept": "text/csv"}
    )
    await store_session(filled, [answer(9, "2026-11-28T08:00:00Z", 1)])
    changed = await filled.get("/api/usage", headers={"If-None-Match": first.headers["etag"]})
    assert [each.status_code for each in (first, again, as_csv, changed)] == [200, 304, 200, 200]
    assert again.content == b""


async def test_list_of_sessions_with_usage(filled: AsyncClient) -> None:
    child = await store_session(
        filled,
        [answer(6, "2026-11-28T07:30:00Z", 32_000_000)],
        externalId="child",
        parentId=filled.second,  # type: ignore[attr-defined]
    )
    plain = (await filled.get("/api/sessions")).json()["sessions"]
    sessions = (await filled.get("/api/sessions", params={"usage": "true"})).json()["sessions"]
    costs = {
        each["id"]: [
            each.get(name, {}).get(field)
            for name in ("usage", "totalUsage")
            for field in ("input_tokens", "costUsd")
        ]
        for each in sessions
    }
    assert costs == {
        filled.first: [15_000_000, 11.0, None, None],  # type: ignore[attr-defined]
        filled.second: [16_000_000, 16.0, 48_000_000, 48.0],  # type: ignore[attr-defined]
        child: [32_000_000, 32.0, None, None],
    }
    assert not any("usage" in each for each in plain)


async def test_invalid_prices_leave_the_list_readable(filled: AsyncClient, settings: Settings) -> None:
    """It has tokens and reported costs, and the reason why other costs are missing."""
    assert settings.prices is not None
    settings.prices.write_text("{")
    page = (await filled.get("/api/sessions", params={"usage": "true"})).raise_for_status().json()
    report = await filled.get("/api/usage")

    assert [(each["usage"]["input_tokens"], "costUsd" in each["usage"]) for each in page["sessions"]] == [
        (16_000_000, False),
        (15_000_000, False),
    ]
    assert "line 1" in page["pricesError"]
    assert (report.status_code, report.json()["detail"]) == (500, page["pricesError"])


async def test_summary_has_computed_costs(filled: AsyncClient) -> None:
    parent = await store_session(
        filled, [answer(7, None, 1_000, model="claude-opus-4-5")], externalId="parent"
    )
    await store_session(
        filled, [answer(8, None, 3_000, model="claude-opus-4-5")], externalId="of parent", parentId=parent
    )
    answered = await filled.get(f"/api/sessions/{parent}/projections/session-summary")
    summary = answered.raise_for_status().json()
    assert (summary["computedCostUsd"], summary["totalComputedCostUsd"]) == (0.005, 0.02)
    assert "costUsd" not in summary


@pytest.fixture
async def shared(store: Store, settings: Settings) -> AsyncIterator[tuple[AsyncClient, Store]]:
    app = create_app(settings, database_url=store.url)
    async with app_client(app) as client:
        yield client, store


async def test_tenant_sees_its_own_usage(shared: tuple[AsyncClient, Store]) -> None:
    client, store = shared
    keys = {tenant: await create_key(store, tenant, tenant, *SCOPES) for tenant in ("red", "blue")}
    sessions = {}
    for number, (tenant, key) in enumerate(keys.items()):
        client.headers.update(bearer(key))
        sessions[tenant] = await store_session(client, [answer(number, None, number + 1)])
    seen = {}
    for tenant, key in keys.items():
        client.headers.update(bearer(key))
        other = sessions["blue" if tenant == "red" else "red"]
        seen[tenant] = (
            (await usage(client))["totals"]["input_tokens"],
            (await usage(client, session=other))["totals"]["input_tokens"],
        )
    assert seen == {"red": (1, 0), "blue": (2, 0)}


async def test_key_that_redacts_sees_the_same_figures(shared: tuple[AsyncClient, Store]) -> None:
    client, store = shared
    all_keys = await create_key(store, "all", "default", *SCOPES)
    redacted = await create_key(store, "redacted", "default", "read", redacts=True)
    client.headers.update(bearer(all_keys))
    cwd = f"/srv/{TOKEN}/site"
    await store_session(client, [answer(1, None, 7, cwd=cwd, model=TOKEN)], title=f"Use {TOKEN}")
    plain = {by: await usage(client, by=by) for by in ("project", "model", "session", "day")}
    client.headers.update(bearer(redacted))
    for by, report in plain.items():
        hidden = await usage(client, by=by)
        table = await client.get("/api/usage", params={"by": by}, headers={"Accept": "text/csv"})
        assert TOKEN not in json.dumps(hidden) + table.text
        assert [row["input_tokens"] for row in hidden["rows"]] == [7]
        assert hidden["totals"] == report["totals"]
    found = {
        text: (await usage(client, **{name: text}))["totals"]["input_tokens"]
        for name, text in (("project", "site"), ("project", cwd), ("project", TOKEN), ("model", TOKEN))
    }
    assert found == {"site": 7, cwd: 0, TOKEN: 0}
