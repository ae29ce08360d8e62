"""The plugin of Claude Code and Codex has the hooks of `ash hooks`, and its commands exist."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ash_server.cli.hooks.agents import AGENTS
from ash_server.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "plugins" / "ash"
MANIFESTS = {"claude": ".claude-plugin/plugin.json", "codex": ".codex-plugin/plugin.json"}
MARKETPLACES: dict[str, tuple[Path, Callable[[Any], str]]] = {
    "claude": (ROOT / ".claude-plugin/marketplace.json", lambda plugin: plugin["source"]),
    "codex": (ROOT / ".agents/plugins/marketplace.json", lambda plugin: plugin["source"]["path"]),
}


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_has_the_version_and_existing_files(name: str) -> None:
    manifest = read(PLUGIN / MANIFESTS[name])
    marketplace, source_of = MARKETPLACES[name]

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (manifest["name"], manifest["version"]) == ("ash", project["version"])
    paths = [value for value in manifest.values() if isinstance(value, str) and value.startswith("./")]
    assert [path for path in paths if not (PLUGIN / path).exists()] == []
    assert [ROOT / source_of(plugin) for plugin in read(marketplace)["plugins"]] == [PLUGIN]


@pytest.mark.parametrize("name", MANIFESTS)
def test_hooks_are_the_hooks_of_the_command(name: str) -> None:
    hooks = read(PLUGIN / read(PLUGIN / MANIFESTS[name])["hooks"])["hooks"]

    agent = AGENTS[name]
    entry = {"type": "command", "command": f"ash hooks run {name} || true", **agent.fields}
    assert hooks == {event: [{"hooks": [entry]}] for event in agent.events}


def test_named_commands_exist() -> None:
    skill = (PLUGIN / "skills/history/SKILL.md").read_text()
    [server] = read(PLUGIN / ".mcp.json")["mcpServers"].values()

    named = {*re.findall(r"`ash ([a-z]+)", skill), server["args"][0]}
    assert (server["command"], named - COMMANDS.keys()) == ("ash", set())
