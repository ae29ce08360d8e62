"""The texts of the sample files."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from ash_shared.providers.aider.sections import split_sections
from tests.shared.databases import sessions_of

SCHEMA = "schema__*"
"""Files with the schema of a format, without records."""


def paths_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.match(SCHEMA))


def files_of(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file of a folder with its text; for a database, also as SQL, the lines of each session."""
    for path in paths_of(folder):
        if path.suffix in (".db", ".sql"):
            yield from ((path, "\n".join(lines)) for _, lines in sessions_of(path))
        elif path.name.endswith(".bundle.jsonl"):
            yield path, _documents_of(path.read_text())
        else:
            yield path, path.read_bytes().decode()


def _documents_of(bundle: str) -> str:
    """Return the JSON files of a folder, one per line; each line of the sample is a file with its path."""
    files = {file["path"]: file["text"] for file in map(json.loads, bundle.splitlines())}
    names = _current_files(files) if "CURRENT" in files else files
    texts = [files[name] for name in names if name.endswith(".json")]
    return "\n".join(json.dumps(json.loads(text)) for text in texts)


def _current_files(files: Mapping[str, str]) -> list[str]:
    """Return the names of the documents that a session of Mistral Vibe consists of now."""
    folder = f"generations/{json.loads(files['CURRENT'])['generation']}"
    chunks = json.loads(files[f"{folder}/manifest.json"])["projection_state"]["chunks"]
    return ["meta.json", *(f"chunks/{chunk}.json" for chunk in chunks), f"{folder}/projection-state.json"]


def texts_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each text of a folder with its position: the lines of JSONL files and of databases, or whole documents."""
    for path, text in files_of(folder):
        lines = _lines_of(path, text)
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield f"{path.name}:{number}", line


def _lines_of(path: Path, text: str) -> list[str]:
    """Return the lines of a file; of a stream of server-sent events, their data; of a document, the whole text."""
    if ".sse" in path.suffixes:
        return [line.removeprefix("data:") for line in text.split("\n") if line.startswith("data:")]
    if path.name.startswith("ag-ui-protocol"):  # recorded streams by name
        return [json.dumps(event) for stream in json.loads(text).values() for event in stream]
    if path.suffix == ".md":
        return [section.removesuffix("\n") for section in split_sections(text)]
    return [text] if path.suffix == ".json" else text.split("\n")
