"""Events over HTTP: normalized from messages, posted, listed in pages."""

import json
from typing import Any
from uuid import UUID

import pytest
from httpx2 import AsyncClient

from ash_server.api.sessions.projections import PROJECTIONS
from ash_server.store.connections.pool import connect
from ash_server.store.log.rebuild import rebuild_events
from ash_shared.model.events import read_event
from tests.server.store.log.test_events import ANSWER, CALL, PROMPT, RESULT
from tests.shared.records.events import tool_call, wire_event
from tests.shared.records.openai_chat import delta_chunk

NDJSON = {"Content-Type": "application/x-ndjson"}

TURN_TYPES = ["turn_start", "user_message", "tool_call", "tool_result", "assistant_done"]


def chunk(text: str, id: str = "c1") -> str:
    return json.dumps(delta_chunk({"content": text}, id=id))


STREAM = [chunk("One "), chunk("file."), json.dumps(delta_chunk(reason="stop"))]


def event(id: str, type: str = "assistant_done", **more: Any) -> dict[str, Any]:
    return {**wire_event(type, text=id, id=id, timestamp=1), **more}


async def listed(client: AsyncClient, session: str, **query: Any) -> list[dict[str, Any]]:
    response = await client.get(f"{session}/events", params=query)
    assert response.status_code == 200
    events: list[dict[str, Any]] = response.json()["events"]
    return events


async def types(client: AsyncClient, session: str, **query: Any) -> list[str]:
    return [each["type"] for each in await listed(client, session, **query)]


def lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


async def chunks(client: AsyncClient, session: str, *texts: str, **query: Any) -> Any:
    return await client.post(f"{session}/chunks", content=lines(*texts), headers=NDJSON, params=query)


async def test_messages_are_normalized_to_events(client: AsyncClient, session: str) -> None:
    for part in ((PROMPT, CALL), (RESULT, ANSWER), (PROMPT, CALL, RESULT, ANSWER)):
        await client.post(f"{session}/messages", content=lines(*part), headers=NDJSON)

    events = await listed(client, session)

    assert [each["type"] for each in events] == TURN_TYPES
    assert {each["turnId"] for each in events} == {events[0]["id"]}
    assert (await client.get(session)).json()["eventCount"] == 5
    assert [each["sequence"] for each in events] == [1, 2, 3, 4, 5]
    assert [each["messageSequence"] for each in events] == [1, 1, 2, 3, 4]
    assert {each["sessionId"] for each in events} == {session.rpartition("/")[2]}
    assert [read_event(each).model_dump() for each in events] == events


async def test_returns_events_as_posted(client: AsyncClient, session: str) -> None:
    sent = event("e-1", "house_event", mood="calm", payload={"größe": [1.5, None, 10**40, "\0"]})

    posted = await client.post(f"{session}/events", json=sent)

    assert (posted.status_code, posted.json()) == (
        201,
        {"events": [{"id": "e-1", "sequence": 1, "created": True}]},
    )
    own = {"sequence": 1, "sessionId": session.rpartition("/")[2]}
    assert await listed(client, session) == [{**sent, **own}]


async def test_ignores_sequences_of_posted_events(client: AsyncClient, session: str) -> None:
    posted = await client.post(f"{session}/events", json=event("e-1", sequence=-1, messageSequence="x"))

    assert posted.status_code == 201
    assert await listed(client, session) == [
        {**event("e-1"), "sequence": 1, "sessionId": session.rpartition("/")[2]}
    ]


async def test_rejects_events_of_another_session(client: AsyncClient) -> None:
    created = await client.post("/api/sessions", json={"source": "claude", "externalId": "run s1"})
    id = created.json()["id"]
    line = '{"type":"user","sessionId":"theirs","message":{"content":"hi"}}'
    await client.post(f"/api/sessions/{id}/messages", json={"content": line})

    async def post(name: Any) -> tuple[int, str | None, int | None]:
        batch = [wire_event("note"), wire_event("note", sessionId=name)]
        response = await client.post(f"/api/sessions/{id}/events", json=batch)
        return response.status_code, response.json().get("code"), response.json().get("index")

    names = (id, id.upper(), "run s1", "theirs", "")
    assert [await post(name) for name in names] == [(201, None, None)] * 5
    for name in ("run s2", "0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60"):
        assert await post(name) == (422, "session_mismatch", 1)
    for other in (5, None):
        assert await post(other) == (400, "invalid_body", 1)


