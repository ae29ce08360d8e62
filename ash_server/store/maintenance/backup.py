"""Backups: the rows of all tables at one moment, in a file that does not depend on the version of PostgreSQL.

The file is a zip archive with `backup.json`, which names the version of the schema, and the output of COPY for each
table. `pg_dump` is not used: it must not be older than the server, and many servers have no copy next to Ash.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from graphlib import TopologicalSorter
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import msgspec
import psycopg
from psycopg import errors, sql

from ash_server.errors import AshError
from ash_server.store.connections.pool import connect_command
from ash_server.store.maintenance.backup_file import (
    DAMAGED,
    FORMAT,
    MANIFEST,
    BackupFile,
    InvalidBackup,
    Manifest,
    entry_name,
)
from ash_server.store.schema.migrations import REVISION, current_revision_of, known_revisions, upgrade
from ash_server.store.statements import statements

_COMPRESSION_LEVEL = 1

SQL = statements(__file__)

_ROWS_OF_NEW_SCHEMA = {"tenants": 1}
"""The number of rows that a migration inserts."""

_REFUSED = (errors.DataError, errors.IntegrityError, errors.ProgramLimitExceeded)
"""PostgreSQL's errors for rows and values that no intact backup contains."""


class NotEmpty(AshError):
    status, code, title = 409, "not_empty", "The database is not empty."


def write_backup(conn: psycopg.Connection, file: BinaryIO) -> Manifest:
    """Write the rows of all tables at one moment; others may read and write meanwhile."""
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        conn.execute("SET LOCAL row_security = off")  # fails, instead of leaving out rows of other tenants
        manifest = Manifest(
            format=FORMAT,
            revision=current_revision_of(conn) or "",
            tables=dict(conn.execute(SQL.list_tables).fetchall()),
            sequences=dict(conn.execute(SQL.list_sequences).fetchall()),
            sessions=_count(conn, "sessions"),
        )
        with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL) as archive:
            archive.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
            for table, columns in manifest.tables.items():
                with (
                    archive.open(entry_name(table), "w", force_zip64=True) as entry,
                    conn.cursor().copy(_copy(table, columns, "TO STDOUT")) as copy,
                ):
                    for chunk in copy:
                        entry.write(chunk)
    finally:
        conn.execute("ROLLBACK")
    return manifest


def restore_backup(url: str, path: Path) -> int:
    """Fill an empty database, then migrate it to this version; return the number of sessions.

    After an error nothing is restored. Raises InvalidBackup, NotEmpty, OSError.
    """
    with _damage_reported(path), BackupFile(path) as backup:
        _check_version(backup.manifest)
        backup.check_entries()
        _prepare(url, backup.manifest.revision)
        with connect_command(url, autocommit=False) as conn:
            _load(conn, backup)
        try:
            upgrade(url)
        except BaseException:
            _empty(url)
            raise
    with connect_command(url) as conn:
        conn.execute("ANALYZE")
        return _count(conn, "sessions")


@contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    """Raise InvalidBackup if the file is damaged or PostgreSQL refuses its rows."""
    try:
        yield
    except (*DAMAGED, *_REFUSED) as error:
        raise InvalidBackup(f"{path} is damaged, or is not a backup of Ash: nothing is restored") from error


def _check_version(manifest: Manifest) -> None:
    """Raises InvalidBackup, BadZipFile."""
    if manifest.format != FORMAT or manifest.revision > REVISION:
        raise InvalidBackup(
            f"the backup is of a newer Ash: it has schema {manifest.revision}, and this Ash needs {REVISION}"
        )
    if manifest.revision not in known_revisions():
        raise BadZipFile("no version of Ash has this schema")


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
    """Raise NotEmpty, with the number of sessions if there are any."""
    tables = [table for table, _ in conn.execute(SQL.list_tables).fetchall()]
    for table in sorted(tables, key="sessions".__ne__):
        count = _count(conn, table)
        if count > _ROWS_OF_NEW_SCHEMA.get(table, 0):
            content = "sessions" if table == "sessions" else f"rows in the table {table}"
            raise NotEmpty(
                f"the database is not empty ({content}: {count}): restore into a new ASH_HOME, or an empty database "
                "(ASH_DATABASE_URL)"
            )


def _load(conn: psycopg.Connection, backup: BackupFile) -> None:
    """Copy all rows, in one transaction. A new schema may have rows of its own, which the backup also has."""
    tables, sequences = backup.manifest.tables, backup.manifest.sequences
    _check_names(conn, backup.manifest)
    _truncate(conn, tables)
    for table in _parents_first(conn, tables):
        with conn.cursor().copy(_copy(table, tables[table], "FROM STDIN")) as copy:
            for chunk in backup.read_rows(table):
                copy.write(chunk)
    for sequence, last in sequences.items():
        if last is not None:
            conn.execute(SQL.set_sequence, [sequence, last])


def _check_names(conn: psycopg.Connection, manifest: Manifest) -> None:
    """Raise BadZipFile unless the backup contains exactly the tables, columns and sequences of its schema."""
    own = {table: sorted(columns) for table, columns in conn.execute(SQL.list_tables).fetchall()}
    sequences = {name for name, _ in conn.execute(SQL.list_sequences).fetchall()}
    tables = {table: sorted(columns) for table, columns in manifest.tables.items()}
    if tables != own or manifest.sequences.keys() != sequences:
        raise BadZipFile("the tables or columns differ from the schema")


def _empty(url: str) -> None:
    """Delete the rows of a backup that cannot be migrated."""
    with connect_command(url) as conn:
        _truncate(conn, [table for table, _ in conn.execute(SQL.list_tables).fetchall()])


def _truncate(conn: psycopg.Connection, tables: Iterable[str]) -> None:
    conn.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(map(sql.Identifier, tables))))


def _parents_first(conn: psycopg.Connection, tables: Mapping[str, list[str]]) -> Iterator[str]:
    """Return the tables in an order that puts each row after the rows that it refers to."""
    sorter = TopologicalSorter[str](dict.fromkeys(tables, ()))
    for child, parent in conn.execute(SQL.list_references).fetchall():
        sorter.add(child, parent)
    return (table for table in sorter.static_order() if table in tables)


def _copy(table: str, columns: list[str], direction: str) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) " + direction).format(sql.Identifier(table), names)


def _count(conn: psycopg.Connection, table: str) -> int:
    row = conn.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
    return int(row[0]) if row else 0
