"""`ash backup`: write the whole store to a file."""

import os
from pathlib import Path

import rich_click as click
from rich.filesize import decimal

from ash_server.cli.common.options import local_only
from ash_server.cli.common.output.terminal import counted
from ash_server.cli.common.private_files import OWNER_ONLY
from ash_server.settings import Settings
from ash_server.store.connections.pool import connect_command
from ash_server.store.embedded.open import open_database
from ash_server.store.maintenance.backup import write_backup


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@local_only("run this command on the machine of the server")
def command(file: Path) -> None:
    """Write the whole store to a file.

    The file has all rows as of one moment; the server may run meanwhile. An existing file is replaced once everything
    is written. It contains every message: only its owner can read it.

    \b
    ash backup ash-2026-11-23.backup
    ASH_HOME=~/another ash restore ash-2026-11-23.backup
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    with (
        open_database(Settings.load()) as url,
        connect_command(url) as conn,
    ):
        part.unlink(missing_ok=True)
        try:
            with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY), "wb") as target:
                contents = write_backup(conn, target)
                target.flush()
                os.fsync(target.fileno())
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    click.echo(f"{counted(contents.sessions, 'session')} in {file}, {decimal(file.stat().st_size)}")
