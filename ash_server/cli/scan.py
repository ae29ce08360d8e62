"""`ash scan`: list the secrets in sessions by kind and place, never their values."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import rich_click as click
from rich.table import Table

from ash_server.cli.common.options import json_option, sessions_argument
from ash_server.cli.common.output.terminal import counted, stdout_console, visible, warn
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_server.redaction import count_secrets, redact_name
from ash_shared.model.session import Session

_PAGE = 100
_SESSIONS_PAGE = 1000
_MAX_SHOWN_PLACES = 5

UNKNOWN_FORMS = "secrets of unknown forms are not found"


class SecretFinding(NamedTuple):
    """Secrets of a kind at a place."""

    kind: str
    place: int | str
    """The sequence of a message, or the name of a field of the session."""
    number: int
    """How many there are."""


@click.command("scan")
@sessions_argument
@json_option
@reads_store
def command(sessions: tuple[str, ...], *, store: StoreToRead, as_json: bool) -> None:
    """List tokens, keys and passwords in sessions by kind and place, never their values.

    SESSION is an id or its first characters, or a name (external id). Without it, all sessions are searched.

    \b
    ash scan 0d5c0a1e
    ash scan --json
    """
    found = store.read(partial(_scan, references=sessions))
    if as_json:
        click.echo(json.dumps({"sessions": [_as_json(session, findings) for session, findings in found]}))
        return
    for session, findings in found:
        stdout_console().print(f"{session.id}  {visible(redact_name(session.name))}", markup=False)
        stdout_console().print(findings_table(findings))
    number = sum(each.number for _, findings in found for each in findings)
    warn(f"{counted(number, 'secret')} in {counted(len(found), 'session')}; {UNKNOWN_FORMS}")


async def _scan(store: ReadStore, references: Sequence[str]) -> list[tuple[Session, list[SecretFinding]]]:
    """Return the sessions with secrets."""
    found = []
    async for session in _selected(store, references):
        findings = await find_secrets_of(store, session)
        if findings:
            found.append((session, findings))
    return found


async def _selected(store: ReadStore, references: Sequence[str]) -> AsyncGenerator[Session, None]:
    for reference in references:
        yield await session_named(store, reference)
    if not references:
        async for session in store.sessions(limit=_SESSIONS_PAGE, archived="include"):
            yield session


async def find_secrets_of(store: ReadStore, session: Session) -> list[SecretFinding]:
    """Return the secrets in the fields of a session and in its messages."""
    findings = [each for name, text in _fields(session) for each in _findings(name, text)]
    after = 0
    while True:
        page = await store.list_messages(
            session.id, after=after, limit=_PAGE, parsed=False, content=True, kind="message,record,chunk"
        )
        for message in page.messages:
            text = message.content or ""
            findings += await asyncio.to_thread(_findings, message.sequence, text)
        if page.next_after is None:
            return findings
        after = page.next_after


def _fields(session: Session) -> Iterator[tuple[str, str]]:
    yield "title", session.title or ""
    yield "external id", session.external_id or ""
    yield "metadata", json.dumps(session.metadata)
    if session.labels:
        yield "note", session.labels.note
        yield "tags", "\n".join(session.labels.tags)


def _findings(place: int | str, text: str) -> list[SecretFinding]:
    return [SecretFinding(kind, place, count) for kind, count in sorted(count_secrets(text).items())]


def findings_table(findings: Sequence[SecretFinding]) -> Table:
    """Return a table of the kinds and their first places."""
    table = Table("kind", "secrets", "places", box=None, pad_edge=False, header_style="dim")
    for kind in dict.fromkeys(each.kind for each in findings):
        of_kind = [each for each in findings if each.kind == kind]
        places = [_describe(each.place) for each in of_kind]
        more = f" and {len(places) - _MAX_SHOWN_PLACES} more" if len(places) > _MAX_SHOWN_PLACES else ""
        shown = ", ".join(places[:_MAX_SHOWN_PLACES]) + more
        table.add_row(kind, str(sum(each.number for each in of_kind)), shown)
    return table


def _describe(place: int | str) -> str:
    return place if isinstance(place, str) else f"message {place}"


def _as_json(session: Session, findings: Sequence[SecretFinding]) -> dict[str, Any]:
    return {
        "id": str(session.id),
        "secrets": [
            {
                "kind": each.kind,
                "count": each.number,
                **({"field": each.place} if isinstance(each.place, str) else {"message": each.place}),
            }
            for each in findings
        ],
    }
