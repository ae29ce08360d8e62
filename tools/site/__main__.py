"""Write the pages below build/site-pages, then the site below build/site, and check its links."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tools.site.check import find_problems
from tools.site.pages import INDEX, ROOT, Section, page_of, write_pages
from tools.site.python_reference import write_python_reference
from tools.site.rest_reference import write_rest_reference

BUILD = ROOT / "build"
SETTINGS = Path(__file__).with_name("zensical.toml")
WORKER = Path(__file__).with_name("vendor") / "iframe-worker.js"
WORKER_URL = re.compile(r"https://[^\"']*/iframe-worker/shim")


def main() -> int:
    pages, site = BUILD / "site-pages", BUILD / "site"
    for folder in (pages, site):
        shutil.rmtree(folder, ignore_errors=True)
    sections = [*write_pages(pages), *write_python_reference(pages), *write_rest_reference(pages)]
    settings = SETTINGS.read_text(encoding="utf-8").replace("nav = []", f"nav = {navigation(sections)}")
    (BUILD / SETTINGS.name).write_text(settings, encoding="utf-8")
    program = Path(sys.executable).with_name("zensical")
    if subprocess.run([program, "build", "--strict", "--clean"], cwd=BUILD, check=False).returncode:
        return 1
    (site / "404.html").unlink()  # its links begin at the root of a server
    use_own_worker(site)
    problems = find_problems(site)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    print(f"wrote {site.relative_to(ROOT)}/index.html")
    return 0


def use_own_worker(site: Path) -> None:
    """Load the worker of the search from the site instead of another host."""
    copy = site / "assets" / WORKER.name
    shutil.copyfile(WORKER, copy)
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(WORKER_URL.sub(os.path.relpath(copy, page.parent), text), encoding="utf-8")


def navigation(sections: Iterable[Section]) -> str:
    """Return the pages by section, as a value in TOML."""
    entries = (f"{{ {json.dumps(title)} = {json.dumps(pages)} }}" for title, pages in sections)
    return f"[{json.dumps(page_of(INDEX))}, {', '.join(entries)}]"


if __name__ == "__main__":
    sys.exit(main())
