"""The site of the documentation: links lead to pages, and the REST reference is complete.

`make docs` builds the real one and checks its links; its generator is in a separate environment.
"""

import json
from pathlib import Path

import pytest

from tools.site.check import find_problems
from tools.site.pages import BrokenLink, write_pages
from tools.site.rest_reference import DOCUMENT, METHODS, write_rest_reference

INDEX = """# Documents

## Use

- [Guide](guide.md)
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with an index page, a guide, a decision and a source file."""
    root = tmp_path / "repository"
    files = {
        "docs/README.md": INDEX,
        "docs/guide.md": "# Guide\n\n[Why](decisions/0001-why.md#reason), [how](../.lib/code.py), [all](decisions)\n",
        "docs/decisions/0001-why.md": "# 1. Why\n\n## Reason\n\n[Notes](../../NOTES.md)\n",
        "NOTES.md": '# Notes\n\n<img src="docs/picture.png">\n',
        "docs/picture.png": "",
        ".lib/code.py": "print('```')\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_links_lead_to_pages(repository: Path, tmp_path: Path) -> None:
    """Documents below docs/ are at the root of the site, other files below `repository`, without hidden folders."""
    pages = tmp_path / "pages"

    write_pages(pages, repository)

    assert (pages / "guide.md").read_text().splitlines()[-1] == (
        "[Why](decisions/0001-why.md#reason), [how](repository/lib/code.py.md), [all](decisions/index.md)"
    )
    assert "[Notes](../repository/NOTES.md)" in (pages / "decisions" / "0001-why.md").read_text()
    assert '<img src="../picture.png">' in (pages / "repository" / "NOTES.md").read_text()
    assert (pages / "picture.png").exists()
    assert "``````python\nprint('```')\n``````" in (pages / "repository" / "lib" / "code.py.md").read_text()


def test_index_page_orders_the_pages(repository: Path, tmp_path: Path) -> None:
    assert write_pages(tmp_path / "pages", repository) == [
        ("Use", ["guide.md"]),
        ("Decisions", ["decisions/index.md", "decisions/0001-why.md"]),
    ]
    assert "- [1. Why](0001-why.md)" in (tmp_path / "pages" / "decisions" / "index.md").read_text()


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("docs/guide.md", "[x](gone.md)", "docs/guide.md links to gone.md, which does not exist"),
        ("docs/new.md", "# New", "docs/README.md does not list docs/new.md"),
    ],
)
def test_pages_without_a_place_are_refused(
    name: str, text: str, problem: str, repository: Path, tmp_path: Path
) -> None:
    (repository / name).write_text(text)

    with pytest.raises(BrokenLink, match=problem):
        write_pages(tmp_path / "pages", repository)


def test_rest_reference_has_every_route_and_schema(tmp_path: Path) -> None:
    api = json.loads(DOCUMENT.read_text())

    [(_, [page, *_])] = write_rest_reference(tmp_path)

    index = (tmp_path / page).read_text()
    schemas = (tmp_path / "reference" / "rest" / "schemas.md").read_text()
    routes = [
        f"| `{method.upper()} {path}` |"
        for path, methods in api["paths"].items()
        for method in METHODS
        if method in methods
    ]
    assert len(routes) > 50
    assert [route for route in routes if index.count(route) != 1] == []
    assert [name for name in api["components"]["schemas"] if f"## {name}\n" not in schemas] == []


def test_check_finds_what_is_wrong(tmp_path: Path) -> None:
    pages = {
        "index.html": '<a href="b.html#here">b</a><a href="b.html#gone">b</a><a href="c.html">c</a>'
        '<a href="https://example.org/">elsewhere</a><a href="#">top</a>',
        "b.html": '<h1 id="here"></h1><script src="//example.org/a.js"></script><img src="a.png">',
        "a.css": "@import 'https://example.org/a.css'; p { background: url(data:image/png;base64,AA) }",
    }
    for name, text in pages.items():
        (tmp_path / name).write_text(text)

    assert find_problems(tmp_path) == [
        "b.html: loads //example.org/a.js",
        "b.html: a broken link: a.png",
        "index.html: a broken link: b.html#gone",
        "index.html: a broken link: c.html",
        "a.css: loads https://example.org/a.css",
    ]
