"""The table of bad inputs: which are stored, which are rejected and how, and that all stored ones can be read."""

import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from httpx2 import AsyncClient

from ash_server.api.sessions.projections import PROJECTIONS
from ash_server.app import create_app
from ash_server.settings import Settings
from ash_shared.model.events import read_event
from ash_shared.parsing.parse import parse_message_content
from tests.marking import slow_after, slow_unless
from tests.openapi_document import DOCUMENT
from tests.server.api.conftest import SHARED, Access
from tests.server.app_client import app_client

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope=SHARED)
async def client(keyed_access: Access) -> AsyncIterator[AsyncClient]:
    """A client with a key, which does not change how a body is read."""
    access = keyed_access
    app = create_app(access.settings, database_url=access.database_url)
    async with app_client(app, raise_app_exceptions=False) as client:
        client.headers.update(access.headers)
        yield client


STORED = {
    "1 empty": "",
    "2 blank": " \t ",
    "3 plain text": "not json",
    "4 cut JSON": '{"type":"te',
    "5 trailing comma": '{"type":"text","text":"a",}',
    "5 comment": '{"a":1} // b',
    "5 single quotes": "{'type':'text'}",
    "6 BOM": '\ufeff{"type":"text","text":"a"}',
    "7 null": "null",
    "8 true": "true",
    "8 number": "5",
    "8 negative zero": "-0.0",
    "9 string": '"hi"',
    "10 empty list": "[]",
    "10 empty object": "{}",
    "11 mixed list": '[1,"a",null,{}]',
    "12 NaN": '{"a":NaN,"b":-Infinity}',
    "13 beyond a float": "[1e400]",
    "14 beyond a double": "[9007199254740993,18446744073709551616,1234567890123456789012345678901234567890]",
    "15 5,000 digits": "[" + "1" * 5000 + "]",
    "16 spellings": "[-0,1.0,1E5]",
    "17 duplicate keys": '{"type":"text","type":"tool_use","text":"a"}',
    "18 escaped NUL": r'{"type":"text","text":"a\u0000b"}',
    "21 lone high surrogate": r'{"type":"text","text":"a\ud83d"}',
    "22 lone low surrogate": r'{"type":"text","text":"\ude00a"}',
    "22 reversed pair": r'{"type":"text","text":"\ude00\ud83d"}',
    "22 surrogate in a key": r'{"type":"text","text":"a","\ud83d":1}',
    "26 control character": '{"type":"text","text":"a\x01b"}',
    "27 odd characters": "a\u2028b\uffffc\u202ed\x1b[31m",
    "27 combining character": "e\u0301 vs é",
    "28 nested 200 deep": "[" * 200 + "]" * 200,
    "29 nested 300 deep": "[" * 300 + "]" * 300,
    "30 nested 990 deep": "[" * 990 + "]" * 990,
    "31 nested 100,000 deep": "[" * 100_000 + "]" * 100_000,
    "33 one long string": json.dumps("a" * 1_000_000),
    "36 many lists": "[" + "[]," * 100_000 + "[]]",
    "43 text without text": '{"type":"text"}',
    "43 text that is no string": '[{"type":"text","text":5},{"type":"text","text":null},{"type":"text","text":[]}]',
    "44 odd types": '[{"type":5},{"type":null},{"type":""},{"a":1}]',
    "44 long type": json.dumps({"type": "t" * 10_000}),
    "45 unknown type": '{"type":"server_tool_use_v9","id":"a"}',
    "46 tool_use without parts": '[{"type":"tool_use","name":"a"},{"type":"tool_use","input":{}},{"type":"tool_use"}]',
    "47 tool_result contents": '[{"type":"tool_result"},{"type":"tool_result","content":{"a":1}}]',
    "48 svg": '{"type":"image","source":{"type":"base64","media_type":"image/svg+xml","data":"<svg onload=a>"}}',
    "49 file name": r'{"type":"file","filename":"../../etc/passwd\u0000\r\n"}',
    "50 thinking without text": '{"type":"thinking","thinking":"","signature":"s"}',
    "51 JSON in JSON": json.dumps(json.dumps({"type": "text", "text": "a"})),
    "52 two objects": '{"a":1} {"b":2}',
    "53 markup": "<script>alert(1)</script></textarea>[x](javascript:1)![](http://evil.example)",
    "placeholders": "{'\"%s %b %(x)s $1 {} \\",
    "line breaks": "line\r\nline\rline",
}


@pytest.mark.parametrize(
    "raw", slow_unless(STORED["36 many lists"].__ne__, STORED.values()), ids=STORED.keys()
)
async def test_unusual_content_is_stored_verbatim(client: AsyncClient, session: str, raw: str) -> None:
    posted = await client.post(f"{session}/messages", json=[{"content": raw}, {"content": "second"}])

    page = await client.get(f"{session}/messages", params={"parsed": "true"})
    one = await client.get(f"{session}/messages/1")
    text = await client.get(f"{session}/messages/1", headers={"Accept": "text/plain"})
    exported = await client.get(f"{session}/export")

    assert (posted.status_code, page.status_code) == (201, 200)
    assert [message["content"] for message in page.json()["messages"]] == [raw, "second"]
    assert page.json()["messages"][0] == one.json()
    assert one.json()["parsed"] == [block.model_dump(mode="json") for block in parse_message_content(raw)]
    assert text.content == raw.encode()
    assert exported.content == raw.encode() + b"\nsecond\n"


