"""The viewer: files that browsers load, under an address that holds their digest and so may be kept for ever."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

from ash_server.viewer.bundle import bundle

FOLDER = Path(__file__).parent

STYLES = (
    *("tokens", "base", "icons", "prose", "code", "chat", "tools"),
    *("bar", "page", "panels", "sessions", "filters", "print"),
)
"""In the order in which they count."""

WHOLE_STYLE = "whole.css"
_WHOLE = "whole/"
_ENTRIES = ("session-page.js", "sessions-page.js")

_MEDIA_TYPES: Mapping[str, str] = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
_SUFFIXES = (*_MEDIA_TYPES, ".html", "/LICENSE", ".txt")


class Asset(NamedTuple):
    media_type: str
    content: bytes


@dataclass(frozen=True, eq=False)
class Viewer:
    """All of its files, as they were at one time."""

    digest: str
    assets: Mapping[str, Asset]
    """By the path below the folder: what a browser may ask for. `whole.css` is all styles, `whole/` has each page's
    modules in one: a browser that fetches a hundred small files shows nothing for most of a second."""
    shells: Mapping[str, Template]
    """The pages by their names, which the server fills in."""
    licences: Mapping[str, str]
    """By their paths: those of what is vendored, which go along where a copy is given away."""

    @property
    def root(self) -> str:
        return f"/viewer/{self.digest}"

    def shell(self, name: str, texts: Mapping[str, str]) -> str:
        """A page with these texts in their places."""
        filled = {key: escape(text) for key, text in texts.items()}
        return self.shells[name].substitute(filled, viewer=self.root)


def script_of(assets: Mapping[str, Asset], entry: str) -> str:
    """All modules that an entry reaches, as one script."""
    modules = (path for path in assets if path.endswith("js") and not path.startswith(_WHOLE))
    return bundle({path: assets[path].content.decode() for path in modules}, entry)


class _File(NamedTuple):
    path: str
    changed: int
    size: int


def viewer() -> Viewer:
    """The files as they are now: who works on them needs no new server."""
    return _read(tuple(sorted(_files(str(FOLDER)))))


def _files(folder: str, below: str = "") -> Iterator[_File]:
    """No link is followed, and nothing is hidden, so that nothing else than the viewer is served."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name[0] in "._":
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path, f"{below}{entry.name}/")
            elif entry.is_file(follow_symlinks=False) and entry.path.endswith(_SUFFIXES):
                stat = entry.stat()
                yield _File(below + entry.name, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1)
def _read(files: tuple[_File, ...]) -> Viewer:
    contents = {file.path: (FOLDER / file.path).read_bytes() for file in files}
    whole = sha256()
    for path, content in contents.items():
        whole.update(f"{path}\0{len(content)}\0".encode() + content)
    suffixes = {path: Path(path).suffix for path in contents}
    texts = {
        path: content.decode() for path, content in contents.items() if suffixes[path] not in _MEDIA_TYPES
    }
    assets = {
        path: Asset(_MEDIA_TYPES[suffixes[path]], content)
        for path, content in contents.items()
        if suffixes[path] in _MEDIA_TYPES
    }
    return Viewer(
        digest=whole.hexdigest()[:16],
        assets={**assets, **dict(_joined(assets))},
        shells={
            path.removesuffix(".html"): Template(text)
            for path, text in texts.items()
            if suffixes[path] == ".html"
        },
        licences={path: text for path, text in texts.items() if suffixes[path] != ".html"},
    )


def _joined(assets: Mapping[str, Asset]) -> Iterator[tuple[str, Asset]]:
    for entry in assets.keys() & set(_ENTRIES):
        yield _WHOLE + entry, Asset(_MEDIA_TYPES[".js"], script_of(assets, entry).encode())
    styles = [f"styles/{name}.css" for name in STYLES]
    style = b"\n".join(assets[path].content for path in styles if path in assets)
    yield WHOLE_STYLE, Asset(_MEDIA_TYPES[".css"], style)
