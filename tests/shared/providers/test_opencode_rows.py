"""Rows of OpenCode's database: changed ones supersede earlier ones."""

import json
from typing import Any

import pytest

from ash_shared import StandardMessage, parse_message, to_openai_messages, to_session_summary
from ash_shared.conversation.live_messages import LiveMessages
from ash_shared.model.message import RecordHeader
from ash_shared.providers.opencode import PROVIDER
from tests.shared.databases import row_line, sessions_of
from tests.shared.logs import follow, short_events
from tests.shared.records.opencode import TOKENS
from tests.shared.sample_files import CORPUS_NEXT
from tests.shared.transcripts import short_messages

Row = dict[str, Any]
SESSION_ID = "ses_1"
BEGAN = 1_770_000_000_000


def row(table: str, **columns: Any) -> Row:
    line: Row = json.loads(row_line(table, columns))
    return line


def session_row(**columns: Any) -> Row:
    usual = {
        "id": SESSION_ID,
        "project_id": "prj_1",
        "parent_id": None,
        "directory": "/srv",
        "title": "Build",
    }
    times = {"time_created": BEGAN, "time_updated": BEGAN + 9_000}
    return row("session", **{**usual, "version": "1.18.34", "revert": None, **times, **columns})


def message_row(id: str, role: str, at: int = 0, **data: Any) -> Row:
    text = json.dumps({"role": role, "time": {"created": BEGAN + at}, **data})
    times = {"time_created": BEGAN + at, "time_updated": BEGAN + at}
    return row("message", id=id, session_id=SESSION_ID, **times, data=text)


def part_row(id: str, message: str, at: int = 0, **data: Any) -> Row:
    times = {"time_created": BEGAN + at, "time_updated": BEGAN + at}
    ids = {"id": id, "message_id": message, "session_id": SESSION_ID}
    return row("part", **ids, **times, data=json.dumps(data))


def text_row(id: str, message: str, words: str, at: int = 0, **data: Any) -> Row:
    return part_row(id, message, at, type="text", text=words, **data)


def tool_row(id: str, message: str, status: str, **state: Any) -> Row:
    return part_row(id, message, type="tool", tool="bash", callID="c1", state={"status": status, **state})


def finish_row(id: str, message: str, reason: str = "stop", *, cost: float = 0.1, **tokens: int) -> Row:
    return part_row(id, message, type="step-finish", reason=reason, cost=cost, tokens={**TOKENS, **tokens})


PROMPT = [message_row("msg_1", "user"), text_row("prt_1", "msg_1", "Build it.")]
ANSWER = message_row("msg_2", "assistant", 1, modelID="m1")
INPUT = {"command": "make"}
DONE = {"input": INPUT, "output": "ok\n", "metadata": {"exit": 0}}
CALL = ("tool_call", {"toolCallId": "c1", "toolName": "bash", "args": INPUT}, "msg_2")
RESULT = ("tool_result", {"toolCallId": "c1", "result": "ok\n", "exitCode": 0, "structured": {"exit": 0}})


def turn(trigger: str = "user") -> tuple[Any, ...]:
    return ("turn_start", {"trigger": trigger})


def superseded(*ids: str) -> tuple[Any, ...]:
    return ("retraction", {"eventIds": list(ids), "reason": "superseded"})


def prompt(words: str) -> tuple[Any, ...]:
    return ("user_message", {"text": words})


def done(words: str, message: str = "msg_2") -> tuple[Any, ...]:
    return ("assistant_done", {"text": words}, message)


def turn_end(input: int, cost: float) -> tuple[Any, ...]:
    return ("turn_end", {"usage": input, "costUsd": cost})


def events_of(*rows: Row) -> list[tuple[Any, ...]]:
    """Return the events, with only the input of their usage."""
    short = []
    for wire, payload, *more in short_events(follow(rows)):
        usage = {"usage": payload["usage"]["input_tokens"]} if "usage" in payload else {}
        short.append((wire, {**payload, **usage}, *more))
    return short


