"""`ash restore`: fill an empty store from a backup."""

import logging
from pathlib import Path

import rich_click as click

from ash_server.cli.common.options import local_only
from ash_server.cli.common.output.terminal import counted
from ash_server.settings import Settings
from ash_server.store.embedded.open import open_without_schema
from ash_server.store.maintenance.backup import restore_backup


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@local_only("run this command on the machine of the server")
def command(file: Path) -> None:
    """Fill an empty store from a backup.

    The store is a new ASH_HOME, or an empty database at ASH_DATABASE_URL; one with rows is refused. A backup of an
    earlier version of Ash is migrated to this one.

    \b
    ASH_HOME=~/another ash restore ash-2026-11-23.backup
    """
    if not file.is_file():
        raise click.UsageError(f"{file} is not a file.")
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns about refused rows
    with open_without_schema(Settings.load()) as url:
        sessions = restore_backup(url, file)
    click.echo(f"{counted(sessions, 'session')} restored")
