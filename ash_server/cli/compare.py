"""`ash compare`: show two sessions side by side."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ash_server.cli.common.options import json_option
from ash_server.cli.common.output.terminal import local_time, stdout_console, visible, visible_json
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_server.cli.usage.figures import format_cost
from ash_shared.model.reports.comparison import (
    ChangedLines,
    CommonBeginning,
    ComparedPrompt,
    FactName,
    FactValue,
    PromptPair,
    SessionComparison,
    ToolCount,
)

_NONE = "-"
_MAX_PROMPT = 200
"""Characters of a prompt in the table."""


@click.command("compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@json_option
@reads_store
def command(a: str, b: str, *, store: StoreToRead, as_json: bool) -> None:
    """Show two sessions side by side: facts, tools, files and prompts.

    A and B are ids or their first characters, or names (external ids). Rows that are equal begin with `=`. For a fork
    and its original, the common beginning is stated.

    \b
    ash compare 0d5c0a1e 363175b0
    ash compare 0d5c0a1e 363175b0 --json
    """
    comparison = store.read(partial(_read, first=a, second=b))
    if as_json:
        click.echo(visible_json(comparison.model_dump_json()))
        return
    console = stdout_console()
    _print_sessions(console, comparison)
    for title, rows in _sections(comparison):
        _print_rows(console, title, list(rows))


async def _read(store: ReadStore, first: str, second: str) -> SessionComparison:
    a, b = await session_named(store, first), await session_named(store, second)
    return await store.compare_sessions(a.id, b.id)


class _Row(NamedTuple):
    name: str
    a: str
    b: str
    is_equal: bool


def _print_sessions(console: Console, comparison: SessionComparison) -> None:
    for side, session in (("a", comparison.a), ("b", comparison.b)):
        name = Text.assemble((side, "bold"), f"  {str(session.id)[:8]}  ", visible(session.name))
        console.print(name, no_wrap=True, overflow="ellipsis")
    if comparison.common is not None:
        console.print(Text(_common_text(comparison, comparison.common)))


def _common_text(comparison: SessionComparison, common: CommonBeginning) -> str:
    sides = {comparison.a.id: ("b", "a"), comparison.b.id: ("a", "b")}
    copy, origin = sides.get(common.original, ("both", f"session {str(common.original)[:8]}"))
    noun, verb = ("message", "is") if common.messages == 1 else (f"{common.messages:,} messages", "are")
    return f"The first {noun} of {copy} {verb} the same as in {origin}."


def _sections(comparison: SessionComparison) -> Iterator[tuple[str, Iterable[_Row]]]:
    """Yield the tables, with their titles."""
    yield (
        "Facts",
        (
            _Row(_NAMES[each.name], _fact(each.name, each.a), _fact(each.name, each.b), each.is_equal)
            for each in comparison.facts
        ),
    )
    yield (
        "Calls",
        (_Row(each.tool, _calls(each.a), _calls(each.b), each.is_equal) for each in comparison.tools),
    )
    more = [_Row("…", "", "", is_equal=False)]
    yield (
        "Changed files",
        [
            *(_Row(each.path, _lines(each.a), _lines(each.b), each.is_equal) for each in comparison.files),
            *(more if comparison.more_files else ()),
        ],
    )
    yield (
        "Prompts",
        [*map(_prompt_row, comparison.prompts), *(more if comparison.more_prompts else ())],
    )


def _print_rows(console: Console, title: str, rows: list[_Row]) -> None:
    if not rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    for heading in (title, "a", "b"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        cells = ("=" if row.is_equal else "", row.name, row.a, row.b)
        table.add_row(*(Text(visible(cell)) for cell in cells), style="dim" if row.is_equal else "")
    console.print()
    console.print(table)


def _prompt_row(pair: PromptPair) -> _Row:
    if pair.is_equal:
        return _Row("both", _prompt(pair.a), "", is_equal=True)
    name = "a" if pair.b is None else "b" if pair.a is None else ""
    return _Row(name, _prompt(pair.a), _prompt(pair.b), is_equal=False)


def _prompt(prompt: ComparedPrompt | None) -> str:
    line = "" if prompt is None else " ".join(prompt.text.split())
    return line if len(line) <= _MAX_PROMPT else f"{line[: _MAX_PROMPT - 1]}…"


def _calls(count: ToolCount | None) -> str:
    if count is None:
        return _NONE
    return f"{count.calls:,}" + (f" ({count.failures:,} failed)" if count.failures else "")


def _lines(lines: ChangedLines | None) -> str:
    if lines is None:
        return _NONE
    counts = [f"{sign}{count:,}" for sign, count in (("+", lines.added), ("-", lines.removed)) if count]
    return " ".join(counts) or "changed"


def _fact(name: FactName, value: FactValue | None) -> str:
    return _NONE if value is None else _FORMATS.get(name, _plain)(value)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return value if isinstance(value, str) else f"{value:,}"


def _duration(milliseconds: Any) -> str:
    return str(timedelta(seconds=round(milliseconds / 1000)))


def _moment(text: Any) -> str:
    return local_time(datetime.fromisoformat(text))


_FORMATS: Mapping[FactName, Callable[[Any], str]] = {
    "firstAt": _moment,
    "durationMs": _duration,
    "activeMs": _duration,
    "costUsd": format_cost,
}
_NAMES: Mapping[FactName, str] = {
    "agent": "agent",
    "version": "version",
    "models": "models",
    "project": "project",
    "folder": "folder",
    "branch": "branch",
    "commit": "commit",
    "machine": "machine",
    "person": "person",
    "cause": "started by",
    "firstAt": "start",
    "durationMs": "duration",
    "activeMs": "active",
    "prompts": "prompts",
    "turns": "turns",
    "toolCalls": "tool calls",
    "toolFailures": "failed calls",
    "errors": "errors",
    "filesChanged": "changed files",
    "linesAdded": "added lines",
    "linesRemoved": "removed lines",
    "messages": "messages",
    "inputTokens": "input tokens",
    "outputTokens": "output tokens",
    "cacheReadTokens": "tokens from the cache",
    "cacheWriteTokens": "tokens to the cache",
    "costUsd": "cost",
}
