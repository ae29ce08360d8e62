"""`ash parse`: the library on a file, without any database."""

from collections.abc import Callable
from typing import BinaryIO

import click

from ash_server.cli.output.message_view import show_message
from ash_server.cli.output.terminal import complain, output, visible_json
from ash_server.transfer.importing.lines import MAX_LINE_BYTES, read_texts
from ash_shared import Reading, read_message

Show = Callable[[int, Reading], None]


def parse(file: BinaryIO, source: str | None, show: Show) -> int:
    """Shows each text as soon as it is read; answers the exit code."""
    code = 0
    for line in read_texts(file):
        if line.data is None:
            complain(f"line {line.place.number} is longer than {MAX_LINE_BYTES} bytes: passed over")
            code = 1
        elif line.data.strip():
            show(line.place.number, read_message(line.data, source))
    return code


def show_json(_: int, reading: Reading) -> None:
    click.echo(visible_json(reading.model_dump_json()))


def show_view(number: int, reading: Reading) -> None:
    heading = (f"#{number}", reading.role, reading.kind, reading.source)
    show_message(output(), heading, reading.parsed)
