"""Records of the Claude family: lines of a stream and of a session file, and the API's own stream."""

from typing import Any

Record = dict[str, Any]

INIT = {"type": "system", "subtype": "init", "session_id": "s", "uuid": "i1", "tools": []}

STOP = {"type": "message_stop"}

USAGE = {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 4, "service_tier": "standard"}


def line(role: str, content: Any, message: Record | None = None, **more: Any) -> Record:
    """Return a line of a session file; `message` has more fields of the message."""
    return {"type": role, "message": {"role": role, "content": content, **(message or {})}, **more}


def user(content: Any, **more: Any) -> Record:
    return {"type": "user", "message": {"role": "user", "content": content}, "session_id": "s", **more}


def assistant(*blocks: Any, id: str | None = "m1", **more: Any) -> Record:
    message = {"id": id, "type": "message", "role": "assistant", "content": list(blocks)}
    return {"type": "assistant", "message": message, "session_id": "s", **more}


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def call(id: str | None, name: str = "Read", **input: Any) -> Record:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def tool_result(id: str, content: Any = "fine", **more: Any) -> Record:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def result(text: str | None = None, **more: Any) -> Record:
    return {"type": "result", "subtype": "success", "is_error": False, "session_id": "s"} | (
        {"result": text, **more} if text is not None else more
    )


def stream_event(event: Record, parent: str | None = None) -> Record:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": parent, "session_id": "s"}


def message_start(id: str = "m1", **message: Any) -> Record:
    message = {"type": "message", "role": "assistant", "content": [], "usage": USAGE, **message}
    return {"type": "message_start", "message": {"id": id, **message}}


def block_start(index: int, block: Record) -> Record:
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int, **delta: Any) -> Record:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def block_stop(index: int) -> Record:
    return {"type": "content_block_stop", "index": index}


def message_delta(reason: str | None, usage: Record | None = None, **more: Any) -> Record:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage or {}}


def streamed_text(words: str, id: str = "m1") -> list[Record]:
    """Return the stream events of an answer that begins with a text block."""
    return [
        stream_event(message_start(id)),
        stream_event(block_start(0, text(""))),
        stream_event(block_delta(0, type="text_delta", text=words)),
        stream_event(block_stop(0)),
    ]


def streamed_thought(words: str) -> list[Record]:
    """Return the stream events of an answer that begins with a block of reasoning."""
    return [
        stream_event(message_start()),
        stream_event(block_start(0, {"type": "thinking", "thinking": ""})),
        stream_event(block_delta(0, type="thinking_delta", thinking=words)),
        stream_event(block_stop(0)),
    ]


def queued(operation: str, content: str | None = None) -> Record:
    text = {} if content is None else {"content": content}
    return {"type": "queue-operation", "operation": operation, **text}


def thinking(words: str, **more: str) -> Record:
    return {"type": "thinking", "thinking": words, **more}
