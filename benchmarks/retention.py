"""Costs of retention, and the parts of a store: `python -m benchmarks.retention [--messages 100000]`.

The store is filled as for `benchmarks.scale`. All sessions are old in the runs.
"""

import argparse
import asyncio
import lzma
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter

import psycopg

from ash_server.retention.policy import GRACE, NewRetention, run_retention, set_retention
from ash_server.store import Store
from benchmarks.database import cluster
from benchmarks.filling import StoreSize, fill
from benchmarks.table import Details, details

_PARTS = """
    SELECT CASE WHEN relname IN ('messages', 'events', 'search') THEN relname ELSE 'other tables' END AS part,
        sum(pg_total_relation_size(oid))
    FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    GROUP BY part ORDER BY 2 DESC
"""
_TEXTS = "SELECT session_id, content FROM messages ORDER BY session_id, sequence"
_STORED_TEXTS = "SELECT sum(pg_column_size(content)) FROM messages"


async def measure_runs(url: str) -> list[tuple[str, ...]]:
    later = datetime.now(UTC) + timedelta(days=800)
    async with Store.open(url) as store:
        await set_retention(store, NewRetention("2y"))
        rows = list[tuple[str, ...]]()
        for name, is_dry_run, now in (
            ("plan", True, later),
            ("schedule", False, later),
            ("plan with all sessions due", True, later + GRACE),
            ("delete", False, later + GRACE),
        ):
            began = time.perf_counter()
            run = await run_retention(store, is_dry_run=is_dry_run, now=now)
            seconds = time.perf_counter() - began
            rows.append((name, f"{run.total:,}", f"{seconds:.2f}", f"{1000 * seconds / run.total:.2f}"))
        return rows


def measure_parts(url: str) -> list[tuple[str, ...]]:
    with psycopg.connect(url) as conn:
        parts = conn.execute(_PARTS).fetchall()
        total = sum(int(size) for _, size in parts)
        ((stored,),) = conn.execute(_STORED_TEXTS).fetchall()
        texts = [
            "\n".join(content for _, content in rows).encode()
            for _, rows in groupby(conn.execute(_TEXTS), itemgetter(0))
        ]
    size = sum(map(len, texts))
    return [
        *((name, f"{int(bytes_) / 1e6:,.1f}", f"{int(bytes_) / total:.0%}") for name, bytes_ in parts),
        ("texts, before compression", f"{size / 1e6:,.1f}", f"{size / total:.0%}"),
        ("texts, as stored", f"{int(stored) / 1e6:,.1f}", f"{int(stored) / total:.0%}"),
        *_compressed("zlib", texts, lambda text: zlib.compress(text, 6), total),
        *_compressed("lzma", texts, lambda text: lzma.compress(text, preset=1), total),
    ]


def _compressed(
    name: str, texts: list[bytes], compress: Callable[[bytes], bytes], total: int
) -> list[tuple[str, ...]]:
    began = time.perf_counter()
    size = sum(len(compress(text)) for text in texts)
    seconds = time.perf_counter() - began
    speed = sum(map(len, texts)) / 1e6 / seconds
    return [
        (f"texts by session, {name} ({speed:,.0f} MB/s)", f"{size / 1e6:,.1f}", f"{size / total:.1%}"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retention", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    messages = parser.parse_args().messages
    with cluster() as (_, server):
        url = server.url("ash")
        asyncio.run(fill(url, StoreSize(messages, messages // 10)))
        parts = measure_parts(url)
        runs = asyncio.run(measure_runs(url))
    print(
        details(
            Details(
                "Runs of a policy.",
                ("run", "sessions", "seconds", "ms per session"),
                runs,
            )
        )
    )
    print()
    print(details(Details("The parts of the store.", ("part", "MB", "share"), parts)))


if __name__ == "__main__":
    main()