async def test_14_digits_stay_exact(client: AsyncClient, session: str) -> None:
    await client.post(f"{session}/messages", json={"content": STORED["14 beyond a double"]})

    page = await client.get(f"{session}/messages", params={"parsed": "true", "content": "false"})

    for digits in ("9007199254740993", "18446744073709551616", "1234567890123456789012345678901234567890"):
        assert digits in page.text


MANY = 1001
REFUSED: dict[str, tuple[bytes, dict[str, str], int, dict[str, Any]]] = {
    "4 cut": (b'{"content":"a', JSON, 400, {"code": "invalid_json"}),
    "5 trailing comma": (b'{"content":"a",}', JSON, 400, {"code": "invalid_json"}),
    "6 BOM": (b'\xef\xbb\xbf{"content":"a"}', JSON, 400, {"code": "invalid_json"}),
    "7 null": (b"null", JSON, 400, {"code": "invalid_body"}),
    "12 NaN": (b'{"content":NaN}', JSON, 400, {"code": "invalid_json"}),
    "19 NUL": (rb'{"content":"a\u0000"}', JSON, 422, {"code": "nul_byte", "index": 0}),
    "19 NUL in a batch": (
        rb'[{"content":"a"},{"content":"\u0000"}]',
        JSON,
        422,
        {"code": "nul_byte", "index": 1},
    ),
    "19 NUL in a line": (b"a\nb\0\n", NDJSON, 422, {"code": "nul_byte", "index": 1}),
    "20 NUL in an id": (rb'{"content":"a","id":"\u0000"}', JSON, 422, {"code": "nul_byte", "index": 0}),
    "20 NUL in a source": (rb'{"content":"a","source":"\u0000"}', JSON, 400, {"code": "invalid_body"}),
    "20 NUL in a role": (rb'{"content":"a","role":"\u0000"}', JSON, 400, {"code": "invalid_body"}),
    "23 surrogate": (rb'{"content":"\ud83d"}', JSON, 400, {"code": "invalid_json"}),
    "24 bytes in JSON": (b'{"content":"\xff"}', JSON, 400, {"code": "invalid_utf8"}),
    "24 bytes in a line": (b"a\n\xed\xa0\x80\n", NDJSON, 400, {"code": "invalid_utf8"}),
    "25 UTF-16": ('{"content":"a"}'.encode("utf-16"), JSON, 400, {"code": "invalid_utf8"}),
    "25 latin-1": (b'{"content":"a"}', {"Content-Type": "application/json; charset=latin-1"}, 415, {}),
    "25 declared UTF-16": (b"{", {"Content-Type": "application/json; charset=utf-16"}, 415, {}),
    "32 nested": (b'{"content":' + b"[" * 1001 + b"]" * 1001 + b"}", JSON, 400, {"code": "too_deep"}),
    "32 nested 100,000 deep": (b"[" * 100_000, JSON, 400, {"code": "too_deep"}),
    "32 nested in an unknown field": (
        b'{"a":' + b'{"a":' * 500 + b"1" + b"}" * 501,
        JSON,
        400,
        {"code": "too_deep"},
    ),
    "34 large": (
        json.dumps([{"content": "a"}, {"content": "a" * (2**20 + 1)}]).encode(),
        JSON,
        413,
        {"code": "message_too_large", "index": 1},
    ),
    "34 large line": (b"a" * (2**20 + 1), NDJSON, 413, {"code": "message_too_large", "index": 0}),
    "34 large in bytes": ("€".encode() * 2**19, NDJSON, 413, {"code": "message_too_large", "index": 0}),
    "35 large body": (b"a\n" * (2**22 + 1), NDJSON, 413, {"code": "body_too_large"}),
    "36 bomb": (b"[" + b"[]," * 2**21 + b"[]]", JSON, 400, {"code": "invalid_body"}),
    "36 larger bomb": (b"[" + b"[]," * 3_000_000 + b"[]]", JSON, 413, {"code": "body_too_large"}),
    "37 many": (json.dumps([{"content": "a"}] * MANY).encode(), JSON, 413, {"code": "batch_too_large"}),
    "37 many lines": (b"a\n" * MANY, NDJSON, 413, {"code": "batch_too_large"}),
    "38 none": (b"[]", JSON, 400, {"code": "empty_batch"}),
    "38 no line": (b"\n \n", NDJSON, 400, {"code": "empty_batch"}),
    "38 nothing": (b"", NDJSON, 400, {"code": "empty_batch"}),
    "38 no JSON": (b"", JSON, 400, {"code": "invalid_json"}),
    "39 duplicate id": (
        b'[{"content":"a","id":"x"},{"content":"a","id":"x"}]',
        JSON,
        422,
        {"code": "duplicate_in_batch", "index": 1},
    ),
    "54 text": (b'{"content":"a"}', {"Content-Type": "text/html"}, 415, {}),
    "54 form": (b"content=a", {"Content-Type": "application/x-www-form-urlencoded"}, 415, {}),
    "54 multipart": (b'{"content":"a"}', {"Content-Type": "multipart/form-data; boundary=a"}, 415, {}),
    "54 none": (b'{"content":"a"}', {}, 415, {}),
    "54 similar type": (b'{"content":"a"}', {"Content-Type": "application/json5"}, 415, {}),
    "54 with a profile": (b'{"content":"a"}', {"Content-Type": "application/json; profile=a"}, 415, {}),
    "55 gzip": (b"\x1f\x8b", {**JSON, "Content-Encoding": "gzip"}, 415, {}),
    "56 missing": (
        b'{"role":"user"}',
        JSON,
        400,
        {"errors": [("$.content", "Object missing required field")]},
    ),
    "56 null": (b'{"content":null}', JSON, 400, {"errors": [("$.content", "Expected `str`, got `null`")]}),
    "56 number": (b'[{"content":5}]', JSON, 400, {"errors": [("$[0].content", "Expected `str`, got `int`")]}),
    "56 object": (b'{"content":{}}', JSON, 400, {"errors": [("$.content", "Expected `str`, got `object`")]}),
    "57 extra": (
        b'[{"content":"a"},{"content":"a","extra":1}]',
        JSON,
        400,
        {"errors": [("$[1].extra", "Object contains unknown field")]},
    ),
    "57 odd extra": (b'{"`":1}', JSON, 400, {"errors": [("$.`", "Object contains unknown field")]}),
    "64 role": (b'{"content":"a","role":"x"}', JSON, 400, {"errors": [("$.role", "Invalid enum value")]}),
    "long id": (b'{"content":"a","id":"%s"}' % (b"i" * 256), JSON, 400, {"code": "invalid_body"}),
    "empty id": (b'{"content":"a","id":""}', JSON, 400, {"code": "invalid_body"}),
}


