"""A database like the one of OpenCode 1.2, with accounts and secrets that no import may read."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

SECRET = "sk-never-read-this"
PROJECT = "0f3c9d"
PARENT, CHILD = "ses_1a00parent", "ses_1b00child"
START = 1_772_000_000_000

_SCHEMA = """
CREATE TABLE project (id TEXT PRIMARY KEY, worktree TEXT, vcs TEXT, name TEXT, time_created INTEGER,
    time_updated INTEGER, sandboxes TEXT);
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT, directory TEXT, title TEXT,
    version TEXT, cost REAL, revert TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
    time_updated INTEGER, data TEXT);
CREATE TABLE todo (session_id TEXT, content TEXT, status TEXT, priority TEXT, position INTEGER,
    time_created INTEGER, time_updated INTEGER, PRIMARY KEY (session_id, position));
CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER,
    data TEXT);
CREATE TABLE event (id TEXT PRIMARY KEY, aggregate_id TEXT, seq INTEGER, type TEXT, data TEXT);
CREATE TABLE account (id TEXT PRIMARY KEY, access_token TEXT);
CREATE TABLE account_state (id TEXT PRIMARY KEY, token TEXT);
CREATE TABLE control_account (email TEXT, access_token TEXT);
CREATE TABLE credential (id TEXT PRIMARY KEY, value TEXT);
CREATE TABLE session_share (session_id TEXT PRIMARY KEY, secret TEXT);
CREATE INDEX message_role ON message (session_id, json_extract(data, '$.role'));
"""


@contextmanager
def changing(database: Path) -> Iterator[sqlite3.Connection]:
    """Open the database as OpenCode does, and commit at the end."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        yield connection
        connection.commit()


def insert(connection: sqlite3.Connection, table: str, **values: Any) -> None:
    places = ", ".join("?" * len(values))
    query = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})"  # names of the test
    connection.execute(query, [*values.values()])


@contextmanager
def creating(path: Path) -> Iterator[sqlite3.Connection]:
    """Create a database with a project."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with changing(path) as connection:
        connection.executescript(_SCHEMA)
        times = {"time_created": START, "time_updated": START}
        insert(connection, "project", id=PROJECT, worktree="/work/shop", **times)
        yield connection


def write_database(path: Path) -> Path:
    """Write a session with a call and two to-dos, and the session of its subagent."""
    with creating(path) as connection:
        insert_session(connection, PARENT, "Sort the basket", START)
        insert_session(connection, CHILD, "Find the sorting (@explore subagent)", START + 500, parent=PARENT)
        insert_turn(connection, PARENT, 1, "Sort the items by price", START + 10)
        insert_turn(connection, CHILD, 2, "Where are the items sorted?", START + 510)
        for position, content in enumerate(("Sort", "Test")):
            insert_todo(connection, content, position)
        insert(connection, "event", id="evt_1", aggregate_id=PARENT, seq=1, type="session.created.1")
        insert(connection, "account", id="acc_1", access_token=SECRET)
        insert(connection, "account_state", id="acc_1", token=SECRET)
        insert(connection, "control_account", email="a@example.com", access_token=SECRET)
        insert(connection, "credential", id="cred_1", value=SECRET)
        insert(connection, "session_share", session_id=PARENT, secret=SECRET)
    return path


def insert_session(
    connection: sqlite3.Connection, id: str, title: str, time: int, *, parent: str | None = None
) -> None:
    insert(
        connection,
        "session",
        id=id,
        project_id=PROJECT,
        parent_id=parent,
        slug="brave-otter",
        directory="/work/shop",
        title=title,
        version="1.2.6",
        cost=0.25,
        time_created=time,
        time_updated=time,
    )


def insert_turn(connection: sqlite3.Connection, session: str, number: int, prompt: str, time: int) -> None:
    """Insert a prompt, and an answer that is calling a tool."""
    asked, answer = f"msg_{number}a", f"msg_{number}b"
    user = {"role": "user", "time": {"created": time}, "agent": "build"}
    assistant = {"role": "assistant", "parentID": asked, "time": {"created": time + 1}, "modelID": "m-1"}
    state = {"status": "running", "input": {"pattern": "sort"}, "time": {"start": time + 2}}
    insert_row(connection, "message", asked, session, time, user)
    insert_row(connection, "part", f"prt_{number}a", session, time, {"type": "text", "text": prompt}, asked)
    insert_row(connection, "message", answer, session, time + 1, assistant)
    call = {"type": "tool", "callID": f"call_{number}", "tool": "grep", "state": state}
    insert_row(connection, "part", f"prt_{number}b", session, time + 2, call, answer)


def insert_row(  # noqa: PLR0917  # the columns
    connection: sqlite3.Connection,
    table: str,
    id: str,
    session: str,
    time: int,
    data: dict[str, Any],
    message: str | None = None,
) -> None:
    owner = {"message_id": message} if message else {}
    times = {"time_created": time, "time_updated": time}
    insert(connection, table, id=id, **owner, session_id=session, **times, data=json.dumps(data))


def insert_todo(connection: sqlite3.Connection, content: str, position: int) -> None:
    times = {"time_created": START + 20, "time_updated": START + 20}
    state = {"status": "pending", "priority": "high"}
    insert(connection, "todo", session_id=PARENT, content=content, **state, position=position, **times)


def update(database: Path, table: str, id: str, **values: Any) -> None:
    with changing(database) as connection:
        columns = ", ".join(f"{name} = ?" for name in values)
        query = f"UPDATE {table} SET {columns} WHERE id = ?"  # names of the test
        connection.execute(query, [*values.values(), id])