FAILURES: list[Any] = ["boom", {"code": 5, "message": ["x"]}, {"code": "c", "message": "m"}, {}, [], 1, True]
NO_FAILURES: list[Any] = [None, False, ""]
LOOSE_PAYLOADS: list[tuple[str, dict[str, Any]]] = [
    ("tool_output_chunk", {"toolCallId": "t", "chunk": "a"}),
    *(
        ("tool_result", {"toolCallId": "t", "result": result, "error": error})
        for result in ("", None, {"a": 1}, [1])
        for error in (*FAILURES, *NO_FAILURES)
    ),
    *(
        ("agent_callback", {"messageId": "m", "result": result})
        for result in ("a", {"a": [1]}, None, 0, ["b"])
    ),
]


async def test_accepts_payloads_of_any_json(client: AsyncClient, session: str) -> None:
    """Every reader of the log reads them."""
    prompt = wire_event("user_message", text="Go.")
    call = tool_call("t", "sh")
    sent = [prompt, call, *(wire_event(type, **payload) for type, payload in LOOSE_PAYLOADS)]
    posted = await client.post(f"{session}/events", json=sent)

    assert posted.status_code == 201
    events = await listed(client, session, limit=1000)
    assert [(each["type"], each["payload"]) for each in events[2:]] == LOOSE_PAYLOADS
    for name in PROJECTIONS:
        assert (await client.get(f"{session}/projections/{name}")).status_code == 200
    page = await client.get(session.removeprefix("/api") + ".html")
    assert page.status_code == 200
    stored = await client.get(session)
    assert stored.json()["errorCount"] == 4 * len(FAILURES)

    for line in (await client.get(f"{session}/export?format=events")).text.splitlines():
        read = (await client.post("/api/parse", json={"content": line})).json()
        assert [block["type"] for block in read["parsed"] if block.get("reason") == "malformed"] == [], line


async def test_id_and_timestamp_are_optional(client: AsyncClient, session: str) -> None:
    posted = await client.post(f"{session}/events", json=wire_event("note"))

    (stored,) = await listed(client, session)
    assert (stored["id"], stored["payload"]) == (posted.json()["events"][0]["id"], {})
    assert UUID(stored["id"]).version == 7
    assert stored["timestamp"] > 1_700_000_000_000


BATCH = [event("e-1"), wire_event("note", id="e-2"), event("e-3", "turn_end", payload={})]


@pytest.mark.parametrize("as_lines", [False, True])
async def test_append_is_idempotent(client: AsyncClient, session: str, as_lines: bool) -> None:
    """Also for events without timestamp, and with reordered keys."""

    async def post(events: list[dict[str, Any]]) -> tuple[int, list[tuple[Any, ...]]]:
        text = "".join(json.dumps(each) + "\r\n\n" for each in events)
        body: dict[str, Any] = {"content": text, "headers": NDJSON} if as_lines else {"json": events}
        response = await client.post(f"{session}/events", **body)
        return response.status_code, [tuple(each.values()) for each in response.json()["events"]]

    assert await post(BATCH[:2]) == (201, [("e-1", 1, True), ("e-2", 2, True)])
    assert await post([dict(reversed(each.items())) for each in BATCH[:2]]) == (
        200,
        [("e-1", 1, False), ("e-2", 2, False)],
    )
    assert await post(BATCH) == (201, [("e-1", 1, False), ("e-2", 2, False), ("e-3", 3, True)])
    assert await types(client, session) == ["assistant_done", "note", "turn_end"]


