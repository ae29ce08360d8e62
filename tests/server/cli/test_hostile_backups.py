"""`ash restore` restores nothing from damaged or hostile files, and needs little memory for them."""

import json
import random
import struct
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile

import psycopg
import pytest

from ash_server.store import Store
from ash_server.store.maintenance import backup_file
from ash_server.store.maintenance.backup import restore_backup, write_backup
from ash_server.store.maintenance.backup_file import InvalidBackup
from ash_server.store.schema.migrations import upgrade
from tests.conftest import at_database, new_database
from tests.server.cli.test_backup_command import rows, run

Entries = list[tuple[str, bytes, int]]
"""The name, data and compression of each entry."""
Change = Callable[[Entries], Entries]

BOMB = bytes(8 * 1024 * 1024)
RANDOM = random.Random(7)


def packed(path: Path, entries: Iterable[tuple[str, bytes, int]]) -> bytes:
    with warnings.catch_warnings(), ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore", UserWarning)  # of a duplicate name
        for name, data, compression in entries:
            archive.writestr(name, data, compression)
    return path.read_bytes()


def manifest(**changes: Any) -> Change:
    """Change fields of the manifest; a callable receives the old value."""

    def change(entries: Entries) -> Entries:
        fields = json.loads(entries[0][1])
        for name, value in changes.items():
            fields[name] = value(fields[name]) if callable(value) else value
        return [("backup.json", json.dumps(fields).encode(), ZIP_DEFLATED), *entries[1:]]

    return change


def manifest_text(data: bytes, compression: int = ZIP_DEFLATED) -> Change:
    return lambda entries: [("backup.json", data, compression), *entries[1:]]


def table(name: str, change: Callable[[bytes], bytes], compression: int = ZIP_DEFLATED) -> Change:
    """Change the rows of a table."""

    def changed(entries: Entries) -> Entries:
        entry = f"{name}.copy"
        return [
            (each, change(data), compression) if each == entry else (each, data, kind)
            for each, data, kind in entries
        ]

    return changed


def columns(change: Callable[[list[str]], list[str]]) -> Change:
    return manifest(tables=lambda tables: {**tables, "messages": change(tables["messages"])})


def with_first(new: bytes) -> Callable[[bytes], bytes]:
    """Replace the first value of the first row."""
    return lambda data: new + data[data.index(b"\t") :]


MANIFESTS: Mapping[str, Change] = {
    "no manifest": lambda entries: entries[1:],
    "no JSON": manifest_text(b"{"),
    "a list": manifest_text(b"[]"),
    "not UTF-8": manifest_text(b'{"format": 1, "revision": "\xff"}'),
    "deep JSON": manifest_text(b'{"format":' * 100_000),
    "a long manifest": manifest_text(b" " * 2_000_000),
    "a bomb": manifest_text(BOMB),
    "a bomb of bzip2": manifest_text(BOMB, ZIP_BZIP2),
    **{
        f"revision {revision!r}": manifest(revision=revision)
        for revision in (
            21,
            None,
            "",
            "head",
            "+1",
            "-1",
            "00",
            "0013",
            "0021:head",
            "0021@head",
            "0000",
            ["0021"],
        )
    },
    "a format of another type": manifest(format="1"),
    "tables in a list": manifest(tables=["sessions"]),
    "columns in a text": manifest(tables=lambda tables: {**tables, "sessions": "id"}),
    "columns of another type": columns(lambda _: [1]),  # type: ignore[list-item]  # damaged
    "an unknown table": manifest(tables=lambda tables: {**tables, "pg_authid": ["rolname"]}),
    "a table that is a statement": manifest(
        tables=lambda tables: {**tables, 'a"; DROP TABLE keys; --': ["id"]}
    ),
    "a missing table": manifest(tables=lambda tables: {"sessions": tables["sessions"]}),
    "no tables": manifest(tables={}),
    "an unknown column": columns(lambda names: [*names, "other"]),
    "a missing column": columns(lambda names: names[1:]),
    "a column twice": columns(lambda names: [*names[1:], names[1]]),
    "an unknown sequence": manifest(sequences={"other": 1}),
    "a sequence of another type": manifest(sequences={"other": "1"}),
    "an absurd sequence": manifest(sequences={"other": 10**30}),
    "a negative number": manifest(sessions=-1),
    "a number of another type": manifest(sessions="many"),
}
ENTRIES: Mapping[str, Change] = {
    "a missing entry": lambda entries: entries[:-1],
    "an entry twice": lambda entries: [*entries, entries[-1]],
    "an entry elsewhere": lambda entries: [*entries, ("../../evil", b"", ZIP_DEFLATED)],
    "an entry renamed": lambda entries: [*entries[:-1], ("/etc/passwd", b"", ZIP_DEFLATED)],
    "many entries": lambda entries: [*entries, *((f"{n:040}", b"", ZIP_DEFLATED) for n in range(15_000))],
    "bzip2": table("messages", lambda data: data, ZIP_BZIP2),
    "a bomb of LZMA": table("messages", lambda _: BOMB, ZIP_LZMA),
}
ROWS: Mapping[str, Change] = {
    "an endless row": table("messages", lambda _: BOMB),
    "no columns": table("messages", lambda _: b"\n"),
    "too many columns": table("messages", lambda data: data.replace(b"\n", b"\tx\n")),
    "an id of another type": table("messages", with_first(b"x")),
    "NUL": table("messages", with_first(b"\x00")),
    "text that is not UTF-8": table("sessions", lambda data: data.replace(b"run-7", b"\xff")),
    "an escape that is not UTF-8": table("sessions", lambda data: data.replace(b"run-7", b"\\xff")),
    "rows twice": table("messages", lambda data: data * 2),
    "rows without a parent": table("sessions", lambda _: b""),
    "a NULL": table("messages", with_first(b"\\N")),
    "a long key": table(
        "sessions", lambda data: data.replace(b"run-7", RANDOM.randbytes(50_000).hex().encode())
    ),
}

