"""Subscribing with server-sent events and WebSockets, on real connections."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib import resources
from pathlib import Path
from socket import create_connection
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from ash_server.api.streams.events_websocket import Frame
from ash_server.store.log import subscriptions
from ash_server.store.log.events import StoredEvent
from ash_server.store.log.stored_json import encode_whole
from ash_server.store.log.writer import derive
from ash_shared import transform_messages
from ash_shared.eventlog import Normalizer, parse_line
from tests.marking import slow_after, slow_unless
from tests.shared.records import claude
from tests.shared.records.events import wire_event
from tests.shared.sample_files import CORPUS, spread
from tests.waiting import TIMEOUT

TRANSCRIPTS = ("agent_sdk_stream", "claude_code_jsonl", "claude_stream_json")
MAX_TRANSCRIPT = 300_000

EVIL = "https://evil.example"

LINES = [
    '{"type":"user","uuid":"u1","message":{"role":"user","content":"How many?"}}',
    '{"type":"assistant","uuid":"u2","message":{"id":"msg_1","role":"assistant","content":'
    '[{"type":"tool_use","id":"call_1","name":"count","input":{}}]}}',
    '{"type":"user","uuid":"u3","message":{"role":"user","content":'
    '[{"type":"tool_result","tool_use_id":"call_1","content":"3"}]}}',
    '{"type":"assistant","uuid":"u4","message":{"id":"msg_2","role":"assistant","content":'
    '[{"type":"text","text":"Three."}],"stop_reason":"end_turn"}}',
]
CHUNKS = [
    '{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"Thr"}}]}',
    '{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"ee."}}]}',
    '{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
]


SAMPLES = {
    path.name: path.read_text().splitlines()
    for folder in ("samples", "recordings")
    for path in (resources.files("ash_server") / folder).iterdir()
}
"""The lines of the sample sessions; the recording is a stream with partial messages."""


def make_event(type: str, **payload: Any) -> dict[str, Any]:
    return wire_event(type, **payload, id=f"{type}-{uuid4()}", timestamp=1, turnId="t")


POSTED = [
    make_event("turn_start", trigger="user"),
    make_event("user_message", text="How many?"),
    make_event("thinking_done", text="Count.", responseId="r1"),
    make_event("tool_call", toolCallId="call_1", toolName="count", args={}, responseId="r1"),
    make_event("tool_result", toolCallId="call_1", result="3"),
    make_event("assistant_done", text="Three.", responseId="r2"),
    make_event("turn_end"),
]


@pytest.fixture
def session_id(shared_server: str) -> str:
    return str(httpx2.post(f"{shared_server}/api/sessions", json={}).json()["id"])


@pytest.fixture
def base(shared_server: str, session_id: str) -> str:
    return f"{shared_server}/api/sessions/{session_id}"


def post(base: str, *events: dict[str, Any]) -> None:
    httpx2.post(f"{base}/events", json=list(events)).raise_for_status()


def post_lines(base: str, *lines: str, end: bool = True) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    address = f"{base}/chunks?end={json.dumps(end)}"
    httpx2.post(address, content="\n".join(lines).encode(), headers=headers).raise_for_status()


@contextmanager
def stream(base: str, query: str = "", **headers: str) -> Iterator[Iterator[str]]:
    """Open the stream and yield its events as text."""
    with httpx2.stream("GET", f"{base}/events/stream?{query}", headers=headers) as response:
        response.raise_for_status()
        yield events_of(response)


def events_of(response: httpx2.Response) -> Iterator[str]:
    text = ""
    for piece in response.iter_text():
        text += piece
        *whole, text = text.split("\n\n")
        yield from whole


def until(events: Iterator[str], last: str) -> list[str]:
    received = []
    for event in events:
        received.append(event)
        if last in event:
            break
    return received


@contextmanager
def socket(base: str, query: str = "", **headers: str) -> Iterator[ClientConnection]:
    url = f"ws{base.removeprefix('http')}/events/ws?{query}"
    with connect(url, additional_headers=headers, max_size=None, open_timeout=TIMEOUT) as connected:
        yield connected


def frames(connected: ClientConnection, last: str) -> list[dict[str, Any]]:
    """Receive frames up to one of this type, validating each."""
    received: list[dict[str, Any]] = []
    while not received or not received[-1]["type"].endswith(last):
        frame = connected.recv(timeout=TIMEOUT)
        assert json.loads(Frame.model_validate_json(frame).model_dump_json()) == json.loads(frame)
        received.append(json.loads(frame))
    return received


def whole_events(session_id: str, *texts: str) -> list[StoredEvent]:
    """Return the events of these texts as they are when nothing refers to the text of a message."""
    normalizer, id = Normalizer(), UUID(session_id)
    prepared = [
        (each, encode_whole(each.event).json)
        for sequence, text in enumerate(texts, 1)
        for each in derive(normalizer, id, sequence, parse_line(text), 0)
    ]
    return [
        StoredEvent(sequence, each.event["type"], each.message_sequence, content.encode())
        for sequence, (each, content) in enumerate(prepared, 1)
    ]


@pytest.mark.slow
def test_all_routes_return_events_in_full(base: str, session_id: str) -> None:
    """Every route fills in the values that a row of the table leaves to the text of its message."""
    printed = 'näive "quotes"\n' * 200
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": printed}
    line = claude.line("user", [result], uuid="u3", toolUseResult={"stdout": printed})
    large = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    timed = [f'{{"timestamp":"2026-03-02T09:00:00.000Z",{each[1:]}' for each in (*LINES[:2], large, LINES[3])]
    post_lines(base, *timed, end=False)
    expected = whole_events(session_id, *timed)
    wires = [event.wire() for event in expected]

    listed = httpx2.get(f"{base}/events").text
    exported = httpx2.get(f"{base}/export?format=events").content
    with stream(base) as events:
        sent = until(events, "event: caught_up")
    with socket(base) as connected:
        received = [connected.recv(timeout=TIMEOUT) for _ in wires]

    assert listed == f'{{"events":[{",".join(wires)}]}}'
    assert exported == b"".join(event.content + b"\n" for event in expected)
    assert [each.partition("data: ")[2] for each in sent[1:-1]] == wires
    assert received == [f'{{"type":"event","data":{wire}}}' for wire in wires]


# --- Server-sent events


def test_stream_format(base: str, session_id: str) -> None:
    types = ["assistant_chunk", "two\r\nlines\t", "caught_up", "closed", "é"]
    post(base, *(wire_event(type, text="a", id=type, timestamp=1) for type in types))

    with httpx2.stream("GET", f"{base}/events/stream") as response:
        received = until(events_of(response), "event: caught_up")

    def data(sequence: int) -> str:
        type = types[sequence - 1]
        event = {"sequence": sequence, "timestamp": 1, "id": type, "type": type, "payload": {"text": "a"}}
        whole = {**event, "sessionId": session_id}
        return json.dumps(whole, separators=(",", ":"), ensure_ascii=False)

    assert received == [
        "retry: 1000",
        f"id: 1\nevent: assistant_chunk\ndata: {data(1)}",
        f"id: 2\nevent: two  lines \ndata: {data(2)}",
        f"id: 3\ndata: {data(3)}",
        f"id: 4\ndata: {data(4)}",
        f"id: 5\nevent: é\ndata: {data(5)}",
        'event: caught_up\ndata: {"sequence":5}',
    ]
    expected = {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store, private",
        "x-accel-buffering": "no",
    }
    assert expected.items() <= dict(response.headers).items()


@pytest.mark.parametrize(
    ("query", "headers", "ids"),
    [
        ("", {}, [1, 2, 3, 4]),
        ("after=2", {}, [3, 4]),
        ("after=4", {}, []),
        ("after=1", {"Last-Event-ID": "3"}, [4]),
        ("after=3", {"Last-Event-ID": "0"}, [1, 2, 3, 4]),
        ("after=3", {"Last-Event-ID": ""}, [4]),
        ("collapse=true", {}, [3, 4]),
        ("collapse=false", {}, [1, 2, 3, 4]),
    ],
)
def test_start_cursor(base: str, query: str, headers: dict[str, str], ids: list[int]) -> None:
    post(
        base,
        *(make_event("assistant_chunk", text=text) for text in "ab"),
        make_event("assistant_done", text="ab"),
    )
    post(base, make_event("assistant_chunk", text="c"))

    with stream(base, query, **headers) as events:
        received = until(events, "caught_up")

    assert [int(event.split("\n")[0].removeprefix("id: ")) for event in received if "id: " in event] == ids
    assert received[-1] == 'event: caught_up\ndata: {"sequence":4}'


def test_new_events_are_sent(base: str) -> None:
    with stream(base, "collapse=true") as events:
        assert until(events, "caught_up")[1:] == ['event: caught_up\ndata: {"sequence":0}']
        for number, event in enumerate(
            [make_event("assistant_chunk", text="a"), make_event("assistant_done", text="a")], 1
        ):
            post(base, event)
            assert next(events).startswith(f"id: {number}\nevent: {event['type']}\n")


def test_heartbeats_without_events(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "HEARTBEAT_SECONDS", 0.05)
    with stream(base) as events:
        assert [next(events) for _ in range(4)][1:] == ['event: caught_up\ndata: {"sequence":0}', ":", ":"]


def test_nothing_is_sent_between_heartbeats(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "IDLE_SECONDS", 0.001)
    with stream(base) as events:
        until(events, "caught_up")
        post(base, make_event("summary", text="a"))
        assert next(events).startswith("id: 1\nevent: summary\n")


def test_events_larger_than_a_chunk(base: str) -> None:
    text = "é" * 300_000
    post(base, make_event("summary", text=text), make_event("summary", text="b"))

    with stream(base) as events:
        received = until(events, "caught_up")

    first, second = (json.loads(event.split("data: ")[1]) for event in received[1:3])
    assert (first["payload"]["text"] == text, second["payload"]["text"]) == (True, "b")


# --- Rejected requests


REFUSED = [
    ("after=5", {}, 409, "cursor_ahead"),
    ("after=-1", {}, 400, "invalid_parameter"),
    ("after=x", {}, 400, "invalid_parameter"),
    ("after=", {}, 400, "invalid_parameter"),
    ("after=1_0", {}, 400, "invalid_parameter"),
    ("after=9999999999999999", {}, 400, "invalid_parameter"),
    ("after=0&after=0", {}, 400, "invalid_parameter"),
    ("other=1", {}, 400, "invalid_parameter"),
    ("after=%zz", {}, 400, "invalid_parameter"),
    ("", {"Origin": EVIL}, 403, "origin_not_allowed"),
    ("", {"Origin": "null"}, 403, "origin_not_allowed"),
]


@pytest.mark.parametrize(
    ("query", "headers", "status", "code"),
    [
        *REFUSED,
        ("", {"Last-Event-ID": "5"}, 409, "cursor_ahead"),
        ("", {"Last-Event-ID": "-1"}, 400, "invalid_parameter"),
        ("", {"Last-Event-ID": "e7"}, 400, "invalid_parameter"),
        ("", {"Last-Event-ID": "1.0"}, 400, "invalid_parameter"),
        ("", {"Last-Event-ID": "9999999999999999"}, 400, "invalid_parameter"),
        ("", {"Host": "evil.example"}, 421, "host_not_allowed"),
        ("collapse=1", {}, 400, "invalid_parameter"),
    ],
)
def test_rejects_invalid_stream_requests(
    base: str, query: str, headers: dict[str, str], status: int, code: str
) -> None:
    response = httpx2.get(f"{base}/events/stream?{query}", headers=headers)

    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"


def test_rejects_a_repeated_cursor(base: str) -> None:
    headers = [("Last-Event-ID", "0"), ("Last-Event-ID", "0")]

    assert httpx2.get(f"{base}/events/stream", headers=headers).status_code == 400


@pytest.mark.parametrize(("query", "headers", "status", "code"), REFUSED)
def test_rejects_invalid_upgrades(
    base: str, query: str, headers: dict[str, str], status: int, code: str
) -> None:
    with pytest.raises(InvalidStatus) as refused, socket(base, query, **headers):
        pass

    response = refused.value.response
    assert (response.status_code, json.loads(response.body)["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-content-type-options"] == "nosniff"


def test_rejects_upgrades_for_another_host(base: str) -> None:
    there = urlsplit(base)
    url = base.replace(there.netloc, f"evil.example:{there.port}").replace("http", "ws", 1)

    with pytest.raises(InvalidStatus) as refused:
        connect(f"{url}/events/ws", sock=create_connection((there.hostname or "", there.port or 0))).close()

    assert refused.value.response.status_code == 421


def test_unknown_session(shared_server: str) -> None:
    base = f"{shared_server}/api/sessions/{uuid4()}"

    with pytest.raises(InvalidStatus) as refused, socket(base):
        pass

    assert refused.value.response.status_code == httpx2.get(f"{base}/events/stream").status_code == 404


@pytest.mark.parametrize(
    "path", ["/api/sessions/none", "/api/sessions/0199f3a2-7c1e-7b3a-9d55", "/api/nothing", ""]
)
def test_upgrades_of_unknown_paths(shared_server: str, path: str) -> None:
    with pytest.raises(InvalidStatus) as refused, socket(f"{shared_server}{path}"):
        pass

    response = refused.value.response
    assert (response.status_code, json.loads(response.body)["code"]) == (404, "not_found")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("origin", ["http://localhost:5173", "http://127.0.0.1"])
def test_local_origins_are_allowed(base: str, origin: str) -> None:
    with socket(base, Origin=origin) as connected, stream(base, Origin=origin) as events:
        assert frames(connected, "caught_up") == [{"type": "caught_up", "data": {"sequence": 0}}]
        assert until(events, "caught_up")


def test_without_an_upgrade(base: str) -> None:
    response = httpx2.get(f"{base}/events/ws?after=0")

    assert (response.status_code, response.json()["code"]) == (426, "upgrade_required")


# --- WebSocket


def test_event_frames_equal_listed_events(base: str) -> None:
    post(base, *POSTED[:3])
    with socket(base, "after=1") as connected:
        received = frames(connected, "caught_up")
        post(base, POSTED[3])
        received += frames(connected, "event")

    listed = httpx2.get(f"{base}/events?after=1").json()["events"]
    assert [frame["data"] for frame in received if frame["type"] == "event"] == listed
    assert received[2] == {"type": "caught_up", "data": {"sequence": 3}}


def conversation(messages: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(message["role"], message["content"]) for message in messages]


CONVERSATION: list[tuple[str, list[dict[str, Any]]]] = [
    ("user", [{"type": "text", "text": "How many?"}]),
    ("assistant", [{"type": "tool_use", "id": "call_1", "name": "count", "input": {}}]),
    ("user", [{"type": "tool_result", "tool_use_id": "call_1", "content": "3"}]),
    ("assistant", [{"type": "text", "text": "Three."}]),
]


def test_topics_of_stored_lines(base: str, session_id: str) -> None:
    post_lines(base, *LINES)  # an earlier turn
    with socket(base) as connected:
        stored_frames = frames(connected, "caught_up")
        new = []
        for number, line in enumerate(LINES):
            again = line.replace('"uuid":"u', '"uuid":"v').replace("msg_", "msg_2")
            post_lines(base, again, end=number == len(LINES) - 1)
            new += frames(connected, "stream_output")
        new += frames(connected, "message_complete")

    stored = httpx2.get(f"{base}/standard-messages").json()["messages"]
    complete = {"type": f"session.{session_id}.message_complete", "data": {"messages": stored[:4]}}
    assert complete in stored_frames
    assert conversation(stored[:4]) == CONVERSATION
    assert all("stream_output" not in frame["type"] for frame in stored_frames)
    output = [frame["data"]["messages"] for frame in new if frame["type"].endswith("stream_output")]
    assert [message for messages in output for message in messages] == stored[4:]
    assert new[-1] == {**complete, "data": {"messages": stored[4:]}}


def follow(base: str, lines: list[str], per_request: int = 2) -> list[dict[str, Any]]:
    """Write lines in small requests and return the frames that a subscriber receives."""
    headers = {"Content-Type": "application/x-ndjson"}
    with socket(base) as connected, httpx2.Client(base_url=base, headers=headers) as client:
        frames(connected, "caught_up")
        for first in range(0, len(lines), per_request):
            body = "\n".join(lines[first : first + per_request]).encode()
            client.post("messages", content=body).raise_for_status()
        client.post("end").raise_for_status()
        received = list[dict[str, Any]]()
        for marker in ("one", "two"):  # the output of the last events precedes the second one
            post(base, wire_event(marker, id=marker))
            received += frames_until(connected, marker)
    return received


def frames_until(connected: ClientConnection, event: str) -> list[dict[str, Any]]:
    received = list[dict[str, Any]]()
    while not received or received[-1]["data"].get("id") != event:
        received.append(json.loads(connected.recv(timeout=TIMEOUT)))
    return received


def sums(messages: list[dict[str, Any]]) -> tuple[set[str], Counter[str], Counter[str]]:
    """Ids, texts and usage of messages; some may be parts of the same message."""
    texts = Counter(
        block[block["type"]]
        for message in messages
        for block in message["content"]
        if block["type"] in ("text", "thinking")
    )
    counts = [message.get("usage", {}).items() for message in messages]
    usage = Counter[str]()
    for name, count in (item for items in counts for item in items if isinstance(item[1], int)):
        usage[name] += count
    return {message["id"] for message in messages}, texts, usage


def output_of(received: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a reader's messages of `stream_output`, joined from their parts."""
    output = list[dict[str, Any]]()
    for frame in received:
        if frame["type"].endswith("stream_output"):
            replaced = frame["data"].get("replaced", [])
            output = [each for each in output if each["id"] not in replaced] + frame["data"]["messages"]
    return output