@pytest.mark.parametrize(("body", "headers", "status", "expected"), REFUSED.values(), ids=REFUSED.keys())
async def test_rejects_invalid_requests_without_storing(
    client: AsyncClient,
    session: str,
    body: bytes,
    headers: dict[str, str],
    status: int,
    expected: dict[str, Any],
) -> None:
    refused = await client.post(f"{session}/messages", content=body, headers=headers)

    problem = refused.json()
    problem["errors"] = [(each["path"], each["message"]) for each in problem.get("errors", ())]
    assert (refused.status_code, refused.headers["content-type"]) == (status, "application/problem+json")
    assert {name: problem[name] for name in expected} == expected
    assert status != 415 or problem["code"] == "unsupported_media_type"
    assert (await client.get(session)).json()["messageCount"] == 0


@pytest.mark.parametrize(
    "batch",
    [
        [{"content": "new"}, {"content": "other", "id": "x"}],
        [{"content": "new"}, {"content": "other", "fallbackId": "x"}],
        [{"content": "new", "fallbackId": "y"}, {"content": "other", "fallbackId": "y"}],
    ],
)
async def test_41_id_conflict_keeps_the_original(client: AsyncClient, session: str, batch: list[Any]) -> None:
    await client.post(f"{session}/messages", json={"content": "original", "id": "x"})

    refused = await client.post(f"{session}/messages", json=batch)

    page = (await client.get(f"{session}/messages")).json()
    assert (refused.status_code, refused.json()["code"], refused.json()["index"]) == (409, "id_conflict", 1)
    assert [message["content"] for message in page["messages"]] == ["original"]


EVENT = b'{"type":"note","payload":{}}'


def event(type: str, payload: Any, **more: Any) -> bytes:
    return json.dumps([{"type": "note", "payload": {}}, {**more, "type": type, "payload": payload}]).encode()


def invalid_field(path: str, message: str, index: int = 1) -> dict[str, Any]:
    return {"code": "invalid_body", "index": index, "errors": [(path, message)]}