FLAGS, METHOD, CRC, PACKED_SIZE, NAME = 8, 10, 16, 20, 46
"""Offsets in the directory record of an archive entry."""
DIRECTORY_SIZE, DIRECTORY_PLACE = 12, 16
"""Offsets in the end record of an archive."""


def patched(data: bytes, signature: bytes, place: int, value: bytes) -> bytes:
    """Change the last record with this signature."""
    at = data.rindex(signature) + place
    return data[:at] + value + data[at + len(value) :]


def in_entry(place: int, value: bytes) -> Callable[[bytes], bytes]:
    return lambda data: patched(data, b"PK\x01\x02", place, value)


def in_end(place: int, value: int) -> Callable[[bytes], bytes]:
    return lambda data: patched(data, b"PK\x05\x06", place, struct.pack("<I", value))


def cut_after(percent: int) -> Callable[[bytes], bytes]:
    return lambda data: data[: len(data) * percent // 100]


FILES: Mapping[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "gzip": lambda _: b"\x1f\x8b\x08" + bytes(100),
    "only an end": lambda data: data[-22:],
    **{f"cut after {percent} %": cut_after(percent) for percent in (1, 50, 99)},
    "encrypted": in_entry(FLAGS, b"\x01\x00"),
    "a name that is not UTF-8": lambda data: in_entry(NAME, b"\xff")(in_entry(FLAGS, b"\x00\x08")(data)),
    "an unknown compression": in_entry(METHOD, b"\x63\x00"),
    "another checksum": in_entry(CRC, b"\x00\x00\x00\x00"),
    "an absurd size of an entry": in_entry(PACKED_SIZE, b"\xfe\xff\xff\xff\xfe\xff\xff\xff"),
    "an absurd place of an entry": in_entry(42, b"\xfe\xff\xff\xff"),
    "an absurd directory": in_end(DIRECTORY_SIZE, 0xFFFFFFFE),
    "an absurd place of the directory": in_end(DIRECTORY_PLACE, 0xFFFFFFFE),
    "a newer version of the archive": in_entry(6, b"\xff\x00"),
}


@pytest.fixture
async def backup(store: Store, database_url: str, tmp_path: Path) -> Path:
    session = await store.sessions.create(external_id="run-7", title="Birds")
    usage = '"usage": {"input_tokens": 3, "output_tokens": 4}'  # so that the last table has a row
    answer = f'{{"role": "assistant", "content": "heron", "model": "m", {usage}}}'
    await store.messages.append(
        session.id,
        [
            '{"type": "user", "message": {"role": "user", "content": "wren"}}',
            f'{{"type": "assistant", "message": {answer}}}',
        ],
    )
    file = tmp_path / "ash.backup"
    assert run(tmp_path, database_url, "backup", file).code == 0
    return file


@pytest.mark.slow
def test_hostile_backups_are_damaged(
    backup: Path, bare_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_file, "MAX_ROW_BYTES", 2 * 1024 * 1024)
    with ZipFile(backup) as archive:
        entries = [(name, archive.read(name), ZIP_DEFLATED) for name in archive.namelist()]
    file, whole = tmp_path / "hostile", backup.read_bytes()
    hostile = {
        name: packed(file, change(entries)) for name, change in {**MANIFESTS, **ENTRIES, **ROWS}.items()
    }
    hostile |= {name: change(whole) for name, change in FILES.items()}
    upgrade(bare_database_url)
    before = rows(bare_database_url)

    outcomes = {}
    for name, data in hostile.items():
        file.write_bytes(data)
        outcomes[name] = run(tmp_path, bare_database_url, "restore", file).err

    message = f"ash: {file} is damaged, or is not a backup of Ash: nothing is restored\n"
    assert {name: error for name, error in outcomes.items() if error != message} == {}
    assert rows(bare_database_url) == before
    assert run(tmp_path, bare_database_url, "restore", backup).out == "1 session restored\n"


def test_backup_that_cannot_be_migrated(bare_database_url: str, server_url: str, tmp_path: Path) -> None:
    """An index in schema 0020 does not accept long ids."""
    upgrade(bare_database_url, "0019")
    file = tmp_path / "old.backup"
    with psycopg.connect(bare_database_url, autocommit=True) as conn, file.open("wb") as target:
        conn.execute(
            "INSERT INTO sessions (id, source, external_id) VALUES (gen_random_uuid(), 'claude', %s)",
            [RANDOM.randbytes(50_000).hex()],
        )
        write_backup(conn, target)

    with new_database(server_url) as name:
        url = at_database(server_url, name)
        with pytest.raises(InvalidBackup, match="nothing is restored"):
            restore_backup(url, file)
        assert rows(url)["sessions"] == []
