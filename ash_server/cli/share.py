"""`ash share`: links that show a session without a key."""

import re
import sys
from functools import partial
from uuid import UUID

import rich_click as click
from rich.table import Table

from ash_server.cli.common.change_store import StoreToChange, changes_or_reads_store
from ash_server.cli.common.client import own_url
from ash_server.cli.common.options import session_argument
from ash_server.cli.common.output.terminal import counted, local_time, stderr_console, stdout_console, warn
from ash_server.cli.common.read_store import ReadStore, session_named
from ash_server.cli.scan import UNKNOWN_FORMS, findings_table
from ash_server.keys.shares import MAX_HOURS, ShareOptions
from ash_server.settings import Settings
from ash_shared.model.shares import Share

_SPAN = re.compile("([0-9]{1,4})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24}


def _read_hours(_: click.Context, __: click.Parameter, value: str) -> int:
    span = _SPAN.fullmatch(value)
    hours = int(span[1]) * _HOURS[span[2]] if span else 0
    if not 1 <= hours <= MAX_HOURS:
        raise click.BadParameter("it is a span such as 12h, 7d or 4w, at most 90d")
    return hours


@click.command("share")
@session_argument
@click.option(
    "--expires",
    "hours",
    metavar="SPAN",
    default="7d",
    show_default=True,
    callback=_read_hours,
    help="How long the link is valid: 12h, 7d, 4w; at most 90d.",
)
@click.option("--follow", "follows", is_flag=True, help="Also show messages that are stored later.")
@click.option("--with-subagents", is_flag=True, help="Also show lines of subagents in the transcript.")
@click.option("--no-redact", "shows_secrets", is_flag=True, help="Show tokens, keys and passwords.")
@click.option("--list", "lists", is_flag=True, help="List the valid links of the session.")
@click.option("--revoke", metavar="ID", type=click.UUID, help="Revoke a link.")
@changes_or_reads_store
def command(  # noqa: PLR0913  # one argument per option
    session: str,
    *,
    store: StoreToChange,
    hours: int,
    follows: bool,
    with_subagents: bool,
    shows_secrets: bool,
    lists: bool,
    revoke: UUID | None,
) -> None:
    """Print a link that shows a session without a key, up to its present end and redacted.

    SESSION is an id or its first characters, or a name (external id). Secrets that are found are listed first. The link
    is shown only once.

    \b
    ash share 0d5c0a1e --expires 30d
    ash share 0d5c0a1e --list
    ash share 0d5c0a1e --revoke 019a4c1e-2f00-7c5a-8c6e-3b1f6f0f4a11
    """
    if lists:
        _print_links(store.read(partial(_list, reference=session)))
    elif revoke is not None:
        store.change(partial(_revoke, change=store, reference=session, share=revoke))
        click.echo("revoked")
    else:
        options = ShareOptions(hours, follows, with_subagents, not shows_secrets)
        click.echo(store.change(partial(_share, change=store, reference=session, options=options)))


async def _share(store: ReadStore, change: StoreToChange, reference: str, options: ShareOptions) -> str:
    """Show the secrets that are found, ask, and return the address of the new link."""
    session = await session_named(store, reference)
    findings = await store.list_findings(session.id)
    if findings.total:
        stderr_console().print(findings_table(findings))
    state = "hidden" if options.redacted else "SHOWN"
    secrets = f"{counted(findings.total, 'secret')} found, {state} by the link"
    warn(f"{secrets if findings.total else 'no secrets found'}; {UNKNOWN_FORMS}")
    await change.confirm(store, "Share 1 session", asks_locally=sys.stdin is not None and sys.stdin.isatty())
    new = await store.share_session(session.id, options)
    return f"{_server_url(store).rstrip('/')}{new.path}"


def _server_url(store: ReadStore) -> str:
    """Return the address for links. Without a configured one, warn that it is a guess."""
    if configured := store.url or Settings.load().public_url:
        return configured
    guessed = own_url()
    warn(f"the link begins with {guessed}; set ASH_PUBLIC_URL if others reach the server at another address")
    return guessed


async def _list(store: ReadStore, reference: str) -> list[Share]:
    session = await session_named(store, reference)
    return (await store.list_shares(session.id)).shares


async def _revoke(store: ReadStore, change: StoreToChange, reference: str, share: UUID) -> None:
    session = await session_named(store, reference)
    await change.confirm(store, "Revoke 1 link")
    await store.revoke_share(session.id, share)


def _print_links(shares: list[Share]) -> None:
    if not shares:
        click.echo("no links")
        return
    table = Table("created", "expires", "shows", "id", box=None, pad_edge=False, header_style="dim")
    for each in shares:
        times = map(local_time, (each.created_at, each.expires_at))
        table.add_row(*times, _contents(each), str(each.id))
    stdout_console().print(table)


def _contents(share: Share) -> str:
    texts = (
        "all messages" if share.last_message is None else f"up to message {share.last_message}",
        "with subagents" if share.subagents else "",
        "" if share.redacted else "not redacted",
    )
    return ", ".join(filter(None, texts))
