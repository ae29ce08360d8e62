"""The vendored libraries are the published ones, and complete."""

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import ash_server

VENDOR = Path(ash_server.__file__).parent / "viewer" / "vendor"
LIBRARIES: dict[str, Any] = json.loads((VENDOR / "vendor.json").read_text())

IMPORT = re.compile(
    r"""^\s*import\b[^(]*?["'][^"']+["']|\bimport\s*\(["']|^export\b.*\bfrom\b""", re.MULTILINE
)


def test_files_match_the_published_hashes() -> None:
    listed = {
        f"{folder}/{path}": file["sha256"]
        for folder, library in LIBRARIES.items()
        for path, file in library["files"].items()
    }
    present = {
        path.relative_to(VENDOR).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file() and path != VENDOR / "vendor.json"
    }

    assert present == listed


def test_libraries_have_complete_metadata() -> None:
    contents = {folder: sorted(library) for folder, library in LIBRARIES.items()}
    keys = ["files", "integrity", "licence", "package", "version"]

    assert contents == {
        "markdown-it-15.0.3": ["contains", *keys],
        "highlightjs-11.12.0": keys,
        "diff-9.0.0": keys,
        "temml-0.13.5": keys,
    }
    assert [
        folder for folder, library in LIBRARIES.items() if not folder.endswith(f"-{library['version']}")
    ] == []
    assert [
        folder
        for folder, library in LIBRARIES.items()
        if not re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", library["integrity"])
    ] == []


def test_licences_are_included() -> None:
    texts = {
        f"{folder}/{name}": (VENDOR / folder / name).read_text()
        for folder, library in LIBRARIES.items()
        for name in ("LICENSE", *(f"LICENSE-{inner}.txt" for inner in library.get("contains", ())))
    }

    assert [name for name, text in texts.items() if "copyright" not in text.lower()] == []


def test_libraries_import_nothing() -> None:
    modules = [path for path in VENDOR.rglob("*") if path.suffix in (".js", ".mjs")]

    assert len(modules) == 24
    assert {path.name: match[0] for path in modules if (match := IMPORT.search(path.read_text()))} == {}
    assert "://" not in (VENDOR / "vendor.json").read_text()
