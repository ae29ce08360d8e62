"""Agents that a session starts, and switches between its own, as records name them or results of tools do."""

import json
import re
from typing import Any

from ash_shared.eventlog import turns
from ash_shared.eventlog.emitter import LineOutput
from ash_shared.records.json_fields import decode_arguments, text_at
from ash_shared.records.steps import CurrentAgent


def follow_agent(output: LineOutput, step: CurrentAgent) -> None:
    """Emit a switch if a new record states another agent than before."""
    if step.key not in output.state.roles_by_key and output.state.agent != step.name:
        turns.end_if_over(output)
        _switch(output, step.name, is_first=not output.state.agent)


def started_agent(tool: str, result: Any) -> str | None:
    """Return the thread that Codex's `spawn_agent` started, if its result contains the id."""
    if tool != "spawn_agent" or not isinstance(result, str):
        return None
    return text_at(decode_arguments(result), "agent_id")


def follow_handoff(output: LineOutput, tool: str, result: Any) -> None:
    """Emit the switch that the result of a handoff tool states; its agent before may be unknown."""
    target = _handoff_target(tool, result)
    if target is not None and target != output.state.agent:
        _switch(output, target)


def _switch(output: LineOutput, to: str, *, is_first: bool = False) -> None:
    previous, output.state.agent = output.state.agent, to
    if not is_first:
        output.emit("agent_switch", {**({"fromAgentId": previous} if previous else {}), "toAgentId": to})


def _handoff_target(tool: str, result: Any) -> str | None:
    """Return the agent that takes over: `{"assistant": NAME}` in the OpenAI Agents SDK, a sentence in LangGraph."""
    if not tool.startswith("transfer_") or not isinstance(result, str):
        return None
    sentence = _TRANSFERRED.fullmatch(result)
    if sentence is not None:
        return sentence[1]
    try:
        answer = json.loads(result)
    except (ValueError, RecursionError):
        return None
    is_agent = isinstance(answer, dict) and answer.keys() == {"assistant"}
    return answer["assistant"] if is_agent and isinstance(answer["assistant"], str) else None


_TRANSFERRED = re.compile(r"Successfully transferred (?:back )?to (\S.{0,200})")
