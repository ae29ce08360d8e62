"""Rows of databases that are too large for a line: refused, and never loaded."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.transfer.importing import result
from ash_server.transfer.importing.databases import bounded_rows, row_lines, sqlite_snapshot
from ash_server.transfer.importing.databases.sessions import stored_session
from ash_server.transfer.importing.databases.sqlite_snapshot import MAX_VALUE_BYTES
from ash_server.transfer.importing.lines import MAX_LINE_BYTES
from ash_server.transfer.importing.transcript import open_transcript
from tests.marking import slow_unless
from tests.server.opencode_database import PARENT, changing, write_database
from tests.server.transfer.importing.databases.test_antigravity import (
    USAGE,
    home,
    lines_of,
    logs,
    write_steps,
    write_usage,
)
from tests.shared.records.antigravity import prompt

__all__ = ["home"]

TEXT, BLOB = "printf('%.*c', {}, 'x')", "zeroblob({})"


def too_large(limit: int) -> dict[str, list[str]]:
    """Return values in SQL of rows that are too large for a line, by their kind."""
    return {
        "a long text": [TEXT.format(limit + 1)],
        "a long blob": [BLOB.format(limit + 1)],
        "a blob that is too long in Base64": [BLOB.format(limit // 4 * 3 + 1)],
        "long texts": [TEXT.format(limit // 2)] * 2,
        "a text with many bytes": [f"replace({TEXT.format(limit // 2)}, 'x', 'é')"],
    }


LIMIT = 1024 * 1024
LARGE = too_large(LIMIT)
PEAK = """
import re, sys
from pathlib import Path
from ash_server.transfer.importing.transcript import open_transcript

def peak():
    return int(re.search("VmHWM:(.*)kB", Path("/proc/self/status").read_text())[1]) * 1024

start = peak()
for line in open_transcript(Path(sys.argv[1])).lines():
    print(line.name, "too large" if line.data is None else "")
print(peak() - start)
"""


def write_large_row(path: Path, values: Sequence[str]) -> Path:
    """Add values in SQL to a message of a session, in its text and in further columns."""
    with changing(write_database(path)) as connection:
        connection.execute("DROP INDEX message_role")
        for number in range(1, len(values)):
            connection.execute(f"ALTER TABLE message ADD COLUMN more_{number}")
        names = ["data", *(f"more_{number}" for number in range(1, len(values)))]
        changes = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
        connection.execute(f"UPDATE message SET {changes} WHERE id = 'msg_1b'")
    return path


@pytest.fixture
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows at the real limit take a second each."""
    for module in (bounded_rows, result, row_lines):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", LIMIT)
    monkeypatch.setattr(sqlite_snapshot, "MAX_VALUE_BYTES", LIMIT)


@pytest.mark.usefixtures("low_limit")
@pytest.mark.parametrize("values", LARGE.values(), ids=LARGE)
async def test_other_rows_are_imported(store: Store, tmp_path: Path, values: Sequence[str]) -> None:
    database = write_large_row(tmp_path / "opencode.db", values)

    report = await import_paths(store, [database], ImportOptions())

    assert report.unread == []
    assert {name: count for name, count in report.total.counts.items() if count} == {"new": 13, "refused": 1}
    assert [(each.file, each.reason) for each in report.total.problems] == [
        ("message/msg_1b", f"longer than {LIMIT} bytes")
    ]
    assert stored_session(database / PARENT).rows == 7


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize(
    "name", slow_unless("a long blob".__eq__, ["a long text", "a long blob", "long texts"])
)
def test_the_row_is_not_loaded(tmp_path: Path, name: str) -> None:
    database = write_large_row(tmp_path / "opencode.db", too_large(MAX_LINE_BYTES)[name])

    ran = subprocess.run(
        [sys.executable, "-c", PEAK, str(database / PARENT)], capture_output=True, text=True, check=True
    )

    *lines, peak = ran.stdout.splitlines()
    assert [line for line in lines if "too large" in line] == ["message/msg_1b too large"]
    assert "part/prt_1b " in lines
    assert int(peak) < MAX_LINE_BYTES


