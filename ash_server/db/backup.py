"""Backups: the rows of all tables as of one moment in a file, independent of the version and the place of PostgreSQL.

The file is a zip archive with `backup.json`, which names the version of the schema, and the output of COPY for each
table. `pg_dump` is not used: it must not be older than the server, and many servers have no copy of it next to Ash.
"""

import json
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile
from zlib import error as ZlibError  # noqa: N812  # a class

import psycopg
from psycopg import sql

from ash_server.db.connection import REVISION, connect_command, current_revision_of, upgrade
from ash_server.errors import AshError

FORMAT = 1

_MANIFEST = "backup.json"
_COMPRESSION_LEVEL = 1
_CHUNK_BYTES = 1024 * 1024

_TABLES = """
    SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position)
    FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' AND is_generated = 'NEVER'
      AND table_name <> 'alembic_version'
    GROUP BY table_name
    ORDER BY table_name
"""
_REFERENCES = """
    SELECT child.relname, parent.relname
    FROM pg_constraint
    JOIN pg_class AS child ON child.oid = conrelid JOIN pg_class AS parent ON parent.oid = confrelid
    WHERE contype = 'f' AND conrelid <> confrelid AND child.relnamespace = current_schema()::regnamespace
"""
_SEQUENCES = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = current_schema()"

_ROWS_OF_NEW_SCHEMA = {"tenants": 1}
"""The number of rows that a migration inserts."""

Columns = Mapping[str, list[str]]
"""The columns of each table."""


class InvalidBackup(AshError):
    status, code, title = 500, "invalid_backup", "The file is not a backup of this or an earlier Ash."


class NotEmpty(AshError):
    status, code, title = 409, "not_empty", "The database is not empty."


class BackupContents(NamedTuple):
    revision: str
    tables: Columns
    sequences: Mapping[str, int | None]
    sessions: int


def write_backup(conn: psycopg.Connection, file: BinaryIO) -> BackupContents:
    """Write the rows of all tables, as of one moment; others may read and write meanwhile."""
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        conn.execute("SET LOCAL row_security = off")  # fails, instead of leaving out rows of other tenants
        contents = BackupContents(
            revision=current_revision_of(conn) or "",
            tables=dict(conn.execute(_TABLES).fetchall()),
            sequences=dict(conn.execute(_SEQUENCES).fetchall()),
            sessions=_count(conn, "sessions"),
        )
        with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL) as archive:
            archive.writestr(_MANIFEST, json.dumps({"format": FORMAT, **contents._asdict()}, indent=1))
            for table, columns in contents.tables.items():
                with (
                    archive.open(_entry(table), "w", force_zip64=True) as entry,
                    conn.cursor().copy(_copy(table, columns, "TO STDOUT")) as copy,
                ):
                    for chunk in copy:
                        entry.write(chunk)
    finally:
        conn.execute("ROLLBACK")
    return contents


def restore_backup(url: str, path: Path) -> BackupContents:
    """Fill an empty database, then migrate it to this version. After an error nothing is restored.

    Raises InvalidBackup, NotEmpty, OSError.
    """
    try:
        with ZipFile(path) as archive:
            contents = _read_manifest(archive)
            _prepare(url, contents.revision)
            with connect_command(url, autocommit=False) as conn:
                _load(conn, archive, contents)
    except (BadZipFile, EOFError, KeyError, ZlibError) as error:
        raise InvalidBackup(f"{path} is damaged, or is not a backup of Ash: nothing is restored") from error
    upgrade(url)
    return contents


def _read_manifest(archive: ZipFile) -> BackupContents:
    manifest: dict[str, Any] = json.loads(archive.read(_MANIFEST))
    revision = str(manifest["revision"])
    if manifest["format"] != FORMAT or revision > REVISION:
        raise InvalidBackup(
            f"the backup is of a newer Ash: it has schema {revision}, and this Ash needs {REVISION}"
        )
    return BackupContents(revision, manifest["tables"], manifest["sequences"], manifest["sessions"])


def _prepare(url: str, revision: str) -> None:
    """Create the schema of the backup in a database that has none. Raises NotEmpty."""
    with connect_command(url) as conn:
        current = current_revision_of(conn)
        if current is not None:
            _check_empty(conn)
    if current is None:
        upgrade(url, revision)
    elif current != revision:
        raise NotEmpty(
            f"the database has schema {current} and the backup {revision}: restore into a new ASH_HOME, or a database "
            "without tables"
        )


def _check_empty(conn: psycopg.Connection) -> None:
    for table, _ in conn.execute(_TABLES).fetchall():
        if _count(conn, table) > _ROWS_OF_NEW_SCHEMA.get(table, 0):
            raise NotEmpty(
                f"the database is not empty, the table {table} has rows: restore into a new ASH_HOME, or an empty "
                "database (ASH_DATABASE_URL)"
            )


def _load(conn: psycopg.Connection, archive: ZipFile, contents: BackupContents) -> None:
    """Copy all rows, in one transaction. A new schema may have rows of its own, which the backup also has."""
    names = sql.SQL(", ").join(map(sql.Identifier, contents.tables))
    conn.execute(sql.SQL("TRUNCATE {}").format(names))
    for table in _parents_first(conn, contents.tables):
        with (
            archive.open(_entry(table)) as entry,
            conn.cursor().copy(_copy(table, contents.tables[table], "FROM STDIN")) as copy,
        ):
            while chunk := entry.read(_CHUNK_BYTES):
                copy.write(chunk)
    for sequence, last in contents.sequences.items():
        if last is not None:
            conn.execute("SELECT setval(%s::regclass, %s)", [sequence, last])


def _parents_first(conn: psycopg.Connection, tables: Columns) -> Iterator[str]:
    """Return the tables in an order in which every row follows those to which it refers."""
    sorter = TopologicalSorter[str](dict.fromkeys(tables, ()))
    for child, parent in conn.execute(_REFERENCES).fetchall():
        sorter.add(child, parent)
    return (table for table in sorter.static_order() if table in tables)


def _copy(table: str, columns: list[str], direction: str) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) " + direction).format(sql.Identifier(table), names)


def _count(conn: psycopg.Connection, table: str) -> int:
    row = conn.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
    return int(row[0]) if row else 0


def _entry(table: str) -> str:
    return f"{table}.copy"
