"""Agents continue the sessions that Ash writes for them, with a scripted model on this machine.

Each test is skipped unless its program is installed; Claude Code is part of the development environment.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from ash_shared.projections.native import WRITERS, NewTranscript, carry
from tests.server.transfer.test_native_sessions import event

pytestmark = pytest.mark.slow

LOG = [
    event("turn_start", trigger="user"),
    event("user_message", text="FIRST-PROMPT"),
    event("assistant_done", text="FIRST-ANSWER"),
    event("tool_call", toolCallId="c1", toolName="Bash", args={"command": "FIRST-CALL"}),
    event("tool_result", toolCallId="c1", result="FIRST-RESULT"),
    event("assistant_done", text="LAST-ANSWER"),
    event("turn_end"),
]
SAID = ["FIRST-PROMPT", "FIRST-ANSWER", "FIRST-CALL", "FIRST-RESULT", "LAST-ANSWER", "NEXT-PROMPT"]
ANSWER = "SCRIPTED-ANSWER"


def claude_stream() -> list[dict[str, Any]]:
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
    counts = {"usage": {"input_tokens": 1, "output_tokens": 1}}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        {
            "type": "message_start",
            "message": {**message, "stop_reason": None, "stop_sequence": None, **counts},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


def responses_stream() -> list[dict[str, Any]]:
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [text]}
    counts = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return [
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r1", "output": [item], "usage": counts}},
    ]


def chat_stream() -> list[dict[str, Any]]:
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    said = {"index": 0, "delta": {"role": "assistant", "content": ANSWER}, "finish_reason": None}
    ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return [{**chunk, "choices": [said]}, {**chunk, "choices": [ended]}]


STREAMS: Mapping[str, Callable[[], list[dict[str, Any]]]] = {
    "messages": claude_stream,
    "responses": responses_stream,
    "completions": chat_stream,
}


class Model(NamedTuple):
    url: str
    requests: list[str]


@contextmanager
def scripted_model() -> Iterator[Model]:
    """Answer every request with one text, and keep the bodies."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            requests.append(self.rfile.read(int(self.headers["content-length"])).decode())
            stream = STREAMS.get(self.path.partition("?")[0].rpartition("/")[2])
            events = [] if stream is None else stream()
            lines = [f"event: {each['type']}\n" if "type" in each else "" for each in events]
            texts = [f"{line}data: {json.dumps(each)}\n\n" for line, each in zip(lines, events, strict=True)]
            body = "".join([*texts, "data: [DONE]\n\n"]).encode()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Model(f"http://127.0.0.1:{server.server_port}", requests)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Setup(NamedTuple):
    """How a program is run."""

    home: str
    """The folder of its sessions, below the home of the user."""
    arguments: Callable[[str, str], list[list[str]]]
    """The runs, from the id of the session and the path of the file."""
    settings: Callable[[str], tuple[str, str]]
    """A file below the home of the user, and its text, from the URL of the model."""
    environment: Callable[[str], dict[str, str]] = lambda url: {}


def _codex_settings(url: str) -> tuple[str, str]:
    provider = f'[model_providers.s]\nname = "s"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
    return ".codex/config.toml", f'model = "m"\nmodel_provider = "s"\n{provider}supports_websockets = false\n'


def _opencode_settings(url: str) -> tuple[str, str]:
    options = {"baseURL": f"{url}/v1", "apiKey": "x"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"name": "m"}}}
    settings = {"model": "s/m", "small_model": "s/m", "autoupdate": False, "provider": {"s": provider}}
    return ".config/opencode/opencode.json", json.dumps(settings)


def _pi_settings(url: str) -> tuple[str, str]:
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "x", "models": [{"id": "m"}]}
    return ".pi/agent/models.json", json.dumps({"providers": {"s": provider}})


SETUPS: Mapping[str, Setup] = {
    "claude": Setup(
        ".claude",
        lambda id, path: [["--resume", id, "-p", "NEXT-PROMPT"]],
        lambda url: (".claude.json", json.dumps({"hasCompletedOnboarding": True})),
        lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "x",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    "codex": Setup(
        ".codex",
        lambda id, path: [["exec", "--skip-git-repo-check", "resume", id, "NEXT-PROMPT"]],
        _codex_settings,
    ),
    "opencode": Setup(
        ".",
        lambda id, path: [["import", path], ["run", "--session", id, "--model", "s/m", "NEXT-PROMPT"]],
        _opencode_settings,
        lambda url: {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
    ),
    "pi": Setup(
        ".pi/agent",
        lambda id, path: [["--provider", "s", "--model", "m", "--session", id, "-p", "NEXT-PROMPT"]],
        _pi_settings,
        lambda url: {"PI_OFFLINE": "1"},
    ),
}


def program(agent: str) -> str:
    found = shutil.which(agent)
    spec = find_spec("claude_agent_sdk") if agent == "claude" and found is None else None
    bundled = Path(str(spec.origin)).parent / "_bundled" / "claude" if spec else None
    if found is None and (bundled is None or not bundled.exists()):
        pytest.skip(f"{agent} is not installed")
    return found or str(bundled)


@pytest.mark.parametrize("agent", WRITERS)
def test_continues_the_session(agent: str, tmp_path: Path) -> None:
    executable, setup = program(agent), SETUPS[agent]
    folder = tmp_path / "site"
    folder.mkdir()
    session = NewTranscript(
        UUID("0f3c2b1a-9d8e-4c7b-a6f5-1e2d3c4b5a69"), UUID(int=9), str(folder), 1_795_860_000_000, "Heron"
    )
    native = WRITERS[agent](carry(LOG).items, session)
    path = tmp_path.joinpath(setup.home, *native.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(native.text)
    with scripted_model() as model:
        name, text = setup.settings(model.url)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], **setup.environment(model.url)}
        runs = [
            subprocess.run(
                [executable, *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=True,
            )
            for arguments in setup.arguments(native.id, str(path))
        ]

    asked = [request for request in model.requests if "NEXT-PROMPT" in request and "FIRST-PROMPT" in request]
    places = [asked[0].index(word) for word in SAID]
    assert places == sorted(places)
    assert ANSWER in runs[-1].stdout