@pytest.mark.parametrize(
    ("rows", "events", "messages"),
    [
        pytest.param(
            [
                session_row(),
                *PROMPT,
                ANSWER,
                tool_row("prt_2", "msg_2", "completed", **DONE),
                text_row("prt_3", "msg_2", "Built."),
                finish_row("prt_4", "msg_2"),
            ],
            [turn(), prompt("Build it."), CALL, RESULT, done("Built."), turn_end(50, 0.1)],
            [
                ("user", [("text", "Build it.")]),
                ("assistant", [("tool_use", "bash"), ("text", "Built.")]),
                ("user", [("tool_result", "ok\n")]),
            ],
            id="a session",
        ),
        pytest.param(
            [
                *PROMPT,
                ANSWER,
                text_row("prt_3", "msg_2", "Bui"),
                session_row(title="Other"),
                ANSWER,
                text_row("prt_3", "msg_2", "Built."),
                text_row("prt_3", "msg_2", "Built.", 5),
            ],
            [turn(), prompt("Build it."), done("Bui"), superseded("4/0"), done("Built.")],
            [("user", [("text", "Build it.")]), ("assistant", [("text", "Built.")])],
            id="a text that was still being written",
        ),
        pytest.param(
            [
                *PROMPT,
                ANSWER,
                tool_row("prt_2", "msg_2", "pending", input={}, raw=""),
                tool_row("prt_2", "msg_2", "running", input=INPUT),
                tool_row("prt_2", "msg_2", "completed", **DONE),
                tool_row("prt_2", "msg_2", "completed", **DONE, time={"compacted": 5}),
            ],
            [
                turn(),
                prompt("Build it."),
                ("tool_call", {**CALL[1], "args": {}, "partial": True}, "msg_2"),
                superseded("4/0"),
                CALL,
                RESULT,
            ],
            [
                ("user", [("text", "Build it.")]),
                ("assistant", [("tool_use", "bash")]),
                ("user", [("tool_result", "ok\n")]),
            ],
            id="a call in all its states",
        ),
        pytest.param(
            [
                *PROMPT,
                ANSWER,
                tool_row("prt_2", "msg_2", "completed", **DONE),
                tool_row("prt_2", "msg_2", "completed", **{**DONE, "input": {"command": "make all"}}),
            ],
            [
                turn(),
                prompt("Build it."),
                CALL,
                RESULT,
                superseded("4/0", "4/1"),
                ("tool_call", {**CALL[1], "args": {"command": "make all"}}, "msg_2"),
                RESULT,
            ],
            [
                ("user", [("text", "Build it.")]),
                ("assistant", [("tool_use", "bash")]),
                ("user", [("tool_result", "ok\n")]),
            ],
            id="a call that changed after its result: both are emitted again, in order",
        ),
        pytest.param(
            [
                *PROMPT,
                ANSWER,
                text_row("prt_3", "msg_2", "Built."),
                finish_row("prt_4", "msg_2"),
                text_row("prt_1", "msg_1", "Build all."),
                text_row("prt_3", "msg_2", "All built."),
            ],
            [
                turn(),
                prompt("Build it."),
                done("Built."),
                turn_end(50, 0.1),
                superseded("2/1"),
                prompt("Build all."),
                superseded("4/0"),
                done("All built."),
            ],
            [("user", [("text", "Build all.")]), ("assistant", [("text", "All built.")])],
            id="newer versions stay in the turn of the earlier ones",
        ),
        pytest.param(
            [
                *PROMPT,
                ANSWER,
                tool_row("prt_2", "msg_2", "completed", **DONE),
                finish_row("prt_4", "msg_2"),
                tool_row("prt_2", "msg_2", "completed", **{**DONE, "output": "done\n"}),
            ],
            [
                turn(),
                prompt("Build it."),
                CALL,
                RESULT,
                turn_end(50, 0.1),
                superseded("4/1"),
                ("tool_result", {**RESULT[1], "result": "done\n"}),
            ],
            [
                ("user", [("text", "Build it.")]),
                ("assistant", [("tool_use", "bash")]),
                ("user", [("tool_result", "done\n")]),
            ],
            id="a result that changes after its turn belongs to its call",
        ),
        pytest.param(
            [
                *PROMPT,
                message_row("msg_2", "assistant", error={"name": "Oops", "data": {"message": "No"}}),
                message_row("msg_2", "assistant", error={"name": "Oops", "data": {"message": "No"}}, cost=0),
            ],
            [
                turn(),
                prompt("Build it."),
                (
                    "error",
                    {
                        "code": "Oops",
                        "message": "No",
                        "details": {"name": "Oops", "data": {"message": "No"}},
                    },
                ),
            ],
            [("user", [("text", "Build it.")]), ("assistant", [])],
            id="an error is emitted once",
        ),
        pytest.param(
            [*PROMPT, message_row("msg_2", "assistant", summary=True), text_row("prt_3", "msg_2", "Built.")],
            [
                turn(),
                prompt("Build it."),
                ("assistant_done", {"text": "Built.", "variant": "summary"}, "msg_2"),
            ],
            [("user", [("text", "Build it.")]), ("assistant", [("text", "Built.")])],
            id="the summary of a compaction",
        ),
    ],
)
def test_newest_version_of_a_row_counts(rows: list[Row], events: list[Any], messages: list[Any]) -> None:
    assert events_of(*rows) == events
    assert [message[:2] for message in short_messages(*rows)] == messages


