"""`ash forward`: the spans of a store at a backend, each once, also after a crash."""

import gzip
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
import rich_click as click
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ash_client import AshClient
from ash_server.app import create_app
from ash_server.cli.forward.backend import Backend, BackendAnswer, BackendRefuses, BackendUnavailable
from ash_server.cli.forward.destination import Destination, read_destination
from ash_server.cli.forward.forwarder import MAX_SPANS, batches, complete_spans
from ash_server.settings import Settings
from ash_shared import to_otlp, transform_messages
from tests.client.test_ash_client import serving_requests
from tests.cluster import not_on_cluster
from tests.conftest import at_database, new_database
from tests.marking import slow_after
from tests.server.api.conftest import served
from tests.server.cli.test_cli import COMMAND, Ran, environment, ran_here
from tests.shared.records import claude
from tests.waiting import TIMEOUT

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
KEY = "Bearer key-of-the-backend"


def line(number: int, role: str, *blocks: dict[str, Any]) -> str:
    time = f"2026-11-02T09:00:{number:02}Z"
    answer = {"id": f"m{number}", "model": "claude-opus-4-5", "stop_reason": "end_turn"}
    message = answer if role == "assistant" else None
    return json.dumps(claude.line(role, list(blocks), message, uuid=f"u{number}", timestamp=time)) + "\n"


CALL = claude.call("c1", "Bash", command="pytest")
RESULT = claude.tool_result("c1", "1 failed")
TURN = (
    line(1, "user", claude.text(f"Which tests fail with {TOKEN}?"))
    + line(2, "assistant", claude.text("Let me see."), CALL)
    + line(3, "user", RESULT)
    + line(4, "assistant", claude.text("One."))
)
SPANS_OF_TURN = 4


class Request(NamedTuple):
    headers: Any
    spans: list[Any]


