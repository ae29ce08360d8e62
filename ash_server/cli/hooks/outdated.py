"""Installed hooks, and hooks and plugins that belong to another version of Ash."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from ash_server.cli.hooks.agents import AGENTS, HookedCLI, words_of
from ash_server.cli.hooks.settings_file import SettingsFileInvalid

_PLUGIN = "ash@"
"""Followed by the name of a marketplace."""


def outdated_hooks() -> Iterator[str]:
    """Yield a sentence for each agent with hooks that do not work as this version installs them."""
    for name, text, words in _installed():
        yield from _problems(name, AGENTS[name], text, words)


def hooked_agents() -> list[str]:
    """Return the names of the agents with hooks of Ash."""
    return [name for name, _, _ in _installed()]


def _installed() -> Iterator[tuple[str, str, list[str]]]:
    """Yield the agents with hooks of Ash, each with its settings and the words of a hook."""
    for name, agent in AGENTS.items():
        try:
            text = agent.path().read_text("utf-8")
            words = [words_of(line) for line in agent.form.commands(text).values()]
        except (OSError, ValueError, SettingsFileInvalid):
            continue  # `ash hooks show` explains
        if words:
            yield name, text, words[0]


def outdated_plugins(version: str) -> Iterator[str]:
    """Yield a sentence if Claude Code has the plugin of another version."""
    folder = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude").expanduser()
    try:
        plugins = json.loads((folder / "plugins" / "installed_plugins.json").read_text("utf-8"))["plugins"]
        installed = {plugin: entries for plugin, entries in plugins.items() if plugin.startswith(_PLUGIN)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return
    for plugin, entries in installed.items():
        listed = entries if isinstance(entries, list) else [entries]
        versions = {str(each.get("version")) for each in listed if isinstance(each, dict)} - {version}
        for other in sorted(versions):
            yield f"the plugin of Claude Code has version {other}: run `claude plugin update {plugin}`"


def _problems(name: str, agent: HookedCLI, text: str, words: list[str]) -> Iterator[str]:
    start = words.index("hooks") - 1
    program, url = words[start], words[-1] if "--url" in words else None
    advice = f"run `ash hooks install {name}{f' --url {url}' if url else ''}`"
    if not os.path.exists(program):
        yield f"the hooks of {agent.title} start {program}, which does not exist: {advice}"
    elif not agent.form.is_current(text, agent.entries(words)):
        yield f"the hooks of {agent.title} were installed by another version: {advice}"
