"""Spans and log records that exporters send over OTLP/HTTP."""

import gzip
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.json_format import ParseDict
from httpx2 import AsyncClient, Response
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ash_server.api.telemetry import bodies, exports
from ash_server.ids import uuid7_text
from ash_server.store.messages import MessageStore
from ash_server.store.prepare import NewMessage

JSON = "application/json"
PROTOBUF = "application/x-protobuf"
TRACE = "5b8efff798038103d269b633813fc60c"


def any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value if isinstance(value, str) else json.dumps(value)}


def attributes_of(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in values.items()]


def span(number: int, values: Mapping[str, Any], trace: str = TRACE) -> dict[str, Any]:
    start = 1_780_000_000_000_000_000 + number * 10**9
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "name": "chat m",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 10**8),
        "attributes": attributes_of(values),
    }


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def chat(conversation: str, prompts: list[dict[str, Any]], answer: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": conversation,
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": prompts,
        "gen_ai.output.messages": [message("assistant", answer)],
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
    }


def export(*spans: dict[str, Any]) -> dict[str, Any]:
    resource = {"attributes": attributes_of({"service.name": "shop"})}
    return {
        "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "s"}, "spans": [*spans]}]}]
    }


def to_protobuf(body: dict[str, Any]) -> bytes:
    message: bytes = ParseDict(bodies.with_binary_ids(body), ExportTraceServiceRequest()).SerializeToString()
    return message


async def send(client: AsyncClient, body: dict[str, Any]) -> Response:
    return await client.post("/v1/traces", content=json.dumps(body), headers={"Content-Type": JSON})


async def session_of(client: AsyncClient, name: str) -> dict[str, Any]:
    found = await client.get("/api/sessions", params={"source": "otel", "externalId": name})
    (session,) = found.json()["sessions"]
    return dict(session)


async def texts_of(client: AsyncClient, session_id: str) -> list[tuple[str, str]]:
    read = await client.get(f"/api/sessions/{session_id}/standard-messages")
    return [(each["role"], each["content"][0]["text"]) for each in read.json()["messages"]]


async def test_spans_of_a_conversation_are_a_session_with_each_message_once(client: AsyncClient) -> None:
    name = uuid7_text()
    prompt, answer, next_prompt = message("user", "Hi"), message("assistant", "Hello"), message("user", "Bye")

    first = await send(client, export(span(1, chat(name, [prompt], "Hello"))))
    second = await send(client, export(span(2, chat(name, [prompt, answer, next_prompt], "See you"))))

    assert (first.status_code, first.json(), second.json()) == (200, {}, {})
    session = await session_of(client, f"conversation:{name}")
    expected = [("user", "Hi"), ("assistant", "Hello"), ("user", "Bye"), ("assistant", "See you")]
    assert await texts_of(client, session["id"]) == expected
    events = (await client.get(f"/api/sessions/{session['id']}/events")).json()["events"]
    said = [each["payload"]["text"] for each in events if each["type"] in ("user_message", "assistant_done")]
    assert said == [text for _, text in expected]


async def test_a_repeated_export_stores_nothing_in_either_encoding(client: AsyncClient) -> None:
    name = uuid7_text()
    body = export(span(1, chat(name, [message("user", "Hi")], "Hello")))
    await send(client, body)
    session = await session_of(client, f"conversation:{name}")

    again = await client.post(
        "/v1/traces",
        content=gzip.compress(to_protobuf(body)),
        headers={"Content-Type": PROTOBUF, "Content-Encoding": "gzip"},
    )

    answer = ExportTraceServiceResponse.FromString(again.content)
    assert (again.status_code, again.headers["content-type"]) == (200, PROTOBUF)
    assert answer == ExportTraceServiceResponse()
    assert (await session_of(client, f"conversation:{name}"))["messageCount"] == session["messageCount"] == 1


async def test_stores_each_span_with_its_resource_and_scope(client: AsyncClient) -> None:
    name = uuid7_text()
    body = export(span(1, chat(name, [message("user", "Hi")], "Hello")))
    await send(client, body)
    session = await session_of(client, f"conversation:{name}")

    stored = (await client.get(f"/api/sessions/{session['id']}/messages")).json()["messages"]

    assert [(each["id"], json.loads(each["content"])) for each in stored] == [
        (f"{TRACE}-0000000000000001", body)
    ]


