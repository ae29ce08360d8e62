"""The files in examples/, run with their SDK and a fake model, and the pages that show them."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest

from ash_server.store import Store

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
OUTPUT = {
    "claude_agent_session_store.py": ("claude_agent_sdk", "Done.\nWhich tests fail?\n", []),
    "openai_agents_session.py": ("agents", "Done.\nDone.\n4 items\n", [1, 3]),
    "pydantic_ai_conversation_store.py": (
        "pydantic_ai",
        "success (no tool calls)\n" * 2 + "2 of 4 messages\n",
        [],
    ),
}
"""The SDK of each example, its output, and the lengths of the conversations that the fake model receives."""
_AGENTS = ROOT / ".venv-agents" / "bin" / "python"
"""Has openai-agents and the extra `stores` (`make .venv-agents/.agents`)."""

_MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
}
_RESPONSE = {"id": "r", "object": "response", "created_at": 0, "model": "fake", "output": [_MESSAGE]}


class FakeModel(BaseHTTPRequestHandler):
    """Answers each request of the Responses API with `Done.`, and keeps the lengths of the conversations."""

    lengths: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.lengths.append(len(request["input"]))
        body = json.dumps(_RESPONSE).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def python_with(sdk: str) -> str:
    if find_spec(sdk):
        return sys.executable
    if not _AGENTS.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            f"{sdk} is not installed: make {_AGENTS.parts[-3]}/.agents"
        )
    return str(_AGENTS)


@pytest.fixture
def model() -> Iterator[str]:
    FakeModel.lengths.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeModel) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "name",
    # `make test-all` creates the environment of openai-agents.
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "openai_agents_session.py" else name
        for name in OUTPUT
    ],
)
async def test_example_prints(name: str, server: str, model: str, store: Store, tmp_path: Path) -> None:
    sdk, output, lengths = OUTPUT[name]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "AGENT_MODEL": "test",
        "ASH_URL": server,
        "OPENAI_BASE_URL": model,
        "OPENAI_API_KEY": "none",
        "CLAUDE_CLI": str(ROOT / "tests" / "stores" / "fake_claude.py"),
        "CLAUDE_CONFIG_DIR": str(tmp_path),
        "HOME": str(tmp_path),
    }
    run = subprocess.run(  # noqa: ASYNC221  # the server runs in a thread
        [python_with(sdk), EXAMPLES / name], env=environment, cwd=tmp_path, capture_output=True, text=True
    )

    assert (run.stdout, run.stderr, run.returncode) == (output, "", 0)
    assert FakeModel.lengths == lengths
    sessions = (await store.sessions.list_sessions()).sessions
    assert {session.title for session in sessions} == {"Which tests fail?"}


def test_examples_are_short_and_tested() -> None:
    sizes = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}

    assert sizes.keys() == OUTPUT.keys()
    assert max(sizes.values()) < 40


def test_page_names_all_examples() -> None:
    page = (ROOT / "docs" / "integrations.md").read_text()

    assert {*re.findall(r"examples/([a-z_]+\.py)", page)} == OUTPUT.keys()
