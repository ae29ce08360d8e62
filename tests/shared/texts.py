"""The texts of the sample files."""

from collections.abc import Iterator
from pathlib import Path


def text_files(folder: Path) -> list[Path]:
    """Return the files of a folder, in order, without databases."""
    return sorted(path for path in folder.iterdir() if path.suffix != ".db")


def texts_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each text of a folder with its position: the lines of JSONL files, or whole documents."""
    for path in text_files(folder):
        text = path.read_bytes().decode()
        lines = [text] if path.suffix == ".json" else text.split("\n")
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield f"{path.name}:{number}", line