TEXT, OBJECT, MISSING = "Input should be a valid string", "Input should be an object", "Field required"
REFUSED_EVENTS: dict[str, tuple[bytes, dict[str, str], int, dict[str, Any]]] = {
    "4 cut": (b'{"type":"note","pay', JSON, 400, {"code": "invalid_json"}),
    "4 cut line": (EVENT + b'\n{"type":\n' + EVENT, NDJSON, 400, {"code": "invalid_json", "index": 1}),
    "5 trailing comma": (b'[{"type":"note","payload":{}},]', JSON, 400, {"code": "invalid_json"}),
    "6 BOM": (b"\xef\xbb\xbf" + EVENT, JSON, 400, {"code": "invalid_json"}),
    "6 BOM before a list": (b"\xef\xbb\xbf[" + EVENT + b"]", JSON, 400, {"code": "invalid_json"}),
    "7 null": (b"null", JSON, 400, invalid_field("$", "Expected an object", 0)),
    "9 string": (b'"note"', JSON, 400, invalid_field("$", "Expected an object", 0)),
    "11 mixed": (b"[" + EVENT + b",5]", JSON, 400, invalid_field("$[1]", "Expected an object")),
    "11 a list in a list": (b"[" + EVENT + b",[]]", JSON, 400, invalid_field("$[1]", "Expected an object")),
    "11 a list in a line": (EVENT + b"\n[]", NDJSON, 400, invalid_field("$", "Expected an object")),
    "12 NaN": (b'{"type":"note","payload":{"a":NaN}}', JSON, 400, {"code": "invalid_json"}),
    "13 beyond a float": (b'{"type":"note","payload":{"a":1e400}}', JSON, 400, {}),
    "15 5,000 digits": (b'{"type":"note","payload":{"a":%s}}' % (b"1" * 5000), JSON, 400, {}),
    "20 NUL in an id": (event("note", {}, id="a\0"), JSON, 422, {"code": "nul_byte", "index": 1}),
    "20 NUL in a type": (event("a\0", {}), JSON, 422, {"code": "nul_byte", "index": 1}),
    "23 surrogate": (rb'{"type":"note","payload":{"a":"\ud83d"}}', JSON, 400, {"code": "invalid_json"}),
    "23 surrogate in a key": (rb'{"type":"note","payload":{"\ud83d":1}}', JSON, 400, {"code": "invalid_json"}),
    "24 bytes": (b'{"type":"note","payload":{"a":"\xff"}}', JSON, 400, {"code": "invalid_utf8"}),
    "25 latin-1": (EVENT, {"Content-Type": "application/json; charset=latin-1"}, 415, {}),
    "29 nested 300 deep": (
        b'{"type":"note","payload":{"a":' + b"[" * 300 + b"]" * 300 + b"}}",
        JSON,
        400,
        {"code": "too_deep", "index": 0},
    ),
    "32 nested": (b'{"a":' + b"[" * 100_000, JSON, 400, {"code": "too_deep", "index": 0}),
    "32 nested lists": (b"[" * 100_000, JSON, 400, {"code": "too_deep"}),
    "34 large": (event("note", {"a": "a" * 2**20}), JSON, 413, {"code": "message_too_large", "index": 1}),
    "34 large line": (
        EVENT + b'\n{"type":"note","payload":{"a":"%s"}}' % (b"a" * 2**20),
        NDJSON,
        413,
        {"code": "message_too_large", "index": 1},
    ),
    "35 large body": (b" " * (2**23 + 1) + EVENT, JSON, 413, {"code": "body_too_large"}),
    "36 bomb": (
        b'[{"type":"note","payload":{"a":[' + b"[]," * 2**21 + b"[]]}}]",
        JSON,
        413,
        {"code": "batch_too_large"},
    ),
    "36 many bombs": (
        b"[" + b",".join([b'{"type":"note","payload":{"a":[' + b"[]," * 2**17 + b"[]]}}"] * 5) + b"]",
        JSON,
        413,
        {"code": "batch_too_large"},
    ),
    "36 many empty objects": (b"[" + b"{}," * 2**21 + b"{}]", JSON, 413, {"code": "batch_too_large"}),
    "37 many": (b"[" + b",".join([EVENT] * MANY) + b"]", JSON, 413, {"code": "batch_too_large"}),
    "37 many lines": (b"\n".join([EVENT] * MANY), NDJSON, 413, {"code": "batch_too_large"}),
    "38 none": (b" [ ] ", JSON, 400, {"code": "empty_batch"}),
    "38 no line": (b"\n \r\n", NDJSON, 400, {"code": "empty_batch"}),
    "38 nothing": (b"", JSON, 400, {"code": "invalid_json"}),
    "39 duplicate id": (
        b'[{"id":"a","type":"note","payload":{}},{"id":"a","type":"note","payload":{}}]',
        JSON,
        422,
        {"code": "duplicate_in_batch", "index": 1},
    ),
    "54 text": (EVENT, {"Content-Type": "text/plain"}, 415, {}),
    "54 none": (EVENT, {}, 415, {}),
    "55 gzip": (b"\x1f\x8b", {**JSON, "Content-Encoding": "gzip"}, 415, {}),
    "no type": (b'{"payload":{}}', JSON, 400, invalid_field("$.type", MISSING, 0)),
    "no type in a line": (EVENT + b'\n{"payload":{}}', NDJSON, 400, invalid_field("$.type", MISSING)),
    "no payload": (b'{"type":"note"}', JSON, 400, invalid_field("$.payload", MISSING, 0)),
    "no payload of a known type": (b'{"type":"reset"}', JSON, 400, invalid_field("$.payload", MISSING, 0)),
    "null as payload": (event("note", None), JSON, 400, invalid_field("$[1].payload", OBJECT)),
    "list as payload": (event("reset", []), JSON, 400, invalid_field("$[1].payload", OBJECT)),
    "44 null as type": (event(None, {}), JSON, 400, invalid_field("$[1].type", TEXT)),  # type: ignore[arg-type]
    "44 list as type": (b'{"type":["a"],"payload":{}}', JSON, 400, invalid_field("$.type", TEXT, 0)),
    "44 empty type": (event("", {}), JSON, 400, {"code": "invalid_body", "index": 1}),
    "44 long type": (event("t" * 101, {}), JSON, 400, {"code": "invalid_body", "index": 1}),
    "missing field": (event("tool_call", {"toolName": "a", "args": 1}), JSON, 400,
                      invalid_field("$[1].payload.toolCallId", MISSING)),
    "field name in snake case": (
        event("tool_call", {"tool_call_id": "a", "toolName": "a", "args": 1}),
        JSON,
        400,
        invalid_field("$[1].payload.toolCallId", MISSING),
    ),
    "missing field named like the type": (
        event("raw", {"source": "claude"}), JSON, 400, invalid_field("$[1].payload.raw", MISSING)
    ),
    "field of a wrong type": (event("user_message", {"text": 5}), JSON, 400, invalid_field("$[1].payload.text", TEXT)),
    "invalid choice": (
        event("turn_start", {"trigger": "boredom"}),
        JSON,
        400,
        invalid_field("$[1].payload.trigger", "Input should be 'user', 'callback' or 'system'"),
    ),
    "missing nested field": (
        event("turn_end", {"usage": {"input_tokens": 5, "total_tokens": 6}}),
        JSON,
        400,
        invalid_field("$[1].payload.usage.output_tokens", MISSING),
    ),
    "count as string": (
        event("turn_end", {"usage": {"input_tokens": "5", "output_tokens": 1, "total_tokens": 6}}),
        JSON,
        400,
        invalid_field("$[1].payload.usage.input_tokens", "Input should be a valid integer"),
    ),
    "block of unknown type": (
        event("user_message", {"text": "a", "content": [{"type": "text", "text": "a"}, {"type": "canary"}]}),
        JSON,
        400,
        invalid_field("$[1].payload.content[1]", "Input should be a block of a known type"),
    ),
    "field of a block": (
        event("user_message", {"text": "a", "content": [{"type": "text", "text": 5}]}),
        JSON,
        400,
        invalid_field("$[1].payload.content[0].text", TEXT),
    ),
    "event id that is a number": (
        event("retraction", {"eventIds": ["a", 5]}), JSON, 400, invalid_field("$[1].payload.eventIds[1]", TEXT)
    ),
    "fractional timestamp": (event("note", {}, timestamp=1.5), JSON, 400,
                             invalid_field("$[1].timestamp", "Input should be a valid integer")),
    "timestamp as string": (event("note", {}, timestamp="1"), JSON, 400,
                            invalid_field("$[1].timestamp", "Input should be a valid integer")),
    "negative timestamp": (event("note", {}, timestamp=-1), JSON, 400, {"code": "invalid_body", "index": 1}),
    "timestamp out of range": (event("note", {}, timestamp=2**53), JSON, 400, {"code": "invalid_body", "index": 1}),
    "null as timestamp": (event("note", {}, timestamp=None), JSON, 400,
                          invalid_field("$[1].timestamp", "Input should be a valid integer")),
    "long id": (event("note", {}, id="i" * 256), JSON, 400, {"code": "invalid_body", "index": 1}),
    "empty id": (event("note", {}, id=""), JSON, 400, {"code": "invalid_body", "index": 1}),
    "number as id": (event("note", {}, id=5), JSON, 400, invalid_field("$[1].id", TEXT)),
    "null as turn": (event("note", {}, turnId=None), JSON, 400, invalid_field("$[1].turnId", TEXT)),
}  # fmt: skip
REFUSED_CHUNKS: dict[str, tuple[bytes, dict[str, str], int, dict[str, Any]]] = {
    "19 NUL": (b"a\nb\0\n", NDJSON, 422, {"code": "nul_byte", "index": 1}),
    "24 bytes": (b"a\n\xff\n", NDJSON, 400, {"code": "invalid_utf8"}),
    "34 large line": (b"a\n" + b"a" * (2**20 + 1), NDJSON, 413, {"code": "message_too_large", "index": 1}),
    "35 large body": (b"a\n" * (2**22 + 1), NDJSON, 413, {"code": "body_too_large"}),
    "37 many": (b"a\n" * MANY, NDJSON, 413, {"code": "batch_too_large"}),
    "38 none": (b"\n \r\n", NDJSON, 400, {"code": "empty_batch"}),
    "38 nothing": (b"", NDJSON, 400, {"code": "empty_batch"}),
    "54 JSON": (b"{}", JSON, 415, {}),
    "54 events": (b"data: {}\n\n", {"Content-Type": "text/event-stream"}, 415, {}),
    "54 none": (b"{}", {}, 415, {}),
    "55 gzip": (b"\x1f\x8b", {**NDJSON, "Content-Encoding": "gzip"}, 415, {}),
}