def test_malformed_part_is_superseded() -> None:
    """A tool without an input is read as raw."""
    rows = [*PROMPT, ANSWER, tool_row("prt_2", "msg_2", "running")]

    events = events_of(*rows, tool_row("prt_2", "msg_2", "completed", **DONE))

    assert [event[0] for event in events[2:]] == ["raw", "retraction", "tool_call", "tool_result"]
    assert events[3] == superseded("4/0")


@pytest.mark.parametrize(
    ("rows", "input", "cost"),
    [
        ([finish_row("prt_4", "msg_2"), finish_row("prt_4", "msg_2", input=60, cost=0.2)], 60, 0.2),
        ([finish_row("prt_4", "msg_2", "tool-calls"), finish_row("prt_5", "msg_2")], 100, 0.2),
        (
            [
                message_row("msg_2", "assistant", tokens=TOKENS, cost=0.9),  # Kilo adds the cost of subagents
                finish_row("prt_4", "msg_2"),
            ],
            50,
            0.1,
        ),
        (
            [
                message_row("msg_2", "assistant", tokens={**TOKENS, "input": 0}, cost=0),
                message_row("msg_2", "assistant", tokens=TOKENS, cost=0.4),
            ],
            50,
            0.4,
        ),
        (
            [
                message_row("msg_2", "assistant", tokens={**TOKENS, "input": 8}, cost=0.05),
                message_row("msg_3", "user", 5),
                text_row("prt_6", "msg_3", "Go on.", 5),
                message_row("msg_2", "assistant", tokens=TOKENS, cost=0.4),
                message_row("msg_2", "assistant", tokens=TOKENS, cost=0.4),
            ],
            50,
            0.4,
        ),
    ],
    ids=[
        "a changed step",
        "a message of two steps",
        "the steps are right and the message is not",
        "a message that is finished later",
        "a message that is finished in a later turn",
    ],
)
def test_usage_of_the_newest_version_counts_once(rows: list[Row], input: int, cost: float) -> None:
    first = [*PROMPT, ANSWER, text_row("prt_3", "msg_2", "Built.")]
    summary = to_session_summary(follow([*first, *rows], ends=True)).model_dump(by_alias=True)
    answers = [message[2] for message in short_messages(*first, *rows) if message[0] == "assistant"]

    assert (summary["usage"]["input_tokens"], summary["costUsd"]) == (input, pytest.approx(cost))
    assert [(answer["usage"][0], answer["costUsd"]) for answer in answers] == [(input, cost)]


def test_files_of_the_first_prompt_belong_to_its_turn() -> None:
    read = text_row("prt_0", "msg_1", "Called the Read tool.", synthetic=True)
    rows = [message_row("msg_1", "user"), read, text_row("prt_1", "msg_1", "Build it.")]

    assert events_of(*rows) == [
        turn(),
        ("user_message", {"text": "Called the Read tool.", "synthetic": True}),
        prompt("Build it."),
    ]


def test_live_messages_replace_earlier_versions() -> None:
    rows = [
        *PROMPT,
        ANSWER,
        text_row("prt_3", "msg_2", "Bui"),
        finish_row("prt_4", "msg_2"),
        text_row("prt_3", "msg_2", "Built."),
        finish_row("prt_4", "msg_2", input=60),
    ]
    live, received = LiveMessages(), list[StandardMessage]()

    for each in rows:
        update = live.add([(json.dumps(each), None)], is_turn_over=True)
        received = [message for message in received if message.id not in update.replaced] + update.messages

    assert [
        (message.role, [block.model_dump()["text"] for block in message.content])
        for message in received
        if message.content
    ] == [("user", ["Build it."]), ("assistant", ["Built."])]
    usages = [message.usage.input_tokens for message in received if message.usage]
    assert usages == [60]


SECOND_PROMPT = [message_row("msg_3", "user", 2_000), text_row("prt_5", "msg_3", "Test it.", 2_000)]
SECOND_ANSWER = [message_row("msg_4", "assistant", 3_000), text_row("prt_6", "msg_4", "Tested.", 3_000)]
THIRD_PROMPT = [message_row("msg_5", "user", 9_500), text_row("prt_7", "msg_5", "Lint it.", 9_500)]
REVERTED = session_row(revert=json.dumps({"messageID": "msg_3"}), time_updated=BEGAN + 9_000)


@pytest.mark.parametrize(
    "rows",
    [
        [session_row(), *PROMPT, *SECOND_PROMPT, *SECOND_ANSWER, REVERTED, REVERTED, *THIRD_PROMPT],
        [REVERTED, *PROMPT, *SECOND_PROMPT, *SECOND_ANSWER, session_row(), *THIRD_PROMPT],
    ],
    ids=["after the messages", "before the messages, as in a first import"],
)
def test_reverted_messages_are_retracted(rows: list[Row]) -> None:
    retracted = [(message[1][0][1], "retracted" in message[2]) for message in short_messages(*rows)]
    conversation = to_openai_messages(follow(rows))

    assert retracted == [("Build it.", False), ("Test it.", True), ("Tested.", True), ("Lint it.", False)]
    assert [message["content"] for message in conversation] == ["Build it.", "Lint it."]