async def test_other_spans_are_rejected_and_not_stored(client: AsyncClient) -> None:
    name = uuid7_text()
    body = export(
        span(1, {"http.request.method": "GET"}), span(2, chat(name, [message("user", "Hi")], "Hello"))
    )

    response = await send(client, body)

    partial = response.json()["partialSuccess"]
    assert (response.status_code, partial["rejectedSpans"]) == (200, "1")
    assert "Only spans and log records of agents and models are stored" in partial["errorMessage"]
    assert (await session_of(client, f"conversation:{name}"))["messageCount"] == 1


async def test_spans_without_a_conversation_join_the_conversation_of_their_trace(client: AsyncClient) -> None:
    name, trace = uuid7_text(), uuid7_text().replace("-", "")
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}

    await send(
        client, export(span(1, tool, trace), span(2, chat(name, [message("user", "Hi")], "Hello"), trace))
    )

    assert (await session_of(client, f"conversation:{name}"))["messageCount"] == 2


async def test_a_request_adds_to_known_sessions_and_creates_others(client: AsyncClient) -> None:
    names = [uuid7_text() for _ in range(6)]

    for numbers in ((1,), (2, 3)):
        spans = [
            span(number, chat(name, [message("user", f"{name} {number}")], "Yes"), f"{place:032x}")
            for place, name in enumerate(names[: 3 * len(numbers)], 1)
            for number in numbers
        ]
        assert (await send(client, export(*spans))).json() == {}

    sessions = [await session_of(client, f"conversation:{name}") for name in names]
    assert [each["messageCount"] for each in sessions] == [3, 3, 3, 2, 2, 2]


async def test_a_trace_is_a_session_of_its_own(client: AsyncClient) -> None:
    trace = uuid7_text().replace("-", "")
    # A session that was not made by a span, with the name of the trace.
    other = (await client.post("/api/sessions", json={"source": "otel", "externalId": trace})).json()

    await send(client, export(span(1, {"gen_ai.operation.name": "chat", "gen_ai.prompt": "Hi"}, trace)))

    session = await session_of(client, f"trace:{trace}")
    assert session["id"] != other["id"]
    assert await texts_of(client, session["id"]) == [("user", "Hi")]


async def test_a_span_that_changed_is_rejected(client: AsyncClient) -> None:
    name = uuid7_text()
    await send(client, export(span(1, chat(name, [message("user", "Hi")], "Hello"))))
    session = await session_of(client, f"conversation:{name}")

    response = await send(
        client,
        export(span(1, chat(name, [], "Changed")), span(2, chat(name, [message("user", "Hi")], "Again"))),
    )

    assert response.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert await texts_of(client, session["id"]) == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("assistant", "Again"),
    ]


