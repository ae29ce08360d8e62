"""Exactly the packages of a server are pinned."""

import subprocess
import sys

import pytest

from tests.pinned_imports import REQUIREMENTS, names


@pytest.mark.slow
def test_a_server_needs_no_other_packages() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.pinned_imports"],
        cwd=REQUIREMENTS.parent,
        capture_output=True,
        text=True,
    )

    assert ran.returncode == 0, ran.stderr


def test_a_server_has_no_packages_for_builds_and_tests() -> None:
    """httpx is among the unused packages: there is one HTTP client, httpx2."""
    others = names("build") | names("unused") | {"faker", "httpcore"}

    assert {"hatchling", "httpx", "polyfactory"} <= others
    assert names("server") & others == set()
