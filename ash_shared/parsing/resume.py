"""The command that continues a session in the agent that wrote it.

The id and the folder come from records that anyone may have written. So the id must have the exact form of its agent,
and a folder must not contain characters that a terminal hides or reorders.
"""

import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ash_shared.model.session import Session, SessionResume


class _Agent(NamedTuple):
    """How an agent is started with a session."""

    command: tuple[str, ...]
    """The program and its arguments, with `{id}` in place of the id."""
    id: str
    """Pattern of its ids."""
    path: str | None = None
    """Pattern of its transcripts, with the group `id`, if their records do not contain the id."""


_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_KIMI_ID = rf"(?:session_)?{_UUID}"
_NAME = r"[0-9A-Za-z][0-9A-Za-z_.-]{0,200}"
_OPENCODE_ID = r"ses_[0-9A-Za-z]{26}"

_AGENTS: Mapping[str, _Agent] = {
    "claude": _Agent(("claude", "--resume", "{id}"), _UUID),
    "codex": _Agent(("codex", "resume", "{id}"), _UUID),
    "gemini_cli": _Agent(("gemini", "--resume", "{id}"), _UUID),
    "antigravity": _Agent(
        ("agy", "--conversation", "{id}"),
        _UUID,
        rf"antigravity-cli/(?:brain/(?P<id>{_UUID})/.*|conversations/(?P<file>{_UUID})\.db)",
    ),
    "cursor": _Agent(
        ("cursor-agent", "--resume", "{id}"),
        _UUID,
        rf"projects/[^/]+/agent-transcripts/(?:[^/]+/)?(?P<id>{_UUID})\.jsonl?",
    ),
    "opencode": _Agent(("opencode", "--session", "{id}"), _OPENCODE_ID),
    "copilot_cli": _Agent(("copilot", "--resume={id}"), _UUID),
    "pi": _Agent(("pi", "--session", "{id}"), _UUID),
    "crush": _Agent(("crush", "--session", "{id}"), _UUID),
    "gptme": _Agent(("gptme", "--name", "{id}"), _NAME, rf"logs/(?P<id>{_NAME})/conversation\.jsonl"),
    "hermes": _Agent(("hermes", "--resume", "{id}"), r"\d{8}_\d{6}_[0-9a-f]{4,32}"),
    "kimi": _Agent(
        ("kimi", "--session", "{id}"),
        _KIMI_ID,
        rf"sessions/[^/]+/(?P<id>{_KIMI_ID})/(?:agents/main/)?wire\.jsonl",
    ),
    "mistral_vibe": _Agent(("vibe", "--resume", "{id}"), _UUID),
    "qwen_code": _Agent(("qwen", "--resume", "{id}"), _UUID),
}
"""By the agent of a session. Agents without a documented option are absent."""


def resume_command(session: Session) -> SessionResume:
    """Return the command that continues a session in its folder, or the reason why there is none."""
    agent, folder = _AGENTS.get(session.agent), session.folder
    if agent is None:
        return _refuse(session, f"No command is known that continues a session of {session.agent}.")
    if session.agent_id:
        return _refuse(session, "It is the session of a subagent. Its parent can be continued.")
    id = _id_of(session, agent)
    if id is None:
        return _refuse(session, "Its records contain no id that the agent accepts.")
    if folder is not None and not is_plain(folder):
        return _refuse(session, "The name of its folder contains control or bidirectional characters.")
    arguments = [each.format(id=id) for each in agent.command]
    if folder is None or not _is_absolute(folder):
        return SessionResume(arguments=arguments, machine=session.machine)
    command = shell_command(folder, arguments) if folder.startswith("/") else None
    return SessionResume(arguments=arguments, folder=folder, machine=session.machine, command=command)


def arguments_for(agent: str, id: str) -> list[str]:
    """Return the arguments that continue a session of an agent in the table."""
    return [each.format(id=id) for each in _AGENTS[agent].command]


def shell_command(folder: str, arguments: Sequence[str]) -> str:
    """Return a line for a POSIX shell that runs a command in an absolute folder."""
    return f"cd {shlex.quote(folder)} && {shlex.join(arguments)}"


def is_plain(text: str) -> bool:
    """True if a text contains no character that is invisible or changes the order of others."""
    return not any(unicodedata.category(each) in _HIDDEN for each in text)


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control and format characters, surrogates, separators of lines and paragraphs."""


def _refuse(session: Session, reason: str) -> SessionResume:
    return SessionResume(machine=session.machine, reason=reason)


def _id_of(session: Session, agent: _Agent) -> str | None:
    """Return the agent's id of a session: the one in its records, else the one in the path of the transcript."""
    stated = session.metadata.get("sessionId")
    if isinstance(stated, str):
        return stated if re.fullmatch(agent.id, stated) else None
    paths = filter(None, (session.path, session.external_id)) if agent.path else ()
    matches = (re.fullmatch(str(agent.path), path) for path in paths)
    return next((next(filter(None, match.groupdict().values())) for match in matches if match), None)


def _is_absolute(folder: str) -> bool:
    return re.match(r"/|[A-Za-z]:[/\\]", folder) is not None
