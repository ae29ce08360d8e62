"""The original TypeScript parser on node, called in turns with the others."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import Run

NAME = "the original TypeScript parser on node"
_SCRIPT = Path(__file__).with_name("original_parser.mjs")


class Original:
    """A warmed-up node process that has the messages in memory as strings."""

    def __init__(self, process: subprocess.Popen[str], messages: list[bytes]) -> None:
        self._process = process
        self._count = len(messages)

    def run(self, command: str) -> Run:
        """Run `parse`, or `stringify` the parsed messages."""
        return lambda: float(self._ask(command, 1)[0]) / 1000

    def shown(self) -> list[Any]:
        """Return the blocks of each message; None if the parser threw."""
        return [json.loads(line) for line in self._ask("show", self._count)]

    def _ask(self, command: str, lines: int) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return [self._process.stdout.readline() for _ in range(lines)]


@contextmanager
def original(messages: list[bytes]) -> Iterator[Original | None]:
    """Start node; yield None if it is not installed."""
    if not (node := shutil.which("node")):
        yield None
        return
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(b"\n".join(messages))
        file.flush()
        command = [node, str(_SCRIPT), file.name]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ) as process:
            yield Original(process, messages)
