"""The values of answers that the normaliser states beside its events."""

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ash_shared.conversation.transcript import split_transcript
from ash_shared.eventlog import Context, Normalizer, parse_line
from ash_shared.eventlog.state import MAX_USAGES
from ash_shared.model.usage.answers import AnswerUsage, last_values
from ash_shared.projections import spending_of
from ash_shared.projections.spending import Spending
from tests.shared.logs import context, state_answers
from tests.shared.records import claude, codex, opencode
from tests.shared.texts import files_of

Record = dict[str, Any]
Short = dict[str, Any]

HIDDEN = {"key", "time", "turn"}


def short(value: AnswerUsage) -> Short:
    """Return the fields that are not their defaults, without place and time."""
    fields: Short = msgspec.to_builtins(value)
    return {name: field for name, field in fields.items() if name not in HIDDEN}


def usage(input: int = 10, output: int = 2, **more: Any) -> Record:
    return {"input_tokens": input, "output_tokens": output, **more}


def line(id: str, counts: Record, model: str = "opus", **more: Any) -> Record:
    message = {"id": id, "type": "message", "model": model, "usage": counts}
    return claude.line("assistant", [claude.text("Well")], message, **more)


PROMPT = claude.line("user", "Build", uuid="u1", timestamp="2026-02-03T04:05:06Z")
CACHED = usage(
    cache_read_input_tokens=7,
    cache_creation_input_tokens=9,
    cache_creation={"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5},
    server_tool_use={"web_search_requests": 3},
    output_tokens_details={"thinking_tokens": 1},
    service_tier="priority",
    speed="Fast",
    inference_geo="US",
)
BASIC = {"model": "opus", "cause": "person", "input_tokens": 10, "output_tokens": 2}
STREAM = {"model": "opus", "input_tokens": 9, "cache_read_tokens": 4}
RUN = [claude.INIT, claude.assistant(claude.text("Hi"), id="m1")]
AGENT = {"session_id": "s", "parent_tool_use_id": "c1", "agent_id": "a1"}
TASK = {"kind": "task-notification", "subkind": "scheduled-trigger"}
STEP = {"input": 50, "output": 7, "reasoning": 3, "total": 97, "cache": {"read": 40, "write": 0}}


def step(id: str, cost: float) -> Record:
    return {**opencode.finish("stop"), "id": id, "tokens": STEP, "cost": cost}


def tokens(total: int, input: int = 10) -> Record:
    counts = {"input_tokens": input, "cached_input_tokens": 4, "output_tokens": 2}
    return codex.token_count({"total_tokens": total}, counts)


ANSWERS: dict[str, tuple[list[Record], list[Short]]] = {
    "an answer without content before any prompt": (
        [line("m1", usage()) | {"message": {**line("m1", usage())["message"], "content": []}}],
        [{"model": "opus", "input_tokens": 10, "output_tokens": 2}],
    ),
    "details": (
        [PROMPT, line("m1", CACHED, cwd="/srv/app", gitBranch="main")],
        [
            {
                **BASIC,
                "service_tier": "priority",
                "speed": "fast",
                "region": "us",
                "folder": "/srv/app",
                "branch": "main",
                "cache_read_tokens": 7,
                "cache_write_5m_tokens": 4,
                "cache_write_1h_tokens": 5,
                "reasoning_tokens": 1,
                "web_searches": 3,
            }
        ],
    ),
    "the last line of an answer counts": (
        [PROMPT, line("m1", usage(output=1)), line("m1", usage())],
        [BASIC],
    ),
    "old answers are revised": (
        [
            PROMPT,
            *(line(f"m{number}", usage()) for number in range(MAX_USAGES + 2)),
            line("m0", usage(output=8)),
        ],
        [{**BASIC, "output_tokens": 8}, *[BASIC] * (MAX_USAGES + 1)],
    ),
    "ids are unique in a turn": (
        [PROMPT, line("m1", usage()), {**PROMPT, "uuid": "u2"}, line("m1", usage(input=5))],
        [BASIC, {**BASIC, "input_tokens": 5}],
    ),
    "counts that are no numbers of tokens": (
        [PROMPT, line("m1", {**usage(input=-5), "output_tokens": 2.5, "cache_read_input_tokens": 2**60})],
        [],
    ),
    "several requests for an answer": (
        [PROMPT, line("m1", usage(iterations=[{"type": "message"}, {"type": "message"}]))],
        [{**BASIC, "is_request": False}],
    ),
    "texts of the client": ([PROMPT, line("m1", usage(0, 0), "<synthetic>")], []),
    "stream of the API": (
        [
            claude.message_start(model="opus"),
            claude.block_start(0, claude.text("")),
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 30}},
            claude.STOP,
        ],
        [{**STREAM, "output_tokens": 30}],
    ),
    "stream of a run that is cut off": (
        [claude.INIT, claude.stream_event(claude.message_start(model="opus"))],
        [],
    ),
    "total of a run": (
        [
            *RUN,
            line("m2", usage(), session_id="s"),
            claude.result("Hi", usage=usage(12, 40), total_cost_usd=0.5),
        ],
        [
            {"model": "opus", "input_tokens": 10, "output_tokens": 2, "reported_cost": 0},
            {
                "model": "opus",
                "is_request": False,
                "input_tokens": 2,
                "output_tokens": 38,
                "reported_cost": 500_000_000,
                "settles_turn": True,
            },
        ],
    ),
    "total after an answer was counted again": (
        [
            claude.INIT,
            line("m1", usage(output=1), session_id="s"),
            line("m1", usage(), session_id="s"),
            claude.result("Hi", usage=usage(12, 40)),
        ],
        [
            {"model": "opus", "input_tokens": 10, "output_tokens": 2},
            {"model": "opus", "is_request": False, "input_tokens": 2, "output_tokens": 38},
        ],
    ),
    "total without the lines of subagents": (
        [
            claude.INIT,
            line("m1", usage(), session_id="s"),
            line("m2", usage(input=5), **AGENT),
            claude.result("Hi", usage=usage(12, 40)),
        ],
        [
            {"model": "opus", "input_tokens": 10, "output_tokens": 2},
            {"model": "opus", "agent_id": "a1", "input_tokens": 5, "output_tokens": 2},
            {"model": "opus", "agent_id": "a1", "is_request": False, "input_tokens": -5, "output_tokens": -2},
            {"model": "opus", "is_request": False, "input_tokens": 2, "output_tokens": 38},
        ],
    ),
    "total by model": (
        [
            *RUN,
            claude.result(
                "Hi",
                usage=usage(12, 40),
                total_cost_usd=0.25,
                modelUsage={
                    "opus": {"inputTokens": 10, "outputTokens": 30},
                    "haiku": {"inputTokens": 2, "outputTokens": 10},
                },
            ),
        ],
        [
            {
                "model": "opus",
                "is_request": False,
                "input_tokens": 10,
                "output_tokens": 30,
                "reported_cost": 0,
            },
            {
                "model": "haiku",
                "is_request": False,
                "input_tokens": 2,
                "output_tokens": 10,
                "reported_cost": 0,
            },
            {"is_request": False, "reported_cost": 250_000_000, "settles_turn": True},
        ],
    ),
    "schedule": (
        [{**PROMPT, "origin": TASK, "promptSource": "system"}, line("m1", usage())],
        [{**BASIC, "cause": "schedule"}],
    ),
    "script": (
        [{**PROMPT, "promptSource": "sdk"}, line("m1", usage())],
        [{**BASIC, "cause": "program"}],
    ),
    "person in an app": (
        [{**PROMPT, "promptSource": "sdk", "origin": {"kind": "human"}}, line("m1", usage())],
        [BASIC],
    ),
    "subagent's session": (
        [
            {**PROMPT, "isSidechain": True, "agentId": "a1"},
            line("m1", usage(), isSidechain=True, agentId="a1"),
        ],
        [{"model": "opus", "input_tokens": 10, "output_tokens": 2}],
    ),
    "counts of Codex that are repeated": (
        [
            codex.line("turn_context", model="gpt-x", cwd="/srv/app"),
            codex.message_item("user", "Build"),
            tokens(12),
            tokens(12),
            tokens(24),
        ],
        [
            {
                "model": "gpt-x",
                "cause": "person",
                "folder": "/srv/app",
                "input_tokens": 6,
                "cache_read_tokens": 4,
                "output_tokens": 2,
            }
        ]
        * 2,
    ),
    "inherited lines": (
        [
            {
                **codex.line("session_meta", id="b", parent_thread_id="a", subagent_history_start_ordinal=2),
                "ordinal": 0,
            },
            {**tokens(12), "ordinal": 1},
            {**codex.message_item("user", "Build"), "ordinal": 2},
            {**tokens(24, input=9), "ordinal": 3},
        ],
        [{"input_tokens": 5, "cache_read_tokens": 4, "output_tokens": 2}],
    ),
    "total of Codex exec": (
        [{"type": "turn.started"}, {"type": "turn.completed", "usage": usage(cached_input_tokens=4)}],
        [{"is_request": False, "input_tokens": 6, "cache_read_tokens": 4, "output_tokens": 2}],
    ),
    "sections of OpenCode": (
        [
            opencode.info("msg_1", "user"),
            opencode.text("Build", "msg_1"),
            opencode.info("msg_2", "assistant", modelID="m1", tokens={"input": 0, "output": 0}),
            step("prt_1", 0.001),
            step("prt_2", 0.002),
        ],
        [
            {
                "model": "m1",
                "cause": "person",
                "is_request": False,
                "input_tokens": 100,
                "cache_read_tokens": 80,
                "output_tokens": 14,
                "reasoning_tokens": 6,
                "reported_cost": 3_000_000,
            }
        ],
    ),
    "totals of Copilot CLI by model": (
        [
            {
                "id": "0f3c1c52-5a0e-4d0e-9a53-0d5b3c1f7a10",
                "parentId": None,
                "timestamp": "2026-02-03T04:05:06Z",
                "type": "user.message",
                "data": {"content": "Build"},
            },
            {
                "id": "1f3c1c52-5a0e-4d0e-9a53-0d5b3c1f7a10",
                "parentId": None,
                "timestamp": "2026-02-03T04:05:07Z",
                "type": "session.shutdown",
                "data": {
                    "modelMetrics": {
                        "opus": {"usage": {"inputTokens": 10, "outputTokens": 2}},
                        "gpt-x": {"usage": {"inputTokens": 5, "outputTokens": 1, "cacheReadTokens": 4}},
                    }
                },
            },
        ],
        [
            {**BASIC, "is_request": False},
            {
                "model": "gpt-x",
                "cause": "person",
                "is_request": False,
                "input_tokens": 1,
                "cache_read_tokens": 4,
                "output_tokens": 1,
            },
        ],
    ),
    "usage of a chat stream with its cost": (
        [
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "model": "gpt-x",
                "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}],
            },
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "model": "gpt-x",
                "choices": [],
                "service_tier": "default",
                "usage": {"prompt_tokens": 10, "completion_tokens": 2, "cost": 0.0004},
            },
        ],
        [{"model": "gpt-x", "input_tokens": 10, "output_tokens": 2, "reported_cost": 400_000}],
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_values_of_answers(name: str) -> None:
    records, expected = ANSWERS[name]
    assert list(map(short, state_answers(records))) == expected


