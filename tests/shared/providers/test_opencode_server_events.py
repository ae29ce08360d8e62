"""Events of OpenCode's server, of both message models and in all forms."""

import json
from typing import Any

import pytest

from ash_shared.providers import discover
from ash_shared.providers.opencode import PROVIDER
from tests.shared.logs import follow, short_events
from tests.shared.records.opencode import TOKENS, finish, info, part, text, tool
from tests.shared.sample_files import CORPUS_NEXT
from tests.shared.transcripts import short_messages

Doc = dict[str, Any]
BEGAN = 1_770_000_000_000


def stored(name: str, version: int = 1, /, **data: Any) -> Doc:
    """Return the row of the second model's event."""
    return {
        "id": f"evt_{name}",
        "aggregate_id": "ses_1",
        "seq": 1,
        "type": f"session.next.{name}.{version}",
        "data": {"timestamp": BEGAN, "sessionID": "ses_1", **data},
    }


def streamed(event: Doc) -> Doc:
    type_name, _, _ = event["type"].rpartition(".")
    return {"id": event["id"], "type": type_name, "data": event["data"]}


def synchronised(event: Doc) -> Doc:
    return {"id": "syn_1", "syncEvent": {**event, "aggregateID": event["aggregate_id"]}}


def in_table(event: Doc) -> Doc:
    columns = {**event, "data": json.dumps(event["data"])}
    return {"table": "event", "key": event["id"], "columns": columns}


def published(name: str, /, **properties: Any) -> Doc:
    """Return an event of the first model, as the server publishes it."""
    return {"type": name, "properties": properties}


ANSWER = {"assistantMessageID": "msg_2"}
STEP = {**ANSWER, "agent": "build", "model": {"id": "m1", "providerID": "p"}}
PROMPT = {"text": "Build it.", "files": [], "agents": []}
ADMITTED = stored("prompt.admitted", messageID="msg_1", prompt=PROMPT, delivery="queue")
PROMPTED = stored("prompted", messageID="msg_1", prompt=PROMPT, delivery="queue")
CALLED = stored("tool.called", callID="c1", tool="bash", input={"command": "make"}, **ANSWER)
SUCCESS = stored(
    "tool.success", callID="c1", structured={"exit": 0}, content=[{"type": "text", "text": "ok"}], **ANSWER
)
FINISHED = stored("step.ended", 2, finish="stop", cost=0.1, tokens=TOKENS, **ANSWER)
SESSION = [
    ADMITTED,
    PROMPTED,
    stored("step.started", **STEP),
    stored("reasoning.started", reasoningID="r1", **ANSWER),
    stored("reasoning.ended", reasoningID="r1", text="Hm", **ANSWER),
    stored("tool.input.started", callID="c1", name="bash", **ANSWER),
    stored("tool.input.ended", callID="c1", text='{"command":"make"}', **ANSWER),
    CALLED,
    stored("tool.progress", callID="c1", structured={}, content=[], **ANSWER),
    SUCCESS,
    stored("text.started", textID="t1", **ANSWER),
    stored("text.ended", textID="t1", text="Built.", **ANSWER),
    FINISHED,
]
CALL_EVENT = ("tool_call", {"toolCallId": "c1", "toolName": "bash", "args": {"command": "make"}}, "msg_2")
RESULT_EVENT = (
    "tool_result",
    {
        "toolCallId": "c1",
        "result": [{"type": "text", "text": "ok"}],
        "structured": {"exit": 0},
        "exitCode": 0,
    },
)
TURN = ("turn_start", {"trigger": "user"})
PROMPT_EVENT = ("user_message", {"text": "Build it."})


def done(words: str) -> tuple[Any, ...]:
    return ("assistant_done", {"text": words}, "msg_2")


def events_of(*records: Doc) -> list[tuple[Any, ...]]:
    """Return the events with only the cost of turns."""
    return [
        (wire, {"costUsd": payload["costUsd"]} if "costUsd" in payload else payload, *more)
        for wire, payload, *more in short_events(follow(records))
    ]


