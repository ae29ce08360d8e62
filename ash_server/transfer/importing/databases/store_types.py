"""The description of a database with sessions: its tables, and the rows of a session in order."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol


class CountedTable(NamedTuple):
    """A table with rows of sessions, which are counted to detect changes."""

    name: str
    owner: str
    """Column with the id of the session."""
    size: str | None = None
    """Column with the longest texts."""
    times: tuple[str, ...] = ()
    """Columns with the time of the last change, as a number or in ISO 8601; the first one that exists is used."""
    milliseconds: int = 1
    """Milliseconds in a unit of the times."""
    sum_rows: Callable[[sqlite3.Connection], list[tuple[Any, ...]]] | None = None
    """Return the session, the count, the size and the last change of its rows, if no column has the session."""
    scopes: tuple[str, ...] = ()
    """Columns without which the id is not unique; see `name_of`."""


class TableRow(Protocol):
    @property
    def values(self) -> Mapping[str, Any]:
        """By column."""

    def extended(self, **columns: Any) -> "TableRow":
        """Return the row with more columns, also with lists and objects of values."""


class Rows(Protocol):
    def select(self, table: str, condition: str = "", **values: Any) -> Iterator[TableRow]:
        """Yield the rows with these values, and with the condition in SQL, in order."""


def _lasting_row(table: str, columns: Mapping[str, Any]) -> Any:
    return None


class SessionDatabase(NamedTuple):
    """The database of a program. Snapshots contain it, so its functions are named, for `pickle`."""

    source: str
    name: str
    required: Mapping[str, frozenset[str]]
    """Tables, with the columns that identify them."""
    counted: tuple[CountedTable, ...]
    """The first one has a row per session."""
    select: Callable[[Rows, str], Iterator[tuple[str, TableRow]]]
    """Return the rows of a session, in order, each with the name of its table."""
    orders: Mapping[str, tuple[str, ...]]
    """Columns that order the rows of a table, before the order of their insertion; the primary key of others."""
    read_values: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    """Return the values of a row, with texts that the program has compressed."""
    keys: Mapping[str, str] = {}
    """Columns that identify the rows of tables without a primary key."""
    lasting: Callable[[str, Mapping[str, Any]], Any] = _lasting_row
    """Return the part of a row that makes another version when it changes; None for the whole row."""
