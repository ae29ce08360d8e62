"""`ash keys`: keys that give clients access to the server."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import rich_click as click
from rich.table import Table

from ash_server.cli.common.options import local_only, reject_empty
from ash_server.cli.common.output.terminal import local_time, stdout_console, visible
from ash_server.cli.common.store import with_store
from ash_server.errors import AshError
from ash_server.keys.digests import digest, new_key_text, read_or_create_secret, shown_prefix
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.keys import SCOPES, AuditEntry, AuditPage, Key, KeyScope, NewKey
from ash_server.store.connections.tenants import DEFAULT

_SPAN = re.compile("([1-9][0-9]{0,4})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_MAX_ENTRIES = 50


class KeyNotFound(AshError):
    status, code, title = 404, "key_not_found", "No key has this name."


class AmbiguousKey(AshError):
    status, code, title = 409, "ambiguous_key", "Several keys have this name."


def _read_scopes(_: click.Context, __: click.Parameter, value: str) -> tuple[KeyScope, ...]:
    names = {name.strip() for name in value.split(",")}
    if not names <= set(SCOPES):
        raise click.BadParameter(f"it is a list of {', '.join(SCOPES)}, separated by commas")
    return tuple(scope for scope in SCOPES if scope in names)


def read_expiry(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    if span := _SPAN.fullmatch(value):
        return datetime.now(UTC) + timedelta(**{_UNITS[span[2]]: int(span[1])})
    raise click.BadParameter("it is a span such as 12h, 90d or 26w")


@click.group("keys")
def command() -> None:
    """Create, list and revoke the keys of the server.

    With the first key, the server refuses requests without one, and may listen on an address that other machines reach.
    These commands use the database, like `ash import`.
    """


@command.command()
@click.argument("name", callback=reject_empty)
@click.option(
    "--tenant",
    default=DEFAULT.name,
    show_default=True,
    help="The team that the key gives access to. A new name creates a tenant.",
)
@click.option(
    "--scopes",
    default="read,write",
    show_default=True,
    callback=_read_scopes,
    help="Scopes of the key: read, write (append, create and label), delete (sessions and messages), share (links), "
    "admin (the audit log), separated by commas.",
)
@click.option(
    "--expires",
    "expires_at",
    metavar="SPAN",
    callback=read_expiry,
    help="How long the key is valid: 12h, 90d, 26w. Default: until it is revoked.",
)
@click.option(
    "--redact",
    "redacts",
    is_flag=True,
    help="Show everything without tokens, keys and passwords of known forms.",
)
@local_only("run this command on the machine of the server")
def create(
    name: str, tenant: str, scopes: Sequence[KeyScope], expires_at: datetime | None, redacts: bool
) -> None:
    """Create a key and print it. It is shown only once.

    \b
    ash keys create laptop --tenant red --scopes read,write --expires 90d
    """
    text = new_key_text()
    secret = read_or_create_secret(Settings.load())
    new = NewKey(name, shown_prefix(text), digest(secret, text), scopes, expires_at, redacts)
    with_store(lambda store: store.keys.create(tenant, new))
    click.echo(f"the key {visible(name)} of tenant {tenant}, shown only now: {text}")


@command.command("list")
@local_only("run this command on the machine of the server")
def list_all() -> None:
    """List the keys of all tenants. Their texts are not stored, except the first characters."""
    keys = with_store(lambda store: store.keys.list_keys())
    table = Table(
        "KEY", "NAME", "TENANT", "SCOPES", "CREATED", "LAST USED", "STATE", "ID", box=None, pad_edge=False
    )
    for key in keys:
        scopes = ",".join(sorted(key.scopes)) + (" redacted" if key.redacts else "")
        cells = (f"{key.prefix}…", visible(key.name), key.tenant.name, scopes)
        table.add_row(
            *cells, local_time(key.created_at), local_time(key.last_used_at), _state(key), str(key.id)
        )
    if keys:
        stdout_console().print(table)
    else:
        click.echo("no key was ever created: the server answers everyone on this machine, and nobody else")


@command.command()
@click.argument("key", callback=reject_empty)
@click.option("--tenant", help="The tenant of the key, if several have one with this name.")
@local_only("run this command on the machine of the server")
def revoke(key: str, tenant: str | None) -> None:
    """Revoke a key, named by its name or its first characters. Open streams end within 5 seconds."""
    revoked = with_store(partial(_revoke, reference=key, tenant=tenant))
    click.echo(
        f"the key {visible(revoked.name)} ({revoked.prefix}…) of tenant {revoked.tenant.name} is revoked"
    )


@command.command()
@click.option("--tenant", help="Only this tenant.")
@click.option("--before", type=click.UUID, help="Next page: the cursor of the last one.")
@local_only("run this command on the machine of the server")
def audit(tenant: str | None, before: UUID | None) -> None:
    """List what was done with keys, newest first: created, deleted and exported sessions, and changes of keys."""
    page = with_store(partial(_read_audit, name=tenant, before=before))
    table = Table("TIME", "TENANT", "KEY", "ACTION", "TARGET", box=None, pad_edge=False)
    for entry in page.audit:
        times = f" ({entry.count} times)" if entry.count else ""
        table.add_row(
            local_time(entry.at), entry.tenant, _actor(entry), entry.action + times, entry.target or ""
        )
    stdout_console().print(table)
    if page.next_before is not None:
        click.echo(f"more: --before {page.next_before}", err=True)


async def _revoke(store: Store, reference: str, tenant: str | None) -> Key:
    matches = [
        key
        for key in await store.keys.list_keys()
        if key.revoked_at is None
        and tenant in (None, key.tenant.name)
        and (key.name == reference or reference.startswith(key.prefix))
    ]
    if not matches:
        raise KeyNotFound(f"no key is named {reference!r}; `ash keys list` lists them")
    if len(matches) > 1:
        names = ", ".join(f"{key.prefix} of {key.tenant.name}" for key in matches)
        raise AmbiguousKey(f"several keys are named {reference!r}: {names}")
    await store.keys.revoke(matches[0])
    return matches[0]


async def _read_audit(store: Store, name: str | None, before: UUID | None) -> AuditPage:
    tenant = None if name is None else await store.get_tenant(name)
    return await store.keys.list_audit(tenant, before=before, limit=_MAX_ENTRIES)


def _actor(entry: AuditEntry) -> str:
    if entry.key:
        return f"{visible(entry.key)} ({entry.key_prefix}…)"
    return "none" if entry.count else "a command"


def _state(key: Key) -> str:
    if key.revoked_at is not None:
        return f"revoked {local_time(key.revoked_at)}"
    if key.expires_at is None:
        return "valid"
    return (
        f"{'expired' if key.expires_at <= datetime.now(UTC) else 'valid until'} {local_time(key.expires_at)}"
    )