@pytest.mark.usefixtures("low_limit")
def test_a_row_that_fits_is_read(tmp_path: Path) -> None:
    values = [TEXT.format(LIMIT - 1000)]
    database = write_large_row(tmp_path / "opencode.db", values)

    sizes = {line.name: len(line.data or b"") for line in open_transcript(database / PARENT).lines()}

    assert LIMIT - 1000 < sizes["message/msg_1b"] <= LIMIT


@pytest.mark.usefixtures("low_limit")
def test_a_row_of_a_conversation_is_too_large(home: Path) -> None:
    steps = [prompt(0, "Look.")]
    transcript = write_steps(logs(home) / "transcript.jsonl", steps)
    write_usage(home, [USAGE[0], bytes(LIMIT), USAGE[1]])

    lines = [*open_transcript(transcript).lines()]

    assert [line.name for line in lines if line.data is None] == ["gen_metadata/1"]
    assert [json.loads(line.data)["key"] for line in lines[1:] if line.data] == [0, 2]


def test_keys_of_tables_without_row_ids_may_be_bytes(tmp_path: Path) -> None:
    database = write_database(tmp_path / "opencode.db")
    with changing(database) as connection:
        connection.execute("DROP TABLE todo")
        columns = "session_id TEXT, id, content, PRIMARY KEY (session_id, id)"
        connection.execute(f"CREATE TABLE todo ({columns}) WITHOUT ROWID")
        for content, id in enumerate(("1", "'1'", "x'31'", "x'ff'", "CAST(x'ff' AS TEXT)")):
            connection.execute(f"INSERT INTO todo VALUES ('{PARENT}', {id}, {content})")

    rows = [row for row in lines_of(database / PARENT) if row["table"] == "todo"]

    assert sorted(row["columns"]["content"] for row in rows) == [0, 1, 2, 3, 4]


def test_a_column_may_have_the_name_of_the_row_ids(tmp_path: Path) -> None:
    database = write_database(tmp_path / "opencode.db")
    expected = [row["key"] for row in lines_of(database / PARENT)]
    with changing(database) as connection:
        connection.execute("ALTER TABLE part ADD COLUMN _rowid_ TEXT")
        connection.execute("ALTER TABLE message ADD COLUMN _RowId_ TEXT DEFAULT 'msg'")

    assert [row["key"] for row in lines_of(database / PARENT)] == expected


async def test_a_damaged_index_is_reported_for_its_session(store: Store, tmp_path: Path) -> None:
    database = write_database(tmp_path / "opencode.db")
    with changing(database) as connection:
        connection.execute("CREATE INDEX part_message ON part (message_id, id)")
        connection.commit()
        connection.execute("PRAGMA writable_schema = ON")
        row = connection.execute("SELECT * FROM sqlite_master WHERE name = 'part_message'").fetchone()
        connection.execute("DELETE FROM sqlite_master WHERE name = 'part_message'")
    with changing(database) as connection:
        connection.execute("DELETE FROM part WHERE id = 'prt_1b'")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)

    report = await import_paths(store, [database], ImportOptions())

    assert [(Path(each.path).name, "an index has a row" in each.reason) for each in report.unread] == [
        (PARENT, True)
    ]
    assert report.total.counts["new"] > 0


@pytest.mark.usefixtures("low_limit")
@pytest.mark.parametrize("index", ["NULL", "'one'", "x'00'", "1.5", "1e999"])
def test_rows_of_a_conversation_may_have_any_index(home: Path, index: str) -> None:
    database = write_usage(home, [])
    with changing(database) as connection:
        connection.execute("DROP TABLE steps")
        connection.execute("CREATE TABLE steps (idx, step_payload)")
        for value in ("0", index, "2"):
            connection.execute(f"INSERT INTO steps VALUES ({value}, 'text')")
        connection.execute(f"INSERT INTO steps VALUES ({index}, {BLOB.format(LIMIT)})")

    lines = [*open_transcript(database).lines()]

    assert len([line for line in lines if line.data is None]) == 1
    assert [json.loads(line.data)["columns"]["step_payload"] for line in lines if line.data] == ["text"] * 3


def test_the_limits_agree() -> None:
    assert MAX_VALUE_BYTES == MAX_LINE_BYTES
