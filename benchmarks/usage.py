"""P16: sums of usage over many answers, and appends with usage."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import psycopg

from ash_server.store.connections.pool import open_pool
from ash_server.store.connections.tenants import DEFAULT
from ash_server.store.messages import append
from ash_server.store.prepare import PreparedMessage, prepare_message
from ash_server.store.usage.groups import UsageFilter, read_groups
from benchmarks.database import new_session
from benchmarks.measure import AsyncRun, take_turns_async
from benchmarks.table import Row

_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_DAYS = 365
_PER_SESSION = 500

_LIMIT, _LIMIT_OF_ALL = 300, 1000
"""Milliseconds, for a day and for the whole store."""

_FILL = """
    INSERT INTO sessions (id, source, project, machine)
    SELECT md5(n::text)::uuid, 'claude', '/work/' || n %% 20, 'laptop' FROM generate_series(1, %(sessions)s) AS n;
    INSERT INTO session_counters (session_id, message_sequence, normalizer_version)
    SELECT md5(n::text)::uuid, %(each)s, 9 FROM generate_series(1, %(sessions)s) AS n;
    INSERT INTO answers
        (session_id, key, message_sequence, at, model, service_tier, speed, region, agent_id, cause, is_request, band,
        folder, branch, turn, input_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
        output_tokens, reasoning_tokens, web_searches)
    SELECT md5(n::text)::uuid, lpad(to_hex(m), 16, '0'), m,
        %(first)s + (n %% %(days)s) * interval '1 day' + (m %% 1440) * interval '1 minute',
        'model-' || n %% 3, '', '', '', '', 'person', true, m %% 2, '/work', 'main', m, m, 40000, 300, 0, m, 0, 0
    FROM generate_series(1, %(sessions)s) AS n, generate_series(1, %(each)s) AS m;
    INSERT INTO usage_rollups
        (session_id, quarter, model, service_tier, speed, region, agent_id, cause, is_request, band, is_copy, answers,
        input_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, output_tokens, reasoning_tokens,
        web_searches, reported_cost, reported_answers)
    SELECT session_id, date_bin('15 minutes', at, '2000-01-01Z'), model, service_tier, speed, region, agent_id, cause,
        is_request, band, false, count(*), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_5m_tokens),
        sum(cache_write_1h_tokens), sum(output_tokens), sum(reasoning_tokens), sum(web_searches), 0, 0
    FROM answers
    GROUP BY session_id, date_bin('15 minutes', at, '2000-01-01Z'), model, service_tier, speed, region, agent_id,
        cause, is_request, band
    ON CONFLICT DO NOTHING;
"""


class Size(NamedTuple):
    answers: int
    appends: int
    rounds: int


FULL = Size(answers=1_000_000, appends=300, rounds=15)
SMOKE = Size(answers=2_000, appends=5, rounds=1)


async def measure(url: str, size: Size) -> list[Row]:
    appends = await _measure_appends(url, size)
    _fill(url, size)
    return [*await _measure_sums(url, size), appends]


def _fill(url: str, size: Size) -> None:
    values = {
        "sessions": size.answers // _PER_SESSION,
        "each": _PER_SESSION,
        "first": _FIRST,
        "days": _DAYS,
    }
    with psycopg.connect(url, autocommit=True) as conn, psycopg.ClientCursor(conn) as cursor:
        cursor.execute(_FILL, values)
        conn.execute("VACUUM ANALYZE sessions, answers, usage_rollups")


async def _measure_sums(url: str, size: Size) -> list[Row]:
    middle = _FIRST + timedelta(days=_DAYS // 2)
    zone = "Europe/Berlin"
    filters = {
        "the total of a day": UsageFilter(since=middle, until=middle + timedelta(days=1)),
        "the total of each day": UsageFilter(period="day", timezone=zone),
        "the total of each project": UsageFilter(by=["project"]),
        "the total of each session": UsageFilter(by=["session"]),
    }
    async with open_pool(url) as pool, pool.connection(tenant=DEFAULT) as conn:

        def reading(usage: UsageFilter) -> AsyncRun:
            async def run() -> None:
                await read_groups(conn, usage)

            return run

        times = await take_turns_async({name: reading(each) for name, each in filters.items()}, size.rounds)
    return [
        Row(
            "P16",
            f"{name}, of {size.answers:,} answers",
            1000 * times.typical(name),
            _LIMIT if usage.since else _LIMIT_OF_ALL,
            bound="<=",
            unit=" ms",
        )
        for name, usage in filters.items()
    ]


async def _measure_appends(url: str, size: Size) -> Row:
    """Compare single appends of answers with the same answers without usage."""
    with_usage, without = "with usage", "without usage"
    async with open_pool(url) as pool, pool.connection(tenant=DEFAULT) as conn:

        def appending(usage: dict[str, Any]) -> AsyncRun:
            async def run() -> None:
                session_id = await new_session(conn)
                for message in _answers(session_id, size.appends, usage):
                    await append(conn, session_id, [message])

            return run

        usage = {"usage": {"input_tokens": 9, "output_tokens": 100, "cache_read_input_tokens": 40_000}}
        cases = {with_usage: appending(usage), without: appending({})}
        times = await take_turns_async(cases, max(1, size.rounds // 3))
    ratio = times.typical_speed(with_usage, without)
    return Row("P16", "appends of single answers with usage, against answers without", ratio, 0.75)


def _answers(session_id: Any, count: int, usage: dict[str, Any]) -> Sequence[PreparedMessage]:
    return [prepare_message(session_id, _line(number, usage)) for number in range(count)]


def _line(number: int, usage: dict[str, Any]) -> str:
    content = [{"type": "text", "text": "word " * 60}]
    message = {"id": f"m{number}", "role": "assistant", "model": "model-1", "content": content, **usage}
    time = (_FIRST + timedelta(seconds=10 * number)).isoformat()
    return json.dumps({"type": "assistant", "uuid": f"u{number}", "timestamp": time, "message": message})