@pytest.mark.parametrize(
    ("route", "sent"),
    [
        ("messages", [PROMPT, ANSWER]),
        ("chunks", [PROMPT, ANSWER]),
        *(
            ("events", [json.dumps(event("e-1", type)), json.dumps(event("e-2", type))])
            for type in ("assistant_done", "assistant_chunk", "note")
        ),
    ],
)
async def test_append_status_reports_whether_anything_was_stored(
    client: AsyncClient, session: str, route: str, sent: list[str]
) -> None:
    responses = [
        await client.post(f"{session}/{route}", content=lines(*some), headers=NDJSON)
        for some in (sent[:1], sent[:1], sent, sent)
    ]

    name = "events" if route == "events" else "messages"
    assert [
        (response.status_code, [each["created"] for each in response.json()[name]]) for response in responses
    ] == [(201, [True]), (200, [False]), (201, [False, True]), (200, [False, False])]


@pytest.mark.parametrize("route", ["messages", "chunks", "events"])
@pytest.mark.parametrize(
    ("count", "status", "code"), [(0, 400, "empty_batch"), (1001, 413, "batch_too_large")]
)
async def test_rejects_batches_beyond_the_limits(
    client: AsyncClient, session: str, route: str, count: int, status: int, code: str
) -> None:
    sent = lines(*[json.dumps(wire_event("note"))] * count)
    response = await client.post(f"{session}/{route}", content=sent, headers=NDJSON)

    assert (response.status_code, response.json()["code"]) == (status, code)


async def test_rejects_a_different_event_with_a_known_id(client: AsyncClient, session: str) -> None:
    await client.post(f"{session}/events", json=BATCH)

    for other in (
        {**BATCH[0], "timestamp": 2},
        {**BATCH[1], "payload": {"a": 1}},
        {**BATCH[1], "timestamp": 2},
    ):
        refused = await client.post(f"{session}/events", json=[event("new"), other])

        assert (refused.status_code, refused.json()["code"], refused.json()["index"]) == (
            409,
            "id_conflict",
            1,
        )
    assert (await client.get(session)).json()["eventCount"] == 3


async def test_posted_and_derived_events_share_one_log(client: AsyncClient, session: str) -> None:
    await client.post(f"{session}/messages", content=PROMPT, headers=NDJSON)
    await client.post(f"{session}/events", json=wire_event("note"))
    await client.post(f"{session}/messages", content=ANSWER, headers=NDJSON)

    events = await listed(client, session)

    assert [(each["type"], each.get("messageSequence")) for each in events] == [
        ("turn_start", 1),
        ("user_message", 1),
        ("note", None),
        ("assistant_done", 2),
    ]