def added_up(received: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the messages that a reader assembles from `stream_output`, by id."""
    messages = dict[str, dict[str, Any]]()
    for frame in received:
        if frame["type"].endswith("stream_output"):
            for id in frame["data"].get("replaced", []):
                del messages[id]
            for each in frame["data"]["messages"]:
                earlier = messages.get(each["id"], {})
                lists = {name: earlier.get(name, []) + each[name] for name in ("content", "_original")}
                messages[each["id"]] = earlier | each | lists
    return messages


def originals_of(base: str) -> list[dict[str, Any]]:
    messages, after = list[dict[str, Any]](), 0
    while after is not None:
        page = httpx2.get(f"{base}/standard-messages?limit=1000&after={after}").json()
        messages += page["messages"]
        after = page.get("nextAfter")
    return [message for message in messages if "shadowOf" not in message["metadata"]]


@pytest.mark.parametrize("name", slow_after(4, SAMPLES))
def test_topics_add_up_to_the_standard_messages(base: str, name: str) -> None:
    received = follow(base, SAMPLES[name])

    complete = [frame["data"] for frame in received if frame["type"].endswith("message_complete")]
    turns = [message for data in complete for message in data["messages"]]
    whole = [json.loads(each.model_dump_json()) for each in transform_messages(SAMPLES[name])]
    originals = [message for message in whole if "shadowOf" not in message["metadata"]]
    assert added_up(received) == {message["id"]: message for message in originals}
    assert turns == [message for message in originals if message in turns]
    assert sums(turns)[2] == sums(originals)[2]


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="no ../shared/corpus next to the repository")
@pytest.mark.parametrize("folder", TRANSCRIPTS)
def test_output_of_transcripts_adds_up(shared_server: str, folder: str) -> None:
    def adds_up(file: Path) -> bool:
        lines = file.read_text(errors="replace").replace("\0", "").splitlines()
        created = httpx2.post(f"{shared_server}/api/sessions", json={}).json()
        base = f"{shared_server}/api/sessions/{created['id']}"
        received = follow(base, lines, per_request=max(2, len(lines) // 6))
        return sums(output_of(received)) == sums(originals_of(base))

    paths = sorted((CORPUS / folder).glob("*.jsonl"))
    files = spread([each for each in paths if each.stat().st_size < MAX_TRANSCRIPT])
    with ThreadPoolExecutor(4) as pool:
        differing = [
            file.name for file, is_equal in zip(files, pool.map(adds_up, files), strict=True) if not is_equal
        ]

    assert differing == []


GROWING = [
    LINES[0],
    '{"type":"assistant","uuid":"u2","message":{"id":"msg_1","role":"assistant","content":'
    '[{"type":"text","text":"Let me see."}],"usage":{"input_tokens":9,"output_tokens":1}}}',
    '{"type":"assistant","uuid":"u3","message":{"id":"msg_1","role":"assistant","content":'
    '[{"type":"tool_use","id":"call_1","name":"count","input":{}}],"usage":{"input_tokens":9,"output_tokens":5}}}',
    '{"type":"result","subtype":"success","result":"Let me see.","usage":{"input_tokens":90,"output_tokens":50}}',
]
PARTS = [
    ("u1", ["text"], None),
    ("u2", ["text"], None),
    ("u2", ["tool_use"], None),
    ("u2", [], 5),
]


@pytest.mark.slow
def test_subscribers_receive_the_additions_since_they_came(base: str) -> None:
    """The output is computed once for all subscribers."""
    received: list[list[tuple[str, list[str], int | None]]] = []
    with ExitStack() as stack:
        sockets = list[ClientConnection]()
        for line in GROWING:
            sockets += [stack.enter_context(socket(base)) for _ in range(2)]
            for connected in sockets[-2:]:
                frames(connected, "caught_up")
            post_lines(base, line, end=False)
        received = [
            [
                (
                    each["id"],
                    [block["type"] for block in each["content"]],
                    each.get("usage", {}).get("output_tokens"),
                )
                for each in output_of(frames(connected, "message_complete"))
            ]
            for connected in sockets
        ]

    assert received == [PARTS[place // 2 :] for place in range(len(sockets))]


def test_subscriber_after_a_turn_receives_nothing_of_it(base: str) -> None:
    post_lines(base, *GROWING)
    with socket(base) as connected:
        frames(connected, "caught_up")
        post_lines(base, LINES[0].replace("u1", "u9"), end=False)

        assert [each["id"] for each in output_of(frames(connected, "stream_output"))] == ["u9"]


def test_topics_of_posted_events(base: str) -> None:
    with socket(base) as connected:
        frames(connected, "caught_up")
        post(base, *POSTED)
        received = frames(connected, "message_complete")

    prompt, (_, call), *rest = CONVERSATION
    whole = [prompt, ("assistant", [{"type": "thinking", "thinking": "Count."}, *call]), *rest]
    assert conversation(received[-1]["data"]["messages"]) == whole
    assert received[-2]["data"] == received[-1]["data"]
    assert [each["id"] for message in received[-1]["data"]["messages"] for each in message["_original"]] == [
        event["id"] for event in POSTED[1:-1]
    ]


def test_topics_of_events_with_unusual_values(base: str) -> None:
    call = make_event("tool_call", toolCallId="c", toolName="n", args="{no json")
    result = make_event("tool_result", toolCallId="c", result=None, error={"code": "x", "message": "y"})
    double_text = make_event("user_message", text="a", content=[{"type": "text", "text": "b"}])
    with socket(base) as connected:
        frames(connected, "caught_up")
        post(base, call, result, double_text, make_event("turn_end"))
        received = frames(connected, "stream_output")[-1]["data"]["messages"]

    blocks = [message["content"][0] for message in received]
    assert blocks == [
        {"type": "tool_use", "id": "c", "name": "n", "input": "{no json"},
        {"type": "tool_result", "tool_use_id": "c", "content": None, "is_error": True},
        {"type": "text", "text": "a"},
    ]


def test_topics_of_stream_chunks(base: str) -> None:
    with socket(base) as connected:
        frames(connected, "caught_up")
        httpx2.post(f"{base}/messages", json={"content": '{"role":"user","content":"How many?"}'})
        post_lines(base, *CHUNKS)
        received = frames(connected, "message_complete")

    assert conversation(received[-1]["data"]["messages"]) == [CONVERSATION[0], CONVERSATION[3]]


@pytest.mark.parametrize("lines_per_message", slow_unless((4).__eq__, [1, 4]))
def test_turn_too_long_for_one_frame(base: str, lines_per_message: int) -> None:
    """No message is split between the frame and the rest."""
    long = [
        LINES[3]
        .replace("Three.", f"{n}" * 100_000)
        .replace("u4", f"w{n}")
        .replace("msg_2", f"m{n // lines_per_message}")
        for n in range(20)
    ]
    post_lines(base, LINES[0], *long)

    with socket(base) as connected:
        data = frames(connected, "message_complete")[-1]["data"]

    rest = httpx2.get(f"{base}/standard-messages?after={data['nextAfter']}").json()["messages"]
    whole = [json.loads(each.model_dump_json()) for each in transform_messages([LINES[0], *long])]
    assert data["messages"] + rest == whole
    assert 1 < len(data["messages"]) < len(whole)


def exchange_frames(connected: ClientConnection, sent: list[str | bytes]) -> None:
    for frame in sent:
        connected.send(frame)
    while True:
        connected.recv(timeout=TIMEOUT)


@pytest.mark.parametrize(
    ("sent", "code"), [([b"a"], 1003), (["a" * 2000], 1009), (["a"] * 100, 1008), ([""] * 100, 1008)]
)
def test_closes_on_unexpected_client_frames(base: str, sent: list[str | bytes], code: int) -> None:
    with socket(base) as connected, pytest.raises(ConnectionClosed) as closed:
        exchange_frames(connected, sent)

    assert closed.value.rcvd
    assert closed.value.rcvd.code == code


def test_accepts_pings_and_few_frames(base: str) -> None:
    with socket(base) as connected:
        connected.send("hello")
        assert connected.ping().wait(TIMEOUT)
        post(base, make_event("summary", text="a"))
        assert frames(connected, "event")[-1]["data"]["sequence"] == 1
