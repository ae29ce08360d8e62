"""docs/rest.md: its commands give the shown answers."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "rest.md").read_text()
EXAMPLES = re.findall(r"^\$ ((?:curl|printf).*?)\n(\{.*?\})$", PAGE, re.MULTILINE | re.DOTALL)
"""Commands, with the line of JSON that each prints."""


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_commands_print_the_shown_answers(server: str) -> None:
    printed = [
        subprocess.run(
            ["sh", "-c", command.replace("http://127.0.0.1:4100", server)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for command, _ in EXAMPLES
    ]

    assert len(EXAMPLES) == 6
    for answer, (command, shown) in zip(printed, EXAMPLES, strict=True):
        beginning = without_random_values(shown).split(" …")[0]
        assert without_random_values(answer).startswith(beginning), command


def without_random_values(text: str) -> str:
    """Replace the ids of messages (UUIDs of version 7) and times."""
    return re.sub(r'"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{17,21}"|"2\d{3}-[0-9T:.-]+Z"', '"…"', text)
