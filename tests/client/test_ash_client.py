"""`ash_client` against a real server: every method, retries that store once, and streams that lose their connection."""

import ast
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import httpx2
import pytest

import ash_client
from ash_client import ApiError, AshClient, AsyncAshClient, Retry, requests
from ash_client.errors import OTHER_VERSION, answer_error
from ash_client.own_writes import OwnWrites
from ash_client.requests import check_version
from ash_client.retry import Attempts
from ash_client.server_events import ServerEvent, ServerEventParser
from ash_shared.model.health import API_VERSION, Health
from ash_shared.model.pages import AppendedMessage
from tools import generate_sync_client

USER = '{"type":"user","uuid":"u1","message":{"role":"user","content":"Which tests fail?"}}'
ANSWER = '{"type":"assistant","uuid":"a1","message":{"role":"assistant","content":"Two\u2028do."}}'
NO_WAIT = Retry(seconds=0)


@pytest.fixture
def ash(server: str) -> Iterator[AshClient]:
    with AshClient(server) as client:
        yield client


@pytest.fixture
async def async_ash(server: str) -> AsyncIterator[AsyncAshClient]:
    async with AsyncAshClient(server) as client:
        yield client


def test_uses_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except for servers on this machine."""
    asked: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:  # named by the library
            asked.append(self.path)
            self.send_error(502)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{running.server_port}")
        for url in ("https://ash.invalid", f"https://127.0.0.1:{running.server_port}"):
            with AshClient(url, retry=NO_WAIT) as client, pytest.raises(ApiError):
                client.health()
        running.shutdown()

    assert asked == ["ash.invalid:443"]


def test_imports_no_server() -> None:
    folder = Path(ash_client.__file__).parent
    imported = {
        node.module or ""
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
    }

    assert [name for name in imported if name.startswith("ash_server")] == []


@pytest.mark.slow
async def test_commits_messages_with_metadata(ash: AshClient, async_ash: AsyncAshClient) -> None:
    session = ash.create_session(metadata={"team": "a", "old": 1})
    first = ash.commit(session.id, [{"content": USER}], metadata={"n": 1, "old": None}, expected_sequence=0)
    again = ash.commit(session.id, [{"content": USER}], metadata={"n": 7}, expected_sequence=0)
    with pytest.raises(ApiError) as error:
        await async_ash.commit(session.id, [{"content": ANSWER}], metadata={"n": 9}, expected_sequence=0)
    await async_ash.commit(session.id, metadata={"n": 2}, expected_sequence=1)
    mixed = await async_ash.commit(
        session.id, [{"content": USER}, {"content": "x" * 900_000}], metadata={"n": 8}, expected_sequence=1
    )
    await async_ash.commit(session.id, [{"content": "x" * 2_000_000}])

    assert [(each.sequence, each.created) for each in (*first, *again, *mixed)] == [
        *[(1, True), (1, False)],
        *[(1, False), (2, True)],
    ]
    assert (error.value.code, error.value.problem["currentSequence"]) == ("sequence_mismatch", 1)
    stored = ash.get_session(session.id)
    assert (stored.metadata, stored.message_count) == ({"team": "a", "n": 2}, 3)


async def test_deletes_session_that_has_not_grown(ash: AshClient, async_ash: AsyncAshClient) -> None:
    session = ash.create_session()
    ash.append(session.id, [USER, ANSWER])
    with pytest.raises(ApiError) as error:
        ash.delete_session(session.id, expected_sequence=1)
    await async_ash.delete_session(session.id, expected_sequence=2)

    assert (error.value.code, error.value.problem["currentSequence"]) == ("sequence_mismatch", 2)
    assert [each async for each in async_ash.sessions()] == []


async def test_compares_texts_with_stored_ones(ash: AshClient, async_ash: AsyncAshClient) -> None:
    session = ash.create_session()
    ash.append(session.id, [{"id": "a", "content": USER}, {"id": "b", "content": ANSWER}])
    digests = {"a": USER.encode(), "none": b"", "b": b"other"}
    compared = ash.compare_messages(session.id, digests)

    assert compared == await async_ash.compare_messages(session.id, digests)
    assert compared.different is not None
    assert (compared.equal, compared.different.id, compared.different.content) == (["a"], "b", ANSWER)


MISSPELLED: Any = {"ofset": 1}
UNKNOWN_ARGUMENTS: dict[str, Callable[[AshClient], object]] = {
    "list_sessions": lambda ash: ash.list_sessions(**MISSPELLED),
    "create_session": lambda ash: ash.create_session(**MISSPELLED),
    "update_session": lambda ash: ash.update_session("s", **MISSPELLED),
    "update_labels": lambda ash: ash.update_labels("s", **MISSPELLED),
    "list_messages": lambda ash: ash.list_messages("s", **MISSPELLED),
    "list_events": lambda ash: ash.list_events("s", **MISSPELLED),
    "search": lambda ash: ash.search("a", **MISSPELLED),
}


@pytest.mark.parametrize("name", UNKNOWN_ARGUMENTS)
def test_unknown_arguments_are_errors(name: str) -> None:
    """The server ignores parameters that it does not know."""
    with (
        AshClient("http://127.0.0.1:1", retry=NO_WAIT) as ash,
        pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'ofset'"),
    ):
        UNKNOWN_ARGUMENTS[name](ash)


def test_bodies_of_appends_are_json() -> None:
    texts = ["", '\0\x1f\x7f"\\\u2028é😀', USER]
    messages: list[Any] = [{"content": text, "id": str(index)} for index, text in enumerate(texts)]
    metadata = {"a": [None, 1.5, 2**70, "é"], "b": {}}
    append = requests.append_batch("session", messages).body
    commits = [requests.commit("session", messages[:end], metadata, 3).body for end in (0, 3)]

    assert json.loads(append or b"") == messages
    assert [json.loads(body or b"") for body in commits] == [
        {"messages": messages[:end], "expectedSequence": 3, "metadata": metadata} for end in (0, 3)
    ]
    undecodable: Any = [{"content": b"\xff".decode(errors="surrogateescape"), "id": "0"}]
    assert b"\xff" in (requests.append_batch("session", undecodable).body or b"")
    with pytest.raises(UnicodeEncodeError):
        requests.append_batch("session", [{"content": "\ud83d", "id": "0"}])


def test_synchronous_client_is_current() -> None:
    assert generate_sync_client.TARGET.read_text() == generate_sync_client.generate(), "run `make client`"


@pytest.mark.slow
def test_stores_reads_searches_and_deletes(ash: AshClient) -> None:
    session = ash.create_session(source="claude", external_id="run-7", title="Tests")
    appended = ash.append(session.id, [USER, {"content": ANSWER}, b"plain words"])

    assert [each.sequence for each in appended] == [1, 2, 3]
    assert [each.id for each in ash.sessions(q="run-7")] == [session.id]
    assert ash.get_session(session.id).message_count == 3
    assert [each.content for each in ash.messages(session.id)] == [USER, ANSWER, "plain words"]
    assert [each.type for each in next(ash.messages(session.id, after=1)).parsed or ()] == ["text"]
    assert ash.list_messages(session.id, limit=1, parsed=False).next_after == 1
    assert b"".join(ash.export(session.id)).decode() == f"{USER}\n{ANSWER}\nplain words\n"
    assert [each.session_id for each in ash.search("fail", place="said").results] == [session.id]
    assert [each.type for each in ash.events(session.id)][:2] == ["turn_start", "user_message"]
    assert ash.update_session(session.id, title="Two tests").title == "Two tests"
    labels = ash.update_labels(session.id, starred=True, add_tags=["flaky"], note="why").labels
    assert labels is not None
    assert labels.model_dump() == {"starred": True, "archived": False, "tags": ["flaky"], "note": "why"}
    assert [each.name for each in ash.list_tags().tags] == ["flaky"]
    filters: list[Any] = [{"tag": "flaky"}, {"starred": True}, {"archived": "only"}]
    several = [{"source": ["codex", "claude"]}, {"source": ("codex", "pi")}, {"source": []}]
    assert [len(ash.list_sessions(**each).sessions) for each in filters + several] == [1, 1, 0, 1, 0, 1]
    ash.end_session(session.id)
    ash.delete_message(session.id, 2)
    ash.delete_message(session.id, 2)
    assert [getattr(ash.pop_message(session.id), "content", None) for _ in range(3)] == [
        "plain words",
        USER,
        None,
    ]
    with pytest.raises(ApiError) as error:
        ash.delete_message(session.id, 4)
    assert error.value.code == "message_not_found"
    ash.delete_session(session.id)
    with pytest.raises(ApiError) as error:
        ash.get_session(session.id)
    assert (error.value.status, error.value.code) == (404, "session_not_found")


async def test_async_client_stores_reads_and_follows(async_ash: AsyncAshClient) -> None:
    session = await async_ash.create_session(external_id="run-8")
    await async_ash.append(session.id, [USER, ANSWER], source="claude")

    assert [each.content async for each in async_ash.messages(session.id)] == [USER, ANSWER]
    stored = [each.sequence async for each in async_ash.events(session.id)]
    followed = []
    async for event in async_ash.follow(session.id):
        followed.append(event.sequence)
        if len(followed) == len(stored):
            break
    assert followed == stored
    assert b"".join([each async for each in async_ash.export(session.id)]).decode() == f"{USER}\n{ANSWER}\n"
    await async_ash.delete_message(session.id, 2)
    popped = await async_ash.pop_message(session.id)
    assert popped is not None
    assert (popped.content, await async_ash.pop_message(session.id)) == (USER, None)


def test_long_messages_are_sent_alone(ash: AshClient) -> None:
    session = ash.create_session()
    texts = ["a", "b" * 2_000_000, "c"]

    assert [each.sequence for each in ash.append(session.id, texts)] == [1, 2, 3]
    assert [each.content for each in ash.messages(session.id)] == texts


@pytest.mark.slow
def test_equal_texts_are_stored_each_time_and_equal_records_once(ash: AshClient) -> None:
    session = ash.create_session()
    for _ in range(2):
        ash.append(session.id, ["again", USER])

    assert [each.content for each in ash.messages(session.id)] == ["again", USER, "again"]


def test_refused_message_has_its_index(ash: AshClient) -> None:
    with pytest.raises(ApiError) as error:
        ash.append(ash.create_session().id, ["a", "b\0"])

    assert (error.value.status, error.value.code, error.value.index) == (422, "nul_byte", 1)


def test_address_and_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with recording_server() as (url, requests):
        monkeypatch.setenv("ASH_URL", url + "/")
        monkeypatch.setenv("ASH_KEY", "ash_secret")
        with AshClient.from_env() as client:
            assert client.health() == Health(status="ok", version="9", api=API_VERSION)

    assert [headers["Authorization"] for headers in requests] == ["Bearer ash_secret"]


async def test_default_address_has_the_port_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASH_URL", raising=False)
    urls = []
    for port in ("4207", ""):
        monkeypatch.setenv("ASH_PORT", port)
        with AshClient.from_env() as client:
            async with AsyncAshClient.from_env() as async_client:
                urls += [client.url, async_client.url]
    monkeypatch.setenv("ASH_PORT", "4207/x")
    with pytest.raises(ApiError, match="ASH_PORT must be a number from 0 to 65535"):
        AshClient.from_env()
    monkeypatch.setenv("ASH_URL", "https://ash.example")
    with AshClient.from_env() as client:
        urls.append(client.url)

    assert urls == [
        *["http://127.0.0.1:4207"] * 2,
        *["http://127.0.0.1:4100"] * 2,
        "https://ash.example",
    ]


@pytest.mark.parametrize("url", ["127.0.0.1:4100", "ftp://ash", "http://"])
def test_address_that_is_none(url: str) -> None:
    with pytest.raises(ApiError, match="is not a server address"):
        AshClient(url)


@pytest.mark.parametrize(("api", "age"), [(API_VERSION - 1, "older"), (API_VERSION + 1, "newer")])
def test_server_of_another_version(api: int, age: str) -> None:
    with pytest.raises(ApiError, match=f"the server is {age} than this program") as error:
        check_version(Health(status="ok", version="0.9", api=api))

    assert error.value.code == OTHER_VERSION


async def test_answer_of_another_version_is_explained() -> None:
    """A server without the route, or with another form of answer, is asked for its version."""
    with recording_server(health=Health(status="ok", version="9", api=API_VERSION + 1)) as (url, _):
        with AshClient(url) as client, pytest.raises(ApiError) as error:
            client.list_sessions()
        async with AsyncAshClient(url) as other:
            with pytest.raises(ApiError) as same:
                await other.list_sessions()
    with recording_server() as (url, _), AshClient(url) as client, pytest.raises(ApiError) as unexplained:
        client.list_sessions()

    assert [each.value.code for each in (error, same, unexplained)] == [
        "other_version",
        "other_version",
        "not_ash",
    ]


def test_unavailable_server_is_reported() -> None:
    with AshClient("http://127.0.0.1:9", retry=NO_WAIT) as client, pytest.raises(ApiError) as error:
        client.health()

    assert (error.value.code, error.value.status) == ("no_answer", None)
    assert str(error.value).startswith("http://127.0.0.1:9 does not answer: ")


@pytest.mark.slow
def test_lost_answers_are_asked_for_again_and_nothing_is_stored_twice(ash: AshClient) -> None:
    session = ash.create_session()
    failures: list[str] = []
    with proxy(ash.url, loses=lambda number: number < 3) as url:
        retry = Retry(on_failure=lambda error: failures.append(error.code))
        with AshClient(url, retry=retry) as client:
            appended = client.append(session.id, ["a", "b"])

    assert failures == ["no_answer"] * 3
    assert [each.sequence for each in appended] == [1, 2]
    assert [each.content for each in ash.messages(session.id)] == ["a", "b"]


def test_request_that_creates_twice_is_not_repeated(ash: AshClient) -> None:
    with (
        proxy(ash.url, loses=lambda number: number == 0) as url,
        AshClient(url) as client,
        pytest.raises(ApiError),
    ):
        client.create_session(title="one")

    assert len(list(ash.sessions())) == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_temporary_errors_are_retried(status: int) -> None:
    with recording_server([status, status]) as (url, requests), AshClient(url) as client:
        client.health()

    assert len(requests) == 3


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7.0), ("3600", 60.0), (None, 0.1), ("Mon, 23 Nov 2026 08:00:00 GMT", 0.1)]
)
def test_retries_wait_as_long_as_the_server_says(header: str | None, seconds: float) -> None:
    error = answer_error(429, {"Retry-After": header} if header else {}, b'{"code": "rate_limited"}')

    assert Attempts(Retry(seconds=None), is_repeatable=False).delay_after(error) == seconds


def test_unconfirmed_writes_are_repeated_if_that_changes_nothing() -> None:
    """Repeating a `pop` that the server may have executed would delete another message."""
    outcomes = []
    for code, is_repeatable in product(("database_unavailable", "write_unconfirmed"), (True, False)):
        error = answer_error(503, {}, f'{{"code": "{code}"}}'.encode())
        try:
            Attempts(Retry(seconds=None), is_repeatable=is_repeatable).delay_after(error)
            outcomes.append((code, is_repeatable, "repeated"))
        except ApiError:
            outcomes.append((code, is_repeatable, "raised"))

    assert outcomes == [
        ("database_unavailable", True, "repeated"),
        ("database_unavailable", False, "repeated"),
        ("write_unconfirmed", True, "repeated"),
        ("write_unconfirmed", False, "raised"),
    ]


@pytest.mark.slow
def test_follow_resumes_after_every_lost_connection(ash: AshClient) -> None:
    """The proxy cuts each stream after some bytes, also within an event."""
    session = ash.create_session()
    ash.append(session.id, [f"line {number}" for number in range(40)])
    stored = [each.sequence for each in ash.events(session.id)]
    connections: list[int] = []

    def cuts(number: int) -> int:
        connections.append(number)
        return 500 + 900 * number

    with proxy(ash.url, cuts=cuts) as url, AshClient(url) as client:
        followed = client.follow(session.id)
        sequences = [next(followed).sequence for _ in stored]
        ash.append(session.id, ["after"])
        last = next(followed).sequence

    assert sequences == stored
    assert last == len(stored) + 1
    assert len(connections) > 3


@pytest.mark.slow
def test_follow_ends_with_the_session(ash: AshClient) -> None:
    session = ash.create_session()
    ash.append(session.id, ["one"])
    followed = ash.follow(session.id)
    next(followed)
    ash.delete_session(session.id)

    with pytest.raises(ApiError) as error:
        list(followed)
    assert error.value.code == "session_not_found"


def test_server_events_in_any_chunks() -> None:
    raw = 'id: 1\nevent: raw\ndata: {"a":"\u2028é\r"}\n\n'
    stream = f"retry: 1\n\n{raw}:\n\nevent: closed\ndata: {{}}\n\nid: 2\nda".encode()
    expected = [ServerEvent(1, "raw", '{"a":"\u2028é\r"}'), ServerEvent(None, "closed", "{}")]
    for size in range(1, len(stream)):
        parser = ServerEventParser()
        chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert [event for chunk in chunks for event in parser.feed(chunk)] == expected


@contextmanager
def recording_server(
    statuses: list[int] | None = None,
    health: Health = Health(status="ok", version="9", api=API_VERSION),  # noqa: B008  # immutable
) -> Iterator[tuple[str, list[Any]]]:
    """A server that answers with these statuses, then as a healthy one; and the headers of the requests."""
    remaining, requests = list(statuses or []), list[Any]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.headers)
            status = remaining.pop(0) if remaining else 200
            body = health.model_dump_json().encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with serving_requests(Handler) as url:
        yield url, requests


@contextmanager
def proxy(
    target: str,
    loses: Callable[[int], bool] = lambda _: False,
    cuts: Callable[[int], int | None] = lambda _: None,
    sees: Callable[[str], object] = lambda _: None,
) -> Iterator[str]:
    """Forward requests; close the connection instead of some answers, or after some bytes of a stream."""
    numbers = iter(range(1000))

    class Handler(BaseHTTPRequestHandler):
        def forward(self) -> None:
            number = next(numbers)
            sees(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            limit = cuts(number)
            with (
                httpx2.Client() as client,
                client.stream(
                    self.command, target + self.path, content=body, headers=forwarded(self.headers)
                ) as answer,
            ):
                if loses(number):
                    answer.read()
                    return
                self.send_response(answer.status_code)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                self.end_headers()
                for chunk in answer.iter_raw():
                    sent = chunk if limit is None else chunk[:limit]
                    self.wfile.write(sent)
                    self.wfile.flush()
                    if limit is not None and (limit := limit - len(sent)) <= 0:
                        return

        do_GET = do_POST = forward  # noqa: N815  # names of the library

        def log_message(self, *_: object) -> None:
            pass

    with serving_requests(Handler) as url:
        yield url


def forwarded(headers: Any) -> dict[str, str]:
    names = ("content-type", "accept", "authorization")
    return {name: value for name, value in headers.items() if name.lower() in names}


@contextmanager
def serving_requests(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """The client has closed the connection."""

    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_requests_name_what_the_client_has_written(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("ash_client.own_writes.time.monotonic", lambda: now)
    written = OwnWrites()

    def append(session: str, *sequences: int) -> None:
        appended = [AppendedMessage(id=str(each), sequence=each, created=True) for each in sequences]
        written.add(requests.append_batch(session, []), appended)

    def sent() -> list[str | None]:
        reads = (
            requests.list_messages("a"),
            requests.get_session("b"),
            requests.search("x"),
            requests.end_session("a"),
        )
        return [written.headers(request).get("Ash-Sequence") for request in reads]

    before = sent()
    append("a", 4, 5)
    append("a", 2)  # it was stored before
    written.add(requests.compare_messages("a", {}), None)
    appended = sent()
    written.add(requests.update_session("b"), None)
    changed = sent()
    now += 60
    later = sent()
    written.add(requests.delete_session("a", None), None)
    now += 60

    assert (before, appended, changed, later, sent()) == (
        [None, None, None, None],
        ["messages=5", None, "current", None],
        ["current", "current", "current", None],
        ["messages=5", None, None, None],
        [None, None, None, None],
    )
