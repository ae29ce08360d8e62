"""`ash db`: manage the database."""

from typing import get_args

import rich_click as click

from ash_server.cli.common.options import local_only
from ash_server.cli.common.output.terminal import stderr_console
from ash_server.settings import Settings
from ash_server.store.connections.pool import connect_command, libpq_url
from ash_server.store.embedded.open import open_database
from ash_server.store.maintenance.compression import Compression, get_compression, set_compression
from ash_server.store.maintenance.distribution import (
    DEFAULT_SHARDS,
    check_citus,
    distribute_by,
    plan_distribution,
)
from ash_server.store.maintenance.vacuum import vacuum as rewrite_tables
from ash_server.store.schema.migrations import REVISION


@click.group("db")
def command() -> None:
    """Manage the database."""


@command.command()
@local_only("run this command on the machine of the server")
def upgrade() -> None:
    """Migrate the database to this version of Ash."""
    with open_database(Settings.load(), migrate=True):
        click.echo(f"the database has schema {REVISION}")


@command.command()
@click.option(
    "--online", is_flag=True, help="Block nobody: free the space for new rows, and gather statistics."
)
@local_only("run this command on the machine of the server")
def vacuum(online: bool) -> None:
    """Return the disk space of deleted and rebuilt data to the system.

    Rewrites the tables one by one, without the texts of deleted rows; readers and writers wait for the table. It needs
    as much free space as the largest table will take.
    """
    with (
        open_database(Settings.load()) as url,
        connect_command(url) as conn,
    ):
        before, after = rewrite_tables(conn, online=online)
    click.echo(f"the tables take {after}, before {before}")


@command.command()
@click.option(
    "--shards",
    type=click.IntRange(1, 64000),
    default=DEFAULT_SHARDS,
    show_default=True,
    help="Parts of each table; at least the number of nodes that the cluster will ever have.",
)
@click.option("--dry-run", is_flag=True, help="Print the statements only.")
@local_only("run this command on the machine of the server")
def distribute(shards: int, dry_run: bool) -> None:
    """Distribute the sessions over the nodes of a Citus cluster.

    Connects to the coordinator, and prints each statement that it runs. Writers wait meanwhile: stop the server before.
    Can be repeated after an error, and after `ash db upgrade`.
    """
    with (
        open_database(Settings.load()) as url,
        connect_command(url) as conn,
    ):
        if not dry_run:
            check_citus(conn)
        statements = plan_distribution(conn, shards)
        for statement in statements:
            click.echo(f"{statement};")
            if not dry_run:
                distribute_by(conn, statement)
    if not statements:
        click.echo("-- everything is distributed")


@command.command()
@local_only("run this command on the machine of the server")
def url() -> None:
    """Print the URL of the database, for psql and other clients."""
    settings = Settings.load()
    if settings.database_url:
        click.echo(libpq_url(settings.database_url))
        return
    with open_database(settings) as url:
        click.echo(url)
    stderr_console().print(
        "this PostgreSQL runs only while a command of Ash runs, such as `ash serve`", style="dim"
    )


@command.command()
@click.argument("method", type=click.Choice(get_args(Compression)), required=False)
@local_only("run this command on the machine of the server")
def compression(method: Compression | None) -> None:
    """Show or set how PostgreSQL compresses the texts of messages.

    Applies to messages stored from now on. lz4, the best in every respect, is the default where PostgreSQL has it. The
    embedded PostgreSQL does not; its default is pglz, which takes 40 % less space than `none` and slows down imports by
    a sixth.
    """
    with (
        open_database(Settings.load()) as url,
        connect_command(url, autocommit=False) as conn,
    ):
        if method is not None:
            set_compression(conn, method)
        current = get_compression(conn)
    click.echo(current)
