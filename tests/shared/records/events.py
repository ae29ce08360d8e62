"""Events in Ash's own form, as they are posted and listed."""

from typing import Any

Event = dict[str, Any]

ENVELOPE = (
    "id",
    "timestamp",
    "sessionId",
    "turnId",
    "responseId",
    "recordId",
    "sequence",
    "messageSequence",
)


def wire_event(type: str, /, **fields: Any) -> Event:
    """Return an event in wire form; fields without a name of the envelope are its payload."""
    envelope = {name: fields.pop(name) for name in ENVELOPE if name in fields}
    return {**envelope, "type": type, "payload": fields}


def turn_start(**more: Any) -> Event:
    return wire_event("turn_start", trigger="user", **more)


def tool_call(call: str, /, name: str = "Bash", args: Any = None, **more: Any) -> Event:
    args = {} if args is None else args
    return wire_event("tool_call", toolCallId=call, toolName=name, args=args, **more)


def tool_result(call: str, result: Any = "", /, **more: Any) -> Event:
    return wire_event("tool_result", toolCallId=call, result=result, **more)


def token_usage(input: int, output: int) -> dict[str, int]:
    """Return the usage of a turn with these tokens."""
    return {"input_tokens": input, "output_tokens": output, "total_tokens": input + output}


def numbered(*events: Event, first: int = 1, **envelope: Any) -> list[Event]:
    """Return the events with ids and times by their number; `envelope` has more fields for each."""
    return [
        {"id": f"e{number}", "timestamp": number, **envelope, **event}
        for number, event in enumerate(events, first)
    ]
