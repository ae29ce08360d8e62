"""Generate `ash_client/sync_client.py` from `async_client.py`: `make client`."""

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "ash_client"
SOURCE = PACKAGE / "async_client.py"
TARGET = PACKAGE / "sync_client.py"

REPLACEMENTS = (
    (r'\A""".*?"""', '"""The synchronous client, generated from `async_client` by `make client`."""'),
    ("for the tasks of one event loop", "for one or more threads"),
    (r"\bAsyncGenerator\[(.+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsyncGenerator\b", "Generator"),
    (r"\bAsyncAshClient\b", "AshClient"),
    (r"\bAsyncClient\b", "Client"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\basyncio\b", "time"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baclosing\b", "closing"),
    (r"\b__a(enter|exit)__", r"__\1__"),
    (r"\.a(close|read|iter_raw)\(", r".\1("),
)


def generate() -> str:
    """Return the text of the synchronous client, formatted."""
    text = SOURCE.read_text()
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    for arguments in (("check", "--fix", "--unsafe-fixes", "--select", "I,UP028"), ("format",)):
        command = [sys.executable, "-m", "ruff", *arguments, "--quiet", "--stdin-filename", str(TARGET), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    TARGET.write_text(generate())