@pytest.mark.parametrize(
    ("route", "body", "headers", "status", "expected"),
    [
        pytest.param(route, *row, id=f"{route} {name}")
        for route, rows in (("events", REFUSED_EVENTS), ("chunks", REFUSED_CHUNKS))
        for name, row in rows.items()
    ],
)
async def test_rejects_invalid_events_without_storing(  # noqa: PLR0917  # one per column
    client: AsyncClient,
    session: str,
    route: str,
    body: bytes,
    headers: dict[str, str],
    status: int,
    expected: dict[str, Any],
) -> None:
    refused = await client.post(f"{session}/{route}", content=body, headers=headers)

    problem = refused.json()
    problem["errors"] = [(each["path"], each["message"]) for each in problem.get("errors", ())]
    assert (refused.status_code, refused.headers["content-type"]) == (status, "application/problem+json")
    assert {name: problem[name] for name in expected} == expected
    assert status != 415 or problem["code"] == "unsupported_media_type"
    stored_session = (await client.get(session)).json()
    assert (stored_session["messageCount"], stored_session["eventCount"]) == (0, 0)


UNUSUAL_PAYLOADS: dict[str, Any] = {
    "14 beyond a double": {"a": [9007199254740993, 18446744073709551616, 10**39]},
    "18 NUL in a payload": {"a\0": "\0"},
    "26 control character": {"a": "\x01"},
    "27 odd characters": {"a": "a\u2028b\uffffc\u202ed\x1b[31m"},
    "28 nested 199 deep": {"a": json.loads("[" * 199 + "]" * 199)},
    "53 markup": {"<script>": "</script>"},
    "event fields in the payload": {"type": "turn_start", "sequence": -1, "sessionId": 5},
}


