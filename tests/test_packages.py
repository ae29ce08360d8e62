"""The built packages are complete, and the parser needs nothing but its own requirements."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest

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


@pytest.mark.parametrize("name", CONTENTS)
def test_wheel_has_every_file(name: str, build: Callable[[Path], Path]) -> None:
    project, folders = CONTENTS[name]

    with ZipFile(build(project)) as wheel:
        packed = {file for file in wheel.namelist() if ".dist-info/" not in file}

    files = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    renamed = {file.replace("alembic/", "ash_server/_alembic/", 1) for file in files}
    assert packed - {"ash_shared/LICENSE"} == renamed


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
