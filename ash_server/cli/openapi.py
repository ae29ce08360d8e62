"""`ash openapi`: print the OpenAPI document."""

import rich_click as click

from ash_server.app import openapi_json


@click.command("openapi")
def command() -> None:
    """Print the OpenAPI document of the API."""
    click.echo(openapi_json(), nl=False)
