"""The CLIs that run hooks: their settings files, and the entries that call Ash."""

import os
import shlex
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from ash_server.cli.hooks.opencode_plugin import OpenCodePlugin
from ash_server.cli.hooks.settings_file import HooksMember


class HookedCLI(NamedTuple):
    title: str
    variable: str | None
    """Environment variable with the folder of the settings file."""
    folder: str
    """Its default, relative to the user's home."""
    file: str
    events: tuple[str, ...]
    fields: Mapping[str, Any]
    """Fields of each entry besides its command."""
    form: HooksMember | OpenCodePlugin = HooksMember()
    output: str = ""
    """The text that the CLI expects on standard output."""
    sessions: tuple[str, ...] = ()
    """Patterns of the files of a session, relative to the home of its transcripts, for input that names none."""
    rest_seconds: float = 1.0
    """The CLI writes the last lines of a turn after its hooks have begun."""
    is_late: bool = False
    """The transcript of the first turn may not exist yet."""
    note: str | None = None
    """Advice after the installation."""

    def path(self) -> Path:
        """Return the settings file; the target of a link."""
        configured = os.environ.get(self.variable) if self.variable else None
        folder = Path(configured).expanduser() if configured else Path.home() / self.folder
        return Path(os.path.realpath(folder / self.file))

    def entries(self, words: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the entry of each event; `words` are the command."""
        line = shlex.join(words)
        if not isinstance(self.form, HooksMember):
            return {event: {"command": line} for event in self.events}
        # A hook that fails could stop the turn.
        otherwise = f"echo '{self.output}'" if self.output else "true"
        entry = {**self.fields, self.form.command: f"{line} || {otherwise}"}
        return dict.fromkeys(self.events, entry)


def words_of(command: str) -> list[str]:
    """Return the words of an installed command."""
    return list(takewhile(lambda word: word != "||", shlex.split(command)))


_EVENTS = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")
_COMMAND = {"type": "command"}

AGENTS: Mapping[str, HookedCLI] = {
    "claude": HookedCLI(
        "Claude Code",
        "CLAUDE_CONFIG_DIR",
        ".claude",
        "settings.json",
        _EVENTS,
        {**_COMMAND, "async": True, "timeout": 10},
    ),
    # Its older versions skip asynchronous hooks, and no version waits longer than 3 seconds for the end of a session.
    "codex": HookedCLI(
        "Codex",
        "CODEX_HOME",
        ".codex",
        "hooks.json",
        _EVENTS,
        {**_COMMAND, "timeout": 3},
        note="Codex skips new hooks until you trust them: open /hooks in its next session.",
    ),
    # It counts milliseconds.
    "gemini_cli": HookedCLI(
        "Gemini CLI",
        "GEMINI_CLI_HOME",
        "",
        ".gemini/settings.json",
        ("AfterAgent", "PreCompress", "SessionEnd"),
        {**_COMMAND, "name": "ash", "timeout": 10_000},
        output="{}",
        sessions=("tmp/*/chats/{id}",),
    ),
    # Its CLI, editor and app read one file. It writes the transcript seconds after the turn, and nothing at the end.
    "antigravity": HookedCLI(
        "Antigravity",
        None,
        ".gemini/config",
        "hooks.json",
        ("Stop",),
        {**_COMMAND, "timeout": 10},
        HooksMember("ash", has_groups=False, is_own_member=True),
        output="{}",
        rest_seconds=5.0,
        is_late=True,
    ),
    # It reads all files in this folder.
    "copilot_cli": HookedCLI(
        "Copilot CLI",
        "COPILOT_HOME",
        ".copilot",
        "hooks/ash.json",
        ("agentStop", "subagentStop", "preCompact", "sessionEnd"),
        {**_COMMAND, "timeoutSec": 10},
        HooksMember(has_groups=False, command="bash", header={"version": 1}, is_own_file=True),
        output="{}",
        sessions=("session-state/{id}/events.jsonl", "session-state/{id}.jsonl"),
    ),
    # Its command line names no transcript.
    "cursor": HookedCLI(
        "Cursor",
        None,
        ".cursor",
        "hooks.json",
        ("stop", "subagentStop", "preCompact", "sessionEnd"),
        {"timeout": 10},
        HooksMember(has_groups=False, header={"version": 1}),
        output="{}",
        sessions=(
            "projects/*/agent-transcripts/{id}.jsonl",
            "projects/*/agent-transcripts/{id}/{id}.jsonl",
            "projects/*/agent-transcripts/{id}/subagents",
        ),
    ),
    "opencode": HookedCLI(
        "OpenCode",
        "XDG_CONFIG_HOME",
        ".config",
        "opencode/plugins/ash.js",
        # The second line is of version 2.
        (
            *("session.idle", "session.compacted", "session.error"),
            *("session.execution.succeeded", "session.execution.failed", "session.execution.interrupted"),
        ),
        {},
        OpenCodePlugin(),
        sessions=("storage/session/*/{id}.json",),
    ),
}
