"""The built packages are complete, and the parser needs nothing but its own requirements."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from venv import EnvBuilder
from zipfile import ZipFile

import pytest

from tests.marking import slow_unless
from tests.server.cli.test_push_command import TRANSCRIPT, said, write

ROOT = Path(__file__).parents[1]
PARSER = ROOT / "packages" / "ash-parser"
LIBRARY = ("ash_client", "ash_shared", "ash_stores")
CONTENTS = {
    "ash-messages": (ROOT, (*LIBRARY, "ash_server", "alembic")),
    "ash-parser": (PARSER, LIBRARY),
}
"""The folders of the repository in each package."""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that builds the wheel of a project."""

    @cache
    def build(project: Path) -> Path:
        folder = tmp_path_factory.mktemp("wheel")
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
        options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
        subprocess.run([*pip, *options, str(project)], check=True, capture_output=True)
        return next(folder.glob("*.whl"))

    return build


@pytest.mark.parametrize("name", slow_unless("ash-parser".__eq__, CONTENTS))
def test_wheel_has_every_file(name: str, build: Callable[[Path], Path]) -> None:
    project, folders = CONTENTS[name]

    with ZipFile(build(project)) as wheel:
        packed = {file for file in wheel.namelist() if ".dist-info/" not in file}

    files = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    renamed = {file.replace("alembic/", "ash_server/_alembic/", 1) for file in files}
    assert packed - {"ash_shared/LICENSE"} == renamed


@pytest.mark.slow
def test_parser_reads_with_its_requirements_alone(tmp_path: Path, build: Callable[[Path], Path]) -> None:
    """Importing a package of the server fails."""
    wheel = build(PARSER)
    (example, output) = re.findall(r"```(?:python)?\n(.*?)```", (PARSER / "README.md").read_text(), re.DOTALL)
    program = f"""
import sys
from importlib.abc import MetaPathFinder

SERVER = {{"alembic", "httpx2", "litestar", "psycopg", "rich", "sqlalchemy", "structlog", "uvicorn", "zstandard"}}

class Hidden(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in SERVER:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
sys.path.insert(0, {str(wheel)!r})
{example}
import ash_shared
print(ash_shared.__file__)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True
    )

    assert ran.stdout == f"{output}{wheel}/ash_shared/__init__.py\n"


def test_packages_have_one_version_and_the_same_requirements() -> None:
    messages, parser = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in (ROOT, PARSER)
    )

    assert messages["version"] == parser["version"]
    needed = {*parser["dependencies"], *parser["optional-dependencies"]["client"]}
    assert needed <= {*messages["dependencies"]}


class Installation:
    """An environment with Ash, and the home of its user, in folders with spaces and without a network."""

    def __init__(self, folder: Path) -> None:
        self._environment = folder / "my programs"
        self.home = folder / "my home"
        EnvBuilder(symlinks=True).create(self._environment)
        # The requirements of the tests; the package of the clone is in none of their folders.
        self._packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(self._environment)}))
        (self._packages / "requirements.pth").write_text(sysconfig.get_path("purelib"))
        self._variables = {
            "PATH": os.defpath,
            "HOME": str(self.home),
            "PIP_NO_INDEX": "1",
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9"),
        }

    def pip(self, *arguments: str | Path) -> None:
        python = self._environment / "bin/python"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *map(str, arguments)], env=self._variables, check=True, capture_output=True)

    def install(self, wheel: Path) -> None:
        """Install a wheel without compiling it: most of its modules are never imported here."""
        self.pip("install", "--no-deps", "--no-compile", wheel)

    def ash(self, *arguments: str) -> str:
        command = [str(self._environment / "bin/ash"), *arguments]
        ran = subprocess.run(
            command, cwd=self.home, env=self._variables, check=True, capture_output=True, text=True
        )
        return ran.stdout

    def files(self) -> list[str]:
        return [path.name for path in self._packages.glob("*ash*")]


@pytest.mark.slow
def test_an_installed_wheel_needs_no_clone_and_no_network(
    tmp_path: Path, build: Callable[[Path], Path]
) -> None:
    """Another version continues with the same store, which remains without any."""
    installation = Installation(tmp_path)
    home = installation.home
    write(home / TRANSCRIPT, said(1, "Open the shop."))
    wheel = build(ROOT)
    installation.install(wheel)
    assert "1 new" in installation.ash("import", "--all")
    assert "Open the shop." in installation.ash("sessions")
    write(home / TRANSCRIPT, said(1, "Open the shop."), said(2, "Close it."))

    installation.install(as_version("99.0.0", wheel, tmp_path))
    assert installation.ash("--version") == "ash, version 99.0.0\n"
    assert "1 new, 1 already there" in installation.ash("import", "--all")

    installation.pip("uninstall", "--yes", "ash-messages")
    assert installation.files() == []
    assert (home / ".ash/postgres/PG_VERSION").exists()


def as_version(version: str, wheel: Path, folder: Path) -> Path:
    """Return a copy of a wheel with another version."""
    name, old, tags = wheel.name.split("-", 2)
    copy = folder / f"{name}-{version}-{tags}"
    with ZipFile(wheel) as source, ZipFile(copy, "w") as target:
        for file in source.namelist():
            data = source.read(file)
            if file.endswith(("/METADATA", "/RECORD")):
                data = data.replace(f"Version: {old}".encode(), f"Version: {version}".encode())
                data = data.replace(f"{name}-{old}.".encode(), f"{name}-{version}.".encode())
            target.writestr(file.replace(f"{name}-{old}.", f"{name}-{version}."), data)
    return copy
