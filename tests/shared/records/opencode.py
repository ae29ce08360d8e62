"""Documents of OpenCode: messages and their parts."""

from typing import Any

Record = dict[str, Any]

TOKENS = {"input": 50, "output": 7, "reasoning": 3, "cache": {"read": 40, "write": 0}}


def part(kind: str, message: str = "msg_2", **more: Any) -> Record:
    return {"id": f"prt_{kind}", "sessionID": "ses_1", "messageID": message, "type": kind, **more}


def info(id: str, role: str, **more: Any) -> Record:
    return {"id": id, "sessionID": "ses_1", "role": role, "time": {"created": 1_770_000_000_000}, **more}


def tool(state: Record, message: str = "msg_2", id: str | None = "c1") -> Record:
    return part("tool", message, tool="bash", state=state, **({} if id is None else {"callID": id}))


def finish(reason: str | None, message: str = "msg_2", **more: Any) -> Record:
    return part(
        "step-finish", message, tokens=TOKENS, **({} if reason is None else {"reason": reason}), **more
    )


def text(words: str, message: str = "msg_2", **more: Any) -> Record:
    return part("text", message, text=words, time={"start": 1, "end": 2}, **more)


def failed(name: str) -> Record:
    error = {"name": name, "data": {"message": "Too much"}}
    return {"type": "error", "timestamp": 1_770_000_000_000, "sessionID": "ses_1", "error": error}
