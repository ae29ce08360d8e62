"""Rows of Hermes' database."""

import json
from typing import Any

Record = dict[str, Any]

START = 1772442000.0


def row(table: str, key: Any, **columns: Any) -> Record:
    return {"table": table, "key": key, "columns": columns}


def session(**columns: Any) -> Record:
    values: Record = {
        "id": "h1",
        "source": "cli",
        "model": "m1",
        "model_config": None,
        "started_at": START,
        "ended_at": None,
        "end_reason": None,
        "api_call_count": 2,
        "cwd": "/work/shop",
        "title": "Oars",
        "title_source": "llm",
        **columns,
    }
    return row("sessions", "h1", **values)


def message(number: int, role: str, content: str | None, **columns: Any) -> Record:
    values: Record = {
        "id": number,
        "session_id": "h1",
        "role": role,
        "content": content,
        "tool_call_id": None,
        "tool_calls": None,
        "timestamp": START + number,
        "finish_reason": None,
        "reasoning": None,
        "active": 1,
        "compacted": 0,
        **columns,
    }
    return row("messages", number, **values)


def call(id: str, name: str, **arguments: Any) -> str:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return json.dumps([{"id": id, "type": "function", "function": function}])


def usage(input: int, output: int, **columns: Any) -> Record:
    values: Record = {
        "session_id": "h1",
        "model": "m1",
        "task": "",
        "api_call_count": 2,
        "input_tokens": input,
        "output_tokens": output,
        "cache_read_tokens": 100,
        "cache_write_tokens": 0,
        "reasoning_tokens": 4,
        "estimated_cost_usd": 0.25,
        "actual_cost_usd": 0.0,
        "last_seen": START + 9,
        **columns,
    }
    return row("session_model_usage", ["h1", "m1", "", "", "", ""], **values)
