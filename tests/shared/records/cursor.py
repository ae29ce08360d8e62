"""Records of Cursor: lines of its stream and of its transcripts."""

from typing import Any

Record = dict[str, Any]

SESSION = "0f3c1c52-5a0e-4d0e-9a53-0d5b3c1f7a10"

CALL = "call_7\nfc_7"


def line(kind: str, **more: Any) -> Record:
    return {"type": kind, "session_id": SESSION, **more}


def message_line(role: str, text: str, **more: Any) -> Record:
    return line(role, message={"role": role, "content": [{"type": "text", "text": text}]}, **more)


def delta(text: str) -> Record:
    return message_line("assistant", text, timestamp_ms=5)


def thinking_delta(text: str) -> Record:
    return line("thinking", subtype="delta", text=text, timestamp_ms=5)


def end(text: str | None, **more: Any) -> Record:
    return line("result", subtype="success", duration_ms=900, is_error=False, result=text, **more)


def transcript_line(role: str, *content: Record) -> Record:
    """Return a transcript line."""
    return {"role": role, "message": {"content": list(content)}}


INIT = line(
    "system", subtype="init", apiKeySource="login", cwd="/srv", model="Auto", permissionMode="default"
)
