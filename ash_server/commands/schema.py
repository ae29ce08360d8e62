"""`ash db`."""

import os

import click

from ash_server.commands.terminal import errors
from ash_server.database import open_database
from ash_server.db.engine import REVISION, libpq_url
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
