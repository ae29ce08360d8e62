"""The npm packages of package.json, which the Makefile installs where npm is."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NODE_MODULES = ROOT / "node_modules"


def require_node_packages() -> None:
    """Skip the test without node; without the packages too, unless CI is set."""
    if shutil.which("npm") is None:
        pytest.skip("node is not installed")
    pinned, installed = ROOT / "package.json", NODE_MODULES / "package.json"
    if not (installed.exists() and installed.read_bytes() == pinned.read_bytes()):
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse("the packages of package.json are not installed: make node_modules/package.json")
