"""Projections over HTTP equal the library's projections of all events of the session."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import pytest
from httpx2 import AsyncClient

import ash_server
from ash_server.api.http import redaction
from ash_server.api.http.server.serve import _is_not_noise
from ash_server.api.sessions import projections
from ash_server.errors import SessionChanged
from ash_server.store import Store
from ash_server.store.connections.pool import connect
from ash_server.store.conversation import (
    projection_inputs,
    repeated_pages,
    standard_pages,
    standing_events,
    streamed_attributes,
)
from ash_server.store.log.rebuild import rebuild_events
from ash_server.store.transcripts import Copy
from ash_shared.conversation.standard_messages import transform_messages
from ash_shared.projections import (
    to_anthropic_messages,
    to_atif,
    to_claude_prompt,
    to_codex_prompt,
    to_openai_messages,
    to_otel_genai,
    to_session_summary,
    to_ui_messages,
)
from tests.marking import slow_after, slow_unless
from tests.server.trajectories import read_trajectory
from tests.shared.records import claude
from tests.shared.records.events import numbered, token_usage, tool_call, tool_result, wire_event

NDJSON = {"Content-Type": "application/x-ndjson"}
SAMPLES = Path(ash_server.__file__).parent / "samples"

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
PROJECTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "anthropic-messages": (JSON, lambda events: {"messages": to_anthropic_messages(events)}),
    "claude-prompt": (TEXT, to_claude_prompt),
    "codex-prompt": (TEXT, to_codex_prompt),
    "openai-messages": (JSON, lambda events: {"messages": to_openai_messages(events)}),
    "session-summary": (JSON, lambda events: to_session_summary(events).model_dump(mode="json")),
    "ui-messages": (JSON, lambda events: {"messages": to_ui_messages(events)}),
}

CONVERSATION: list[tuple[str, dict[str, Any]]] = [
    ("user_message", {"text": "Which tests fail?"}),
    ("thinking_chunk", {"text": "Let"}),
    ("thinking_done", {"text": "Let me see."}),
    ("raw", {"source": "claude", "raw": {"type": "holo_frame"}}),
    ("tool_call", {"toolCallId": "c1", "toolName": "shell", "args": {"command": "pytest -q"}}),
    (
        "tool_result",
        {"toolCallId": "c1", "result": "1 failed", "error": {"code": "1", "message": "1 failed"}},
    ),
    ("agent_message", {"messageId": "m1", "targetAgentId": "ada", "message": "Why?", "wait": False}),
    ("agent_callback", {"messageId": "m1", "fromAgentId": "ada", "result": "A path."}),
    ("assistant_done", {"text": "Only test_paths."}),
    ("note", {"of": "the house"}),
    ("turn_end", {"usage": token_usage(5, 2), "costUsd": 0.5}),
    ("user_audio", {"transcription": "Thank you.", "durationMs": 900}),
    ("assistant_chunk", {"text": "You are"}),
    ("retraction", {"turns": 0}),
    ("error", {"code": "overloaded", "message": "later"}),
]


def conversation() -> list[dict[str, Any]]:
    return numbered(*(wire_event(type, **payload) for type, payload in CONVERSATION))


async def all_events(client: AsyncClient, session: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while page := (await client.get(f"{session}/events", params={"after": len(events)})).json()["events"]:
        events += page
    return events


async def projected(client: AsyncClient, session: str, name: str) -> Any:
    response = await client.get(f"{session}/projections/{name}")
    media_type = PROJECTIONS[name][0] if name in PROJECTIONS else JSON
    assert (response.status_code, response.headers["content-type"]) == (200, media_type)
    return response.json() if media_type == JSON else response.text


@pytest.fixture(params=[1000, 3], ids=["one page", "pages of three"])
def pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_events, "_PAGE", request.param)
    monkeypatch.setattr(standing_events, "_FIRST_PAGE", request.param)


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize(
    "sample", slow_after(4, [None, *sorted(path.stem for path in SAMPLES.glob("*.jsonl"))])
)
async def test_projections_equal_the_library(client: AsyncClient, session: str, sample: str | None) -> None:
    if sample is None:
        await client.post(f"{session}/events", json=conversation())
    else:
        text = (SAMPLES / f"{sample}.jsonl").read_bytes()
        await client.post(f"{session}/messages", content=text, headers=NDJSON)
    events = await all_events(client, session)

    for name, (_, project) in PROJECTIONS.items():
        assert derived_from_events(await projected(client, session, name)) == derived_from_events(
            project(events)
        ), name


@pytest.mark.parametrize("sample", [None, *sorted(path.stem for path in SAMPLES.glob("*.jsonl"))])
async def test_attributes_equal_the_library(client: AsyncClient, session: str, sample: str | None) -> None:
    if sample is None:
        await client.post(f"{session}/events", json=conversation())
        log = "\n".join(map(json.dumps, await all_events(client, session)))
        messages = transform_messages([(line, "ash") for line in log.split("\n")])
    else:
        text = (SAMPLES / f"{sample}.jsonl").read_bytes()
        await client.post(f"{session}/messages", content=text, headers=NDJSON)
        messages = transform_messages(text)

    attributes = await projected(client, session, "otel-genai")

    assert attributes == to_otel_genai(messages, conversation_id=session.rpartition("/")[2])
    assert attributes["gen_ai.output.messages"]


@pytest.mark.parametrize("sample", sorted(path.stem for path in SAMPLES.glob("*.jsonl")))
async def test_trajectories_equal_the_library(client: AsyncClient, session: str, sample: str) -> None:
    text = (SAMPLES / f"{sample}.jsonl").read_text(encoding="utf-8")
    await client.post(f"{session}/messages", content=text, headers=NDJSON)
    id = session.rpartition("/")[2]

    trajectory = await projected(client, session, "atif")

    records = [json.loads(line) for line in text.splitlines()[:200]]
    assert trajectory == to_atif(transform_messages(text), session_id=id, records=records).document
    assert len(trajectory["steps"]) > 1


async def test_trajectories_contain_the_sessions_of_subagents(client: AsyncClient, session: str) -> None:
    call = {"type": "tool_use", "id": "c1", "name": "Task", "input": {"prompt": "Count."}}
    line = claude.line("assistant", [call])
    await client.post(f"{session}/messages", json={"content": json.dumps(line)})
    parent = session.rpartition("/")[2]
    created = await client.post("/api/sessions", json={"source": "claude", "parentId": parent})
    subagent = created.json()["id"]
    answer = claude.line("assistant", "Seven.")
    await client.post(f"/api/sessions/{subagent}/messages", json={"content": json.dumps(answer)})

    trajectory = await projected(client, session, "atif")

    [embedded] = trajectory["subagent_trajectories"]
    assert (embedded["trajectory_id"], embedded["steps"][0]["message"]) == (subagent, "Seven.")


async def test_trajectories_mark_messages_copied_from_another_session(store: Store) -> None:
    def answer(id: str) -> str:
        usage = {"input_tokens": 20, "output_tokens": 9}
        return json.dumps(claude.line("assistant", id, {"id": id, "usage": usage}, uuid=id))

    original = await store.sessions.create(source="claude")
    await store.messages.append(original.id, [answer("m1")])
    fork = await store.sessions.create(source="claude")
    await store.messages.append(fork.id, [answer("m1"), answer("m2")])
    await store.transcripts.set_copy(fork.id, Copy(original.id, 1))

    document = await read_trajectory(store, fork.id)

    steps = [
        (each["message"], each.get("is_copied_context"), "metrics" in each) for each in document["steps"]
    ]
    assert steps == [("m1", True, False), ("m2", None, True)]


async def test_attributes_have_the_tools_of_the_session(client: AsyncClient, session: str) -> None:
    lines = [
        {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash", "Read"], "model": "opus"},
        claude.line("user", 'Go on with the "tools".'),
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines) + '{"tools": '
    await client.post(f"{session}/messages", content=text, headers=NDJSON)

    attributes = await projected(client, session, "otel-genai")

    assert [each["name"] for each in attributes["gen_ai.tool.definitions"]] == ["Bash", "Read"]


def derived_from_events(projection: Any) -> Any:
    """Return the projection without the fields of a summary that do not come from events."""
    if "models" not in projection:
        return projection
    others = ("models", "usage", "costUsd", "computedCostUsd")
    return {name: value for name, value in projection.items() if name not in others}


@pytest.mark.slow
async def test_summary_counts_the_models_of_the_whole_session(client: AsyncClient, session: str) -> None:
    lines: list[dict[str, Any]] = [claude.line("user", "Start.")]
    for number in range(600):
        model = "first" if number == 0 else "second"
        lines.append(claude.line("assistant", [TEXT_BLOCK], {"id": f"m{number}", "model": model}))
    lines.append({"type": "assistant", "message": {"model": "<synthetic>", "content": [TEXT_BLOCK]}})
    await client.post(f"{session}/messages", content="\n".join(map(json.dumps, lines)), headers=NDJSON)

    summary = await projected(client, session, "session-summary")

    assert summary["models"] == {"second": 599, "first": 1}


async def test_queued_prompt_does_not_name_the_session(client: AsyncClient, session: str) -> None:
    """A resumed session queues the new prompt before it copies the earlier ones."""
    lines = [
        {"type": "queue-operation", "operation": "enqueue", "content": "And the other one?"},
        {"type": "queue-operation", "operation": "dequeue"},
        claude.line("user", "Fix the test."),
        {"type": "assistant", "message": {"id": "m1", "content": [TEXT_BLOCK]}},
        claude.line("user", "And the other one?"),
    ]
    await client.post(f"{session}/messages", content="\n".join(map(json.dumps, lines)), headers=NDJSON)

    listed = (await client.get(session)).json()["title"]
    summary = await projected(client, session, "session-summary")

    assert (listed, summary["title"], summary["userMessages"]) == ("Fix the test.", "Fix the test.", 2)


TEXT_BLOCK = {"type": "text", "text": "Done."}


async def test_summary_includes_usage_of_an_open_turn(client: AsyncClient, session: str) -> None:
    await client.post(
        f"{session}/messages", content=(SAMPLES / "csv-export.jsonl").read_bytes(), headers=NDJSON
    )
    messages = (await client.get(f"{session}/standard-messages")).json()["messages"]
    usages = [message["usage"] for message in messages if message["role"] == "assistant"]

    summary = await projected(client, session, "session-summary")

    for name, total in summary["usage"].items():
        assert total == sum(usage.get(name, 0) for usage in usages), name
    assert (summary["usage"]["total_tokens"], summary["usage"]["cache_read_input_tokens"]) == (918, 164_160)
    assert summary["models"] == {"claude-opus-4-5": 9}

    await client.post(f"{session}/end")

    assert (await projected(client, session, "session-summary"))["usage"] == summary["usage"]


async def test_projections_of_a_conversation(client: AsyncClient, session: str) -> None:
    await client.post(f"{session}/events", json=conversation())

    summary = await projected(client, session, "session-summary")
    shown = {
        name: summary[name] for name in ("title", "toolErrors", "agents", "errors", "costUsd", "unrecognised")
    }
    assert (await projected(client, session, "openai-messages"))["messages"] == [
        {"role": "user", "content": "Which tests fail?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "shell", "arguments": '{"command": "pytest -q"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "1 failed"},
        {"role": "user", "content": "[Callback from ada]: A path."},
        {"role": "assistant", "content": "Only test_paths."},
        {"role": "user", "content": "Thank you."},
    ]
    assert shown == {
        "title": "Which tests fail?",
        "toolErrors": {"shell": 1},
        "agents": ["ada"],
        "errors": {"overloaded": 1},
        "costUsd": 0.5,
        "unrecognised": 1,
    }


async def test_projections_of_an_empty_session(client: AsyncClient, session: str) -> None:
    responses = [await projected(client, session, name) for name in PROJECTIONS]

    assert responses == [project([]) for _, project in PROJECTIONS.values()]


async def test_projections_after_a_rebuild(
    client: AsyncClient, session: str, shared_database_url: str
) -> None:
    text = (SAMPLES / "trail-map.jsonl").read_bytes()
    await client.post(f"{session}/messages", content=text, headers=NDJSON)
    before = [await projected(client, session, name) for name in PROJECTIONS]

    async with await connect(shared_database_url) as conn:
        await rebuild_events(conn, UUID(session.rpartition("/")[2]))

    assert [await projected(client, session, name) for name in PROJECTIONS] == before


async def test_rebuild_between_two_pages(
    client: AsyncClient, session: str, shared_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (SAMPLES / "trail-map.jsonl").read_bytes()
    await client.post(f"{session}/messages", content=text, headers=NDJSON)
    before = await projected(client, session, "openai-messages")
    monkeypatch.setattr(standing_events, "_FIRST_PAGE", 3)
    decode, rebuilt = standing_events._decode, list[Any]()

    def rebuilding(*arguments: Any, **options: Any) -> Any:
        if not rebuilt:

            async def rebuild() -> None:
                async with await connect(shared_database_url) as conn:
                    rebuilt.append(await rebuild_events(conn, UUID(session.rpartition("/")[2])))

            asyncio.run(rebuild())
        return decode(*arguments, **options)

    monkeypatch.setattr(standing_events, "_decode", rebuilding)

    assert (await projected(client, session, "openai-messages"), len(rebuilt)) == (before, 1)


async def test_unread_events_do_not_count_as_size(
    client: AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (projection_inputs, projections):
        monkeypatch.setattr(module, "MAX_BYTES", 10_000)
    large = "x" * 20_000
    unread = [
        wire_event("raw", source="a", raw=large),
        wire_event("thinking_done", text=large),
        wire_event("assistant_chunk", text=large),
    ]
    await client.post(f"{session}/events", json=unread)
    fits = {name: (await client.get(f"{session}/projections/{name}")).status_code for name in PROJECTIONS}

    await client.post(f"{session}/events", json=[tool_call("a"), tool_result("a", large)])
    responses = {name: await client.get(f"{session}/projections/{name}") for name in PROJECTIONS}

    assert fits == {name: 422 if name == "ui-messages" else 200 for name in PROJECTIONS}
    assert {name: response.status_code for name, response in responses.items()} == {
        name: 200 if name == "session-summary" else 422 for name in PROJECTIONS
    }


@pytest.mark.parametrize("name", ["openai-messages", "anthropic-messages"])
async def test_events_of_a_subagent_do_not_count_as_size(
    client: AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(projections, "MAX_BYTES", 10_000)
    monkeypatch.setattr(standing_events, "_FIRST_PAGE", 3)
    within = [wire_event("assistant_done", text="x" * 8_000, parentToolCallId="a")] * 9
    prompt = wire_event("user_message", text="Count.")
    log = [prompt, tool_call("a", "Task"), *within, tool_result("a", "All of them.")]
    await client.post(f"{session}/events", json=log)

    messages = (await projected(client, session, name))["messages"]

    assert [message["role"] for message in messages][:2] == ["user", "assistant"]
    assert "All of them." in json.dumps(messages)


RETRACTED = [
    wire_event("user_message", text="One.", turnId="t1", recordId="r1"),
    wire_event("assistant_done", text="First.", turnId="t1", recordId="r2"),
    wire_event("user_message", text="Two.", turnId="t2", recordId="r3"),
    wire_event("assistant_done", text="Second.", turnId="t2", recordId="r4"),
    wire_event("retraction", turns=1),
    wire_event("user_message", text="Three.", turnId="t3", recordId="r5"),
    wire_event("assistant_done", text="Third.", turnId="t3", recordId="r6"),
    wire_event("retraction", messageIds=["r6"]),
    wire_event("user_message", text="Four.", turnId="t4", recordId="r7"),
    wire_event("retraction", eventIds=["e9"]),
    wire_event("summary", text="A summary.", turnId="t4", recordId="r8"),
    wire_event("user_message", text="Five.", turnId="t5", recordId="r9"),
    wire_event("summary", text="Retracted.", turnId="t5", recordId="r10"),
    wire_event("user_message", text="Six.", turnId="t6", recordId="r11"),
    wire_event("retraction", fromMessageId="r10"),
    wire_event("assistant_done", text="Sixth.", turnId="t7", recordId="r10"),
    wire_event("summary", text=" ", turnId="t7"),
]


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("length", slow_unless(lambda length: length % 4 == 0, range(4, len(RETRACTED) + 1)))
async def test_streamed_projections_omit_retracted_events(
    client: AsyncClient, session: str, length: int
) -> None:
    await client.post(f"{session}/events", json=numbered(*RETRACTED[:length]))
    stored = await all_events(client, session)

    for name in ("openai-messages", "anthropic-messages", "claude-prompt", "ui-messages"):
        assert await projected(client, session, name) == PROJECTIONS[name][1](stored), name


async def test_truncated_logs_are_read_up_to_a_limit(
    client: AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [wire_event("user_message", text="Go on.", recordId=f"r{number}") for number in range(9)]
    await client.post(f"{session}/events", json=[*prompts, wire_event("retraction", turns=1)])
    sizes = []
    for most in (8, 7):
        monkeypatch.setattr(standing_events, "MAX_TRUNCATED", most)
        response = await client.get(f"{session}/projections/openai-messages")
        sizes.append((response.status_code, len(response.json().get("messages", ()))))

    assert sizes == [(200, 8), (422, 0)]


async def test_redacted_messages_are_sent_before_the_last_are_read(
    client: AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The middleware keeps a body until it is complete."""
    secret = "ghp_" + "a1B2" * 9
    prompt = wire_event("user_message", text=f"Use {secret}.")
    await client.post(f"{session}/events", json=prompt)
    monkeypatch.setattr(redaction, "_Body", None)

    for name in ("openai-messages", "anthropic-messages", "ui-messages", "claude-prompt", "codex-prompt"):
        shown = await client.get(f"{session}/projections/{name}", params={"redact": "1"})

        assert (shown.status_code, secret in shown.text, "[redacted" in shown.text) == (200, False, True)