@pytest.mark.parametrize("form", [dict, streamed, synchronised, in_table])
def test_each_form_of_the_second_model_is_read(form: Any) -> None:
    records = [form(event) for event in SESSION]

    owners = {
        source for record in records for source, provider in discover().items() if provider.recognize(record)
    }
    assert owners == {"opencode"}
    assert events_of(*records) == [
        TURN,
        PROMPT_EVENT,
        ("thinking_done", {"text": "Hm"}, "msg_2"),
        CALL_EVENT,
        RESULT_EVENT,
        done("Built."),
        ("turn_end", {"costUsd": 0.1}),
    ]
    assert [message[:2] for message in short_messages(*records)] == [
        ("user", [("text", "Build it.")]),
        ("assistant", [("thinking", "Hm"), ("tool_use", "bash"), ("text", "Built.")]),
        ("user", [("tool_result", [{"type": "text", "text": "ok"}])]),
    ]
    assert {PROVIDER.header(record).session_id for record in records} == {"ses_1"}


@pytest.mark.parametrize(
    ("records", "events"),
    [
        pytest.param(
            [
                streamed(PROMPTED),
                streamed(stored("step.started", **STEP)),
                streamed(stored("text.started", textID="t1", **ANSWER)),
                streamed(stored("text.delta", textID="t1", delta="Bui", **ANSWER)),
                streamed(stored("text.delta", textID="t1", delta="lt.", **ANSWER)),
                streamed(stored("text.ended", textID="t1", text="Built.", **ANSWER)),
            ],
            [
                TURN,
                PROMPT_EVENT,
                ("assistant_chunk", {"text": "Bui"}, "msg_2"),
                ("assistant_chunk", {"text": "lt."}, "msg_2"),
                done("Built."),
            ],
            id="deltas of the second model",
        ),
        pytest.param(
            [
                PROMPTED,
                stored("step.started", **STEP),
                stored("step.failed", 2, error={"type": "unknown", "message": "Overloaded"}, **ANSWER),
                stored("retried", attempt=1, error={"message": "Overloaded", "isRetryable": True}),
            ],
            [
                TURN,
                PROMPT_EVENT,
                (
                    "error",
                    {
                        "code": "unknown",
                        "message": "Overloaded",
                        "details": {"type": "unknown", "message": "Overloaded"},
                    },
                ),
                ("system_message", {"text": "Overloaded", "variant": "notice"}),
            ],
            id="a failed response and its repetition",
        ),
        pytest.param(
            [
                stored("shell.started", messageID="msg_3", callID="h1", command="pwd"),
                stored("shell.ended", callID="h1", output="/srv\n"),
                stored("synthetic", messageID="msg_4", text="The user ran pwd."),
                stored("compaction.ended", messageID="msg_5", reason="auto", text="Built.", recent="Last"),
            ],
            [
                ("turn_start", {"trigger": "system"}),
                (
                    "tool_call",
                    {
                        "toolCallId": "h1",
                        "toolName": "shell",
                        "args": {"command": "pwd"},
                        "executor": "user",
                    },
                    "h1",
                ),
                ("tool_result", {"toolCallId": "h1", "result": "/srv\n"}),
                ("user_message", {"text": "The user ran pwd.", "synthetic": True}),
                ("summary", {"text": "Built."}),
            ],
            id="a command of the person, and a compaction",
        ),
        pytest.param(
            [
                PROMPTED,
                stored("revert.staged", revert={"messageID": "msg_1"}),
                stored("revert.cleared"),
                stored("revert.committed", messageID="msg_1"),
            ],
            [TURN, PROMPT_EVENT, ("retraction", {"fromMessageId": "msg_1"})],
            id="only a committed revert retracts",
        ),
        pytest.param(
            [
                stored("agent.switched", messageID="msg_s1", agent="plan"),
                stored("step.started", **STEP),
            ],
            [("agent_switch", {"fromAgentId": "plan", "toAgentId": "build"})],
            id="another agent",
        ),
        pytest.param(
            [
                published("message.updated", info=info("msg_1", "user")),
                published("message.part.updated", part=part("text", "msg_1", text="Build it.")),
                published("message.updated", info=info("msg_2", "assistant")),
                published("message.part.updated", part=part("text", text="", time={"start": 1})),
                published(
                    "message.part.updated", part=part("text", text="Bui", time={"start": 1}), delta="Bui"
                ),
                published(
                    "message.part.delta",
                    sessionID="ses_1",
                    messageID="msg_2",
                    partID="prt_text",
                    field="text",
                    delta="lt.",
                ),
                published("message.part.updated", part=text("Built.")),
                published("message.part.updated", part=text("Built.")),
                published("message.part.updated", part=finish("stop", cost=0.1)),
                published("message.updated", info=info("msg_2", "assistant", cost=0.1, tokens=TOKENS)),
                published("session.idle", sessionID="ses_1"),
            ],
            [
                TURN,
                PROMPT_EVENT,
                ("assistant_chunk", {"text": "Bui"}, "msg_2"),
                ("assistant_chunk", {"text": "lt."}, "msg_2"),
                done("Built."),
                ("turn_end", {"costUsd": 0.1}),
            ],
            id="the stream of the first model",
        ),
        pytest.param(
            [
                published("message.updated", info=info("msg_2", "assistant")),
                published(
                    "message.part.updated",
                    part=tool({"status": "completed", "input": {"command": "make"}, "output": "ok"}),
                ),
                published("message.part.removed", sessionID="ses_1", messageID="msg_2", partID="prt_tool"),
                published("message.part.updated", part=text("Built.")),
                published("message.removed", sessionID="ses_1", messageID="msg_2"),
            ],
            [
                ("turn_start", {"trigger": "system"}),
                CALL_EVENT,
                ("tool_result", {"toolCallId": "c1", "result": "ok"}),
                ("retraction", {"eventIds": ["2/1", "2/2"]}),
                done("Built."),
                ("retraction", {"messageIds": ["msg_2"]}),
            ],
            id="a removed part, and a removed message",
        ),
    ],
)
def test_events_of_the_server(records: list[Doc], events: list[Any]) -> None:
    assert events_of(*records) == events


