"""Responses of the Gemini API: complete ones, and chunks of streams."""

from typing import Any

Record = dict[str, Any]


def content(role: str, *parts: Any) -> Record:
    return {"role": role, "parts": list(parts)}


def response(*parts: Any, reason: Any = None, **more: Any) -> Record:
    """Return a response of one candidate."""
    finish = {} if reason is None else {"finishReason": reason}
    return {"candidates": [{"content": content("model", *parts), **finish}], **more}
