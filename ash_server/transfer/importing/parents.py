"""Which session started another: where each CLI keeps the transcripts of subagents, and what these say of it.

A session's id follows from its place, so the parent's is known before it is imported, or if it never is.
"""

from collections.abc import Callable, Iterable, Mapping
from glob import escape
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from ash_server.db.sessions import session_id_for
from ash_server.transfer.importing.lines import Line
from ash_server.transfer.importing.transcript_files import Home, external_id, uncompressed
from ash_shared.reading.parse import describe_message

_HEAD_LINES = 100
"""So many lines may tell what a file is: a number that does not change while the file grows."""


class Head(NamedTuple):
    """What the first lines of a file say of its session."""

    source: str
    session_id: str | None
    """The provider's own."""
    parent: str | None
    """The provider's own id of the session that started this one."""


def read_head(lines: Iterable[Line], source: str | None) -> Head:
    """`source` is the writer's word; else the first line that shows one tells it."""
    known, session_id, parent = source, None, None
    for line in islice(lines, _HEAD_LINES):
        found = describe_message(line.data or b"", source)
        known = known or (found.source if found.source != "unknown" else None)
        session_id = session_id or found.facts.session_id
        parent = parent or found.facts.parent
        if known and session_id:
            break
    return Head(known or "unknown", session_id, parent)


def parent_of(path: Path, head: Head, homes: Iterable[Home]) -> UUID | None:
    find = _FINDERS.get(head.source)
    parent = find(path.absolute(), head) if find else None
    if parent is None or parent == uncompressed(path.absolute()):
        return None
    return session_id_for(head.source, external_id(parent, homes))


def _of_claude(path: Path, head: Head) -> Path | None:
    """`<session>.jsonl` beside `agent-*.jsonl`, or beside the folder `<session>/subagents` that holds it."""
    started_by = head.session_id if path.name.startswith("agent-") else head.parent
    if not _is_name(started_by):
        return None
    folders = [each.parent.parent for each in path.parents if each.name == "subagents"]
    return next(iter(folders), path.parent) / f"{started_by}.jsonl"


def _of_codex(path: Path, head: Head) -> Path | None:
    """The rollout that ends with the parent's id: mostly of the same day, else of any."""
    if not _is_name(head.parent):
        return None
    pattern = f"rollout-*-{escape(str(head.parent))}.jsonl*"
    roots = (each.parent for each in path.parents if each.name in ("sessions", "archived_sessions"))
    anywhere = (root.glob(f"*sessions/**/{pattern}") for root in islice(roots, 1))
    found = next(chain(path.parent.glob(pattern), *anywhere), None)
    return uncompressed(found) if found else None


def _of_gemini(path: Path, head: Head) -> Path | None:
    """`chats/session-<time>-<beginning of its id>.jsonl` above the folder that is called after the parent."""
    if path.parent.parent.name != "chats":
        return None
    beginning = escape(path.parent.name[:8])
    return max(path.parent.parent.glob(f"session-*-{beginning}.json*"), default=None)


def _of_cursor(path: Path, head: Head) -> Path | None:
    """`<session>/<session>.jsonl`, or `<session>.jsonl` beside that folder, of `<session>/subagents/<id>.jsonl`."""
    if path.parent.name != "subagents":
        return None
    folder = path.parent.parent
    flat = folder.with_name(f"{folder.name}.jsonl")
    return flat if flat.exists() else folder / flat.name


def _of_opencode(path: Path, head: Head) -> Path | None:
    return path.with_name(f"{head.parent}.json") if _is_name(head.parent) else None


_FINDERS: Mapping[str, Callable[[Path, Head], Path | None]] = {
    "claude": _of_claude,
    "codex": _of_codex,
    "gemini_cli": _of_gemini,
    "cursor": _of_cursor,
    "opencode": _of_opencode,
}


def _is_name(id: str | None) -> bool:
    """Whether it can be a part of a file's name; what lines say may be anything."""
    return bool(id) and "/" not in str(id) and "\0" not in str(id)
