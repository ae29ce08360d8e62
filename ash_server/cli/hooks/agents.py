"""The CLIs that run hooks: their settings files, and the entries that call Ash."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class HookedCLI(NamedTuple):
    title: str
    variable: str
    """Environment variable with the folder of the settings file."""
    folder: str
    """Its default, relative to the user's home."""
    file: str
    events: tuple[str, ...]
    fields: Mapping[str, Any]
    """Fields of each entry besides its type and command."""
    note: str | None = None
    """Advice after the installation."""

    def path(self) -> Path:
        """Return the settings file; the target of a link."""
        configured = os.environ.get(self.variable)
        folder = Path(configured).expanduser() if configured else Path.home() / self.folder
        return Path(os.path.realpath(folder / self.file))


AGENTS: Mapping[str, HookedCLI] = {
    "claude": HookedCLI(
        "Claude Code",
        "CLAUDE_CONFIG_DIR",
        ".claude",
        "settings.json",
        ("Stop", "SubagentStop", "PreCompact", "SessionEnd"),
        {"async": True, "timeout": 10},
    ),
    # Its older versions skip asynchronous hooks, and no version waits longer than 3 seconds for the end of a session.
    "codex": HookedCLI(
        "Codex",
        "CODEX_HOME",
        ".codex",
        "hooks.json",
        ("Stop", "SubagentStop", "PreCompact", "SessionEnd"),
        {"timeout": 3},
        note="Codex skips new hooks until you trust them: open /hooks in its next session.",
    ),
}
