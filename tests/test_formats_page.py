"""The page of formats: every provider, and every agent with its folders."""

import re
from pathlib import Path, PurePosixPath

from ash_server.transfer.agents import AGENTS, KnownAgent
from ash_shared.providers import discover

PAGE = (Path(__file__).parent.parent / "docs" / "formats.md").read_text()


def rows(heading: str) -> list[list[str]]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in re.split(r" \|(?: |$)", line.removeprefix("| "))][:-1] for line in lines[2:]
    ]


def agent_row(agent: KnownAgent) -> list[str]:
    folders = [
        f"`~/{PurePosixPath(root.base) / root.path / folder}`"
        for root in agent.roots
        for folder in (*agent.folders, *filter(None, (agent.database,)))
    ]
    variables = [f"`{root.variable}`" for root in agent.roots if root.variable]
    label = f"`{agent.label}`" if agent.label else ""
    return [agent.name, f"`{agent.source}`", label, ", ".join(folders), ", ".join(variables)]


def test_lists_every_source() -> None:
    assert sorted(row[0] for row in rows("Sources")) == sorted(f"`{source}`" for source in discover())


def test_lists_every_agent() -> None:
    assert rows("Agents") == [agent_row(agent) for agent in AGENTS]
