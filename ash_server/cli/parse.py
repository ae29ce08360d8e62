"""`ash parse`: read a file as typed content, without a database."""

import sys
from typing import BinaryIO

import rich_click as click

from ash_server.cli.common.options import source_option
from ash_server.cli.common.output.message_view import show_message
from ash_server.cli.common.output.terminal import stdout_console, visible_json, warn
from ash_server.transfer.agents import declare
from ash_server.transfer.importing.lines import MAX_LINE_BYTES, START, read_texts, source_of_log
from ash_shared import ParsedMessage, parse_message


@click.command("parse")
@click.argument("file", type=click.File("rb"), default="-")
@source_option
@click.option(
    "--json/--view", "as_json", default=None, help="Typed JSON, or a readable view (default on a terminal)."
)
def command(file: BinaryIO, source: str | None, as_json: bool | None) -> int:
    """Read a file as typed content, without a database.

    Prints one JSON document per line, or one for a file that is a single JSON document. FILE is - for standard input.

    \b
    ash parse session.jsonl
    tail -f session.jsonl | ash parse --json | jq .parsed
    """
    show = _show_json if (not sys.stdout.isatty() if as_json is None else as_json) else _show_view
    code, source = 0, declare(source).source
    for line in read_texts(file):
        if source is None and line.place == START:
            source = source_of_log(line)
        if line.data is None:
            warn(f"line {line.place.number} is longer than {MAX_LINE_BYTES} bytes: skipped")
            code = 1
        elif line.data.strip():
            show(line.place.number, parse_message(line.data, source))
    return code


def _show_json(_: int, message: ParsedMessage) -> None:
    click.echo(visible_json(message.model_dump_json()))


def _show_view(number: int, message: ParsedMessage) -> None:
    heading = (f"#{number}", message.role, message.kind, message.source)
    show_message(stdout_console(), heading, message.parsed)