class TestPages:
    @pytest.fixture
    async def ten(self, client: AsyncClient, session: str) -> str:
        await client.post(f"{session}/events", json=[event(f"e-{number}") for number in range(1, 11)])
        return session

    @pytest.mark.parametrize(
        ("query", "sequences", "ends"),
        [
            ({}, range(1, 11), {}),
            ({"limit": 3}, range(1, 4), {"nextAfter": 3}),
            ({"after": 7, "limit": 3}, range(8, 11), {"nextAfter": 10}),
            ({"after": 10}, (), {}),
            ({"after": "e-7", "limit": 3}, range(8, 11), {"nextAfter": 10}),
            ({"after": 2**53 - 1}, (), {}),
            ({"before": 2**53 - 1, "limit": 3}, range(8, 11), {"prevBefore": 8}),
            ({"before": 3}, range(1, 3), {}),
            ({"before": 1}, (), {}),
            ({"after": 4, "before": 9, "limit": 2}, range(7, 9), {"prevBefore": 7}),
            ({"after": 6, "before": 7}, (), {}),
            ({"at": 5, "limit": 4}, range(3, 7), {"nextAfter": 6, "prevBefore": 3}),
            ({"at": 5, "limit": 1}, range(5, 6), {"nextAfter": 5, "prevBefore": 5}),
            ({"at": 1, "limit": 4}, range(1, 5), {"nextAfter": 4}),
            ({"at": 10, "limit": 4}, range(8, 11), {"prevBefore": 8}),
            ({"at": 5}, range(1, 11), {}),
            ({"at": 99, "limit": 4}, range(9, 11), {"prevBefore": 9}),
            ({"at": 5, "after": 0, "limit": 2}, range(4, 6), {"nextAfter": 5, "prevBefore": 4}),
        ],
    )
    async def test_cursors_and_limits(
        self, client: AsyncClient, ten: str, query: dict[str, Any], sequences: range, ends: dict[str, int]
    ) -> None:
        page = (await client.get(f"{ten}/events", params=query)).json()

        assert [each["sequence"] for each in page.pop("events")] == list(sequences)
        assert page == ends

    @pytest.mark.parametrize(
        ("query", "sequences", "ends"),
        [
            ({"type": "tool_call"}, (2, 4, 6), {}),
            ({"type": "tool_call,raw", "limit": 2}, (2, 3), {"nextAfter": 3}),
            ({"type": "tool_call,raw", "after": 3}, (4, 6), {}),
            ({"type": "tool_call", "before": 6, "limit": 1}, (4,), {"prevBefore": 4}),
            ({"type": "tool_call", "at": 4, "limit": 2}, (2, 4), {"nextAfter": 4, "prevBefore": 2}),
            ({"type": "tool_input_chunk", "collapse": "true"}, (5,), {}),
            ({"type": "tool_input_chunk,raw"}, (1, 3, 5), {}),
            ({"type": "error"}, (), {}),
        ],
    )
    async def test_type_filter(
        self, client: AsyncClient, session: str, query: dict[str, Any], sequences: tuple[int], ends: Any
    ) -> None:
        def called(wire: str, call: str) -> dict[str, Any]:
            more = {"args": {}} if wire == "tool_call" else {"chunk": "{", "offset": 0}
            return wire_event(wire, toolCallId=call, toolName="Bash", **more)

        raw = wire_event("raw", source="claude", raw={})
        chunks = [called("tool_input_chunk", call) for call in "ac"]
        calls = [called("tool_call", call) for call in "abd"]
        posted = [chunks[0], calls[0], raw, calls[1], chunks[1], calls[2]]
        (await client.post(f"{session}/events", json=posted)).raise_for_status()

        page = (await client.get(f"{session}/events", params=query)).json()

        assert [each["sequence"] for each in page.pop("events")] == list(sequences)
        assert page == ends

    @pytest.mark.parametrize("types", ["", "holo", "raw,", "raw,holo", "RAW", "raw, error"])
    async def test_rejects_unknown_types(self, client: AsyncClient, session: str, types: str) -> None:
        refused = await client.get(f"{session}/events", params={"type": types})

        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (400, "invalid_parameter")
        assert [error["path"] for error in problem["errors"]] == ["type"]
        assert "turn_start, turn_end, user_message" in problem["detail"]

    @pytest.mark.parametrize(
        ("query", "paths"),
        [
            *(
                (f"{middle}=5&{ends}", [middle])
                for middle in ("at", "message")
                for ends in ("after=1", "before=9")
            ),
            ("at=5&after=1&before=9", ["at"]),
            ("at=5&message=5", ["at", "message"]),
        ],
    )
    async def test_rejects_a_center_with_other_cursors(
        self, client: AsyncClient, ten: str, query: str, paths: list[str]
    ) -> None:
        refused = await client.get(f"{ten}/events?{query}")

        problem, message = refused.json(), "It excludes the other cursors."
        assert (refused.status_code, problem["code"]) == (400, "invalid_parameter")
        assert problem["errors"] == [{"path": path, "message": message} for path in paths]

    @pytest.mark.parametrize(
        ("query", "sequences", "ends"),
        [
            ({"message": 1}, range(1, 7), {}),
            ({"message": 2, "limit": 2}, range(3, 5), {"nextAfter": 4, "prevBefore": 3}),
            ({"message": 3, "limit": 1}, range(5, 6), {"nextAfter": 5, "prevBefore": 5}),
            ({"message": 99, "limit": 2}, range(6, 7), {"prevBefore": 6}),
        ],
    )
    async def test_page_around_a_message(
        self, client: AsyncClient, session: str, query: dict[str, int], sequences: range, ends: dict[str, int]
    ) -> None:
        """The prompt is two events, the title none, the answer one; posted events are in between."""
        for route, line in (
            ("messages", PROMPT),
            ("events", json.dumps(event("e-1"))),
            ("messages", json.dumps({"type": "ai-title", "aiTitle": "Paths"})),
            ("events", json.dumps(event("e-2"))),
            ("messages", ANSWER),
            ("events", json.dumps(event("e-3"))),
        ):
            await client.post(f"{session}/{route}", content=line, headers=NDJSON)

        page = (await client.get(f"{session}/events", params=query)).json()

        assert [each["sequence"] for each in page.pop("events")] == list(sequences)
        assert page == ends


