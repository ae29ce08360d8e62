"""Lists arrive in PostgreSQL as they were sent."""

from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

LONG = "x" * 100

LISTS: dict[str, tuple[str, list[Any]]] = {
    "empty": ("text[]", []),
    "texts": ("text[]", ["a", "b c", "", "ä", "🙂", "a,b", "{a}", " a "]),
    "texts that look like null": ("text[]", ["NULL", None, "null"]),
    "quotes": ("text[]", ['"', 'a"b', '""', None]),
    "backslashes": ("text[]", ["\\", "a\\b", "\\n", '\\"', None]),
    "control characters": ("text[]", ["\n", "\t", "\x01", "\x7f", "\u2028"]),
    "texts, the first one long": ("text[]", [LONG, '"\\\n', None, ""]),
    "texts, the last one long": ("text[]", [None, "a", '"\\\n' + LONG]),
    "no values": ("text[]", [None, None]),
    "no numbers": ("bigint[]", [None]),
    "numbers": ("bigint[]", [0, -1, 1, 2**63 - 1, -(2**63), None]),
    "small numbers": ("integer[]", [1, 2**31 - 1]),
    "truth values": ("boolean[]", [True, False, None]),
    "fractions": ("float8[]", [0.5, 1e300, None]),
    "ids": ("uuid[]", [UUID(int=7), None]),
    "bytes": ("bytea[]", [b"\\\x00", b""]),
    "nested": ("bigint[]", [[1, 2], [3, None]]),
}


@pytest.mark.parametrize("name", LISTS)
async def test_lists_arrive_as_sent(connection: AsyncConnection, name: str) -> None:
    kind, values = LISTS[name]
    cursor = await connection.execute(f"SELECT %b::{kind}", [values])

    assert await cursor.fetchone() == (values,)


async def test_types_follow_from_the_items(connection: AsyncConnection) -> None:
    lists = [["a", None], [None, "a"], [LONG], [1, None], [1 << 40], [True]]
    types = ", ".join("pg_typeof(%b)::text" for _ in lists)
    cursor = await connection.execute(f"SELECT {types}", lists)

    assert await cursor.fetchone() == ("text[]", "text[]", "text[]", "bigint[]", "bigint[]", "boolean[]")


async def test_list_of_several_types_is_rejected(connection: AsyncConnection) -> None:
    with pytest.raises(Exception, match="mixed types"):
        await connection.execute("SELECT %b::text[]", [["a", 1]])
