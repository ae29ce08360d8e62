"""`ash facts`: show the place, the tools, the files and the plan of a session."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import rich_click as click
from rich.text import Text

from ash_client.machine import machine_name
from ash_server.cli.common.options import json_option, session_argument
from ash_server.cli.common.output.terminal import counted, local_time, stdout_console, visible, visible_json
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_server.file_access import may_exist
from ash_server.transfer.exporting.to_disk import PutBackRefused, disk_place
from ash_server.transfer.importing.transcript_files import find_homes
from ash_shared.model.reports.facts import FileFacts, PlanState, SessionFacts, ToolFacts
from ash_shared.model.session import Session

_CAUSES = {"person": "a person", "schedule": "a schedule", "program": "a program"}
_MARKS: dict[PlanState, str] = {"open": "[ ]", "active": "[>]", "done": "[x]", "cancelled": "[-]"}


@click.command("facts")
@session_argument
@json_option
@reads_store
def command(session: str, *, store: StoreToRead, as_json: bool) -> None:
    """Show the place, the tools, the files and the plan of a session.

    SESSION is an id or its first characters, or a name (external id). Facts that no record states are left out. The
    transcript is the file on this machine, if the session was stored from here.

    \b
    ash facts 0d5c0a1e
    ash facts 0d5c0a1e --json
    """
    facts = store.read(partial(_read, reference=session))
    if as_json:
        click.echo(visible_json(facts.model_dump_json()))
        return
    console = stdout_console()
    for name, value in _named_facts(facts.session):
        console.print(Text.assemble((f"{name:<11}", "bold"), visible(value)), soft_wrap=True)
    for title, lines in _sections(facts):
        console.print(Text(f"\n{title}", "bold"))
        for line in lines:
            console.print(Text(f"  {visible(line)}"), soft_wrap=True)


async def _read(store: ReadStore, reference: str) -> SessionFacts:
    return await store.get_facts((await session_named(store, reference)).id)


def _named_facts(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the known facts with their names."""
    agent = " ".join(filter(None, (session.agent, session.metadata.get("cliVersion"))))
    facts = {
        "title": session.title,
        "agent": agent,
        "models": ", ".join(session.models or ()),
        "project": session.project,
        "folder": None if session.folder == session.project else session.folder,
        "branch": session.branch,
        "commit": session.commit,
        "machine": session.machine,
        "transcript": _transcript(session),
        "person": session.person,
        "started by": _CAUSES.get(session.cause or ""),
        "time": _time(session),
        "work": _work(session),
        "changes": _changes(session),
    }
    yield from ((name, value) for name, value in facts.items() if value)


def _transcript(session: Session) -> str | None:
    """Return the file in the folder of its agent; None for a session of another machine, or without such a file."""
    if session.machine is None or session.machine != machine_name():
        return None
    places = []
    for home in find_homes(os.environ, Path.home()):
        with suppress(PutBackRefused):
            places.append(disk_place(session, [home]))
    if not places:
        return None
    found = next(filter(may_exist, places), None)
    return str(found) if found else f"{places[0]} (no longer on disk)"


def _time(session: Session) -> str | None:
    if session.first_at is None or session.duration_ms is None:
        return None
    active = "" if session.active_ms is None else f", active {_duration(session.active_ms)}"
    return f"{local_time(session.first_at)}, {_duration(session.duration_ms)}{active}"


def _duration(milliseconds: int) -> str:
    return str(timedelta(seconds=round(milliseconds / 1000)))


def _work(session: Session) -> str | None:
    if session.prompt_count is None or session.turn_count is None or session.tool_call_count is None:
        return None
    counts = (
        counted(session.prompt_count, "prompt"),
        counted(session.turn_count, "turn"),
        counted(session.tool_call_count, "tool call"),
    )
    failed = f", {session.tool_failure_count:,} failed" if session.tool_failure_count else ""
    return ", ".join(counts) + failed


def _changes(session: Session) -> str | None:
    if not session.files_changed:
        return None
    lines = f"+{session.lines_added or 0:,} -{session.lines_removed or 0:,}"
    return f"{counted(session.files_changed, 'file')}, {lines}"


def _sections(facts: SessionFacts) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the lists that are not empty, with their titles."""
    if facts.tools:
        yield "Tools", map(_tool, facts.tools)
    if facts.skills:
        yield "Skills", (f"{each.calls:>6,}  {each.name}" for each in facts.skills)
    if facts.files:
        more = ["…"] if facts.more_files else []
        yield "Files (reads, changes)", [*map(_file, facts.files), *more]
    if facts.plan is not None:
        yield "Plan", (f"{_MARKS[item.state]} {item.text}" for item in facts.plan.items)


def _tool(tool: ToolFacts) -> str:
    failed = f"  ({tool.failures:,} failed)" if tool.failures else ""
    return f"{tool.calls:>6,}  {tool.tool}{failed}"


def _file(file: FileFacts) -> str:
    lines = (("+", file.added), ("-", file.removed))
    shown = [f"{mark}{count:,}" if count else "" for mark, count in lines]
    return f"{file.reads:>6,} {file.changes:>6,}  {shown[0]:>7} {shown[1]:>7}  {file.path}"