@pytest.mark.parametrize("payload", UNUSUAL_PAYLOADS.values(), ids=UNUSUAL_PAYLOADS.keys())
@pytest.mark.parametrize("type", ["note", "raw", "turn_starts", "\u2028", "TURN_START", "t" * 100])
async def test_unusual_events_are_stored(
    client: AsyncClient, session: str, type: str, payload: dict[str, Any]
) -> None:
    payload = {"source": "a", "raw": payload.get("a", payload)} if type == "raw" else payload

    posted = await client.post(f"{session}/events", json={"id": "i" * 255, "type": type, "payload": payload})

    page = await client.get(f"{session}/events")
    assert (posted.status_code, page.status_code) == (201, 200)
    (stored,) = page.json()["events"]
    assert (stored["id"], stored["type"], stored["payload"]) == ("i" * 255, type, payload)


@pytest.mark.parametrize("raw", slow_after(20, STORED.values()), ids=STORED.keys())
async def test_any_line_is_accepted_as_a_chunk(client: AsyncClient, session: str, raw: str) -> None:
    is_blank = not raw.strip()

    posted = await client.post(
        f"{session}/chunks?source=claude", content=raw.encode() + b"\nsecond", headers=NDJSON
    )

    events = await client.get(f"{session}/events")
    exported = await client.get(f"{session}/export")
    assert (posted.status_code, events.status_code) == (201, 200)
    assert exported.content == (b"" if is_blank else raw.encode() + b"\n") + b"second\n"
    assert [read_event(each).model_dump(mode="json") for each in events.json()["events"]] == events.json()[
        "events"
    ]
    for name in PROJECTIONS:
        assert (await client.get(f"{session}/projections/{name}")).status_code == 200


ACCEPTED_TYPES = (
    "application/json",
    "Application/JSON",
    "application/json;charset=UTF-8",
    'application/json; charset="utf-8"',
    "application/x-ndjson",
    "application/X-NDJSON ; charset=utf-8",
)


@pytest.mark.parametrize("media_type", ACCEPTED_TYPES)
async def test_accepted_media_types(client: AsyncClient, session: str, media_type: str) -> None:
    response = await client.post(
        f"{session}/messages", content=b'{"content":"a"}', headers={"Content-Type": media_type}
    )

    assert response.status_code == 201


@pytest.mark.parametrize(
    "address",
    [
        "/api/sessions/abc",
        "/api/sessions/..%2f",
        "/api/sessions/%00",
        "/api/sessions/0199f3a27c1e7b3a9d550c7b8f1f2e60",
        "/api/sessions/{0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60}",
        "/api/sessions/urn:uuid:0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60",
        "/api/sessions/0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60/messages/1_0",
        "/api/sessions/0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60/messages/٣",
        "/api/sessions/0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60/messages/a",
        "/api/nothing",
        "/nothing",
    ],
)
async def test_58_unknown_paths(client: AsyncClient, address: str) -> None:
    response = await client.get(address)

    assert (response.status_code, response.json()["code"]) == (404, "not_found")


async def test_59_unknown_sessions_have_identical_responses(client: AsyncClient) -> None:
    unknown, nil = f"/api/sessions/{UUID(int=7)}", f"/api/sessions/{UUID(int=0)}"

    assert (await client.get(unknown)).content == (await client.get(nil)).content


