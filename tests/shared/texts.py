"""The texts of the sample files."""

from collections.abc import Iterator
from pathlib import Path


def texts_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each text of a folder with its position: the lines of JSONL files, or whole documents."""
    for path in sorted(folder.iterdir()):
        text = path.read_bytes().decode()
        lines = [text] if path.suffix == ".json" else text.split("\n")
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield f"{path.name}:{number}", line
