"""Write a session of Claude Code: the lines of a transcript in the folder of its project."""

import json
import re
from collections.abc import Iterator
from typing import Any

from ash_shared.model.blocks import Block, text_block
from ash_shared.projections._conversation import Item, UserMessage
from ash_shared.projections._request_content import as_text, text_of
from ash_shared.projections.anthropic_messages import BLOCKS, call_block, result_block
from ash_shared.projections.native.transcript import MARK, NativeSession, NewTranscript, iso_time
from ash_shared.records.system_text import is_client_text

_MAX_FOLDER = 200
"""Claude Code shortens the names of folders of projects that are longer, and adds a digest of its own."""
_MODEL = "unknown"
"""Shown for the answers. The settings of Claude Code determine the model of the next answer."""


def to_claude(items: list[Item], session: NewTranscript) -> NativeSession:
    """Return the transcript of a session, with one line per message."""
    lines = list(_lines(items, session))
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    return NativeSession(
        ("projects", project_folder(session.folder), f"{session.id}.jsonl"), str(session.id), text
    )


def project_folder(folder: str) -> str:
    """Return the name of the folder with the transcripts of a project. Raises ValueError for a long path."""
    name = re.sub("[^A-Za-z0-9]", "-", folder)
    if len(name) > _MAX_FOLDER:
        raise ValueError(
            f"Claude Code names the folders of paths with more than {_MAX_FOLDER} characters itself."
        )
    return name


def _lines(items: list[Item], session: NewTranscript) -> Iterator[dict[str, Any]]:
    yield _mark(session, session.start_mark)
    parent: str | None = None
    for number, (role, content) in enumerate(_messages(items)):
        line = _line(session, number, parent, role, content)
        yield line
        parent = line["uuid"]
    yield _mark(session, session.end_mark)
    if session.title is not None:
        yield {"type": "ai-title", "aiTitle": session.title, "sessionId": str(session.id)}


def _mark(session: NewTranscript, mark: dict[str, object]) -> dict[str, Any]:
    return {"type": "ash-continued", "sessionId": str(session.id), "cwd": session.folder, MARK: mark}


def _messages(items: list[Item]) -> Iterator[tuple[str, str | list[Block]]]:
    for item in items:
        if isinstance(item, UserMessage):
            yield "user", _prompt(item.blocks)
            continue
        yield "assistant", [as_text(block) for block in item.blocks] + list(map(call_block, item.calls))
        if item.calls:
            yield "user", [result_block(call.id, call.result or {"result": None}) for call in item.calls]


def _prompt(blocks: list[Block]) -> str | list[Block]:
    if all(block["type"] == "text" for block in blocks):
        return text_of(blocks)
    return [BLOCKS[block["type"]](block) for block in blocks]


def _line(
    session: NewTranscript, number: int, parent: str | None, role: str, content: str | list[Block]
) -> dict[str, Any]:
    message: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        id = f"msg_{session.record_id(number).hex[:24]}"
        message = {"id": id, "type": "message", "model": _MODEL, **message, "stop_reason": None}
    is_prompt = role == "user" and (isinstance(content, str) or content[0]["type"] != "tool_result")
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": session.folder,
        "sessionId": str(session.id),
        "type": role,
        "message": message,
        "uuid": str(session.record_id(number)),
        "timestamp": iso_time(session.time + number),
        **({"origin": {"kind": "human"}} if is_prompt and _looks_inserted(content) else {}),
    }


def _looks_inserted(content: str | list[Block]) -> bool:
    """True for a text that looks as if a tool had inserted it."""
    return is_client_text([text_block(content)] if isinstance(content, str) else content)