MESSAGE_QUERIES = [
    *(f"after={value}" for value in ("-1", "abc", "1.5", "", "0x10", "1_000", "%2B1", "+1", "1e3", "٣")),
    *(f"after={value}" for value in (2**53, 2**63, 10**20)),
    *(f"before={value}" for value in ("0", "-1", "", "null", 2**53)),
    *(f"limit={value}" for value in ("0", "-5", "1001", "", "ten")),
    *(f"parsed={value}" for value in ("1", "yes", "True", "")),
    *(f"kind={value}" for value in ("", "x", "message,", "message,,record", "message;record", "message%0A")),
    *(f"role={value}" for value in ("x'%20OR%20'1'='1", "", "%00", "user,tool", "null")),
    *(f"type={value}" for value in ("", "%00", "texts", "null")),
    *("limit=1&limit=2", "limit=1&limit=1", "nothing=1", "Limit=1", "limit", "=1", "limi%74=1&limit=1"),
    *("role=%ff", "role=%ED%A0%80", "role=%C0%80", "%ff=1", "type=\xff"),
]
BEFORE_TIME = urlsafe_b64encode(b"0001-01-01T00:00:00+23:59 00000000-0000-0000-0000-000000000000").decode()
"""The cursor of a time before the year 1."""
SESSION_QUERIES = [
    *(f"{name}={value}" for name in ("source", "q") for value in ("", "%00")),
    "q=%ff",
    "type=text",
    *(f"after={value}" for value in ("", "abc", "%00", "====", "%C3%A9", "2024", "MjAyNC0wMS0wMQ==")),
    *(f"after={value}" for value in ("bm90IGEgdGltZSB4", BEFORE_TIME)),
    *(f"limit={value}" for value in ("0", "-1", "1001")),
    *(f"parentId={value}" for value in ("", "1", "%7B0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60%7D")),
    *(f"{name}={value}" for name in ("providerSessionId", "externalId") for value in ("", "%00")),
    *(f"{name}={value}" for name in ("since", "until") for value in ("", "now", "2026", "%00")),
    *(f"errors={value}" for value in ("", "1", "True")),
]
OTHER_REQUESTS = [
    ("GET", "/api/sessions/{id}?a=1"),
    ("GET", "/api/sessions/{id}/messages/1?parsed=true"),
    ("GET", "/api/sessions/{id}/messages/0"),
    ("GET", "/api/sessions/{id}/messages/-1"),
    ("GET", f"/api/sessions/{{id}}/messages/{2**53}"),
    ("GET", "/api/sessions/{id}/export?format=xml"),
    ("GET", "/api/sessions/{id}/facts?limit=1"),
    *(("GET", f"/api/compare?{query}") for query in ("", "a={id}", "a={id}&b=1", "a={id}&b={id}&limit=1")),
    *(
        ("GET", f"/api/sessions/{{id}}/changes?{query}")
        for query in ("turn=0", "turn=", "turn=1.5", "path=", "path=%00", "path=a%0Ab", "diffs=1", "limit=1")
    ),
    ("GET", "/api/sessions/{id}/export?format=jsonl&format=jsonl"),
    ("POST", "/api/sessions/{id}/messages?expectedSequence=-1"),
    ("POST", "/api/sessions/{id}/messages?expected_sequence=1"),
    ("POST", "/api/sessions/{id}/events?source=claude"),
    ("POST", "/api/sessions/{id}/chunks?source=%00"),
    ("POST", "/api/sessions/{id}/chunks?source=a%0Ab"),
    ("POST", "/api/sessions/{id}/chunks?source="),
    ("POST", f"/api/sessions/{{id}}/chunks?source={'x' * 101}"),
    ("POST", "/api/sessions/{id}/chunks?end=1"),
    ("POST", "/api/sessions/{id}/chunks?end=true&end=true"),
    ("POST", "/api/sessions/{id}/chunks?expectedSequence=-1"),
    ("POST", "/api/sessions/{id}/chunks?role=user"),
    ("POST", "/api/sessions/{id}/end?a=1"),
    ("GET", "/api/sessions/{id}/projections/openai-messages?limit=1"),
    ("POST", "/api/sessions?a=1"),
    ("POST", "/api/parse?a=1"),
    ("DELETE", "/api/sessions/{id}?force=true"),
    ("GET", "/health/live?a=1"),
    ("GET", "/health/ready?a=1"),
    ("GET", "/docs?url=https://evil.example/openapi.json"),
]
DRIFT_QUERIES = [
    *(f"source={value}" for value in ("", "%00", "%ff")),
    *(f"reason={value}" for value in ("", "limit", "malformed,unknown_type")),
    *(f"since={value}" for value in ("", "now", "2026", "2026-13-01T00:00:00Z", "%00")),
    *(f"limit={value}" for value in ("0", "1001", "ten")),
    "after=1",
    "reason=malformed&reason=malformed",
]
STANDARD_QUERIES = [
    *(f"after={value}" for value in ("-1", "abc", "", "1_000", 2**53)),
    *(f"limit={value}" for value in ("0", "-5", "1001", "")),
    *(f"visible={value}" for value in ("1", "yes", "")),
    "kind=message",
    "parsed=true",
]
EVENT_QUERIES = [
    *(f"after={value}" for value in ("-1", "abc", "1.5", "", "1_000", 2**53)),
    *(f"{name}={value}" for name in ("before", "at", "message") for value in ("0", "-1", "", "null", 2**53)),
    *(f"limit={value}" for value in ("0", "-5", "1001", "")),
    *(f"collapse={value}" for value in ("1", "yes", "True", "")),
    *(f"type={value}" for value in ("", "holo", "RAW", "raw,", "raw,holo")),
    *("at=1&after=1", "at=1&before=2", "at=1&at=1", "Type=raw", "Collapse=true", "kind=message"),
]
ADDRESSES = [
    *(("GET", f"/api/sessions/{{id}}/messages?{query}") for query in MESSAGE_QUERIES),
    *(("GET", f"/api/sessions?{query}") for query in SESSION_QUERIES),
    *(("GET", f"/api/drift?{query}") for query in DRIFT_QUERIES),
    *(("GET", f"/api/sessions/{{id}}/standard-messages?{query}") for query in STANDARD_QUERIES),
    *(("GET", f"/api/sessions/{{id}}/events?{query}") for query in EVENT_QUERIES),
    *OTHER_REQUESTS,
]


async def test_60_to_65_rejects_invalid_parameters(client: AsyncClient, session: str) -> None:
    responses = {}
    for method, address in ADDRESSES:
        named = address.format(id=session.rpartition("/")[2])
        response = await client.request(method, named, json={} if method == "POST" else None)
        responses[method, address] = (response.status_code, response.json().get("code"))

    assert responses == dict.fromkeys(ADDRESSES, (400, "invalid_parameter"))
    assert (await client.get(session)).status_code == 200


