"""Records of Gemini CLI: messages of a session file, and events of its printed output."""

from typing import Any

Record = dict[str, Any]

TIME = "2026-03-02T08:15:00Z"


def line(kind: str, id: str, content: Any = "", time: str = TIME, **more: Any) -> Record:
    return {"id": id, "timestamp": time, "type": kind, "content": content, **more}


def event(kind: str, **more: Any) -> Record:
    return {"type": kind, "timestamp": TIME, **more}


def call(id: str, status: str, **more: Any) -> Record:
    return {"id": id, "name": "tide", "args": {"at": "Oslo"}, "status": status, **more}


def function_response(id: str, name: str = "tide", **response: str) -> list[Record]:
    """Return the result of a call."""
    return [{"functionResponse": {"id": id, "name": name, "response": response}}]