def test_values_have_the_time_and_the_number_of_their_turn() -> None:
    times = ["2026-02-03T04:05:07Z", "1999-02-03T04:05:07Z"]
    lines = [line(f"m{n}", usage(), timestamp=time) for n, time in enumerate(times)]
    values = state_answers([PROMPT, lines[0], {**PROMPT, "uuid": "u2"}, lines[1]])
    assert [(value.time, value.turn) for value in values] == [(1_770_091_507_000, 1), (None, 2)]


def test_continues_a_turn_that_began_before_values_were_stated() -> None:
    turn = {
        "id": "t",
        "phase": "running",
        "usage_by_answer": {"m1": usage()},
        "totalled_counts": {"d": [1] * 6},
    }
    normalizer = Normalizer(state=json.dumps({"turn": turn, "turns": 4, "has_records": True}))
    normalizer.follow(parse_line(json.dumps(line("m2", usage()))), context(1))
    values = [{**short(value), "turn": value.turn} for value in normalizer.answers]
    open_turn = normalizer.open_turn()
    assert values == [{"model": "opus", "input_tokens": 10, "output_tokens": 2, "turn": 4}]
    assert open_turn is not None
    assert open_turn.spent["usage"] == {"input_tokens": 20, "output_tokens": 4, "total_tokens": 12}