async def test_spans_that_others_store_meanwhile_are_rejected(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = uuid7_text()
    await send(client, export(span(1, chat(name, [message("user", "Hi")], "Hello"))))
    session = await session_of(client, f"conversation:{name}")
    look_up = MessageStore.get_contents

    async def look_up_and_store(store: MessageStore, id: UUID, ids: list[str]) -> dict[str, str | None]:
        contents = await look_up(store, id, ids)
        monkeypatch.undo()
        await store.append(id, [NewMessage("Another text", id=ids[1])])
        return contents

    monkeypatch.setattr(MessageStore, "get_contents", look_up_and_store)

    response = await send(
        client, export(*(span(number, chat(name, [], f"Changed {number}")) for number in (1, 2, 3)))
    )

    assert (response.status_code, response.json()["partialSuccess"]["rejectedSpans"]) == (200, "2")
    assert (await session_of(client, f"conversation:{name}"))["messageCount"] == session["messageCount"] + 2


async def test_a_request_is_repeated_if_a_session_is_deleted_meanwhile(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = uuid7_text()
    body = export(span(1, chat(name, [message("user", "Hi")], "Hello")))
    await send(client, body)
    session = await session_of(client, f"conversation:{name}")
    append = MessageStore.append

    async def delete_and_append(*args: Any) -> Any:
        monkeypatch.undo()
        await client.delete(f"/api/sessions/{session['id']}")
        return await append(*args)

    monkeypatch.setattr(MessageStore, "append", delete_and_append)

    response = await send(client, body)

    assert (response.status_code, "retry-after" in response.headers) == (503, True)
    assert (await send(client, body)).json() == {}
    assert (await session_of(client, f"conversation:{name}"))["messageCount"] == 1


async def test_log_records_of_claude_code_are_a_session(client: AsyncClient) -> None:
    name = uuid7_text()
    values = {"event.name": "user_prompt", "session.id": name, "prompt": "Fix the test"}
    log = {
        "timeUnixNano": "1780000000000000000",
        "body": {"stringValue": "claude_code.user_prompt"},
        "attributes": attributes_of(values),
    }
    body = {
        "resourceLogs": [
            {"scopeLogs": [{"scope": {"name": "com.anthropic.claude_code.events"}, "logRecords": [log]}]}
        ]
    }

    for _ in range(2):
        response = await client.post("/v1/logs", content=json.dumps(body), headers={"Content-Type": JSON})
        assert (response.status_code, response.json()) == (200, {})

    session = await session_of(client, f"conversation:{name}")
    assert session["messageCount"] == 1
    assert await texts_of(client, session["id"]) == [("user", "Fix the test")]


@pytest.mark.parametrize(("trace", "number"), [("0" * 32, 1), (TRACE, 0), ("zz" * 16, 1), ("ab", 1)])
async def test_spans_without_ids_are_rejected(client: AsyncClient, trace: str, number: int) -> None:
    response = await send(client, export(span(number, {"gen_ai.prompt": "Hi"}, trace)))

    assert response.json()["partialSuccess"]["rejectedSpans"] == "1"


async def test_a_log_record_has_a_valid_trace_or_none(client: AsyncClient) -> None:
    name = uuid7_text()
    records = [
        {
            "traceId": trace,
            "eventName": "gen_ai.x",
            "attributes": attributes_of({"gen_ai.prompt": text, **more}),
        }
        for trace, text, more in (
            ("0" * 32, "Hi", {"session.id": name}),
            ("0" * 32, f"Elsewhere {name}", {}),  # not of the same trace
            ("ab" * 200_000, "Hi", {"session.id": name}),
        )
    ]
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}

    response = await client.post("/v1/logs", content=json.dumps(body), headers={"Content-Type": JSON})

    assert response.json()["partialSuccess"]["rejectedLogRecords"] == "1"
    assert (await session_of(client, f"conversation:{name}"))["messageCount"] == 1


async def test_texts_that_repeat_a_large_resource_are_limited(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "MAX_TOTAL_BYTES", 10_000)
    name = uuid7_text()
    body = export(*(span(number, chat(name, [], "Hello")) for number in range(1, 5)))
    body["resourceSpans"][0]["resource"] = {"attributes": attributes_of({"x": "x" * 4000})}

    response = await send(client, body)

    assert response.json()["partialSuccess"]["rejectedSpans"] == "2"
    assert (await session_of(client, f"conversation:{name}"))["messageCount"] == 2


def field(number: int, content: bytes) -> bytes:
    """Return a field of a protobuf message."""
    size = bytearray()
    rest = len(content)
    while rest > 0x7F:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([number << 3 | 2, *size, rest]) + content


def nested_value(levels: int) -> bytes:
    """Return a span whose attribute is a list in a list, and so on, in protobuf."""
    value = field(1, b"deep")
    for _ in range(levels):
        value = field(5, field(1, value))
    attribute = field(1, b"gen_ai.prompt") + field(2, value)
    span = field(1, b"1" * 16) + field(2, b"1" * 8) + field(9, attribute)
    return field(1, field(2, field(2, span)))


SPAN = to_protobuf(export(span(1, {"gen_ai.prompt": "Hi"})))
EMPTY_SCOPES = field(1, field(2, b"") * 10_001)
GZIP = {"Content-Encoding": "gzip"}


async def test_a_span_with_a_deep_attribute_is_rejected(client: AsyncClient) -> None:
    response = await client.post("/v1/traces", content=nested_value(31), headers={"Content-Type": PROTOBUF})

    partial = ExportTraceServiceResponse.FromString(response.content).partial_success
    assert (response.status_code, partial.rejected_spans) == (200, 1)
    assert partial.error_message == "1: A value of an attribute has at most 30 levels."


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"\xff\xff\xff", {"Content-Type": PROTOBUF}, 400, "invalid_body"),
        (SPAN[:-1], {"Content-Type": PROTOBUF}, 400, "invalid_body"),
        (b"\x0a\xff\xff\xff\xff\x0f" + SPAN, {"Content-Type": PROTOBUF}, 400, "invalid_body"),
        (nested_value(500), {"Content-Type": PROTOBUF}, 400, "invalid_body"),
        (b"\x0a\x00" * 10_001, {"Content-Type": PROTOBUF}, 413, "batch_too_large"),
        (EMPTY_SCOPES, {"Content-Type": PROTOBUF}, 413, "batch_too_large"),
        (
            to_protobuf({"resourceSpans": [{"scopeSpans": [{"spans": [{}] * 10_001}]}]}),
            {"Content-Type": PROTOBUF},
            413,
            "batch_too_large",
        ),
        (b"{", {"Content-Type": JSON}, 400, "invalid_json"),
        (b"[]", {"Content-Type": JSON}, 400, "invalid_body"),
        (b'{"resourceSpans": 5}', {"Content-Type": JSON}, 400, "invalid_body"),
        (b"[" * 100_000, {"Content-Type": JSON}, 400, "too_deep"),
        (b"not gzip", {"Content-Type": PROTOBUF, **GZIP}, 400, "invalid_body"),
        (gzip.compress(b"{}", mtime=0)[:-4], {"Content-Type": JSON, **GZIP}, 400, "invalid_body"),
        (gzip.compress(b"{}", mtime=0) * 2, {"Content-Type": JSON, **GZIP}, 400, "invalid_body"),
        (
            json.dumps(export(span(1, {"x": 10**400})))
            .replace("intValue", "doubleValue")
            .replace('"1' + "0" * 400 + '"', "1" + "0" * 400)
            .encode(),
            {"Content-Type": JSON},
            400,
            "invalid_body",
        ),
        (
            gzip.compress(bytes(bodies.MAX_UNCOUNTED_BYTES + 1)),
            {"Content-Type": PROTOBUF, **GZIP},
            413,
            "body_too_large",
        ),
        (b"\x0a\x00" * 600_000, {"Content-Type": PROTOBUF}, 413, "batch_too_large"),
        # After an unknown group.
        (b"\x7b\x7c" + b"\x0a\x00" * 600_000, {"Content-Type": PROTOBUF}, 413, "batch_too_large"),
        (b"\x0a\x9e\x9c\x01\x12\x9a\x9c\x01" + b"\x12\x00" * 9997, {"Content-Type": PROTOBUF}, 200, None),
        (b"", {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        (b"", {"Content-Type": PROTOBUF, "Content-Encoding": "br"}, 415, "unsupported_media_type"),
    ],
)
async def test_broken_exports_are_refused(
    client: AsyncClient, content: bytes, headers: dict[str, str], status: int, code: str | None
) -> None:
    response = await client.post("/v1/traces", content=content, headers=headers)

    assert response.status_code == status
    assert code is None or response.json()["code"] == code


@pytest.mark.parametrize(("limit", "status"), [(len(SPAN), 200), (len(SPAN) - 1, 413)])
async def test_inflated_bodies_have_a_limit(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch, limit: int, status: int
) -> None:
    monkeypatch.setattr(bodies, "MAX_INFLATED_BYTES", limit)

    response = await client.post(
        "/v1/traces", content=gzip.compress(SPAN, mtime=0), headers={"Content-Type": PROTOBUF, **GZIP}
    )

    assert response.status_code == status
