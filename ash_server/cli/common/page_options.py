"""Options of commands that show a page of a session."""

import rich_click as click

from ash_shared.model.message import LAST_SEQUENCE

after_option = click.option(
    "--after", type=click.IntRange(0, LAST_SEQUENCE), default=0, help="Start after this sequence."
)
page_limit_option = click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
