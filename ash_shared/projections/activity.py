"""The current activity of a session, for lists of running sessions."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ash_shared.eventlog import OpenTurn
from ash_shared.model.session import SessionActivity
from ash_shared.model.times import datetime_of
from ash_shared.parsing.tool_names import MAIN_ARGUMENTS

ASKING_TOOLS = frozenset(
    [
        "askuser",
        "askuserquestion",
        "askfollowupquestion",
        "askquestion",
        "question",
        "requestuserinput",
        "exitplanmode",
        "planexit",
        "mcpapprovalrequest",
    ]
)
"""Tools that ask the person, in lower case and without punctuation; as in viewer/session/activity.js."""

_OPEN_TEXTS: Mapping[str, Any] = {"text": "writing", "thinking": "thinking"}


def to_activity(turn: OpenTurn | None, calls: Iterable[Mapping[str, Any]]) -> SessionActivity:
    """Return the activity of a session.

    `calls` are the last `tool_call` events in wire form, the latest first. The latest pending call that asks the person
    counts, else the latest other one.
    """
    if turn is None or turn.is_over:
        return SessionActivity(state="ended")
    pending = {id: tool for id, tool in turn.calls.items() if tool}
    if not pending:
        return SessionActivity(state=_OPEN_TEXTS.get(turn.open_text or "", "working"))
    asking = [id for id, tool in pending.items() if _asks(tool)]
    last = (asking or list(pending))[-1]
    event = next((call for call in calls if call["payload"]["toolCallId"] == last), None)
    payload: Mapping[str, Any] = {} if event is None else event["payload"]
    return SessionActivity(
        state="waiting" if asking else "calling",
        tool=pending[last],
        argument=main_argument(payload.get("args")) or None,
        since=None if event is None else datetime_of(event["timestamp"]),
    )


def main_argument(args: Any) -> str:
    """Return the most important argument of a call; JSON if it is not known."""
    if isinstance(args, dict):
        if question := _first_question(args.get("questions")):
            return question
        fallback = _to_json(args) if args else ""
        return next((args[name] for name in MAIN_ARGUMENTS if isinstance(args.get(name), str)), fallback)
    if args is None:
        return ""
    return args if isinstance(args, str) else _to_json(args)


def _first_question(questions: Any) -> str | None:
    first = questions[0] if isinstance(questions, list) and questions else None
    question = first.get("question") if isinstance(first, dict) else None
    return question if isinstance(question, str) else None


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _asks(tool: str) -> bool:
    return re.sub("[^a-z0-9]", "", tool.lower()) in ASKING_TOOLS