def test_removed_parts_and_messages_are_no_content() -> None:
    first = [
        published("message.updated", info=info("msg_2", "assistant")),
        published("message.part.updated", part=text("Built.")),
    ]
    part_removed = published("message.part.removed", sessionID="ses_1", messageID="msg_2", partID="prt_text")
    message_removed = published("message.removed", sessionID="ses_1", messageID="msg_2")

    assert short_messages(*first, part_removed) == [("assistant", [], {"messageId": "msg_2"})]
    assert short_messages(*first, message_removed) == [
        ("assistant", [("text", "Built.")], {"messageId": "msg_2", "retracted": True})
    ]


@pytest.mark.parametrize(
    ("type", "name"),
    [
        ("session.next.revert.committed", "messageID"),
        ("message.removed", "messageID"),
        ("message.part.removed", "partID"),
    ],
)
@pytest.mark.parametrize("id", [None, 1.5, {}, ["msg_2"]])
def test_invalid_ids_retract_nothing(type: str, name: str, id: Any) -> None:
    first = [
        published("message.updated", info=info("msg_2", "assistant")),
        published("message.part.updated", part=text("Built.")),
    ]
    invalid = published(type, sessionID="ses_1", **{"messageID": "msg_2", name: id})

    assert short_messages(*first, invalid) == short_messages(*first)
    assert events_of(*first, invalid) == events_of(*first)
    assert short_messages(invalid) == events_of(invalid) == []


def test_events_of_all_projects_are_wrapped() -> None:
    event = published("message.part.updated", part=text("Built."))

    assert events_of({"directory": "/srv", "payload": event}) == events_of(event)


@pytest.mark.parametrize(
    "record",
    [
        {
            "type": "session.error",
            "data": {"errorType": "query"},
            "id": "e4",
            "timestamp": "2026-01-01T00:00:00Z",
        },
        {"type": "session.next.text.ended", "data": "Built."},
        {"type": "text.ended", "data": {"sessionID": "ses_1"}},
    ],
    ids=["Copilot", "no data", "another type"],
)
def test_events_of_other_programs_are_not_recognized(record: Doc) -> None:
    assert PROVIDER.recognize(record) is None


SAMPLES = CORPUS_NEXT / "opencode_v2_events"


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="no ../shared/corpus-next next to the repository")
def test_stream_and_table_have_the_same_events() -> None:
    streams = [
        [json.loads(line) for line in (SAMPLES / f"generated__{name}__001.jsonl").read_text().splitlines()]
        for name in ("bus", "event-rows")
    ]
    bus, table = (
        [(wire, *more) for wire, _, *more in short_events(follow(records)) if not wire.endswith("_chunk")]
        for records in streams
    )

    assert bus == table
