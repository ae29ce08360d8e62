"""Chunks of OpenAI's Chat Completions."""

from typing import Any

Record = dict[str, Any]


def delta_chunk(delta: Any = None, reason: str | None = None, id: str | None = "c1", **more: Any) -> Record:
    """Return a chunk of one choice, by default the first."""
    choice = {"index": more.pop("index", 0), "delta": delta or {}, "finish_reason": reason}
    return {"id": id, "object": "chat.completion.chunk", "model": "m", "choices": [choice]} | more


def chunk_without_choices(**more: Any) -> Record:
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [], **more}