POSTED: dict[str, tuple[Record, list[Short]]] = {
    "of the open turn": (
        {"usage": usage(input=15), "costUsd": 0.25},
        [
            {**BASIC, "reported_cost": 0},
            {
                "model": "opus",
                "cause": "person",
                "is_request": False,
                "input_tokens": 5,
                "reported_cost": 250_000_000,
                "settles_turn": True,
            },
        ],
    ),
    "without usage": ({}, [BASIC]),
    "with malformed usage": (
        {"usage": {"input_tokens": "many"}, "costUsd": -1},
        [BASIC, {**BASIC, "is_request": False, "input_tokens": -10, "output_tokens": -2}],
    ),
}


@pytest.mark.parametrize("name", POSTED)
def test_posted_end_of_a_turn_states_its_total(name: str) -> None:
    payload, expected = POSTED[name]
    assert _after_posting(payload) == expected


def test_posted_end_of_another_turn_settles_no_answers() -> None:
    total = {"is_request": False, "input_tokens": 15, "output_tokens": 2, "reported_cost": 250_000_000}
    payload = {"usage": usage(input=15), "costUsd": 0.25}
    assert _after_posting(payload, turn="other") == [BASIC, {"model": "opus", **total}]


def _after_posting(payload: Record, turn: str | None = None) -> list[Short]:
    """Return the values of a turn with one answer after the end of a turn was posted."""
    normalizer = Normalizer()
    events, values = list[Record](), list[AnswerUsage]()
    for number, record in enumerate([PROMPT, line("m1", usage())]):
        events += normalizer.follow(parse_line(json.dumps(record)), context(number))
        values += normalizer.answers
    end = {"id": "e1", "type": "turn_end", "turnId": turn or events[-1]["turnId"], "payload": payload}
    normalizer.observe(end)
    return list(map(short, last_values([*values, *normalizer.answers])))