async def test_first_messages_are_sent_before_the_last_are_read(
    client: AsyncClient, session: str, shared_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_events, "_FIRST_PAGE", 3)
    texts = [f"Prompt {number}" for number in range(9)]
    events = [wire_event("user_message", text=text) for text in texts]
    await client.post(f"{session}/events", json=events)
    id = UUID(session.rpartition("/")[2])
    projection = projections.PROJECTIONS["openai-messages"]
    assert isinstance(projection, projections._Streamed)

    async with Store.open(shared_database_url) as store:
        chunks = projection.render(store.conversation, id, False)
        first = await anext(chunks)
        await store.events.append(id, {**events[0], "id": "new"})
        rest = b"".join([chunk async for chunk in chunks])

    assert b"Prompt 1" in first
    assert b"Prompt 2" not in first
    assert json.loads(first + rest) == {"messages": [{"role": "user", "content": text} for text in texts]}


async def test_prompts_of_a_large_session(
    client: AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (projection_inputs, projections):
        monkeypatch.setattr(module, "MAX_BYTES", 10_000)
    monkeypatch.setattr(standing_events, "_FIRST_PAGE", 3)
    texts = [f"{number} {'x' * 4_000}" for number in range(9)] + ["A tag: </user-2>.", "<user>"]
    events = [wire_event("user_message", text=text) for text in texts]
    await client.post(f"{session}/events", json=events)

    claude = await projected(client, session, "claude-prompt")
    codex = await projected(client, session, "codex-prompt")

    stored = [{**event, "id": str(number)} for number, event in enumerate(events)]
    assert (claude, codex) == (to_claude_prompt(stored), to_codex_prompt(stored))
    assert claude.count("<user-3>") == len(texts)


def test_session_that_changes_during_a_response(
    shared_server: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The response ends without its last chunk, and the log has a line without a traceback."""
    base = (
        f"{shared_server}/api/sessions/{httpx2.post(f'{shared_server}/api/sessions', json={}).json()['id']}"
    )
    prompt = wire_event("user_message", text="x" * 100_000)
    httpx2.post(f"{base}/events", json=[prompt, prompt]).raise_for_status()
    monkeypatch.setattr(standing_events, "_FIRST_PAGE", 2)
    stream_pages = standing_events._stream_pages

    async def changing(*arguments: Any) -> Any:
        async for page in stream_pages(*arguments):
            yield page
            raise SessionChanged

    monkeypatch.setattr(standing_events, "_stream_pages", changing)
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "filters", [_is_not_noise])
    with pytest.raises(httpx2.RemoteProtocolError):
        httpx2.get(f"{base}/projections/ui-messages")

    logged = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [(record.name, record.getMessage(), record.exc_info) for record in logged] == [
        ("ash_server.api.http.requests", f"the response ended early: {SessionChanged.title}", None)
    ]


async def test_attributes_of_a_large_session(
    client: AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (SAMPLES / "trail-map.jsonl").read_bytes()
    await client.post(f"{session}/messages", content=text, headers=NDJSON)
    addresses = [f"{session}/projections/otel-genai{query}" for query in ("", "?redact=1")]
    whole = [(await client.get(address)).content for address in addresses]
    monkeypatch.setattr(streamed_attributes, "MAX_KEPT_BYTES", 0)
    monkeypatch.setattr(standard_pages, "_PAGE", 3)
    monkeypatch.setattr(repeated_pages, "MAX_BYTES", len(text) // 2)

    read_twice = [(await client.get(address)).content for address in addresses]
    monkeypatch.setattr(repeated_pages, "MAX_BYTES", 10)
    refused = await client.get(addresses[0])

    assert read_twice == whole
    assert (refused.status_code, refused.json()["code"]) == (422, "session_too_large")


async def test_traces_of_a_large_session(
    client: AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (SAMPLES / "trail-map.jsonl").read_bytes()
    await client.post(f"{session}/messages", content=text, headers=NDJSON)
    whole = (await client.get(f"{session}/projections/otlp")).content
    monkeypatch.setattr(repeated_pages, "MAX_KEPT_BYTES", 0)
    monkeypatch.setattr(standard_pages, "_PAGE", 3)
    monkeypatch.setattr(repeated_pages, "MAX_BYTES", len(text) // 2)

    read_twice = await client.get(f"{session}/projections/otlp")
    monkeypatch.setattr(repeated_pages, "MAX_BYTES", 10)
    refused = await client.get(f"{session}/projections/otlp")

    assert (read_twice.status_code, read_twice.content) == (200, whole)
    assert (refused.status_code, refused.json()["code"]) == (422, "session_too_large")


@pytest.mark.parametrize("max_kept", [10_000, 0])
async def test_attributes_since_the_last_summary(
    client: AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch, max_kept: int
) -> None:
    monkeypatch.setattr(streamed_attributes, "MAX_KEPT_BYTES", max_kept)
    monkeypatch.setattr(standard_pages, "_PAGE", 2)
    texts = ["x" * 6000, "A summary.", "y" * 6000, "Another summary.", "Go on."]
    for number, text in enumerate(texts):
        line = claude.line("user", text, uuid=str(number))
        fields = {"isCompactSummary": True} if "summary" in text else {}
        await client.post(f"{session}/messages", json={"content": json.dumps({**line, **fields})})

    attributes = (await client.get(f"{session}/projections/otel-genai")).json()

    assert [
        part["content"] for message in attributes["gen_ai.input.messages"] for part in message["parts"]
    ] == [
        "Another summary.",
        "Go on.",
    ]


async def test_attributes_of_a_session_that_changes_between_the_readings(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed_attributes, "MAX_KEPT_BYTES", 0)
    session = await store.sessions.create(source="claude")
    lines = [
        json.dumps({"type": role, "uuid": role, "message": {"role": role, "content": f"The {role}."}})
        for role in ("user", "assistant")
    ]
    await store.messages.append(session.id, lines)

    parts = store.conversation.stream_otel_genai(session.id)
    await anext(parts)
    await store.messages.delete(session.id, 1)
    with pytest.raises(SessionChanged):
        [part async for part in parts]


@pytest.mark.parametrize("name", ["", "openai", "OPENAI-MESSAGES", "%00", "raw"])
async def test_unknown_projection(client: AsyncClient, session: str, name: str) -> None:
    response = await client.get(f"{session}/projections/{name}")

    assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("name", [*PROJECTIONS, "atif", "otel-genai", "otlp"])
async def test_unknown_session(client: AsyncClient, name: str) -> None:
    response = await client.get(f"/api/sessions/{UUID(int=7)}/projections/{name}")

    assert (response.status_code, response.json()["code"]) == (404, "session_not_found")
