"""The files of the viewer. Their address contains a digest of all of them, so browsers may cache them forever.

The renderer of the log has a fixed address as well, for pages of others (docs/chat-renderer.md).
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

from ash_server.viewer.bundle import bundle, bundle_library

FOLDER = Path(__file__).parent

_LOG_STYLES = ("tokens", "base", "icons", "prose", "math", "code", "chat", "tools")
STYLES = (
    *_LOG_STYLES,
    "bar",
    "page",
    "panels",
    "actions",
    "sessions",
    "usage",
    "compare",
    "filters",
    "print",
)
"""Style sheets, in cascade order."""

BUNDLED_STYLE = "bundled.css"
_BUNDLED = "bundled/"
_RENDERER = "render/chat-renderer.js"
_FORMULAS = "lib/markdown/mathml.js"
_ENTRIES = (
    "plain-page.js",
    "missing-page.js",
    "session-page.js",
    "sessions-page.js",
    "live-page.js",
    "usage-page.js",
    "compare-page.js",
)

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
    """A snapshot of all files."""

    digest: str
    assets: Mapping[str, Asset]
    """Public files by path. `bundled.css` contains all styles, `bundled/` each page's modules as one script: loading a
    hundred small files would delay the first paint by most of a second. `formulas.js` there is loaded when needed."""
    library: Mapping[str, Asset]
    """The renderer for pages of others, and its style, by file name."""
    shells: Mapping[str, Template]
    """Page templates by name."""
    licences: Mapping[str, str]
    """Licences of the vendored libraries by path; exported pages include them."""

    @property
    def root(self) -> str:
        return f"/viewer/{self.digest}"

    def shell(self, name: str, texts: Mapping[str, str]) -> str:
        """Fill in a page template."""
        escaped = {key: escape(text) for key, text in texts.items()}
        return self.shells[name].substitute(escaped, viewer=self.root)


def bundled_script(assets: Mapping[str, Asset], entry: str) -> str:
    """Return an entry module with all modules that it imports, as one script."""
    return bundle(_sources(assets), entry)


def _sources(assets: Mapping[str, Asset]) -> dict[str, str]:
    modules = (path for path in assets if path.endswith("js") and not path.startswith(_BUNDLED))
    return {path: assets[path].content.decode() for path in modules}


class _File(NamedTuple):
    path: str
    modified_ns: int
    size: int


def viewer() -> Viewer:
    """Return the current files. Changes take effect without a restart of the server."""
    return _load(tuple(sorted(_list_files(str(FOLDER)))))


def _list_files(folder: str, prefix: str = "") -> Iterator[_File]:
    """List the files of the viewer, without symbolic links and hidden files, so that nothing else is served."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name[0] in "._":
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _list_files(entry.path, f"{prefix}{entry.name}/")
            elif entry.is_file(follow_symlinks=False) and entry.path.endswith(_SUFFIXES):
                stat = entry.stat()
                yield _File(prefix + entry.name, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1)
def _load(files: tuple[_File, ...]) -> Viewer:
    contents = {file.path: (FOLDER / file.path).read_bytes() for file in files}
    digest = sha256()
    for path, content in contents.items():
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
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
        digest=digest.hexdigest()[:16],
        assets={**assets, **dict(_bundles(assets))},
        library=_library(assets) if _RENDERER in assets else {},
        shells={
            path.removesuffix(".html"): Template(text)
            for path, text in texts.items()
            if suffixes[path] == ".html"
        },
        licences={path: text for path, text in texts.items() if suffixes[path] != ".html"},
    )


def _bundles(assets: Mapping[str, Asset]) -> Iterator[tuple[str, Asset]]:
    for entry in assets.keys() & set(_ENTRIES):
        yield _BUNDLED + entry, Asset(_MEDIA_TYPES[".js"], bundled_script(assets, entry).encode())
    if _FORMULAS in assets:
        formulas = bundle_library(_sources(assets), _FORMULAS).encode()
        yield f"{_BUNDLED}formulas.js", Asset(_MEDIA_TYPES[".js"], formulas)
    yield BUNDLED_STYLE, _joined_styles(assets, STYLES)


def _library(assets: Mapping[str, Asset]) -> dict[str, Asset]:
    script = bundle_library(_sources(assets), _RENDERER).encode()
    return {
        "chat-renderer.js": Asset(_MEDIA_TYPES[".js"], script),
        "chat-renderer.css": _joined_styles(assets, (*_LOG_STYLES, "filters", "alone")),
    }


def _joined_styles(assets: Mapping[str, Asset], names: Iterable[str]) -> Asset:
    paths = [f"styles/{name}.css" for name in names]
    style = b"\n".join(assets[path].content for path in paths if path in assets)
    return Asset(_MEDIA_TYPES[".css"], style)
