"""The files in examples/, run with a fake model, and the page that shows them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ash_server.store import Store

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
OUTPUT = {
    "claude_agent_session_store.py": "Done.\nWhich tests fail?\n",
}
"""What each example prints."""


@pytest.mark.parametrize("name", OUTPUT)
async def test_example_prints(name: str, server: str, store: Store, tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "ASH_URL": server,
        "CLAUDE_CLI": str(ROOT / "tests" / "stores" / "fake_claude.py"),
        "CLAUDE_CONFIG_DIR": str(tmp_path),
        "HOME": str(tmp_path),
    }
    run = subprocess.run(  # noqa: ASYNC221  # the server runs in a thread
        [sys.executable, EXAMPLES / name], env=environment, cwd=tmp_path, capture_output=True, text=True
    )

    assert (run.stdout, run.stderr, run.returncode) == (OUTPUT[name], "", 0)
    [session] = (await store.sessions.list_sessions()).sessions
    assert session.title == "Which tests fail?"


def test_examples_are_short_and_tested() -> None:
    sizes = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}

    assert sizes.keys() == OUTPUT.keys()
    assert max(sizes.values()) < 40


def test_readme_and_page_name_all_examples() -> None:
    for page in ("README.md", "docs/integrations.md"):
        assert {*re.findall(r"examples/([a-z_]+\.py)", (ROOT / page).read_text())} == OUTPUT.keys()