SESSION_MESSAGES = [
    row(
        "session_message",
        id="msg_7",
        session_id=SESSION_ID,
        type="user",
        seq=1,
        time_created=BEGAN,
        time_updated=BEGAN,
        data=json.dumps({"text": "Build it.", "time": {"created": BEGAN}}),
    ),
    row(
        "session_message",
        id="msg_8",
        session_id=SESSION_ID,
        type="assistant",
        seq=2,
        time_created=BEGAN,
        time_updated=BEGAN,
        data=json.dumps(
            {
                "time": {"created": BEGAN},
                "agent": "build",
                "model": {"id": "m1", "providerID": "p"},
                "content": [{"type": "text", "id": "t1", "text": "Built."}],
                "finish": "stop",
                "cost": 0.1,
                "tokens": TOKENS,
            }
        ),
    ),
]


def test_session_in_two_models_is_read_once() -> None:
    first = [*PROMPT, ANSWER, text_row("prt_3", "msg_2", "Built."), finish_row("prt_4", "msg_2")]

    both = [*first, *SESSION_MESSAGES]

    assert events_of(*both) == events_of(*first)
    assert short_messages(*both) == short_messages(*first)
    assert events_of(*SESSION_MESSAGES) == [
        turn(),
        prompt("Build it."),
        done("Built.", "msg_8"),
        turn_end(50, 0.1),
    ]
    assert [message[:2] for message in short_messages(*SESSION_MESSAGES)] == [
        ("user", [("text", "Build it.")]),
        ("assistant", [("text", "Built.")]),
    ]


def test_columns_are_in_the_block() -> None:
    [block] = parse_message(json.dumps(text_row("prt_3", "msg_2", "Built.", 4, time={"start": 1}))).parsed

    assert block.model_dump(mode="json", by_alias=True) == {
        "type": "text",
        "text": "Built.",
        "time": {"start": 1},
        "id": "prt_3",
        "messageID": "msg_2",
        "sessionID": "ses_1",
        "extra": {
            "row": {
                "table": "part",
                "key": "prt_3",
                "columns": {"time_created": BEGAN + 4, "time_updated": BEGAN + 4},
            }
        },
    }


@pytest.mark.parametrize("data", ["{", "[1]", None], ids=["no JSON", "no object", "null"])
def test_unreadable_data_is_malformed(data: str | None) -> None:
    broken = text_row("prt_3", "msg_2", "Built.")
    broken["columns"]["data"] = data

    [block] = parse_message(json.dumps(broken)).parsed

    assert block.model_dump(mode="json", by_alias=True) == {
        "type": "raw",
        "reason": "malformed",
        "raw": broken,
    }


def test_header_of_rows() -> None:
    child = session_row(parent_id="ses_0", title="Count (@general subagent)")

    assert [PROVIDER.header(each) for each in (child, text_row("prt_3", "msg_2", "Built.", 4))] == [
        RecordHeader(
            uuid=SESSION_ID,
            timestamp=BEGAN,
            session_id=SESSION_ID,
            client_version="1.18.34",
            title="Count (@general subagent)",
            parent="ses_0",
            last_timestamp=BEGAN + 9_000,
            agent=SESSION_ID,
            folder="/srv",
        ),
        RecordHeader(uuid="prt_3", timestamp=BEGAN + 4, session_id=SESSION_ID, last_timestamp=BEGAN + 4),
    ]


SAMPLES = sorted((CORPUS_NEXT / "opencode_sqlite").glob("*.db"))


@pytest.mark.skipif(not SAMPLES, reason="no ../shared/corpus-next next to the repository")
def test_totals_are_those_of_the_program() -> None:
    """The program adds up the steps in columns of the session; its import leaves them 0."""
    differences = {}
    for sample in SAMPLES:
        for session, lines in sessions_of(sample):
            summary = to_session_summary(follow(list(map(json.loads, lines)), ends=True))
            own, program = _totals_of(summary.model_dump(by_alias=True)), _program_totals(session)
            if own != program and any(program):
                differences[sample.name, session["id"]] = (own, program)

    assert differences == {}


def _totals_of(summary: dict[str, Any]) -> tuple[Any, ...]:
    usage = summary["usage"]
    names = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_input_tokens")
    return (*(usage[name] for name in names), round(summary["costUsd"], 9))


def _program_totals(session: Any) -> tuple[Any, ...]:
    """Return the columns; their output is without reasoning."""
    reasoning = session["tokens_reasoning"]
    return (
        session["tokens_input"],
        session["tokens_output"] + reasoning,
        reasoning,
        session["tokens_cache_read"],
        round(session["cost"], 9),
    )
