"""Changed rows of a database: what reads a session shows only their newest version, and both stay stored."""

import json
from pathlib import Path

import pytest

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from tests.server.opencode_database import PARENT, START, changing, insert_row, update, write_database

RESULT = {"status": "completed", "input": {"pattern": "sort"}, "output": "basket.py\n"}
TOKENS = {"input": 50, "output": 7, "reasoning": 0, "cache": {"read": 40, "write": 0}}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return write_database(tmp_path / "opencode.db")


async def test_store_reads_the_newest_version(store: Store, database: Path) -> None:
    await import_paths(store, [database], ImportOptions())
    [session] = [
        each.id
        for each in (await store.sessions.list_sessions()).sessions
        if (each.external_id or "").endswith(PARENT)
    ]
    call = {"type": "tool", "callID": "call_1", "tool": "grep", "state": RESULT}
    update(database, "part", "prt_1b", data=json.dumps(call), time_updated=START + 900)
    update(
        database, "part", "prt_1a", data='{"type": "text", "text": "Sort by name"}', time_updated=START + 900
    )
    with changing(database) as connection:
        end = {"type": "step-finish", "reason": "stop", "cost": 0.5, "tokens": TOKENS}
        insert_row(connection, "part", "prt_1c", PARENT, START + 901, end, "msg_1b")

    await import_paths(store, [database], ImportOptions())

    summary = await store.conversation.read_summary(session)
    conversation = await store.conversation.get_page(session)
    stored = await store.messages.list_messages(session)
    assert summary.usage is not None
    assert (summary.usage.input_tokens, summary.cost_usd, summary.tool_calls) == (50, 0.5, {"grep": 1})
    assert [(message.role, message.content[0].type) for message in conversation.messages] == [
        ("user", "text"),
        ("assistant", "tool_use"),
        ("user", "tool_result"),
    ]
    assert conversation.messages[0].content[0].text == "Sort by name"  # type: ignore[union-attr]  # a text
    assert sum('"prt_1a"' in str(message.content) for message in stored) == 2
