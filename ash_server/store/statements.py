"""SQL in files: the named statements of a module, in the `.sql` file next to it.

```sql
-- fragment: columns
-- The columns of `Session`.
id, source, title

-- name: get_session
-- One session.
SELECT {columns} FROM sessions WHERE id = %(id)s
```

```python
SQL = statements(__file__)
await conn.execute(SQL.get_session, {"id": session_id})
```

A file is read once, at import. Lines that begin with `--` are not sent. `{columns}` stands for an earlier fragment of
the file, or for a value that the module passes to `statements`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from psycopg.sql import Literal

_HEADER = re.compile(r"^-- (name|fragment): ([a-z][a-z0-9_]*)$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_PARAMETER = re.compile(r"%\(([a-z][a-z0-9_]*)\)b")


class Sql(str):
    """SQL of the package, never of a user. A fragment may have open placeholders, such as `{columns}`."""

    __slots__ = ()

    def fill(self, **parts: "SqlPart") -> "Sql":
        """Replace all placeholders: by SQL if a part is `Sql`, by a literal if it is a text or a number.

        Raises ValueError for a placeholder without a part, and for a part without a placeholder.
        """
        if mismatch := open_placeholders(self) ^ parts.keys():
            raise ValueError(f"either no such placeholder or no value for it: {', '.join(sorted(mismatch))}")
        return _replace(self, parts)


SqlPart: TypeAlias = Sql | str | int


class NumberedSql(NamedTuple):
    """SQL with numbered parameters, as PostgreSQL receives it."""

    text: str
    names: tuple[str, ...]
    """The names of `$1`, `$2` and so on."""


class Statements:
    """A file's statements and fragments by name, as attributes and as items."""

    def __init__(self, path: Path, sql: Mapping[str, Sql], fragments: frozenset[str]) -> None:
        self.path = path
        self.fragments = fragments
        """The names of those that cannot run alone."""
        self._sql = dict(sql)

    def __getattr__(self, name: str) -> Sql:
        try:
            return self._sql[name]
        except KeyError:
            raise AttributeError(f"{self.path.name} has no statement {name!r}") from None

    def __getitem__(self, name: str) -> Sql:
        return self._sql[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sql)


def statements(module: str, **values: SqlPart) -> Statements:
    """Read the file next to a module, which passes its `__file__`. `values` fill placeholders as in `Sql.fill`.

    Raises ValueError if a statement has an open placeholder, or a value is not used.
    """
    path = Path(module).with_suffix(".sql")
    return parse_statements(path, path.read_text(encoding="utf-8"), values)


def parse_statements(path: Path, text: str, values: Mapping[str, SqlPart]) -> Statements:
    """Read the text of a file; see `statements`."""
    before, *blocks = _HEADER.split(text)
    if _without_comments(before):
        raise ValueError(f"{path.name}: SQL before the first name")
    sql: dict[str, Sql] = {}
    fragments, unused = set(), set(values)
    for kind, name, body in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True):
        if name in ("path", "fragments"):
            raise ValueError(f"{path.name}: {name} is an attribute of Statements")
        if name in sql or name in values:
            raise ValueError(f"{path.name}: {name} is defined twice")
        unused -= open_placeholders(body)
        sql[name] = _replace(Sql(_without_comments(body)), {**values, **sql})
        if kind == "fragment":
            fragments.add(name)
        elif undefined := open_placeholders(sql[name]):
            raise ValueError(f"{path.name}: nothing before {name} defines {', '.join(sorted(undefined))}")
    if unused:
        raise ValueError(f"{path.name}: no statement uses {', '.join(sorted(unused))}")
    return Statements(path, sql, frozenset(fragments))


def open_placeholders(sql: str) -> set[str]:
    return set(_PLACEHOLDER.findall(sql))


def number_parameters(sql: Sql) -> NumberedSql:
    """Replace the parameters by numbers. Raises ValueError if one is not like `%(name)b`."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    numbers = {name: f"${number}" for number, name in enumerate(names, 1)}
    text = _PARAMETER.sub(lambda match: numbers[match[1]], sql)
    if "%" in text:
        raise ValueError(f"a parameter is not like %(name)b: {text[text.index('%') :][:20]}")
    return NumberedSql(text, names)


def _replace(sql: Sql, parts: Mapping[str, SqlPart]) -> Sql:
    """Replace the placeholders with a part; the others stay open."""
    return Sql(_PLACEHOLDER.sub(lambda match: _to_sql(parts.get(match[1], Sql(match[0]))), sql))


def _to_sql(part: SqlPart) -> str:
    return part if isinstance(part, Sql) else Literal(part).as_string(None)


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--")).strip()
