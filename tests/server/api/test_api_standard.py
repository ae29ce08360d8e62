"""Pages of standard messages."""

import json
from typing import Any

import pytest
from httpx2 import AsyncClient

from ash_server.store.conversation import standard_pages
from ash_shared.conversation.standard_messages import transform_messages
from ash_shared.providers import discover
from tests.shared.records import claude, codex

NDJSON = {"Content-Type": "application/x-ndjson"}
PLAIN = "[INFO] started"


def line(number: int, role: str, content: Any, **more: Any) -> str:
    stamp = f"2026-11-02T09:00:{number:02}Z"
    return json.dumps(claude.line(role, content, uuid=f"u{number}", timestamp=stamp, **more))


def turn(number: int) -> list[str]:
    """Return five lines: a prompt, an answer with a tool call, its result, the last answer, and a record."""
    call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "a b"}
    return [
        line(number, "user", f"prompt {number}"),
        line(number + 1, "assistant", [call]),
        line(number + 2, "user", [result]),
        line(number + 3, "assistant", [{"type": "text", "text": "Done."}]),
        json.dumps({"type": "file-history-snapshot", "messageId": f"m{number}"}),
    ]


FIRST, *REST = turn(0)
LINES = [
    json.dumps({**json.loads(FIRST), "sessionId": "s-1", "version": "2.1.0"}),
    *REST,
    *turn(10),
    *turn(20),
]
STREAMED = '{"type":"stream_event","event":{"type":"content_block_stop","index":0}}'


async def filled(client: AsyncClient, session: str, lines: list[str]) -> str:
    """Append the lines and return the URL of the session's standard messages."""
    stored = await client.post(f"{session}/messages", content="\n".join(lines), headers=NDJSON)
    stored.raise_for_status()
    return f"{session}/standard-messages"


async def paged(client: AsyncClient, address: str, **query: Any) -> tuple[list[Any], list[int]]:
    """Return the messages of all pages, and the cursor of each page."""
    data, begins = [], [0]
    while True:
        page = (await client.get(address, params={**query, "after": begins[-1]})).json()
        data += page["messages"]
        if "nextAfter" not in page:
            return data, begins
        begins.append(page["nextAfter"])


async def test_one_standard_message_per_message(client: AsyncClient, session: str) -> None:
    address = await filled(client, session, [LINES[0], LINES[3], PLAIN])

    response = await client.get(address)

    plain = transform_messages([PLAIN])[0].id
    metadata = {"source": "claude", "sessionId": "s-1", "cliVersion": "2.1.0"}
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == {
        "messages": [
            {
                "id": "u0",
                "role": "user",
                "timestamp": 1793610000000,
                "content": [{"type": "text", "text": "prompt 0"}],
                "metadata": metadata,
                "_original": [json.loads(LINES[0])],
            },
            {
                "id": "u3",
                "role": "assistant",
                "timestamp": 1793610003000,
                "content": [{"type": "text", "text": "Done."}],
                "metadata": metadata,
                "_original": [json.loads(LINES[3])],
            },
            {
                "id": plain,
                "role": "user",
                "content": [{"type": "text", "text": PLAIN}],
                "metadata": {**metadata, "source": "unknown"},
                "_original": [PLAIN],
            },
        ]
    }


@pytest.mark.parametrize(
    ("limit", "begins"),
    [
        (15, [0]),
        (14, [0, 10]),
        (11, [0, 10]),
        (10, [0, 10]),
        (9, [0, 5, 10]),
        (6, [0, 5, 10]),
        (5, [0, 5, 10]),
        (2, [0, 5, 10]),
        (1, [0, 5, 10]),
    ],
)
async def test_pages_do_not_split_turns(
    client: AsyncClient, session: str, limit: int, begins: list[int]
) -> None:
    """All pages together equal the whole, and each has the session's metadata."""
    address = await filled(client, session, LINES)
    whole = [json.loads(each.model_dump_json()) for each in transform_messages(LINES)]

    assert await paged(client, address, limit=limit) == (whole, begins)


async def test_turn_over_several_pages_is_counted_once(client: AsyncClient, session: str) -> None:
    """Late usage and repeated texts are assigned correctly for every page size."""
    counted = {"input_tokens": 9, "output_tokens": 4}

    def run(number: int) -> list[str]:
        done = f"Done {number}."
        records = [
            codex.message_item("user", f"Go {number}."),
            *(codex.call_item(f"c{number}-{each}", "ls") for each in range(30)),
            codex.event("agent_message", message=done),
            codex.message_item("assistant", done),
            codex.token_count({"input_tokens": number}, counted),
        ]
        return list(map(json.dumps, records))

    lines = [*run(1), *run(2), *run(3)]
    address = await filled(client, session, lines)
    whole = [json.loads(each.model_dump_json()) for each in transform_messages(lines)]
    assert [("usage" in each, "shadowOf" in each["metadata"]) for each in whole].count((True, False)) == 3

    for limit in (1, 3, 10, 40):
        assert (await paged(client, address, limit=limit))[0] == whole, limit