class Recording:
    """A backend that answers with these statuses, then accepts everything."""

    def __init__(self, *statuses: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.requests: list[Request] = []
        self.accepted: list[str] = []
        self.statuses, self.headers, self.body = list(statuses), headers or {}, body

    @contextmanager
    def serve(self) -> Iterator[str]:
        backend = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                parsed = ExportTraceServiceRequest.FromString(gzip.decompress(body))
                spans = [*parsed.resource_spans[0].scope_spans[0].spans]
                backend.requests.append(Request(self.headers, spans))
                status = backend.statuses.pop(0) if backend.statuses else 200
                answer = backend.body if status == 200 else b'{"message": "Not now."}'
                if status == 200:
                    backend.accepted += [span.span_id.hex() for span in spans]
                self.send_response(status)
                for name, value in {} if status == 200 else backend.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        with serving_requests(Handler) as url:
            yield url


Forward = Callable[..., Ran]


@pytest.fixture
def ash(tmp_path: Path, database_url: str) -> Forward:
    """Run `ash` with a transcript of a turn in its folder."""
    (tmp_path / "home").mkdir()
    (tmp_path / "turn.jsonl").write_text(TURN)

    def run(*arguments: str, **variables: str) -> Ran:
        return ran_here(arguments, environment(tmp_path, database_url, variables), tmp_path)

    assert run("import", "turn.jsonl", "--as", "turn").code == 0
    return run


@pytest.fixture
def other_database_url(server_url: str, template: str) -> Iterator[str]:
    with new_database(server_url, f"TEMPLATE {template} STRATEGY FILE_COPY") as name:
        yield at_database(server_url, name)


def texts(request: Request) -> str:
    return "\n".join(str(span) for span in request.spans)


@pytest.mark.slow
@not_on_cluster("it is one database")
def test_a_session_arrives_at_another_ash_once(ash: Forward, tmp_path: Path, other_database_url: str) -> None:
    with served(create_app(Settings(), database_url=other_database_url)) as url, AshClient(url) as other:
        first = ash("forward", url, "--once", "--idle", "0")
        again = ash("forward", url, "--once", "--idle", "0")
        (tmp_path / "turn.jsonl").write_text(
            TURN + line(5, "user", claude.text("Why?")) + line(6, "assistant", claude.text("A path."))
        )
        ash("import", "turn.jsonl", "--as", "turn")
        grown = ash("forward", url, "--once", "--idle", "0")
        uncompressed = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
        restarted = ash("forward", url, "--once", "--idle", "0", "--restart", **uncompressed)
        [copy] = other.list_sessions(source="otel", external_id_prefix="conversation:").sessions
        back = ash("forward", f"{url}/v1/traces", "--once", "--url", url)

        assert [ran.code for ran in (first, again, grown, restarted)] == [0, 0, 0, 0], restarted.err
        assert [ran.out for ran in (first, again, grown, restarted)] == [
            f"sent {spans} of {sessions} to {url}/v1/traces\n"
            for spans, sessions in (
                ("4 spans", "1 session"),
                ("0 spans", "0 sessions"),
                ("2 spans", "1 session"),
                ("6 spans", "1 session"),
            )
        ]
        assert copy.message_count == 6
        assert (back.code, "cannot forward its sessions to itself" in back.err) == (2, True)


@pytest.mark.slow
@not_on_cluster("it is one database")
def test_sessions_of_spans_from_ash_are_not_forwarded(
    ash: Forward, tmp_path: Path, other_database_url: str
) -> None:
    backend = Recording()
    ash("export", "turn", "--format", "otlp", "-o", "spans.jsonl")
    with (
        served(create_app(Settings(), database_url=other_database_url)) as url,
        backend.serve() as other,
        httpx2.Client() as http,
    ):
        spans = (tmp_path / "spans.jsonl").read_bytes()
        accepted = http.post(f"{url}/v1/traces", content=spans, headers={"Content-Type": "application/json"})
        ran = ash("forward", other, "--once", "--url", url, "--source", "otel")

    assert (accepted.status_code, ran.code, backend.requests) == (200, 0, [])


def test_secrets_are_redacted_unless_told_otherwise(ash: Forward) -> None:
    redacted, whole = Recording(), Recording()
    with redacted.serve() as url, whole.serve() as other:
        ash("forward", url, "--once", "--idle", "0")
        ash("forward", other, "--once", "--idle", "0", "--no-redact")

    assert redacted.requests[0].headers["Content-Encoding"] == "gzip"
    assert [TOKEN in texts(request) for request in (*redacted.requests, *whole.requests)] == [False, True]


@pytest.mark.slow
def test_waits_as_long_as_the_backend_asks(ash: Forward) -> None:
    backend = Recording(503, 429, headers={"Retry-After": "1"})
    with backend.serve() as url:
        ran = ash("forward", url, "--once", "--idle", "0")

    assert (ran.code, len(backend.requests), len(backend.accepted)) == (0, 3, SPANS_OF_TURN)
    assert "503 Service Unavailable: Not now." in ran.err
    assert len({*map(texts, backend.requests)}) == 1


def test_refused_spans_are_reported_and_not_sent_again(ash: Forward) -> None:
    backend = Recording(400)
    with backend.serve() as url:
        refused = ash("forward", url, "--once", "--idle", "0")
        again = ash("forward", url, "--once", "--idle", "0")

    assert (refused.code, again.code, len(backend.requests)) == (1, 0, 1)
    assert "4 spans of" in refused.err
    assert "400 Bad Request: Not now." in refused.err


def test_a_request_that_is_too_large_is_divided(ash: Forward) -> None:
    backend = Recording(413, 413, 413)
    with backend.serve() as url:
        ran = ash("forward", url, "--once", "--idle", "0")

    assert (ran.code, "1 span of" in ran.err, f"413 {HTTPStatus(413).phrase}" in ran.err) == (1, True, True)
    assert [len(request.spans) for request in backend.requests] == [4, 2, 1, 1, 2]
    assert len(backend.accepted) == 3


async def test_waits_for_a_backend_only_as_long_as_set() -> None:
    reports: list[str] = []
    with Recording().serve() as url:
        pass
    async with Backend(destination(url), 0.7, reports.append) as backend:
        with pytest.raises(BackendUnavailable, match="does not answer"):
            await backend.send({}, {}, [])

    [report] = reports
    assert "trying again" in report


async def test_a_backend_that_refuses_every_request_ends_the_command() -> None:
    backend = Recording(*[400] * 5, 200, *[400] * 6)
    with backend.serve() as url:
        async with Backend(destination(url), 0, print) as forwarder:
            for _ in range(11):
                await forwarder.send({}, {}, [])
            with pytest.raises(BackendRefuses, match="answered 400 Bad Request: Not now"):
                await forwarder.send({}, {}, [])

    assert len(backend.requests) == 12


def test_a_partial_success_is_reported(ash: Forward) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans, answer.partial_success.error_message = 1, "Too old.\x1b[2J"
    backend = Recording(body=answer.SerializeToString())
    with backend.serve() as url:
        ran = ash("forward", url, "--once", "--idle", "0")

    assert (ran.code, "sent 3 spans of 1 session" in ran.out, len(backend.requests)) == (1, True, 1)
    assert "rejected: Too old." in ran.err
    assert "\x1b[2J" not in ran.err


@pytest.mark.parametrize("status", slow_after(1, [302, 401, 404]))
def test_a_backend_that_accepts_nothing_ends_the_command(ash: Forward, status: int) -> None:
    target, backend = Recording(), Recording(status)
    with target.serve() as other, backend.serve() as url:
        backend.headers = {"Location": f"{other}/v1/traces"}
        refused = ash("forward", url, "--once", "--idle", "0", "--header", f"Authorization={KEY}")
        ran = ash("forward", url, "--once", "--idle", "0")

    assert (refused.code, ran.code) == (1, 0)
    assert f"answered {status}" in refused.err
    assert KEY not in refused.err + refused.out
    assert (target.requests, len(backend.accepted)) == ([], SPANS_OF_TURN)
    assert backend.requests[0].headers["Authorization"] == KEY


def test_an_open_turn_is_sent_when_it_is_complete(ash: Forward) -> None:
    backend = Recording()
    with backend.serve() as url:
        begun = ash("forward", url, "--once", "--idle", "3600")
        ended = ash("forward", url, "--once", "--idle", "0")

    assert [ran.out.split(" of ")[0] for ran in (begun, ended)] == ["sent 2 spans", "sent 2 spans"]
    names = [[span.name for span in request.spans] for request in backend.requests]
    assert names == [
        ["chat claude-opus-4-5", "execute_tool Bash"],
        ["chat claude-opus-4-5", "invoke_agent claude"],
    ]


def forwarding(folder: Path, database_url: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, "forward", *arguments, "--idle", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(folder, database_url, {}),
    )


@pytest.mark.slow
@not_on_cluster("it is one database")
def test_nothing_is_lost_if_it_is_killed_before_the_answer(
    ash: Forward, tmp_path: Path, database_url: str, other_database_url: str
) -> None:
    """The first forwarder is killed when the server has stored the spans, and has not answered yet."""
    with ExitStack() as stack:
        url = stack.enter_context(served(create_app(Settings(), database_url=other_database_url)))
        processes = list[subprocess.Popen[str]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name: self.headers[name] for name in ("Content-Type", "Content-Encoding")}
                answer = httpx2.post(f"{url}{self.path}", content=body, headers=headers)
                if processes:
                    processes.pop().kill()
                self.send_response(answer.status_code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        address = stack.enter_context(serving_requests(Handler))
        process = stack.enter_context(forwarding(tmp_path, database_url, address))
        processes.append(process)
        assert process.wait(TIMEOUT) == -signal.SIGKILL
        again = ash("forward", address, "--once", "--idle", "0")

        other = stack.enter_context(AshClient(url))
        [id] = [
            each.id
            for each in other.list_sessions(source="otel").sessions
            if each.message_count == SPANS_OF_TURN
        ]
        assert again.out == f"sent 4 spans of 1 session to {address}/v1/traces\n"
        assert len(list(other.messages(id))) == SPANS_OF_TURN


@pytest.mark.slow
def test_follows_sessions_until_it_is_interrupted(ash: Forward, tmp_path: Path, database_url: str) -> None:
    backend = Recording()
    with backend.serve() as url, forwarding(tmp_path, database_url, url) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        (tmp_path / "turn.jsonl").write_text(TURN + line(5, "user", claude.text("Why?")))
        ash("import", "turn.jsonl", "--as", "turn")
        second = process.stdout.readline()
        other = ash("forward", url, "--once")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        again = ash("forward", url, "--once", "--idle", "0")

    assert (other.code, other.err) == (
        1,
        f"ash: another `ash forward` to this backend is running (process {process.pid})\n",
    )
    assert (process.returncode, out, err.strip()) == (130, "", "ash: interrupted")
    assert [text.split(" to ")[0] for text in (first, second)] == [
        "sent 4 spans of 1 session",
        "sent 1 span of 1 session",
    ]
    assert len(backend.accepted) == len({*backend.accepted}) == SPANS_OF_TURN + 1
    assert "sent 0 spans" in again.out


def test_the_cursor_is_private_and_has_no_key(ash: Forward, tmp_path: Path) -> None:
    backend = Recording()
    with backend.serve() as url:
        ash("forward", url, "--once", OTEL_EXPORTER_OTLP_HEADERS=f"Authorization={KEY}".replace(" ", "%20"))

    [path] = (tmp_path / "home/.ash/forward").glob("*.sqlite")
    assert path.stat().st_mode & 0o777 == 0o600
    assert KEY.encode() not in path.read_bytes()
    assert backend.requests[0].headers["Authorization"] == KEY


def test_a_damaged_cursor_is_reported_and_kept(ash: Forward, tmp_path: Path) -> None:
    with Recording().serve() as url:
        ash("forward", url, "--once")
        [path] = (tmp_path / "home/.ash/forward").glob("*.sqlite")
        path.write_bytes(b"not a database, but as long as the header of one" * 9)
        ran = ash("forward", url, "--once")

    assert (ran.code, f"{path}: file is not a database" in ran.err) == (1, True)
    assert path.read_bytes().startswith(b"not a database")


def destination(url: str | None, *headers: str, **environ: str) -> Destination:
    named = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in environ.items()}
    return read_destination(url, headers, named, is_http_allowed=False)


@pytest.mark.parametrize(
    ("url", "environ", "address"),
    [
        ("https://a.example", {}, "https://a.example/v1/traces"),
        ("https://a.example/otel/", {}, "https://a.example/otel/v1/traces"),
        ("https://a.example/v1/traces", {}, "https://a.example/v1/traces"),
        ("http://localhost:4318", {}, "http://localhost:4318/v1/traces"),
        (None, {"ENDPOINT": "https://b.example"}, "https://b.example/v1/traces"),
        (
            None,
            {"ENDPOINT": "https://b.example", "TRACES_ENDPOINT": "https://c.example/x"},
            "https://c.example/x",
        ),
    ],
)
def test_the_address_of_a_backend(url: str | None, environ: dict[str, str], address: str) -> None:
    assert destination(url, **environ).url == address


@pytest.mark.parametrize(
    ("url", "headers", "problem"),
    [
        (None, (), "Pass the URL"),
        ("ftp://a.example", (), "begins with https://"),
        ("http://a.example", (), "not encrypted"),
        ("https://user:secret@a.example", (), "no user"),
        ("https://a.example?key=secret", (), "no user"),
        ("https://a.example:x", (), "not valid"),
        ("https://a.example", ("secret",), "KEY=VALUE"),
        ("https://a.example", ("x=secret\r\ny: z",), "no header can contain"),
        ("https://a.example", ("Content-Length=secret",), "content-length cannot be set"),
    ],
)
def test_rejects_an_address_without_showing_a_secret(
    url: str | None, headers: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(click.UsageError, match=problem) as error:
        destination(url, *headers)

    assert "secret" not in error.value.message


@pytest.mark.parametrize(
    ("count", "rejected"), [("2", 2), ('"3"', 3), ("-1", 0), ("1e999", 0), ("[1]", 0), ("null", 0)]
)
def test_counts_of_rejected_spans(count: str, rejected: int) -> None:
    content = f'{{"partialSuccess":{{"rejectedSpans":{count}}}}}'.encode()

    answer = BackendAnswer(200, httpx2.Headers({"content-type": "application/json"}), content)

    assert answer.receipt().rejected == rejected


def test_headers_of_the_environment_are_for_its_own_endpoint() -> None:
    environ = {"ENDPOINT": "https://a.example", "HEADERS": "authorization=Bearer%20x, tenant=t"}

    own = destination(None, "Tenant=u", **environ)

    assert own.headers == {"authorization": "Bearer x", "tenant": "u"}
    assert destination("https://a.example:443/v1/traces", **environ).headers.keys() == own.headers.keys()
    assert destination("https://b.example", **environ).headers == {}
    assert destination("https://b.example", HEADERS=environ["HEADERS"]).headers.keys() == own.headers.keys()


def test_other_machines_need_encryption_unless_allowed() -> None:
    assert (
        read_destination("http://a.example", (), {}, is_http_allowed=True).url == "http://a.example/v1/traces"
    )


def test_complete_spans_are_the_same_after_later_messages() -> None:
    """An answer is divided by the result of its first call, and its usage is in its last line."""
    other = {**CALL, "id": "c2"}
    lines = [
        line(1, "user", claude.text("Which tests fail?")),
        line(2, "assistant", CALL),
        line(3, "user", RESULT),
        line(4, "assistant", other).replace('"m4"', '"m2"'),
        line(5, "user", {**RESULT, "tool_use_id": "c2"}),
        line(6, "assistant", claude.text("One.")),
        line(7, "user", claude.text("Why?")),
        line(8, "assistant", claude.text("A path.")),
    ]
    usage = '"usage": {"input_tokens": 3, "output_tokens": 40}, "model"'
    lines = [each.replace('"model"', usage) for each in lines]
    whole = {span["spanId"]: span for span in spans_of(lines)}
    complete = [complete_spans(spans_of(lines[:count])) for count in range(1, len(lines) + 1)]

    assert all(span == whole[span["spanId"]] for spans in complete for span in spans)
    assert [len(spans) for spans in complete] == [0, 0, 1, 1, 2, 3, 4, 5]
    assert complete_spans([]) == []


def spans_of(lines: list[str]) -> list[Any]:
    document = to_otlp(transform_messages("".join(lines)), session_id="s")
    return list(document["resourceSpans"][0]["scopeSpans"][0]["spans"])


def test_requests_have_a_limited_size() -> None:
    small = [{"name": "chat", "spanId": str(number)} for number in range(MAX_SPANS + 1)]
    large = [{"name": "x" * 3_000_000}] * 3

    assert [len(batch) for batch in batches(small)] == [MAX_SPANS, 1]
    assert [len(batch) for batch in batches(large)] == [1, 1, 1]