async def test_collapse_omits_completed_chunks(client: AsyncClient, session: str) -> None:
    await chunks(client, session, *STREAM, chunk("More", "c2"))

    whole = ["turn_start", "assistant_done"]
    assert (await types(client, session))[:4] == [
        "turn_start",
        "assistant_chunk",
        "assistant_chunk",
        "assistant_done",
    ]
    assert (await types(client, session, collapse="true"))[:2] == whole
    assert (await types(client, session, collapse="true"))[-1] == "assistant_chunk"
    for query in ({"before": 5, "limit": 2}, {"at": 4, "limit": 2}, {"after": 0, "limit": 2}):
        page = await types(client, session, collapse="true", **query)
        assert set(page) <= {*whole, "turn_end"}, query


class TestChunks:
    async def test_lines_are_stored_verbatim(self, client: AsyncClient, session: str) -> None:
        sent = [STREAM[0] + "\r", "  " + STREAM[1], STREAM[2], '{"cut":', "[INFO] odd", "data: [DONE]"]

        posted = await client.post(f"{session}/chunks", content="\n\r\n".join(sent) + "\n \n", headers=NDJSON)

        messages = (await client.get(f"{session}/messages?kind=message,record,chunk")).json()["messages"]
        assert posted.status_code == 201
        assert [each["sequence"] for each in posted.json()["messages"]] == [1, 2, 3, 4, 5, 6]
        assert [each["content"] for each in messages] == sent
        assert (await client.get(f"{session}/export")).text == lines(*sent)

    async def test_events_have_the_ids_of_the_caller(self, client: AsyncClient, session: str) -> None:
        mine = {"turnId": "t1", "responseId": "r1"}
        for line in STREAM:
            await chunks(client, session, line, source="openai_chat", **mine)
        await chunks(client, session, *STREAM, source="openai_chat", turnId="t2")
        await chunks(client, session, end=True)

        events = await listed(client, session)
        own = {"type", "turnId", "responseId"}
        assert [tuple(each.get(name) for name in sorted(own)) for each in events] == [
            (None, "t1", "turn_start"),
            *(("r1", "t1", type) for type in ("assistant_chunk", "assistant_chunk", "assistant_done")),
            (None, "t1", "turn_end"),
            (None, "t2", "turn_start"),
            *(("c1", "t2", type) for type in ("assistant_chunk", "assistant_chunk", "assistant_done")),
            (None, "t2", "turn_end"),
        ]
        assert [each["sequence"] for each in await listed(client, session, collapse="true")] == [
            1,
            4,
            5,
            6,
            9,
            10,
        ]

    @pytest.mark.parametrize(
        "line", ['{"cut":', '{"type":"holo_frame","frame":7}', "null", "[[[", "plain words"]
    )
    async def test_invalid_lines_do_not_end_the_stream(
        self, client: AsyncClient, session: str, line: str
    ) -> None:
        responses = [
            await chunks(client, session, each, source="openai_chat")
            for each in (*STREAM[:2], line, STREAM[2])
        ]

        events = await listed(client, session)
        assert [response.status_code for response in responses] == [201] * 4
        assert [each["payload"]["text"] for each in events if each["type"] == "assistant_done"] == [
            "One file."
        ]
        assert [each["payload"]["source"] for each in events if each["type"] == "raw"] == ["openai_chat"]

    @pytest.mark.parametrize(
        ("source", "last"),
        [("codex", "raw"), ("ash", "raw"), ("of the house", "assistant_done"), ("x" * 100, "assistant_done")],
    )
    async def test_unknown_sources_are_accepted(
        self, client: AsyncClient, session: str, source: str, last: str
    ) -> None:
        """Any source is allowed; the format of lines of an unknown source is detected."""
        posted = await chunks(client, session, *STREAM, source=source)

        messages = (await client.get(f"{session}/messages?kind=message,record,chunk")).json()["messages"]
        assert posted.status_code == 201
        assert {each["source"] for each in messages} == {source}
        assert last in await types(client, session)

    async def test_lines_with_a_provider_id_are_stored_once(self, client: AsyncClient, session: str) -> None:
        responses = [
            await chunks(client, session, *texts) for texts in ([PROMPT], [PROMPT], [PROMPT, ANSWER])
        ]

        assert [response.status_code for response in responses] == [201, 200, 201]
        assert [each["created"] for each in responses[2].json()["messages"]] == [False, True]
        assert await types(client, session) == ["turn_start", "user_message", "assistant_done"]

    async def test_expected_sequence_for_lines_without_id(self, client: AsyncClient, session: str) -> None:
        responses = [await chunks(client, session, STREAM[0], expectedSequence=0) for _ in range(2)]

        assert [response.status_code for response in responses] == [201, 409]
        assert responses[1].json()["currentSequence"] == 1

    async def test_end_closes_open_turns(self, client: AsyncClient, session: str) -> None:
        await chunks(client, session, STREAM[0], end="true")

        events = await listed(client, session)
        assert [(each["type"], each["payload"]) for each in events[-3:]] == [
            ("assistant_done", {"text": "One ", "partial": True}),
            ("interrupt", {"reason": "error"}),
            ("turn_end", {"partial": True}),
        ]

    @pytest.mark.parametrize("body", ["", "\n \r\n"])
    async def test_end_without_lines(self, client: AsyncClient, session: str, body: str) -> None:
        await chunks(client, session, STREAM[0])

        ended = [
            await client.post(f"{session}/chunks?end=true", content=body, headers=NDJSON) for _ in range(2)
        ]

        assert [(each.status_code, each.json()) for each in ended] == [(200, {"messages": []})] * 2
        assert (await types(client, session))[-3:] == ["assistant_done", "interrupt", "turn_end"]


