"""Compare the usage of Ash's sessions with what ccusage counts in the same transcripts.

Usage: python -m tools.compare_usage ASH CCUSAGE [TOOL …]

`ASH` and `CCUSAGE` are the programs, and `TOOL` is a command of ccusage, such as `claude` or `codex`. Both read what
their environment names: `ASH_HOME` or `ASH_URL`; `CLAUDE_CONFIG_DIR`, `CODEX_HOME` and so on. Import the transcripts
first.
"""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeAlias

Row: TypeAlias = Mapping[str, Any]

TOOLS = ("antigravity", "claude", "codex", "copilot", "gemini", "opencode")
SOURCES = {"copilot": "copilot_cli", "gemini": "gemini_cli"}
"""Ash's names, where they differ."""
RECORDED_COSTS = ("opencode",)
"""Tools with costs in their records, which ccusage does not compute again."""
ROUNDING = 1e-6
"""ccusage adds up costs as floating-point numbers."""


class Figures(NamedTuple):
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> tuple[int, int, int, int]:
        return self[:4]

    def plus(self, other: "Figures") -> "Figures":
        tokens = (one + two for one, two in zip(self.tokens, other.tokens, strict=True))
        return Figures(*tokens, cost=self.cost + other.cost)


class Comparison(NamedTuple):
    session: str
    ash: Figures
    ccusage: Figures

    @property
    def has_equal_tokens(self) -> bool:
        return self.ash.tokens == self.ccusage.tokens

    @property
    def has_equal_cost(self) -> bool:
        return abs(self.ash.cost - self.ccusage.cost) < ROUNDING


def figures_of_ash(row: Row, cost: str) -> Figures:
    return Figures(
        row["input_tokens"],
        row["cache_read_input_tokens"],
        row["cache_creation_input_tokens"],
        row["output_tokens"],
        row.get(cost) or 0.0,
    )


def figures_of_ccusage(row: Row) -> Figures:
    """Output is the rest of the total, because `outputTokens` leaves out the reasoning of some tools."""
    names = ("inputTokens", "cacheReadTokens", "cacheCreationTokens")
    input, read, written = (row[name] for name in names)
    output = row["totalTokens"] - input - read - written
    return Figures(input, read, written, output, row.get("totalCost", row.get("costUSD", 0.0)))


def names_of(session: Row) -> Iterator[str]:
    """Yield the names that ccusage may have for a session, the most precise one first."""
    path = PurePosixPath(session.get("externalId") or "")
    stem = path.with_suffix("") if path.suffix in (".json", ".jsonl") else path
    parts = stem.parts
    yield from ("/".join(parts[start:]) for start in range(len(parts)))
    yield path.parent.name
    yield str(session["metadata"].get("sessionId"))


def name_in_ccusage(row: Row) -> tuple[str, ...]:
    folder, name = row.get("projectPath"), row["sessionId"]
    return (f"{folder}/{name}", name) if folder else (name,)


def compare(
    sessions: Iterable[Row], usage: Iterable[Row], counted: Iterable[Row], *, cost: str
) -> tuple[list[Comparison], list[str]]:
    """Return the compared sessions, and those with usage that only Ash or only ccusage has."""
    ash = {row["session"]["id"]: figures_of_ash(row, cost) for row in usage}
    ids = defaultdict[str, list[str]](list)
    for session in sessions:
        for name in dict.fromkeys(names_of(session)):
            ids[name].append(session["id"])
    compared, unmatched, seen = list[Comparison](), list[str](), set[str]()
    for row in counted:
        names = name_in_ccusage(row)
        found = next((ids[name] for name in names if name in ids), [])
        seen |= set(found)
        total = Figures()
        for id in found:
            total = total.plus(ash.get(id, Figures()))
        compared.append(Comparison(names[0], total, figures_of_ccusage(row)))
    titles = {session["id"]: session.get("externalId") or session["id"] for session in sessions}
    unmatched = [
        titles[id] for id, figures in ash.items() if id not in seen and id in titles and any(figures.tokens)
    ]
    return compared, unmatched


def lines_of(tool: str, compared: list[Comparison], unmatched: list[str]) -> Iterator[str]:
    same = [each for each in compared if each.has_equal_tokens]
    yield (
        f"{tool}: {len(compared)} sessions, {len(same)} with equal tokens, of which"
        f" {sum(each.has_equal_cost for each in same)} with equal costs; {len(unmatched)} in Ash only"
    )
    for each in compared:
        if not (each.has_equal_tokens and each.has_equal_cost):
            yield f"  {each.session}"
            yield f"    Ash     {_format(each.ash)}"
            yield f"    ccusage {_format(each.ccusage)}"
    yield from (f"  in Ash only: {name}" for name in unmatched)


def _format(figures: Figures) -> str:
    input, read, written, output = figures.tokens
    return f"input {input}, cache read {read}, cache write {written}, output {output}, ${figures.cost:.6f}"


def _run(*command: str) -> Any:
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(run.stdout) if run.stdout.strip() else {}


def main(ash: str, ccusage: str, *tools: str) -> None:
    for tool in tools or TOOLS:
        source = SOURCES.get(tool, tool)
        sessions = _run(ash, "sessions", "--json", "--limit", "1000", "--source", source)["sessions"]
        usage = _run(ash, "usage", "--by", "session", "--json", "--source", source)["rows"]
        counted = _run(ccusage, tool, "session", "--json", "--offline").get("sessions", [])
        cost = "reportedCostUsd" if tool in RECORDED_COSTS else "computedCostUsd"
        sys.stdout.writelines(
            f"{line}\n" for line in lines_of(tool, *compare(sessions, usage, counted, cost=cost))
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
