"""Terminal output that stored texts and file names cannot control."""

import re
import sys
from datetime import datetime
from typing import IO, Any, cast

from rich.console import Console
from rich.text import Text

_REPLACEMENTS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    **{
        code: f"\\u{code:04x}"
        for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    },
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
"""For control characters, bidirectional marks, and lone surrogates."""

_WIDTH_WITHOUT_TERMINAL = 200


def visible(text: str) -> str:
    """Replace control characters with visible symbols; tabs and line ends stay."""
    return text.translate(_REPLACEMENTS)


def visible_json(document: str) -> str:
    """Escape control characters in a JSON document."""
    return "".join(f"\\u{ord(each):04x}" if ord(each) in _REPLACEMENTS else each for each in document)


def counted(count: int, noun: str) -> str:
    """Return `1 line`, `2 lines`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def local_time(moment: datetime | None) -> str:
    """Return the time in the zone of this machine, to the minute; empty if it is unknown."""
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M")


def stdout_console() -> Console:
    """Return a console for standard output; without a terminal it is wide and trims trailing blanks."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(file=cast(IO[str], _TrimmedStdout()), highlight=False, width=_WIDTH_WITHOUT_TERMINAL)


def stderr_console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print one line to standard error."""
    line = " ".join(visible(text).split())
    stderr_console().print(Text.assemble(("ash: ", "bold red"), line))


def print_next_page(next_after: int | str | None) -> None:
    """Print the option that shows the next page, if there is one, to standard error."""
    if next_after is not None:
        stderr_console().print(f"more: --after {next_after}", style="dim")


class _TrimmedStdout:
    """Standard output without the blanks that pad table columns."""

    def write(self, text: str) -> int:
        return sys.stdout.write(re.sub(r" +(?=\n)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)