async def test_ending_twice_appends_events_once(client: AsyncClient, session: str) -> None:
    await chunks(client, session, STREAM[0])

    ended = [await client.post(f"{session}/end") for _ in range(2)]

    assert [(each.status_code, each.json()) for each in ended] == [(200, {"events": 3}), (200, {"events": 0})]


async def test_event_count_excludes_events_before_a_rebuild(
    client: AsyncClient, session: str, shared_database_url: str
) -> None:
    await client.post(f"{session}/messages", content=lines(PROMPT, ANSWER), headers=NDJSON)
    await client.post(f"{session}/events", json=wire_event("note"))
    before = (await client.get(session)).json()["eventCount"]

    async with await connect(shared_database_url) as conn:
        await rebuild_events(conn, UUID(session.rpartition("/")[2]))

    events = await listed(client, session)
    assert [(each["sequence"], each["type"]) for each in events] == [
        (5, "reset"),
        (6, "turn_start"),
        (7, "user_message"),
        (8, "assistant_done"),
        (9, "note"),
    ]
    counts = [(await client.get(session)).json()["eventCount"]]
    counts += [
        each["eventCount"]
        for each in (await client.get("/api/sessions")).json()["sessions"]
        if each["id"] in session
    ]
    assert (before, counts) == (4, [5, 5])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "events", None),
        ("POST", "events", '{"type": "note", "payload": {}}'),
        ("POST", "chunks", '{"type": "note", "payload": {}}'),
        ("POST", "end", None),
    ],
)
async def test_unknown_session(client: AsyncClient, method: str, path: str, body: str | None) -> None:
    responses = [
        await client.request(
            method, f"/api/sessions/{UUID(int=number)}/{path}", content=body, headers=NDJSON if body else None
        )
        for number in (0, 7)
    ]

    assert {(response.status_code, response.json()["code"]) for response in responses} == {
        (404, "session_not_found")
    }
