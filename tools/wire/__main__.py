"""Compare the newest packages with the providers, and write docs/wire.md: `make wire`.

`--keep FOLDER` keeps the downloaded packages there, and uses those that are there. The exit code is 1 if there are
unknown names, or ignored ones that need no mention any more.
"""

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from tools.wire.comparison import IGNORED_FILE, Compared, Ignored, compare, find_stale, read_ignored
from tools.wire.download import Downloaded, Package, download
from tools.wire.page import to_page
from tools.wire.sources import LISTS, NameList
from tools.wire.unpack import unpack

PAGE = Path(__file__).parents[2] / "docs" / "wire.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make wire", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    folder: Path | None = parser.parse_args().keep
    ignored = read_ignored(IGNORED_FILE.read_text())
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="wire-") as temporary:
            compared = _compare_packages(Path(temporary), ignored)
    else:
        compared = _compare_packages(folder, ignored)
    return _report(compared, ignored)


def _compare_packages(folder: Path, ignored: list[Ignored]) -> list[Compared]:
    compared: list[Compared] = []
    for package, lists in groupby(LISTS, lambda each: each.package):
        compared += _compare_package(package, list(lists), folder / package.name.replace("/", "-"), ignored)
    return compared


def _compare_package(
    package: Package, lists: list[NameList], folder: Path, ignored: list[Ignored]
) -> list[Compared]:
    print(f"{package.registry} {package.name}", file=sys.stderr)
    downloaded = _download_once(package, folder)
    with tempfile.TemporaryDirectory(prefix="wire-") as unpacked:
        files = unpack(downloaded.archive, Path(unpacked), {each.files for each in lists})
        return [
            compare(each, downloaded.version, each.extract(_only_match(each, Path(unpacked), files)), ignored)
            for each in lists
        ]


def _download_once(package: Package, folder: Path) -> Downloaded:
    """Download a package, or return the one in the folder, with its version beside it."""
    version_file = folder / "version"
    if not version_file.exists():
        (folder / "archive").mkdir(parents=True, exist_ok=True)
        version_file.write_text(download(package, folder / "archive").version)
    [archive] = (folder / "archive").iterdir()
    return Downloaded(version_file.read_text(), archive)


def _only_match(each: NameList, root: Path, files: list[Path]) -> Path:
    matching = [file for file in files if file.relative_to(root).match(each.files)]
    if len(matching) != 1:
        raise SystemExit(f"{each.title}: {len(matching)} files match {each.files} instead of one")
    return matching[0]


def _report(compared: list[Compared], ignored: list[Ignored]) -> int:
    PAGE.write_text(to_page(compared, ignored, datetime.now(UTC).date().isoformat()))
    unknown = [(each, literal) for each in compared for literal in each.unknown]
    empty = [each.names.title for each in compared if not (each.known or each.ignored or each.unknown)]
    stale = find_stale(compared, ignored)
    for each, literal in unknown:
        print(f"unknown: {literal.name}\t{each.names.title}\t{each.version}\t{literal.place}")
    for title in empty:
        print(f"no names: {title}: the package has another form now")
    for name in stale:
        print(f"ignored without need: {name}")
    print(f"wrote {PAGE.name}: {sum(len(each.known) for each in compared)} known, {len(unknown)} unknown")
    return 1 if unknown or empty or stale else 0


if __name__ == "__main__":
    sys.exit(main())
