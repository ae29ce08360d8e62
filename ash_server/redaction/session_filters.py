"""Filters on redacted texts, for clients that see only these.

Such a client must not find a session by the beginning of a secret, or it could guess the secret piece by piece. So the
rows that PostgreSQL selects by their stored texts are filtered again here.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ash_server.redaction import redact, redact_name
from ash_shared.model.session import Session
from ash_shared.parsing.accents import without_accents

Match: TypeAlias = Callable[[Session], bool]


def redacted_match(filters: Mapping[str, Any]) -> Match | None:
    """Combine the filters that compare parts of texts; return None if there are none."""
    matches = [match(filters[name]) for name, match in _MATCHES.items() if filters.get(name) is not None]
    return (lambda session: all(match(session) for match in matches)) if matches else None


def select_matching(sessions: Iterable[Session], matches: Match) -> list[Session]:
    return [session for session in sessions if matches(session)]


def _match_text(q: str) -> Match:
    part = without_accents(q).lower()

    def match(session: Session) -> bool:
        labels = session.labels
        texts = (
            redact_name(session.title or ""),
            redact(session.external_id or ""),
            *(map(redact, (*labels.tags, labels.note)) if labels else ()),
        )
        names = without_accents("\n".join(filter(None, texts))).lower()
        return part in names or str(session.id).startswith(part)

    return match


def _match_prefix(prefix: str) -> Match:
    return lambda session: redact(session.external_id or "").startswith(prefix)


_MATCHES: Mapping[str, Callable[[str], Match]] = {
    "q": _match_text,
    "external_id_prefix": _match_prefix,
}
