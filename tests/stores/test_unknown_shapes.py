"""Any JSON that an SDK may send to its adapter comes back equal, with its keys in order."""

import json
from typing import Any, cast
from uuid import uuid4

import pytest
from claude_agent_sdk import SessionKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ash_stores import AshSession, AshSessionStore
from ash_stores.connection import Address

_TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)  # NUL and lone surrogates, too
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=10,
)
_KNOWN_KEYS = (
    *("type", "uuid", "parentUuid", "timestamp", "isSidechain", "message", "role", "content", "name"),
    *("call_id", "id", "output", "arguments", "summary", "tag", "customTitle", "cwd", "gitBranch"),
)
_KNOWN_VALUES = st.sampled_from(
    ["user", "assistant", "tag", "message", "function_call", "2026-11-02T09:00:00Z", [], {}]
)
_OBJECTS = st.dictionaries(st.sampled_from(_KNOWN_KEYS) | _TEXTS, _KNOWN_VALUES | _JSON, max_size=6)

pytestmark = [
    pytest.mark.slow,
    # The server, a thread, uses it while values are drawn.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies"),
]
once_per_address = settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@given(st.lists(_OBJECTS, min_size=1, max_size=8))
@once_per_address
async def test_entries_come_back_equal(address: tuple[Address, str | None], entries: list[Any]) -> None:
    """Each `uuid` is made unique, since a second entry with it is ignored."""
    for place, entry in enumerate(entries):
        if isinstance(entry.get("uuid"), str):
            entry["uuid"] += str(place)
    key: SessionKey = {"project_key": "shapes", "session_id": str(uuid4())}
    sessions = AshSessionStore(*address)
    await sessions.append(key, entries)
    loaded = cast(list[Any], await sessions.load(key))
    await sessions.close()

    assert json.dumps(loaded) == json.dumps(entries)


@given(st.lists(_OBJECTS | _JSON, min_size=1, max_size=8))
@once_per_address
async def test_items_come_back_equal(address: tuple[Address, str | None], items: list[Any]) -> None:
    url, key = address
    session = AshSession(str(uuid4()), url=url, key=key)
    await session.add_items(items)
    loaded = [await session.get_items(), await session.get_items(2), await session.pop_item()]
    await session.close()

    assert json.dumps(loaded) == json.dumps([items, items[-2:], items[-1]])
