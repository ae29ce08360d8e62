"""`ash db`: manage the database."""

import os

import rich_click as click

from ash_server.cli.output.terminal import stderr_console
from ash_server.db.connection import REVISION, libpq_url
from ash_server.db.embedded.open import open_database
from ash_server.settings import Settings


@click.group("db")
def command() -> None:
    """Manage the database."""


@command.command()
def upgrade() -> None:
    """Migrate the database to this version of Ash."""
    with open_database(Settings.from_environment(os.environ), migrate=True):
        click.echo(f"the database has schema {REVISION}")


@command.command()
def url() -> None:
    """Print the URL of the database, for psql and other clients."""
    settings = Settings.from_environment(os.environ)
    if settings.database_url:
        click.echo(libpq_url(settings.database_url))
        return
    with open_database(settings) as url:
        click.echo(url)
    stderr_console().print(
        "this PostgreSQL runs only while a command of Ash runs, such as `ash serve`", style="dim"
    )
