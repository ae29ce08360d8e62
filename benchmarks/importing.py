"""P12: importing a transcript, compared with copying the same lines into a table of one column."""

import tempfile
from itertools import count, cycle, islice
from pathlib import Path
from typing import NamedTuple

from psycopg import AsyncConnection

from ash_server.db.connection import connect
from ash_server.store import Store
from ash_server.transfer.importing.file_import import import_file
from benchmarks.database import settle
from benchmarks.measure import take_turns_async
from benchmarks.samples import Samples
from benchmarks.table import Row

_IMPORT = "import"
_REBUILD = "rebuild"
_COPY = "binary COPY"


class Size(NamedTuple):
    lines: int
    rounds: int


FULL = Size(lines=6_000, rounds=5)
SMOKE = Size(lines=60, rounds=1)


async def measure(url: str, samples: Samples, size: Size) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="ash-bench-") as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in islice(cycle(samples.lines), size.lines)))
        async with Store.open(url, lock_timeout=None) as store, await connect(url) as conn:
            return await _measure(store, conn, path, size)


async def _measure(store: Store, conn: AsyncConnection, path: Path, size: Size) -> list[Row]:
    names = map("session-{}".format, count())
    await conn.execute("CREATE TABLE plain_lines (content text NOT NULL)")
    first = await import_file(store, path, next(names))
    await settle(conn)

    async def imported() -> None:
        await import_file(store, path, next(names))

    async def rebuilt() -> None:
        await store.events.rebuild(first.session_id)

    async def copy() -> None:
        async with (
            conn.cursor() as cursor,
            cursor.copy("COPY plain_lines FROM STDIN (FORMAT BINARY)") as rows,
        ):
            rows.set_types(["text"])
            with path.open(encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    await rows.write_row((line.removesuffix("\n"),))

    times = await take_turns_async({_IMPORT: imported, _COPY: copy, _REBUILD: rebuilt}, size.rounds)
    what = f"transcript of {size.lines:,} lines"
    return [
        Row(
            "P12", f"import of a {what}, against COPY of its lines", times.typical_speed(_IMPORT, _COPY), 0.5
        ),
        Row(
            "P12",
            f"rebuilding the events of a {what}, against COPY of its lines",
            times.typical_speed(_REBUILD, _COPY),
        ),
    ]
