"""The running turn as chunks of Vercel's AI SDK, read as text and by its own client on node (package `ai`)."""

import json
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ash_server.app import create_app
from ash_server.store.log import subscriptions
from ash_shared import to_ui_messages
from ash_shared.eventlog import Normalizer, parse_line
from tests.marking import slow_unless
from tests.node_packages import require_node_packages
from tests.server.api.conftest import Access, served
from tests.shared.logs import context
from tests.shared.records.events import wire_event
from tests.shared.sample_files import CORPUS
from tests.waiting import TIMEOUT, wait_until

CLIENT = Path(__file__).parent / "ai_sdk.mjs"
NDJSON = {"Content-Type": "application/x-ndjson"}
PACKAGE = resources.files("ash_server")
RECORDING = (PACKAGE / "recordings" / "kite-wind.jsonl").read_text().splitlines()
MAX_TRANSCRIPT = 1_000_000


@pytest.fixture(scope="session")
def ai_sdk() -> Path:
    """The script that uses the npm package `ai`."""
    require_node_packages()
    return CLIENT


class Follower:
    """A chat of the AI SDK that resumes the stream of a session."""

    def __init__(self, script: Path, address: str, key: str = "") -> None:
        command = ["node", str(script), "follow", address, key]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self.response = json.loads(self._output.readline())

    def result(self) -> Any:
        with self._process:
            return json.loads(self._output.read())


FOLLOWED = {"status": 200, "header": "v1"}


@pytest.fixture
def base(shared_server: str) -> str:
    """The address of a new session."""
    id = httpx2.post(f"{shared_server}/api/sessions", json={}).json()["id"]
    return f"{shared_server}/api/sessions/{id}"


def post(base: str, *events: Any) -> None:
    httpx2.post(f"{base}/events", json=events).raise_for_status()


def post_lines(base: str, lines: Iterable[str]) -> None:
    body = "\n".join(lines).encode()
    httpx2.post(f"{base}/chunks?end=false", content=body, headers=NDJSON).raise_for_status()


def projected(base: str, **headers: str) -> Any:
    response = httpx2.get(f"{base}/projections/ui-messages", headers=headers)
    return response.raise_for_status().json()["messages"]


event = partial(wire_event, timestamp=7, turnId="t1")

PROMPT = event("user_message", text="Which tests fail?", id="p")
START = event("turn_start", trigger="user", id="s")
TEXT = {"type": "text-start", "id": "text-1"}
COMMENT = ":"


@contextmanager
def stream(base: str, **headers: str) -> Iterator[Iterator[str]]:
    """Open the stream and yield its messages as text, without the comments sent while nothing happens."""
    with httpx2.stream("GET", f"{base}/ui-stream", headers=headers) as response:
        assert response.status_code == 200
        yield messages_of(response)


def messages_of(response: httpx2.Response) -> Iterator[str]:
    return filter(COMMENT.__ne__, texts_of(response))


def texts_of(response: httpx2.Response) -> Iterator[str]:
    """Yield messages and comments."""
    text = ""
    for piece in response.iter_text():
        *whole, text = (text + piece).split("\n\n")
        yield from whole


def types_until(messages: Iterator[str], last: str) -> list[str]:
    """Return the types of the chunks up to one of this type; other messages as they are."""
    types = []
    for message in messages:
        data = message.removeprefix("data: ")
        types.append(json.loads(data)["type"] if data.startswith("{") else message)
        if types[-1] == last:
            break
    return types


# --- The client


@pytest.mark.slow
def test_client_follows_a_recorded_session(ai_sdk: Path, base: str) -> None:
    """The messages equal the projection's, from wherever the client joins."""
    start = next(number for number, line in enumerate(RECORDING) if "content_block_delta" in line)
    middle = len(RECORDING) // 2
    post_lines(base, RECORDING[:start])
    first = Follower(ai_sdk, base)
    post_lines(base, RECORDING[start:middle])
    second = Follower(ai_sdk, base)
    for number in range(middle, len(RECORDING), 7):
        post_lines(base, RECORDING[number : number + 7])
    httpx2.post(f"{base}/end").raise_for_status()

    results = [first.result(), second.result()]
    after = Follower(ai_sdk, base)

    messages = projected(base)
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert any(part.get("state") == "output-available" for part in messages[1]["parts"])
    assert (first.response, second.response) == (FOLLOWED, FOLLOWED)
    for result in results:
        assert {**result, "data": None} == {
            "messages": messages,
            "status": "ready",
            "error": None,
            "data": None,
        }
    assert after.response == {"status": 204, "header": None}
    assert after.result() == {"messages": messages, "status": "ready", "error": None, "data": []}


