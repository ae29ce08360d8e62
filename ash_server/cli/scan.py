"""`ash scan`: list the secrets in sessions by kind and place, never their values."""

import json
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

import rich_click as click
from rich.table import Table

from ash_server.cli.common.options import json_option, sessions_argument
from ash_server.cli.common.output.terminal import counted, stdout_console, visible, warn
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_server.redaction import redact_name
from ash_shared.model.session import Session
from ash_shared.model.shares import FindingList, SecretFinding

_SESSIONS_PAGE = 1000
_MAX_SHOWN_PLACES = 5

UNKNOWN_FORMS = "secrets of unknown forms are not found"


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
    number = sum(findings.total for _, findings in found)
    warn(f"{counted(number, 'secret')} in {counted(len(found), 'session')}; {UNKNOWN_FORMS}")


async def _scan(store: ReadStore, references: Sequence[str]) -> list[tuple[Session, FindingList]]:
    """Return the sessions with secrets."""
    found = []
    async for session in _selected(store, references):
        findings = await store.list_findings(session.id)
        if findings.total:
            found.append((session, findings))
    return found


async def _selected(store: ReadStore, references: Sequence[str]) -> AsyncGenerator[Session, None]:
    for reference in references:
        yield await session_named(store, reference)
    if not references:
        async for session in store.sessions(limit=_SESSIONS_PAGE, archived="include"):
            yield session


def findings_table(secrets: FindingList) -> Table:
    """Return a table of the kinds and their first places."""
    findings = secrets.findings
    table = Table("kind", "secrets", "places", box=None, pad_edge=False, header_style="dim")
    for kind in dict.fromkeys(each.kind for each in findings):
        of_kind = [each for each in findings if each.kind == kind]
        places = [_describe(each) for each in of_kind]
        more = f" and {len(places) - _MAX_SHOWN_PLACES} more" if len(places) > _MAX_SHOWN_PLACES else ""
        shown = ", ".join(places[:_MAX_SHOWN_PLACES]) + more
        table.add_row(kind, str(sum(each.count for each in of_kind)), shown)
    return table


def _describe(finding: SecretFinding) -> str:
    if finding.field is not None:
        return finding.field
    return f"event {finding.event}" if finding.message is None else f"message {finding.message}"


def _as_json(session: Session, secrets: FindingList) -> dict[str, Any]:
    document = secrets.model_dump(mode="json", by_alias=True)
    return {"id": str(session.id), "total": secrets.total, "secrets": document["findings"]}
