"""Find the parent session of a subagent's transcript, by the folder layout of its CLI and by ids in its lines.

A session's id is derived from the path of its first import, so the parent's id is known even before the parent is
imported. If the parent was first imported from elsewhere, it is found by its last known path.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from glob import escape
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from ash_server.store.connections.tenants import DEFAULT, Tenant
from ash_server.store.sessions import session_id_for
from ash_server.store.transcripts import TranscriptNames
from ash_server.transfer.agents import agent_of_entrypoint
from ash_server.transfer.importing.databases.sessions import database_of
from ash_server.transfer.importing.lines import FileLine
from ash_server.transfer.importing.names import NameCollector
from ash_server.transfer.importing.transcript_files import Home, external_id, uncompressed
from ash_shared.model.message import declared_source
from ash_shared.parsing.describe import describe_parsed
from ash_shared.parsing.parsed_text import parse_raw

MAX_HEAD_LINES = 100
"""Lines read to identify a file: a fixed number, so that the result does not change while the file grows."""


class TranscriptHead(NamedTuple):
    """Session facts from the first lines of a transcript."""

    source: str
    session_id: str | None
    """The provider's session id."""
    parent: str | None
    """The provider's id of the parent session."""
    names: TranscriptNames | None = None
    """None if the provider does not name the session."""
    agent: str | None = None
    """The agent that the lines name, if it is not the first one of its format."""
    continues: str | None = None
    """The id of the stored session that it continues, if Ash wrote its beginning."""


def line_bytes(line: FileLine) -> bytes:
    """Return the text of a line, for `read_head`; empty if the line is too long."""
    return line.data or b""


def read_head(texts: Iterable[bytes | str], source: str | None) -> TranscriptHead:
    """Read the facts from the first lines. Without `source`, the first recognised line decides the source."""
    known_source, session_id, parent, agent = source, None, None, None
    continues: str | None = None
    names = NameCollector()
    for text in islice(texts, MAX_HEAD_LINES):
        parsed = parse_raw(text, source)
        if not (known_source and session_id):
            described = describe_parsed(parsed, source)
            known_source = known_source or declared_source(described.source)
            session_id = session_id or described.header.session_id
            parent = parent or described.header.parent
            continues = continues or described.header.continues
        names.add(parsed.identity())
        agent = agent or _agent_in(text)
        if known_source and session_id and names.are_complete:
            break
    head_source = known_source or "unknown"
    return TranscriptHead(head_source, session_id, parent, names.names(head_source), agent, continues)


def _agent_in(text: bytes | str) -> str | None:
    """Return the agent that a line names. Within a value, the quotes would be escaped."""
    match = _ENTRYPOINT.search(text.encode("utf-8", "replace") if isinstance(text, str) else text)
    return agent_of_entrypoint(match[1].decode()) if match else None


_ENTRYPOINT = re.compile(rb'"entrypoint":\s?"([a-z-]{1,40})"')


class Parent(NamedTuple):
    session_id: UUID
    external_id: str


def find_parent(
    path: Path, head: TranscriptHead, homes: Iterable[Home], tenant: Tenant = DEFAULT
) -> Parent | None:
    """Return the session that started this one, or that it continues."""
    if (origin := uuid_in(head.continues)) is not None:
        return Parent(origin, str(origin))
    find_transcript = _FINDERS.get(head.source)
    parent = find_transcript(path.absolute(), head) if find_transcript else None
    if parent is None or parent == uncompressed(path.absolute()):
        return None
    name = external_id(parent, homes)
    return Parent(session_id_for(head.source, name, tenant), name)


def uuid_in(text: str | None) -> UUID | None:
    """Return the id that a text is, in the usual form."""
    return UUID(text) if text is not None and _UUID.fullmatch(text) else None


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _find_for_claude(path: Path, head: TranscriptHead) -> Path | None:
    """Return `<session>.jsonl`: next to `agent-*.jsonl`, or next to the folder `<session>` with `subagents` in it."""
    parent_id = head.session_id if path.name.startswith("agent-") else head.parent
    if not _is_file_name(parent_id):
        return None
    folders = [each.parent.parent for each in path.parents if each.name == "subagents"]
    return next(iter(folders), path.parent) / f"{parent_id}.jsonl"


