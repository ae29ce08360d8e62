"""Links between the documents lead to existing files and headings."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    path
    for folder in (".", "docs", "docs/decisions", "benchmarks", "clients/typescript")
    for path in (ROOT / folder).glob("*.md")
)
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)")


def anchors(document: Path) -> set[str]:
    """Return the names that GitHub gives the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(document: Path) -> Iterator[str]:
    for path, anchor in LINK.findall(CODE.sub("", document.read_text())):
        target = document.parent / path if path else document
        is_known = target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target))
        if not is_known:
            yield f"{path}#{anchor}" if anchor else path


def test_links_between_documents() -> None:
    broken = {document.name: list(broken_links(document)) for document in DOCUMENTS}

    assert len(DOCUMENTS) > 20
    assert {name: links for name, links in broken.items() if links} == {}
