"""Checks of the built site: links lead to pages and headings, and nothing is loaded from other hosts."""

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "audio": ("src",),
    "iframe": ("src",),
    "img": ("src", "srcset"),
    "link": ("href",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "use": ("href",),
    "video": ("src", "poster"),
}
"""The attributes with files that a browser loads by itself."""

STYLE_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.loaded += [values[name] for name in LOADED.get(tag, ()) if name in values]


def find_problems(site: Path) -> list[str]:
    """Return a line for each broken link, and for each file of another host."""
    problems = [
        f"{page.relative_to(site)}: {problem}"
        for page in sorted(site.rglob("*.html"))
        for problem in page_problems(page, site)
    ]
    for style in sorted(site.rglob("*.css")):
        urls = ["".join(match) for match in STYLE_URL.findall(style.read_text(encoding="utf-8"))]
        problems += [f"{style.relative_to(site)}: loads {url}" for url in urls if is_external(url)]
    return problems


def page_problems(file: Path, site: Path) -> Iterator[str]:
    page = read_page(file)
    for url in page.loaded:
        if is_external(url):
            yield f"loads {url}"
    for url in (*page.links, *page.loaded):
        if not is_external(url) and not urlsplit(url).scheme and not leads(file, url, site):
            yield f"a broken link: {url}"


def leads(file: Path, url: str, site: Path) -> bool:
    parts = urlsplit(url)
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not target.is_file() or not target.is_relative_to(site):
        return False
    return target.suffix != ".html" or unquote(parts.fragment) in read_page(target).anchors


def is_external(url: str) -> bool:
    return bool(urlsplit(url).netloc)


@cache
def read_page(file: Path) -> Page:
    return Page(file.read_text(encoding="utf-8"))