@pytest.mark.slow
def test_client_follows_prompts_of_a_turn(ai_sdk: Path, base: str) -> None:
    post(base, START, PROMPT, event("assistant_chunk", text="a"))
    follower = Follower(ai_sdk, base)
    call = event("tool_call", toolCallId="c1", toolName="sh", args={"command": "ls"})
    post(base, event("assistant_done", text="a"), {**PROMPT, "id": "q"}, event("thinking_chunk", text="Hm"))
    post(
        base, event("thinking_done", text="Hm."), call, event("tool_output_chunk", toolCallId="c1", chunk="x")
    )
    result = event("tool_result", toolCallId="c1", result=None, structured=[1], error="no", exitCode=1)
    post(base, event("error", code="a", message="b"), result, event("turn_end", partial=True))

    followed = follower.result()
    assert (followed["messages"], followed["error"]) == (projected(base), None)
    assert [message["id"] for message in followed["messages"]] == ["p", "p-answer", "q", "q-answer"]
    assert followed["data"] == [
        "data-message", "data-message", "data-tool_output_chunk", "data-error", "data-tool_result"
    ]  # fmt: skip


@pytest.mark.slow
def test_client_with_a_key(ai_sdk: Path, keyed_access: Access) -> None:
    app = create_app(keyed_access.settings, database_url=keyed_access.database_url)
    with served(app) as server, httpx2.Client(headers=keyed_access.headers) as client:
        base = f"{server}/api/sessions/{client.post(f'{server}/api/sessions', json={}).json()['id']}"
        client.post(f"{base}/events", json=[START, PROMPT, event("assistant_chunk", text="Only ")])
        follower = Follower(ai_sdk, base, keyed_access.headers["Authorization"].removeprefix("Bearer "))
        client.post(f"{base}/events", json=[event("assistant_done", text="Only one."), event("turn_end")])

        result = follower.result()
        assert (result["messages"], result["status"]) == (projected(base, **keyed_access.headers), "ready")


def rejected(script: Path, lists: dict[str, Any]) -> dict[str, str]:
    """Return the errors of the lists of messages that the AI SDK rejects."""
    lines = "".join(f"{json.dumps(messages)}\n" for messages in lists.values())
    ran = subprocess.run(
        ["node", script, "validate"], input=lines, capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    errors = map(json.loads, ran.stdout.splitlines())
    return {name: error for name, error in zip(lists, errors, strict=True) if error is not None}


def messages_of_lines(text: str) -> list[Any]:
    normalizer = Normalizer()
    lines = enumerate(filter(str.strip, text.splitlines()))
    events = [each for number, line in lines for each in normalizer.follow(parse_line(line), context(number))]
    return to_ui_messages([*events, *normalizer.close(context("end"))])


@pytest.mark.slow
def test_validation_accepts_samples(ai_sdk: Path) -> None:
    files = [path for folder in ("samples", "recordings") for path in (PACKAGE / folder).iterdir()]
    lists = {path.name: messages_of_lines(path.read_text()) for path in files}

    assert all(lists.values())
    assert rejected(ai_sdk, lists) == {}
    assert rejected(ai_sdk, {"unknown": [{"id": "a", "role": "user", "parts": [{"type": "unknown"}]}]}) != {}


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="no ../shared/corpus next to the repository")
def test_validation_accepts_the_corpus(ai_sdk: Path) -> None:
    files = [path for folder in CORPUS.glob("*/") for path in sorted(folder.rglob("*.json*"))[:40]]
    texts = {str(path): path.read_text() for path in files if path.stat().st_size < MAX_TRANSCRIPT}
    lists = {name: messages_of_lines(text) for name, text in texts.items()}

    assert rejected(ai_sdk, {name: messages for name, messages in lists.items() if messages}) == {}


# --- The stream


def test_stream_format(base: str) -> None:
    post(base, START, PROMPT, event("assistant_chunk", text="é"))
    with httpx2.stream("GET", f"{base}/ui-stream") as response:
        messages = messages_of(response)
        received = [next(messages) for _ in range(5)]
        post(base, event("assistant_done", text="é."), event("turn_end", costUsd=0.5))
        received += messages

    sent = [
        {
            "type": "data-message",
            "id": "p",
            "data": {
                "id": "p",
                "role": "user",
                "metadata": {"createdAt": 7, "turnId": "t1"},
                "parts": [{"type": "text", "text": "Which tests fail?"}],
            },
            "transient": True,
        },
        {"type": "start", "messageId": "p-answer", "messageMetadata": {"createdAt": 7, "turnId": "t1"}},
        {"type": "start-step"},
        TEXT,
        {"type": "text-delta", "id": "text-1", "delta": "é"},
        {"type": "text-delta", "id": "text-1", "delta": "."},
        {"type": "text-end", "id": "text-1"},
        {"type": "finish-step"},
        {"type": "finish", "messageMetadata": {"finishedAt": 7, "costUsd": 0.5}},
    ]
    lines = [json.dumps(chunk, separators=(",", ":")) for chunk in sent]
    assert received == [f"data: {line}" for line in [*lines, "[DONE]"]]
    expected = {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store, private",
        "x-accel-buffering": "no",
        "x-vercel-ai-ui-message-stream": "v1",
    }
    assert expected.items() <= dict(response.headers).items()