def _find_for_codex(path: Path, head: TranscriptHead) -> Path | None:
    """Find the parent's rollout by the id at the end of its name, in the folder of the same day, else of any other."""
    if not _is_file_name(head.parent):
        return None
    pattern = f"rollout-*-{escape(str(head.parent))}.jsonl*"
    roots = (each.parent for each in path.parents if each.name in ("sessions", "archived_sessions"))
    other_days = (root.glob(f"*sessions/**/{pattern}") for root in islice(roots, 1))
    parent = next(chain(path.parent.glob(pattern), *other_days), None)
    return uncompressed(parent) if parent else None


def _find_for_gemini(path: Path, head: TranscriptHead) -> Path | None:
    """Return `chats/session-<time>-<id prefix>.jsonl`, next to the folder that is named after the parent."""
    if path.parent.parent.name != "chats":
        return None
    prefix = escape(path.parent.name[:8])
    return max(path.parent.parent.glob(f"session-*-{prefix}.json*"), default=None)


def _find_for_cursor(path: Path, head: TranscriptHead) -> Path | None:
    """Return `<session>.jsonl` of `<session>/subagents/<id>.jsonl`: next to the folder `<session>`, or in it; in a
    database, the session beside this one, or in the folder beside this one."""
    if (database := database_of(path)) is not None:
        if not _is_file_name(head.parent):
            return None
        folder = database.parent
        is_own = folder.name == path.name
        return (folder.with_name(str(head.parent)) / database.name if is_own else database) / str(head.parent)
    if path.parent.name != "subagents":
        return None
    folder = path.parent.parent
    flat = folder.with_name(f"{folder.name}.jsonl")
    return flat if flat.exists() else folder / flat.name


def _find_for_opencode(path: Path, head: TranscriptHead) -> Path | None:
    """Return the session beside this one: in a file, or in the database of both."""
    suffix = "" if database_of(path) else ".json"
    return path.with_name(f"{head.parent}{suffix}") if _is_file_name(head.parent) else None


def _find_for_qwen(path: Path, head: TranscriptHead) -> Path | None:
    """Return `chats/<session>.jsonl` of `subagents/<session>/agent-*.jsonl`."""
    folder = path.parent
    return (
        folder.parent.parent / "chats" / f"{folder.name}.jsonl" if folder.parent.name == "subagents" else None
    )


def _find_for_kimi(path: Path, head: TranscriptHead) -> Path | None:
    """Return `agents/main/wire.jsonl` of `agents/<agent>/wire.jsonl`."""
    folder = path.parent
    is_subagent = folder.parent.name == "agents" and folder.name != "main"
    return folder.with_name("main") / path.name if is_subagent else None


def _find_for_atif(path: Path, head: TranscriptHead) -> Path | None:
    """Return `<name>.json` of `<name>.summarization-1-summary.json`: Terminus writes its summaries next to it."""
    match = _SUMMARIZATION.fullmatch(path.name)
    return path.with_name(f"{match[1]}.json") if match else None


_SUMMARIZATION = re.compile(r"(.+)\.summarization-\d+-\w+\.json")

_FINDERS: Mapping[str, Callable[[Path, TranscriptHead], Path | None]] = {
    "claude": _find_for_claude,
    "codex": _find_for_codex,
    "gemini_cli": _find_for_gemini,
    "cursor": _find_for_cursor,
    "crush": _find_for_opencode,
    "goose": _find_for_opencode,
    "hermes": _find_for_opencode,
    "opencode": _find_for_opencode,
    "atif": _find_for_atif,
    "kimi": _find_for_kimi,
    "qwen_code": _find_for_qwen,
    "zed": _find_for_opencode,
}


def _is_file_name(id: str | None) -> bool:
    """True if the id can be part of a file name; ids in lines may contain any character."""
    return bool(id) and "/" not in str(id) and "\0" not in str(id)
