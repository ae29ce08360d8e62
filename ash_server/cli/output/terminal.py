"""What is printed: nothing that was stored, or that a file is called, can steer the terminal."""

import re
import sys
from typing import IO, Any, cast

from rich.console import Console
from rich.text import Text

_STEERING = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    **{
        code: f"\\u{code:04x}"
        for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    },
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
"""Control characters, marks that turn the direction of the text, and halves of surrogate pairs."""


def visible(text: str) -> str:
    """The text with symbols in place of what steers terminals; tabs and line ends stay."""
    return text.translate(_STEERING)


def visible_json(document: str) -> str:
    """The same JSON, with escapes for what steers terminals."""
    return "".join(f"\\u{ord(each):04x}" if ord(each) in _STEERING else each for each in document)


def counted(count: int, what: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def output() -> Console:
    """Standard output; as wide as it takes where nobody watches, and then without blanks at the ends of lines."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(file=cast(IO[str], _Trimmed()), highlight=False, width=200)


class _Trimmed:
    """Standard output without the blanks that fill up a column."""

    def write(self, text: str) -> int:
        return sys.stdout.write(re.sub(r" +(?=\n)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)


def errors() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def complain(text: str) -> None:
    """One line on standard error."""
    line = " ".join(visible(text).split())
    errors().print(Text.assemble(("ash: ", "bold red"), line))
