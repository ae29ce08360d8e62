"""Write a store with the schema of this version, for the tests of later versions.

Run it as `python -m tests.server.store.upgrade.write_store`.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.store.access.keys import NewKey
from ash_server.store.connections.tenants import DEFAULT
from ash_server.store.embedded.binaries import find_binaries
from ash_server.store.embedded.server import EmbeddedPostgres
from ash_server.store.schema.migrations import REVISION, upgrade

FOLDER = Path(__file__).parent
TRANSCRIPTS = FOLDER / "transcripts"
PATHS = sorted(TRANSCRIPTS.rglob("*.jsonl"), key=lambda path: len(path.parts))
"""The session, and its subagent."""

_DUMP = ("--data-only", "--column-inserts", "--rows-per-insert=50", "--exclude-table=alembic_version")
_COMMENT = re.compile(r"\n+--\n-- .*\n--\n+")


def external_name(path: Path) -> str:
    return path.relative_to(TRANSCRIPTS).as_posix()


async def fill(url: str) -> None:
    async with Store.open(url) as store:
        await import_paths(store, [TRANSCRIPTS / "projects"], ImportOptions(jobs=1))
        for number, tenant, redacts in ((1, "red", False), (2, DEFAULT.name, True)):
            new = NewKey("laptop", "ash_000000", bytes([number]) * 32, ("read",), None, redacts)
            await store.keys.create(tenant, new)
        deleted = await store.sessions.create(external_id="deleted")
        await store.messages.append(deleted.id, ["one", "two"])
        await store.messages.delete(deleted.id, 1)


def dump(url: str) -> str:
    """Return the rows as SQL, without comments and settings."""
    command = [str(find_binaries() / "pg_dump"), *_DUMP, url]
    text = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    rows = text[
        text.index("INSERT INTO") : text.rindex(";\n", 0, text.rindex("-- PostgreSQL database dump")) + 2
    ]
    return _COMMENT.sub("\n", rows)


def main() -> None:
    os.environ["CLAUDE_CONFIG_DIR"] = str(TRANSCRIPTS)
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder, "pg")) as server:
        server.ensure_database("ash")
        upgrade(url := server.url("ash"))
        asyncio.run(fill(url))
        path = FOLDER / f"store_{REVISION}.sql"
        heading = f"-- A store written by the version with schema {REVISION}: the sessions in transcripts/.\n"
        path.write_text(heading + dump(url))
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
