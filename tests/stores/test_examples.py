"""The files in examples/, run with a fake model, and the pages that show them."""

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

import pytest

from ash_server.store import Store

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
OUTPUT = {
    "claude_agent_session_store.py": ("claude_agent_sdk", "Done.\nWhich tests fail?\n"),
    "openai_agents_session.py": ("agents", "Done.\nDone.\n4 items\n"),
}
"""The SDK of each example, and what it prints."""

_MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
}
_RESPONSE = {"id": "r", "object": "response", "created_at": 0, "model": "fake", "output": [_MESSAGE]}


class FakeModel(BaseHTTPRequestHandler):
    """Answers each request of the Responses API with `Done.`"""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(_RESPONSE).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def model() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeModel) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", OUTPUT)
async def test_example_prints(name: str, server: str, model: str, store: Store, tmp_path: Path) -> None:
    sdk, output = OUTPUT[name]
    if find_spec(sdk) is None:
        pytest.skip(f"{sdk} is not installed")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "ASH_URL": server,
        "OPENAI_BASE_URL": model,
        "OPENAI_API_KEY": "none",
        "CLAUDE_CLI": str(ROOT / "tests" / "stores" / "fake_claude.py"),
        "CLAUDE_CONFIG_DIR": str(tmp_path),
        "HOME": str(tmp_path),
    }
    run = subprocess.run(  # noqa: ASYNC221  # the server runs in a thread
        [sys.executable, EXAMPLES / name], env=environment, cwd=tmp_path, capture_output=True, text=True
    )

    assert (run.stdout, run.stderr, run.returncode) == (output, "", 0)
    [session] = (await store.sessions.list_sessions()).sessions
    assert session.title == "Which tests fail?"


def test_examples_are_short_and_tested() -> None:
    sizes = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}

    assert sizes.keys() == OUTPUT.keys()
    assert max(sizes.values()) < 40


@pytest.mark.parametrize("page", ["README.md", "docs/integrations.md"])
def test_page_names_all_examples(page: str) -> None:
    assert {*re.findall(r"examples/([a-z_]+\.py)", (ROOT / page).read_text())} == OUTPUT.keys()