ANSWER = [
    '{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"None."}}]}',
    '{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
]


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        ([], []),
        ([event("note", text="a")], []),
        ([START, PROMPT, event("turn_end")], []),
        ([START, PROMPT, event("interrupt", reason="user_cancel")], []),
        ([event("error", code="a", message="b")], []),
        ([], ANSWER),
    ],
)
def test_nothing_runs(base: str, events: list[Any], lines: list[str]) -> None:
    if events:
        post(base, *events)
    if lines:
        post_lines(base, lines)

    response = httpx2.get(f"{base}/ui-stream")

    assert (response.status_code, response.content) == (204, b"")


@pytest.mark.parametrize("marks", [[], ["turn_start"], ["turn_start", "turn_end"]])
def test_turn_without_a_mark(base: str, marks: list[str]) -> None:
    """A turn may begin with its id."""
    payload = {"trigger": "user"}
    earlier = [wire_event(mark, **(payload if mark == "turn_start" else {}), turnId="t0") for mark in marks]
    post(base, *earlier[:1], {**PROMPT, "id": "q", "turnId": "t0"}, *earlier[1:], PROMPT)
    post(base, event("assistant_chunk", text="a"))

    with stream(base) as messages:
        assert json.loads(next(messages).removeprefix("data: "))["id"] == "p"
        post(base, event("turn_end"))
        assert types_until(messages, "data: [DONE]")[-2:] == ["finish", "data: [DONE]"]


def test_end_of_another_turn(base: str) -> None:
    post(base, START, PROMPT, {**event("turn_end"), "turnId": "t0"}, event("assistant_chunk", text="a"))

    with stream(base) as messages:
        assert types_until(messages, "text-delta") == [
            "data-message", "start", "start-step", "text-start", "text-delta"
        ]  # fmt: skip


def test_stream_ends_with_a_complete_answer(base: str) -> None:
    """The end of the turn is stored later: usage may follow."""
    post_lines(base, ANSWER[:1])
    with stream(base) as messages:
        types_until(messages, "text-delta")
        post_lines(base, ANSWER[1:])
        assert types_until(messages, "data: [DONE]")[-3:] == ["finish-step", "finish", "data: [DONE]"]


def test_stream_ends_with_an_interrupt(base: str) -> None:
    post(base, START, PROMPT, event("assistant_chunk", text="a"))
    with stream(base) as messages:
        types_until(messages, "text-delta")
        post(base, event("interrupt", reason="user_cancel"))
        assert types_until(messages, "data: [DONE]") == [
            "data-interrupt", "text-end", "finish-step", "finish", "data: [DONE]"
        ]  # fmt: skip


def test_retraction_of_what_was_sent(base: str) -> None:
    post(base, START, PROMPT, event("assistant_chunk", text="a"))
    with stream(base) as messages:
        types_until(messages, "text-delta")
        post(base, event("retraction", eventIds=["p"]))
        assert types_until(messages, "data: [DONE]") == ["error", "data: [DONE]"]


@pytest.mark.parametrize("heartbeat_seconds", slow_unless((0.001).__eq__, [15.0, 0.001]))
def test_deletion_of_the_session(
    base: str, monkeypatch: pytest.MonkeyPatch, heartbeat_seconds: float
) -> None:
    monkeypatch.setattr(subscriptions, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(subscriptions, "HEARTBEAT_SECONDS", heartbeat_seconds)
    post(base, START, PROMPT)
    with stream(base) as messages:
        types_until(messages, "data-message")
        httpx2.delete(base).raise_for_status()
        assert types_until(messages, "data: [DONE]")[-2:] == ["error", "data: [DONE]"]
    assert httpx2.get(f"{base}/ui-stream").json()["code"] == "session_not_found"


def test_comments_while_nothing_happens(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "HEARTBEAT_SECONDS", 0.05)
    post(base, START, PROMPT)
    with httpx2.stream("GET", f"{base}/ui-stream") as response:
        texts = texts_of(response)
        assert next(texts) != COMMENT
        assert [next(texts), next(texts)] == [COMMENT, COMMENT]


def test_turn_that_is_too_large(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ash_server.api.streams.ui_stream.MAX_BYTES", 1000)
    post(base, START, PROMPT, event("thinking_done", text="x" * 1000))

    response = httpx2.get(f"{base}/ui-stream")

    assert (response.status_code, response.json()["code"]) == (422, "session_too_large")


def test_long_texts(base: str) -> None:
    text = "é" * 300_000
    post(base, START, PROMPT, event("assistant_done", text=text))
    with stream(base) as messages:
        types_until(messages, "text-start")
        assert json.loads(next(messages).removeprefix("data: "))["delta"] == text


@pytest.mark.slow
def test_counts_as_an_open_stream(base: str) -> None:
    def has_open(number: int) -> bool:
        server = base.partition("/api/")[0]
        return f'ash_streams_open{{to="events"}} {number}' in httpx2.get(f"{server}/metrics").text

    wait_until(lambda: has_open(0))
    post(base, START, PROMPT)
    with stream(base):
        wait_until(lambda: has_open(1))
    wait_until(lambda: has_open(0))
