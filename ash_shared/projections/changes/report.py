"""The report of a session's changes by file and by turn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ash_shared.model.reports.changes import (
    FileStatus,
    SessionChanges,
)
from ash_shared.model.times import datetime_of
from ash_shared.parsing.changes import FileChange
from ash_shared.projections._retractions import is_main
from ash_shared.projections.changes.composing import Section, compose
from ash_shared.projections.changes.edits import CallEdits, EditTurn
from ash_shared.projections.changes.patch import file_patch, joined_hunks


@dataclass(slots=True)
class _File:
    """A file under all its names."""

    path: str
    new_path: str | None = None
    edits: list[tuple[CallEdits, FileChange]] = field(default_factory=list)

    def counted(self) -> list[tuple[CallEdits, FileChange]]:
        return [(call, change) for call, change in self.edits if call.counts]


def to_session_changes(
    session_id: str,
    calls: Sequence[CallEdits],
    *,
    turn: int | None = None,
    path: str | None = None,
    with_diffs: bool = True,
) -> SessionChanges:
    """Return the report of calls in log order; `turn` and `path` select a part.

    `path` is a whole path, or its last segments. `with_diffs`: with the lines.
    """
    chosen = [call for call in calls if turn is None or call.turn.number == turn]
    files = [file for file in _files(chosen) if path is None or _is_at(file, path)]
    counted = [change for file in files for _, change in file.counted()]
    return SessionChanges.model_validate(
        {
            "sessionId": session_id,
            "files": [_changed_file(file, with_diffs=with_diffs) for file in files],
            "turns": list(_turns(files, with_diffs=with_diffs)),
            "commands": [] if path is not None else list(_commands(chosen)),
            "filesChanged": sum(bool(file.counted()) for file in files),
            **_counts(counted),
            "notCounted": sum(len(file.edits) for file in files) - len(counted),
        }
    )


def _files(calls: Iterable[CallEdits]) -> list[_File]:
    files: list[_File] = []
    by_path: dict[str, _File] = {}
    for call in calls:
        for change in call.facts.changes:
            file = by_path.get(change.path)
            if file is None:
                file = by_path[change.path] = _File(change.path)
                files.append(file)
            file.edits.append((call, change))
            if change.new_path is not None and call.counts:
                file.new_path = change.new_path
                by_path[change.new_path] = by_path.pop(change.path)
    return files


def _is_at(file: _File, path: str) -> bool:
    names = [name for name in (file.path, file.new_path) if name is not None]
    return any(name == path or name.endswith(f"/{path.lstrip('/')}") for name in names)


def _counts(changes: Iterable[FileChange]) -> dict[str, Any]:
    changes = list(changes)
    added, removed = ([getattr(change, name) for change in changes] for name in ("added", "removed"))
    is_bound = any(count is None for count in (*added, *removed))
    sums = {"added": sum(count or 0 for count in added), "removed": sum(count or 0 for count in removed)}
    return {**sums, "isLowerBound": True} if is_bound else sums


def _changed_file(file: _File, *, with_diffs: bool) -> dict[str, Any]:
    edits = [_edit(call, change, with_diffs=with_diffs) for call, change in file.edits]
    return {**_diff(file, file.counted(), with_diffs=with_diffs), "edits": edits}


def _diff(file: _File, edits: Sequence[tuple[CallEdits, FileChange]], *, with_diffs: bool) -> dict[str, Any]:
    """Return the fields of a `FileDiff` for some of the edits of a file."""
    changes = [change for _, change in edits]
    sections = compose(changes)
    moved = next((change.new_path for change in reversed(changes) if change.new_path is not None), None)
    path = changes[0].path if changes else file.path
    patch = file_patch(path, moved, sections) if with_diffs else ""
    return {
        "path": path,
        **({} if moved is None else {"newPath": moved}),
        "status": _status(sections, moved),
        **_counts(changes),
        "isComposed": len(sections) <= 1,
        **({"diff": patch} if patch else {}),
    }


def _status(sections: Sequence[Section], moved: str | None) -> FileStatus:
    if sections and sections[-1].is_deleted:
        return "deleted"
    if sections and sections[0].is_new:
        return "added"
    return "changed" if moved is None else "moved"


def _edit(call: CallEdits, change: FileChange, *, with_diffs: bool) -> dict[str, Any]:
    known = {
        "added": change.added,
        "removed": change.removed,
        "newPath": change.new_path,
        "diff": joined_hunks(change.hunks) or None if with_diffs else None,
    }
    return {**_call(call), "action": change.action, **_present(known)}


def _call(call: CallEdits) -> dict[str, Any]:
    event = call.event
    known = {
        "messageSequence": event.get("messageSequence"),
        "at": datetime_of(event.get("timestamp")),
        "isRetracted": call.is_retracted or None,
        "isOfSubagent": not is_main(event) or None,
    }
    return {
        "turn": call.turn.number,
        "sequence": call.sequence,
        "toolCallId": event["payload"]["toolCallId"],
        "tool": call.tool,
        "outcome": call.outcome,
        **_present(known),
    }


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _turns(files: Sequence[_File], *, with_diffs: bool) -> Iterator[dict[str, Any]]:
    turns: dict[int, EditTurn] = {}
    edits: dict[int, list[tuple[_File, list[tuple[CallEdits, FileChange]]]]] = {}
    for file in files:
        by_turn: dict[int, list[tuple[CallEdits, FileChange]]] = {}
        for call, change in file.counted():
            turns[call.turn.number] = call.turn
            by_turn.setdefault(call.turn.number, []).append((call, change))
        for number, own in by_turn.items():
            edits.setdefault(number, []).append((file, own))
    for number in sorted(edits):
        known = {
            "prompt": turns[number].prompt or None,
            "sequence": turns[number].sequence,
            "at": datetime_of(turns[number].timestamp),
        }
        counts = _counts(change for _, own in edits[number] for _, change in own)
        diffs = [_diff(file, own, with_diffs=with_diffs) for file, own in edits[number]]
        yield {"turn": number, **_present(known), **counts, "files": diffs}


def _commands(calls: Iterable[CallEdits]) -> Iterator[dict[str, Any]]:
    for call in calls:
        if call.facts.command is not None:
            yield {**_call(call), "command": call.facts.command}
