"""Write a session of OpenCode: a document for `opencode import`."""

import json
from collections.abc import Iterator
from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.model.events import failure_of
from ash_shared.projections._conversation import Answer, ConversationCall, Item, UserMessage
from ash_shared.projections._request_content import (
    arguments_of,
    described,
    inline_picture,
    result_blocks,
    text_of,
)
from ash_shared.projections.native.transcript import MARK, NativeSession, NewTranscript

_AGENT = "build"
"""OpenCode's agent for changes, the first one of its menu."""
_MODEL = {"providerID": "unknown", "modelID": "unknown"}
_LAST = (1 << 48) - 1
_NO_TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def to_opencode(items: list[Item], session: NewTranscript) -> NativeSession:
    """Return the document of a session. The import replaces its project and folder."""
    ids = _Ids(session)
    messages = list(_messages(items, ids))
    document = {"info": _info(session, ids), "messages": messages}
    return NativeSession((f"{ids.session}.json",), ids.session, f"{json.dumps(document)}\n")


class _Ids:
    """Ids of OpenCode, which sort by their time: 48 bits as hexadecimal digits, then 14 characters."""

    def __init__(self, session: NewTranscript) -> None:
        self._origin = session
        self._count = 0
        self.folder = session.folder
        self.session = self._id("ses", ~(session.time << 12))

    def next(self, kind: str) -> str:
        self._count += 1
        return self._id(kind, self._value)

    @property
    def next_ordinal(self) -> int:
        """The time in the next id."""
        return (self._value + 1) & _LAST

    @property
    def _value(self) -> int:
        return (self._origin.time << 12) + self._count

    @property
    def time(self) -> int:
        """The time of the last id."""
        return self._origin.time + self._count

    def _id(self, kind: str, value: int) -> str:
        return f"{kind}_{value & _LAST:012x}{self._origin.record_id(self._count).hex[:14]}"


def _info(session: NewTranscript, ids: _Ids) -> dict[str, Any]:
    return {
        "id": ids.session,
        "slug": f"ash-{session.id.hex[:12]}",
        "projectID": "global",
        "directory": session.folder,
        "title": session.title or "Continued session",
        "version": "0.0.0",
        "metadata": {MARK: {**session.start_mark, "ownOrdinal": ids.next_ordinal}},
        "time": {"created": session.time, "updated": session.time},
    }


def _messages(items: list[Item], ids: _Ids) -> Iterator[dict[str, Any]]:
    prompt = ""
    for item in items:
        id = ids.next("msg")
        if isinstance(item, UserMessage):
            prompt = id
            info = {"role": "user", "time": {"created": ids.time}, "agent": _AGENT, "model": _MODEL}
            parts = _prompt(item.blocks)
        else:
            info = _answer_info(item, prompt, ids)
            parts = [{"type": "text", "text": text} for text in map(described, item.blocks)]
            parts += [_tool(call, id, ids) for call in item.calls]
        names = {"id": id, "sessionID": ids.session}
        yield {
            "info": {**info, **names},
            "parts": [
                {**part, "id": ids.next("prt"), "sessionID": ids.session, "messageID": id} for part in parts
            ],
        }


def _answer_info(answer: Answer, prompt: str, ids: _Ids) -> dict[str, Any]:
    return {
        "role": "assistant",
        "time": {"created": ids.time, "completed": ids.time},
        "parentID": prompt,
        **_MODEL,
        "mode": _AGENT,
        "agent": _AGENT,
        "path": {"cwd": ids.folder, "root": ids.folder},
        "cost": 0,
        "tokens": _NO_TOKENS,
        "finish": "tool-calls" if answer.calls else "stop",
    }


def _prompt(blocks: list[Block]) -> list[dict[str, Any]]:
    parts = [_part(block) for block in blocks]
    is_text = all(part["type"] == "text" for part in parts)
    return [{"type": "text", "text": text_of(blocks)}] if is_text else parts


def _tool(call: ConversationCall, message: str, ids: _Ids) -> dict[str, Any]:
    blocks = result_blocks(call.result or {"result": None})
    pairs = [(block, _part(block)) for block in blocks]
    has_failed = failure_of(call.result or {}) is not None
    text = text_of([block for block, part in pairs if has_failed or part["type"] == "text"])
    state: dict[str, Any] = {
        "status": "error" if has_failed else "completed",
        "input": json.loads(arguments_of(call.args)),
        **({"error": text} if has_failed else {"output": text, "title": ""}),
        "metadata": {},
        "time": {"start": ids.time, "end": ids.time},
    }
    names = {"sessionID": ids.session, "messageID": message}
    files = [{**part, "id": ids.next("prt"), **names} for _, part in pairs if part["type"] == "file"]
    if files and not has_failed:
        state["attachments"] = files
    return {"type": "tool", "callID": call.id, "tool": call.name, "state": state}


def _part(block: Block) -> dict[str, Any]:
    picture = inline_picture(block) if block["type"] == "image" else None
    if picture is None:
        return {"type": "text", "text": described(block)}
    return {
        "type": "file",
        "mime": picture.media_type,
        "url": f"data:{picture.media_type};base64,{picture.data}",
    }
