"""docs/adding-an-event-type.md: its four edits, applied to a copy of the project, add an event type."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from os import environ
from pathlib import Path

import pytest

from ash_server.store.connections.pool import direct_url
from tests.viewer.browser import chromium

ROOT = Path(__file__).parents[1]
FENCES = re.findall(
    r"^```(\w*)\n(.*?)^```$",
    (ROOT / "docs" / "adding-an-event-type.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
EDITS = {diff.split("\n", 1)[0].removeprefix("--- "): diff for language, diff in FENCES if language == "diff"}
"""The edits by file."""
SCRIPT, PRINTED = (text for language, text in FENCES if language in ("python", "text"))

COVERAGE = (
    "tests/shared/model/test_event_types.py",
    "tests/server/test_event_type_coverage.py",
    "tests/viewer/test_painted_event_types.py",
    "tests/test_events_page.py",
)
CAUGHT_BY = {
    "ash_shared/model/events.py": "tests/shared/model/test_event_types.py",
    "ash_shared/model/event_types.py": "tests/shared/model/test_event_types.py",
    "ash_server/viewer/render/painters.js": "tests/viewer/test_painted_event_types.py",
    "docs/events.md": "tests/test_events_page.py",
}
"""The tests that fail without an edit."""
_WRITE_OPENAPI = (
    "from pathlib import Path; from ash_server.app import openapi_json; "
    "Path('openapi/openapi.json').write_text(openapi_json())"
)


def copy_with(edits: Iterable[str], folder: Path) -> None:
    """Copy the project and apply the edits of these files."""
    for name in ("ash_shared", "ash_server", "docs", "openapi", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("screenshots"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for file in edits:
        text = (folder / file).read_text(encoding="utf-8")
        for hunk in EDITS[file].split("@@\n")[1:]:
            lines = hunk.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if line[0] != "+")
            assert text.count(before) == 1, (file, before)
            text = text.replace(before, "".join(line[1:] for line in lines))
        (folder / file).write_text(text, encoding="utf-8")


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the packages of this folder."""
    variables = {name: value for name, value in environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env={**variables, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_four_places() -> None:
    assert len(EDITS) == 4
    assert EDITS.keys() == CAUGHT_BY.keys()


@pytest.mark.slow
def test_example_prints_the_shown_output(tmp_path: Path, database_url: str) -> None:
    copy_with(EDITS, tmp_path)

    done = run(tmp_path, "-c", SCRIPT, direct_url(database_url))

    assert (done.stdout, done.stderr) == (PRINTED, "")


@pytest.mark.slow
def test_coverage_passes_with_all_edits(tmp_path: Path) -> None:
    copy_with(EDITS, tmp_path)
    run(tmp_path, "-c", _WRITE_OPENAPI).check_returncode()

    done = run_tests(tmp_path, *COVERAGE, marks="" if chromium() else "not browser")

    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("omitted", ["ash_shared/model/events.py", "ash_shared/model/event_types.py"])
def test_coverage_fails_without_the_model_or_its_row(tmp_path: Path, omitted: str) -> None:
    copy_with([file for file in EDITS if file != omitted], tmp_path)

    done = run_tests(tmp_path, CAUGHT_BY[omitted], "--exitfirst", "--noconftest", marks="not browser")

    assert done.returncode != 0
    assert "hook_output" in done.stdout or "HookOutputEvent" in done.stdout


@pytest.mark.slow
def test_coverage_fails_without_the_painter_and_without_the_description(tmp_path: Path) -> None:
    omitted = ("ash_server/viewer/render/painters.js", "docs/events.md")
    copy_with([file for file in EDITS if file not in omitted], tmp_path)

    done = run_tests(tmp_path, *(CAUGHT_BY[file] for file in omitted), marks="not browser")

    assert set(re.findall(r"^FAILED ([^:]+)", done.stdout, re.MULTILINE)) == {
        CAUGHT_BY[file] for file in omitted
    }
    assert "hook_output" in done.stdout


def run_tests(folder: Path, *arguments: str, marks: str) -> subprocess.CompletedProcess[str]:
    options = ("-q", "-p", "no:cacheprovider", "-m", marks, "-k", "not declarations")
    return run(folder, "-m", "pytest", *options, *arguments)