async def test_turns_beyond_the_limit_are_split(
    client: AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standard_pages, "_MAX_LINES", 2)
    monkeypatch.setattr(standard_pages, "MAX_DISTANCE", 1)
    address = await filled(client, session, LINES)

    data, begins = await paged(client, address, limit=2)

    assert begins == [0, 2, 4, 6, 8, 10, 12]
    assert [each["id"] for each in data] == [f"u{turn + each}" for turn in (0, 10, 20) for each in range(4)]


async def test_long_turn_is_one_page(client: AsyncClient, session: str) -> None:
    """Each answer consists of two lines, which form one message and are counted once."""

    def answer(number: int) -> list[str]:
        call = {"type": "tool_use", "id": f"t{number}", "name": "ls", "input": {}}
        usage = {"input_tokens": number, "output_tokens": 2}
        return [
            line(each, "assistant", None, message={"id": f"m{number}", "role": "assistant", **fields})
            for each, fields in (
                (number, {"content": [{"type": "text", "text": "I look."}], "usage": usage}),
                (number + 1, {"content": [call], "usage": usage}),
            )
        ] + [line(number + 2, "user", [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "a"}])]

    lines = [
        line(0, "user", "Go."),
        *(each for number in range(1, 58, 3) for each in answer(number)),
        *turn(60),
    ]
    address = await filled(client, session, lines)
    whole = [json.loads(each.model_dump_json()) for each in transform_messages(lines)]
    assert sum("usage" in each for each in whole) == 19

    for limit in (1, 3, 10):
        assert (await paged(client, address, limit=limit))[0] == whole, limit


async def test_pages_have_a_maximum_size(
    client: AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = await filled(client, session, LINES)
    monkeypatch.setattr(standard_pages, "MAX_PARSE_BYTES", len("".join(LINES[:7])))

    assert (await paged(client, address))[1] == [0, 5, 10]


async def test_polling_after_the_last_page(client: AsyncClient, session: str) -> None:
    address = await filled(client, session, [*LINES[:4], STREAMED])

    assert (await client.get(address, params={"after": 99})).json() == {"messages": []}
    assert (await client.get(f"{session}-x")).status_code == 404
    assert await paged(client, address) == (
        [json.loads(each.model_dump_json()) for each in transform_messages(LINES[:4])],
        [0],
    )


async def test_visible_omits_text_inserted_by_tools(client: AsyncClient, session: str) -> None:
    wrapped = line(30, "user", "<system-reminder>Be brief.</system-reminder>")
    address = await filled(client, session, [wrapped, *LINES[:1]])

    assert [
        [each["id"] for each in (await paged(client, address, visible=visible))[0]]
        for visible in ("true", "false")
    ] == [["u0"], ["u30", "u0"]]


POISON = [
    "\ufeff{",
    '{"a":' * 5000,
    "[" * 199 + "]" * 199,
    r'{"role":"user","content":"\ud800 \u0000","\udc00":1}',
    '{"role":"user","content":[{"type":"text","text":1e400}]}',
    '{"role":"user","content":[{"type":"tool_use","id":"t","name":"a","input":' + "9" * 40 + "}]}",
    '{"type":"assistant","timestamp":"9999-12-31T23:59:59.999999-14:00","message":{"id":5,"role":"assistant",'
    '"content":[{"type":"text","text":"x"}],"usage":"many","stop_reason":{}},"sessionId":[],"version":{}}',
    '{"type":"result","usage":{"input_tokens":"9"},"total_cost_usd":"much","is_error":1,"errors":5}',
    '{"type":"response_item","payload":null,"timestamp":-1}',
    '{"role":{},"content":{"parts":7},"parts":null}',
    '{"candidates":[{"content":5}],"usageMetadata":[]}',
    '{"choices":[{"message":null}],"usage":{"prompt_tokens":true}}',
    '[{"type":"user","message":{"content":[[]]}},null,5]',
]


@pytest.mark.parametrize("source", [None, "unknown", "house", *discover()])
async def test_every_line_can_be_read(client: AsyncClient, session: str, source: str | None) -> None:
    lines = [{"content": text, **({"source": source} if source else {})} for text in [*POISON, FIRST]]
    (await client.post(f"{session}/messages", json=lines)).raise_for_status()

    responses = [
        await client.get(f"{session}/standard-messages", params={"after": after}) for after in (0, 3, 12)
    ]

    assert [response.status_code for response in responses] == [200, 200, 200]
    if source in (None, "unknown"):
        last = responses[2].json()["messages"][-1]
        assert (last["metadata"]["source"], last["_original"]) == ("claude", [json.loads(FIRST)])


async def test_unknown_session(client: AsyncClient) -> None:
    address = "/api/sessions/00000000-0000-0000-0000-000000000007/standard-messages"

    assert (await client.get(address)).json()["code"] == "session_not_found"
