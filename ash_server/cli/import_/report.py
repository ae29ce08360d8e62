"""Output of an import: the summary, and warnings of lines that were not stored."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import click

from ash_server.cli.common.output.terminal import counted, visible, warn
from ash_server.cli.import_.files import ImportReport
from ash_server.store.transcripts import Copy
from ash_server.transfer.importing.file_import import ImportedFile
from ash_server.transfer.importing.result import ImportOutcome, ImportResult, LineProblem

_MAX_SHOWN_PROBLEMS = 20
_MAX_SHOWN_SUFFIXES = 5


def print_report(report: ImportReport) -> None:
    counts = report.total.counts
    sessions = counted(len(report.session_ids), "session")
    click.echo(
        f"{sessions}{_format_copies(len(report.copies))}, messages: "
        f"{counts['new']:,} new, {counts['existing']:,} already there, "
        f"{counts['changed']:,} changed, {counts['refused']:,} refused"
        f"{_format_count(counts['incomplete'], 'incomplete')}"
        f"{_format_count(counts['deleted'], 'deleted in Ash')}, in {report.seconds} s"
    )


def print_report_json(report: ImportReport) -> None:
    imported = report.imported.items()
    sessions = [
        _session_fields(path, each, report.copies) for path, whole in imported for each in whole.sessions()
    ]
    skipped = [visible(str(path)) for path, each in imported if not each.has_session]
    unread = [{"path": visible(path), "reason": reason} for path, reason in report.unread]
    summary = {**_count_fields(report.total), "seconds": report.seconds}
    click.echo(json.dumps({"sessions": sessions, "skipped": skipped, "unread": unread, **summary}))


def report_additions(report: ImportReport, action: str) -> None:
    """Report the new messages of each file, and problems if there are any; `action` is such as "stored in"."""
    for path, imported in report.imported.items():
        if new := imported.result.counts["new"]:
            warn(f"{path}: {counted(new, 'message')} {action} session {imported.session_id}")
    if not report.complete:
        warn_of_problems(report)


def warn_of_problems(report: ImportReport) -> None:
    """Warn about files and lines that are not stored, not yet stored, or not with their current text."""
    for path, reason in report.unread:
        warn(f"{path}: {reason}")
    for file, imported in report.imported.items():
        for each in (imported, *imported.embedded):
            _warn_of_lines(file, each.result)
    if report.total.counts["changed"]:
        warn("existing messages were kept; use --replace to re-import")


def warn_of_skipped(report: ImportReport) -> None:
    """Count the files that folders contain besides transcripts."""
    if not report.skipped:
        return
    shown = [
        f"{count:,} {suffix or 'without suffix'}"
        for suffix, count in report.skipped.most_common(_MAX_SHOWN_SUFFIXES)
    ]
    if len(report.skipped) > len(shown):
        shown.append("…")
    warn(
        f"skipped {counted(report.skipped.total(), 'file')} with other names than transcripts ({', '.join(shown)}); "
        "to read such a file, name it"
    )


def _format_copies(count: int) -> str:
    return f" ({count:,} copied from others)" if count else ""


def _format_count(count: int, outcome: str) -> str:
    return f", {count:,} {outcome}" if count else ""


def _warn_of_lines(path: Path, result: ImportResult) -> None:
    if result.counts["incomplete"]:
        warn(f"{path}: the last line is incomplete; it will be imported when it is complete")
    elif not result.counts.total():
        warn(f"{path}: is empty, which makes no session")
    for problem in result.problems[:_MAX_SHOWN_PROBLEMS]:
        warn(f"{_format_place(path, problem)}: {problem.kind}: {problem.reason} (at byte {problem.offset})")
    hidden = result.counts["changed"] + result.counts["refused"] - _MAX_SHOWN_PROBLEMS
    if hidden > 0:
        warn(f"{path}: and {hidden:,} more lines")


def _format_place(path: Path, problem: LineProblem) -> str:
    return f"{path}:{problem.line}" if problem.file is None else f"{path}: {problem.file}:{problem.line}"


def _session_fields(path: Path, imported: ImportedFile, copies: Mapping[UUID, Copy]) -> dict[str, Any]:
    problems = [_problem_fields(problem) for problem in imported.result.problems]
    session: dict[str, Any] = {
        "id": str(imported.session_id),
        "externalId": imported.name,
        "source": imported.head.source,
    }
    if copy := copies.get(imported.session_id):
        session |= {"copyOf": str(copy.original), "copiedMessages": copy.messages}
    return {**session, "path": visible(str(path)), **_count_fields(imported.result), "problems": problems}


def _problem_fields(problem: LineProblem) -> dict[str, Any]:
    return {name: value for name, value in problem._asdict().items() if value is not None}


def _count_fields(result: ImportResult) -> dict[str, int]:
    return {outcome: result.counts[outcome] for outcome in get_args(ImportOutcome)}
