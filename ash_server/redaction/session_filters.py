"""Filters on redacted texts, for clients that see only these.

Such a client must not find a session by the beginning of a secret, or it could guess the secret piece by piece. So the
rows that PostgreSQL selects by their stored texts are filtered again here.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from ash_server.redaction import redact, redact_name, redact_text
from ash_shared.model.session import Session

Match: TypeAlias = Callable[[Session, Iterable[str]], bool]
"""Returns True if a session, with the first lines of its transcript, matches."""


def redacted_match(filters: Mapping[str, Any]) -> Match | None:
    """Combine the filters that compare parts of texts; return None if there are none."""
    matches = [match(filters[name]) for name, match in _MATCHES.items() if filters.get(name) is not None]
    return (lambda session, lines: all(match(session, lines) for match in matches)) if matches else None


def select_matching(
    sessions: Iterable[Session], lines: Mapping[UUID, Iterable[str]], matches: Match
) -> list[Session]:
    """Return the matching sessions; `lines` are the first lines of their transcripts."""
    return [session for session in sessions if matches(session, lines.get(session.id, ()))]


def _match_text(q: str) -> Match:
    part = q.lower()

    def match(session: Session, _: Iterable[str]) -> bool:
        labels = session.labels
        texts = (
            redact_name(session.title or ""),
            redact(session.external_id or ""),
            *(map(redact, (*labels.tags, labels.note)) if labels else ()),
        )
        return part in "\n".join(filter(None, texts)).lower() or str(session.id).startswith(part)

    return match


def _match_prefix(prefix: str) -> Match:
    return lambda session, _: redact(session.external_id or "").startswith(prefix)


def _match_project(project: str) -> Match:
    patterns = project_patterns(project)
    folder, transcripts = (re.compile(patterns[name] or "") for name in ("folder", "transcripts"))

    def match(session: Session, lines: Iterable[str]) -> bool:
        return bool(transcripts.search(redact(session.external_id or ""))) or any(
            folder.search(line) and folder.search(redact_text(line)) for line in lines
        )

    return match


_MATCHES: Mapping[str, Callable[[str], Match]] = {
    "q": _match_text,
    "external_id_prefix": _match_prefix,
    "project": _match_project,
}


def project_patterns(project: str | None) -> dict[str, str | None]:
    """Return the patterns of lines and of external ids that identify the folder of a project.

    Lines contain the folder's path, or its hash (Gemini CLI). Cursor derives the folder of its transcripts from it.
    """
    if project is None:
        return {"folder": None, "transcripts": None}
    path = project.rstrip("/\\") or project
    is_absolute = re.match(r"/|\\|[A-Za-z]:", path) is not None
    quoted = re.escape(msgspec.json.encode(path).decode()[1:-1])
    start = "" if is_absolute else r'([^"]*(/|\\))?'
    paths = rf'"(cwd|directory|workspace)"\s*:\s*"{start}{quoted}((/|\\)[^"]*)?"'
    digest = rf'"projectHash"\s*:\s*"{sha256(path.encode()).hexdigest()}"'
    dashed = re.sub("[^A-Za-z0-9]", "-", path).lstrip("-")
    named = rf"^projects/{'' if is_absolute else '([^/]*-)?'}{dashed}/agent-transcripts/"
    return {"folder": f"{paths}|{digest}", "transcripts": named}