@pytest.mark.parametrize(
    ("method", "body", "path"),
    [
        ("POST", '{"id":"a"}', "$.id"),
        ("POST", '{"externalId":""}', "$.externalId"),
        ("POST", '{"parentId":"a"}', "$.parentId"),
        ("POST", '{"title":5}', "$.title"),
        ("POST", '{"source":null}', "$.source"),
        ("POST", '{"source":"a\\n"}', "$.source"),
        ("POST", '{"metadata":[]}', "$.metadata"),
        ("POST", "[]", "$"),
        ("PATCH", '{"source":"a"}', "$.source"),
        ("PATCH", '{"metadata":null}', "$.metadata"),
    ],
)
async def test_session_bodies_are_strict(
    client: AsyncClient, session: str, method: str, body: str, path: str
) -> None:
    address = "/api/sessions" if method == "POST" else session

    refused = await client.request(method, address, content=body, headers=JSON)

    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_body")
    assert [each["path"] for each in refused.json()["errors"]] == [path]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"metadata":' + b'{"a":' * 199 + b"1" + b"}" * 200, 201, None),
        (b'{"metadata":' + b'{"a":' * 200 + b"1" + b"}" * 201, 400, "too_deep"),
        (b'{"metadata":' + b'{"a":' * 5000 + b"1" + b"}" * 5001, 400, "too_deep"),
        (rb'{"metadata":{"a":"\ud83d"}}', 400, "invalid_json"),
        (rb'{"title":"\u0000"}', 422, "nul_byte"),
        (rb'{"externalId":"\u0000"}', 422, "nul_byte"),
        (b'{"metadata":{"a":"%s"}}' % (b"a" * 2**16), 413, "body_too_large"),
    ],
)
async def test_unusual_sessions(client: AsyncClient, body: bytes, status: int, code: str | None) -> None:
    response = await client.post("/api/sessions", content=body, headers=JSON)

    assert (response.status_code, response.json().get("code")) == (status, code)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"metadata":' + b'{"a":' * 200 + b"1" + b"}" * 201, 400, "too_deep"),
        (b'{"messages":[{"content":"' + b"[]," * 2**20 + b'"}]}', 201, None),
    ],
    ids=["deep metadata", "text with many commas"],
)
async def test_unusual_commits(
    client: AsyncClient, session: str, body: bytes, status: int, code: str | None
) -> None:
    response = await client.post(f"{session}/messages", content=body, headers=JSON)

    assert (response.status_code, response.json().get("code")) == (status, code)


async def test_metadata_is_returned_unchanged(client: AsyncClient) -> None:
    metadata = {"a\0": ["\0", 10**40, -0.5, None, {"": {}}], "b": "\u2028"}

    created = await client.post("/api/sessions", json={"metadata": metadata})

    assert created.json()["metadata"] == metadata


CANARY = "canary-7f3a"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (json.dumps({"content": CANARY, "extra": CANARY}), JSON),
        (json.dumps({"content": CANARY, "role": CANARY}), JSON),
        (json.dumps({"content": [CANARY]}), JSON),
        (json.dumps({"content": CANARY + "\0"}), JSON),
        (json.dumps({"content": CANARY, "id": "taken"}), JSON),
        (json.dumps({"content": CANARY * 200_000}), JSON),
        (json.dumps(CANARY), JSON),
        (f'{{"content":"{CANARY}', JSON),
        (f"{CANARY}\0\n", NDJSON),
        (CANARY, {"Content-Type": "text/html"}),
    ],
)
async def test_problems_do_not_contain_contents(
    client: AsyncClient, session: str, body: str, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    await client.post(f"{session}/messages", json={"content": "a", "id": "taken"})

    refused = await client.post(f"{session}/messages", content=body, headers=headers)

    assert refused.is_client_error
    assert CANARY not in refused.text + str(refused.headers) + caplog.text


class TestLimits:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(max_message_bytes=10, max_body_bytes=100)

    async def test_limits_are_settings(self, own_client: AsyncClient) -> None:
        session = f"/api/sessions/{(await own_client.post('/api/sessions', json={})).json()['id']}"

        responses = [
            await own_client.post(f"{session}/messages", content=lines, headers=NDJSON)
            for lines in (b"a" * 10, b"a" * 11, b"a\n" * 50, b"a\n" * 51)
        ]

        assert [response.status_code for response in responses] == [201, 413, 201, 413]


OPERATIONS_WITHOUT_BODY = [
    (method, path)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if "requestBody" not in operation
]


async def test_no_operation_ignores_a_body(client: AsyncClient) -> None:
    statuses = {}
    for method, path in OPERATIONS_WITHOUT_BODY:
        address = path.format(
            session_id=UUID(int=0), budget_id=UUID(int=0), share_id=UUID(int=0), sequence=1, name="summary"
        )
        answer = await client.request(method, address, json={"q": "a"})
        statuses[method, path] = answer.status_code, answer.json()["code"]

    assert statuses == dict.fromkeys(OPERATIONS_WITHOUT_BODY, (400, "invalid_body"))
    assert ("post", "/api/sessions/{session_id}/messages/pop") in statuses
