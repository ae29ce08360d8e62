"""Events of Copilot CLI."""

from typing import Any

Record = dict[str, Any]


def event(name: str, number: int = 1, agent: str | None = None, /, **data: Any) -> Record:
    """Return a line of the log; `number` is its place, and determines the ids."""
    record: Record = {
        "type": name,
        "data": data,
        "id": id_of(number),
        "timestamp": f"2026-03-02T09:00:{number:02}.000Z",
        "parentId": id_of(number - 1) if number > 1 else None,
    }
    return record | ({} if agent is None else {"agentId": agent})


def id_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def prompt(text: str, number: int = 1, agent: str | None = None, /, **more: Any) -> Record:
    sent = f"<current_datetime>2026-03-02</current_datetime>\n\n{text}"
    return event(
        "user.message", number, agent, content=text, transformedContent=sent, delivery="idle", **more
    )


def answer(text: str, number: int = 1, agent: str | None = None, /, *calls: Record, **more: Any) -> Record:
    data: Record = {
        "messageId": f"m{number}",
        "model": "gpt-5",
        "content": text,
        "toolRequests": list(calls),
        "turnId": "0",
        "apiCallId": f"a{number}",
        **more,
    }
    return event("assistant.message", number, agent, **data)


def call(id: str, name: str, **arguments: Any) -> Record:
    return {"toolCallId": id, "name": name, "arguments": arguments, "type": "function"}


def result(id: str, text: str, number: int = 1, agent: str | None = None, /, **more: Any) -> Record:
    data: Record = {"toolCallId": id, "success": True, "result": {"content": text}, **more}
    return event("tool.execution_complete", number, agent, **data)


def usage_record(answer_number: int, number: int = 1, agent: str | None = None, /, **more: Any) -> Record:
    usage: Record = {
        "model": "gpt-5",
        "inputTokens": 120,
        "outputTokens": 9,
        "cacheReadTokens": 100,
        "cacheWriteTokens": 0,
        "reasoningTokens": 4,
        "cost": 0.33,
        "apiCallId": f"a{answer_number}",
        **more,
    }
    return event("session.usage_record", number, agent, usage=usage)


def metrics(**counts: int) -> Record:
    return {"requests": {"count": 2, "cost": 1}, "usage": counts}
