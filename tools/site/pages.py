"""The documents of the repository as pages of the site.

Only links change. A source file has a page with its text, and docs/README.md lists the pages of each section.
"""

import posixpath
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
INDEX = PurePosixPath("docs/README.md")
DECISIONS = PurePosixPath("docs/decisions")
REFERENCES = {
    PurePosixPath("openapi/openapi.json"): "reference/rest/index.md",
}
"""Files that have a page of their own."""

MAX_HIGHLIGHTED = 100_000
"""Characters of a source file with colours, which take long to compute."""

CODE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()(?!https?:|mailto:)([^)\s#]+)(?=[#)])")
IMAGE = re.compile(r"(\b(?:src|srcset)=\")(?!https?:)([^\"]+)(?=\")")
LANGUAGES = {
    ".js": "javascript",
    ".json": "json",
    ".py": "python",
    ".sql": "postgresql",
    ".ts": "typescript",
    ".yml": "yaml",
}

Section = tuple[str, list[str]]
"""A heading of the index page, and the pages below it."""


class BrokenLink(Exception):
    """A document links to a file that does not exist."""


def write_pages(folder: Path, root: Path = ROOT) -> list[Section]:
    """Write a page for each document and for each source file that a document links to.

    Returns the sections of the index page. Raises BrokenLink.
    """
    documents, files = collect(root)
    for document in documents:
        text = (root / document).read_text(encoding="utf-8")
        write(folder / page_of(document), outside_code(text, partial(change_links, document, folder, root)))
    for file in files:
        write(folder / page_of(file), source_page(file, (root / file).read_text(encoding="utf-8")))
    decisions = [page_of(each) for each in documents if each.parent == DECISIONS]
    write(folder / page_of(DECISIONS), decisions_page(decisions, folder))
    contents = sections((folder / page_of(INDEX)).read_text(encoding="utf-8"))
    listed = {page for _, pages in contents for page in pages} | {page_of(INDEX), *decisions}
    for document in documents:
        if document.is_relative_to("docs") and page_of(document) not in listed:
            raise BrokenLink(f"{INDEX} does not list {document}")
    return [*contents, ("Decisions", [page_of(DECISIONS), *decisions])]


def decisions_page(pages: Iterable[str], folder: Path) -> str:
    titles = ((page, (folder / page).read_text(encoding="utf-8").partition("\n")[0]) for page in pages)
    entries = (f"- [{title.removeprefix('# ')}]({posixpath.basename(page)})" for page, title in titles)
    return "\n".join(["# Decisions", "", *entries, ""])


def collect(root: Path) -> tuple[list[PurePosixPath], list[PurePosixPath]]:
    """Return the documents below docs/ and those they link to, and other files that these link to."""
    docs = (PurePosixPath(path.relative_to(root)) for path in (root / "docs").rglob("*.md"))
    waiting = sorted(docs, reverse=True)
    documents: dict[PurePosixPath, None] = {}
    files: dict[PurePosixPath, None] = {}
    while waiting:
        document = waiting.pop()
        if document in documents:
            continue
        documents[document] = None
        for target in targets(document, root):
            if target.suffix == ".md":
                waiting.append(target)
            elif (root / target).is_file() and target not in REFERENCES:
                files[target] = None
    return list(documents), [file for file in files if file.suffix != ".png"]


def targets(document: PurePosixPath, root: Path) -> Iterator[PurePosixPath]:
    for index, part in enumerate(CODE.split((root / document).read_text(encoding="utf-8"))):
        for match in LINK.finditer(part if index % 2 == 0 else ""):
            yield target_of(document, match[2], root)


def target_of(document: PurePosixPath, link: str, root: Path) -> PurePosixPath:
    target = PurePosixPath(posixpath.normpath(document.parent / link))
    if not (root / target).exists():
        raise BrokenLink(f"{document} links to {link}, which does not exist")
    return target


def page_of(path: PurePosixPath) -> str:
    """Return the path of a page in the site: documents below docs/ are at its root."""
    if path == INDEX:
        return "index.md"
    if path == DECISIONS:
        return "decisions/index.md"
    if path in REFERENCES:
        return REFERENCES[path]
    place = path.relative_to("docs") if path.is_relative_to("docs") else "repository" / path
    # The generator leaves out hidden folders.
    place = PurePosixPath(*(part.removeprefix(".") for part in place.parts))
    return str(place) if path.suffix in {".md", ".png"} else f"{place}.md"


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change the text outside of code blocks."""
    parts = CODE.split(text)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


def change_links(document: PurePosixPath, folder: Path, root: Path, text: str) -> str:
    start = posixpath.dirname(page_of(document))

    def link(match: re.Match[str]) -> str:
        target = target_of(document, match[2], root)
        if target.suffix == ".png":
            copy(root / target, folder / page_of(target))
        return match[1] + posixpath.relpath(page_of(target), start)

    return IMAGE.sub(link, LINK.sub(link, text))


def sections(index: str) -> list[Section]:
    """Return the headings of the index page, with the pages they link to."""
    _, *parts = re.split(r"^## (.*)$", index, flags=re.MULTILINE)
    return [
        (title, [match[2] for match in LINK.finditer(text)])
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    ]


def source_page(file: PurePosixPath, text: str) -> str:
    language = LANGUAGES.get(file.suffix, "text") if len(text) <= MAX_HIGHLIGHTED else "text"
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {file}\n\n"
    return f"{head}``````{language}\n{text.rstrip()}\n``````\n"


def copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
