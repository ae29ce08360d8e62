"""Messages of Pydantic AI, their parts, and entries of its conversation stores."""

from typing import Any

Record = dict[str, Any]

USAGE: Record = {"input_tokens": 10, "output_tokens": 2}


def request(*parts: Record, **more: Any) -> Record:
    return {"parts": list(parts), "kind": "request", "state": "complete", **more}


def response(*parts: Record, **more: Any) -> Record:
    return {"parts": list(parts), "usage": USAGE, "model_name": "m1", "kind": "response", **more}


def prompt(content: Any) -> Record:
    return {"content": content, "part_kind": "user-prompt"}


def text(text: str) -> Record:
    return {"content": text, "part_kind": "text"}


def result(content: Any, **more: Any) -> Record:
    return {"tool_name": "tide", "content": content, "tool_call_id": "c1", "part_kind": "tool-return", **more}


def entry(id: str, parent: str | None, message: Record, **more: Any) -> Record:
    return {"id": id, "parent_id": parent, "message": message, "kind": "message", **more}