COUNTS = {
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "cache_read_input_tokens": ("cache_read_tokens",),
    "cache_creation_input_tokens": ("cache_write_5m_tokens", "cache_write_1h_tokens"),
    "reasoning_tokens": ("reasoning_tokens",),
}
"""Counts of a session's usage, with the fields of answers that add up to them."""


def sums_of(values: list[AnswerUsage]) -> tuple[dict[str, int], int]:
    last = last_values(values)
    counts = {
        name: sum(getattr(value, field) for value in last for field in fields)
        for name, fields in COUNTS.items()
    }
    return counts, round(sum(value.reported_cost or 0 for value in last) / 1000)


def totals_of(spent: Spending) -> tuple[dict[str, int], int]:
    """Return the counts, and the cost in millionths of a dollar."""
    counts = spent.usage or {}
    return {name: counts.get(name, 0) for name in COUNTS}, round((spent.cost_usd or 0) * 1_000_000)


def test_answers_add_up_to_the_usage_and_cost_of_their_session(corpus_folder: Path) -> None:
    for path, text in files_of(corpus_folder):
        ids = itertools.count()
        at = Context("s", lambda: f"e{next(ids)}", lambda: 7)  # noqa: B023  # used in this pass only
        normalizer, events, values = Normalizer(), [], list[AnswerUsage]()
        for each in split_transcript(text):
            events += normalizer.follow(parse_line(each), at)
            values += normalizer.answers
        assert sums_of(values) == totals_of(spending_of(events, normalizer.open_turn())), path
        events += normalizer.close(at)
        values += normalizer.answers
        assert sums_of(values) == totals_of(spending_of(events)), path


def test_usage_that_lines_of_an_answer_repeat_is_stated_once() -> None:
    """Again if a fact has changed."""
    branches = ("main", "main", "fix", "fix")
    answers = [line("m1", usage(), uuid=f"a{n}", gitBranch=branch) for n, branch in enumerate(branches)]
    normalizer = Normalizer("claude")
    stated = []
    for number, record in enumerate([PROMPT, *answers]):
        normalizer.follow(parse_line(json.dumps(record), "claude"), context(number))
        stated.append([each.branch for each in normalizer.answers])

    assert stated == [[], ["main"], [], ["fix"], []]
