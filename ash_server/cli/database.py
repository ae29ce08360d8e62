"""`ash db`."""

import os

import click

from ash_server.cli.output.terminal import errors
from ash_server.db.connection import REVISION, libpq_url
from ash_server.db.embedded.open import open_database
from ash_server.settings import Settings


def upgrade_database() -> None:
    with open_database(Settings.from_environment(os.environ), migrate=True):
        click.echo(f"the database has schema {REVISION}")


def print_url() -> None:
    settings = Settings.from_environment(os.environ)
    if settings.database_url:
        click.echo(libpq_url(settings.database_url))
        return
    with open_database(settings) as url:
        click.echo(url)
    errors().print("this PostgreSQL runs while a command of Ash does, such as `ash serve`", style="dim")
