"""Records of pi: messages, the events of its stream, and entries of its session files."""

from typing import Any

Record = dict[str, Any]

TIME = 1_770_000_000_000


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def user(content: Any) -> Record:
    return {"role": "user", "content": content, "timestamp": TIME}


def response(*content: Record, **more: Any) -> Record:
    return {
        "role": "assistant",
        "content": list(content),
        "api": "chat",
        "provider": "acme",
        "model": "m1",
        "usage": {"input": 50, "output": 7, "cacheRead": 40, "cost": {"total": 0.1}},
        "stopReason": "stop",
        "timestamp": TIME,
        **more,
    }


def start(message: Record) -> Record:
    return {"type": "message_start", "message": message}


def end(message: Record) -> Record:
    return {"type": "message_end", "message": message}


def update(wire: str, index: int, message: Record, **more: Any) -> Record:
    event = {"type": wire, "contentIndex": index, **more}
    return {"type": "message_update", "message": message, "assistantMessageEvent": event}


def tool_result(words: str = "ok", **more: Any) -> Record:
    return {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "bash",
        "content": [text(words)],
        "details": {"lines": 1},
        "isError": False,
        "timestamp": TIME,
        **more,
    }


def execution(state: str, **more: Any) -> Record:
    return {"type": f"tool_execution_{state}", "toolCallId": "c1", "toolName": "bash", **more}


def entry(kind: str, **more: Any) -> Record:
    return {"type": kind, "id": "e2", "parentId": "e1", "timestamp": "2026-02-02T02:40:00Z", **more}
