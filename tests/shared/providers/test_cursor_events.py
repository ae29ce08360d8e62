"""Events of Cursor's stream and its transcripts."""

import json
from typing import Any

import pytest

from tests.shared.logs import content_events, follow, short_events, texts
from tests.shared.records.claude import text
from tests.shared.records.cursor import (
    CALL,
    INIT,
    delta,
    end,
    line,
    message_line,
    thinking_delta,
    transcript_line,
)
from tests.shared.sample_files import CORPUS

Line = dict[str, Any]
MODEL = {"model_call_id": "mc1", "timestamp_ms": 5}


def tool(state: str, id: str | None = CALL, **more: Any) -> Line:
    call = {"shellToolCall": {"args": {"command": "make"}, **more}}
    id_field = {} if id is None else {"call_id": id}
    return line("tool_call", subtype=state, **id_field, tool_call=call, **MODEL)


PROMPT = message_line("user", "Build it.")
THINKING_END = line("thinking", subtype="completed", timestamp_ms=5)
OK = {"success": {"exitCode": 0, "stdout": "ok", "stderr": ""}}
FIRST = [("turn_start", {"trigger": "user"}), ("user_message", {"text": "Build it."})]


def tool_call(id: str = CALL, *more: str) -> tuple[Any, ...]:
    return ("tool_call", {"toolCallId": id, "toolName": "shell", "args": {"command": "make"}}, *more)


def tool_result(id: str = CALL) -> tuple[Any, ...]:
    return ("tool_result", {"toolCallId": id, "result": "ok", "exitCode": 0, "structured": OK})


def done(words: str, *more: str, **keys: Any) -> tuple[Any, ...]:
    return ("assistant_done", {"text": words, **keys}, *more)


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        pytest.param(
            [
                INIT,
                PROMPT,
                thinking_delta("Hm"),
                thinking_delta(", make"),
                THINKING_END,
                message_line("assistant", "On it.", **MODEL),
                tool("started"),
                line("interaction_query", subtype="request"),
                tool("completed", result=OK),
                thinking_delta("So"),
                THINKING_END,
                message_line("assistant", "Built."),
                end("On it.Built.", usage={"inputTokens": 5, "outputTokens": 2}),
            ],
            [
                *FIRST,
                ("thinking_chunk", {"text": "Hm"}),
                ("thinking_chunk", {"text": ", make"}),
                ("thinking_done", {"text": "Hm, make"}),
                done("On it.", "mc1"),
                tool_call(CALL, "mc1"),
                tool_result(),
                ("thinking_chunk", {"text": "So"}),
                ("thinking_done", {"text": "So"}),
                done("Built."),
                (
                    "turn_end",
                    {
                        "usage": {
                            "input_tokens": 5,
                            "output_tokens": 2,
                            "total_tokens": 7,
                            "vendor": {"inputTokens": 5, "outputTokens": 2},
                        }
                    },
                ),
            ],
            id="a run",
        ),
        pytest.param(
            [
                INIT,
                PROMPT,
                delta("On "),
                delta("it."),
                message_line("assistant", "On it.", **MODEL),
                tool("started"),
                tool("completed", result=OK),
                delta("Bui"),
                delta("lt."),
                message_line("assistant", "On it.Built."),
                end("On it.Built."),
            ],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On "}),
                ("assistant_chunk", {"text": "it."}),
                done("On it."),
                tool_call(CALL, "mc1"),
                tool_result(),
                ("assistant_chunk", {"text": "Bui"}),
                ("assistant_chunk", {"text": "lt."}),
                done("Built."),
                ("turn_end", {}),
            ],
            id="deltas, complete before the call, and the whole turn again at the end",
        ),
        pytest.param(
            [INIT, PROMPT, delta("On "), delta("it."), message_line("assistant", "On it."), end("On it.")],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On "}),
                ("assistant_chunk", {"text": "it."}),
                done("On it."),
                ("turn_end", {}),
            ],
            id="deltas and a complete last text",
        ),
        pytest.param(
            [
                INIT,
                PROMPT,
                delta("On it."),
                message_line("assistant", "On it.", **MODEL),
                tool("started"),
                tool("completed", result=OK),
                message_line("assistant", "On it."),
                end("On it."),
            ],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On it."}),
                done("On it."),
                tool_call(CALL, "mc1"),
                tool_result(),
                ("turn_end", {}),
            ],
            id="the whole turn again without new text",
        ),
        pytest.param(
            [
                INIT,
                PROMPT,
                message_line("assistant", "Done.", **MODEL),
                tool("started"),
                tool("completed", result=OK),
                message_line("assistant", "Done."),
                end("Done.Done."),
            ],
            [
                *FIRST,
                done("Done.", "mc1"),
                tool_call(CALL, "mc1"),
                tool_result(),
                done("Done."),
                ("turn_end", {}),
            ],
            id="the same text twice, without deltas",
        ),
        pytest.param(
            [INIT, PROMPT, delta("On "), delta("it."), end("On it.")],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On "}),
                ("assistant_chunk", {"text": "it."}),
                done("On it."),
                ("turn_end", {}),
            ],
            id="deltas only",
        ),
        pytest.param(
            [INIT, PROMPT, delta("On it."), tool("started"), tool("completed", result=OK), end("On it.")],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On it."}),
                done("On it."),
                tool_call(CALL, "mc1"),
                tool_result(),
                ("turn_end", {}),
            ],
            id="deltas ended by a call",
        ),
        pytest.param(
            [INIT, PROMPT, delta("On "), thinking_delta("Hm")],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On "}),
                ("thinking_chunk", {"text": "Hm"}),
                done("On ", partial=True),
                ("thinking_done", {"text": "Hm", "partial": True}),
                ("interrupt", {"reason": "error"}),
                ("turn_end", {"partial": True}),
            ],
            id="a cut run",
        ),
        pytest.param(
            [
                INIT,
                PROMPT,
                thinking_delta("Hm"),
                delta("On "),
                delta("it."),
                message_line("assistant", "On it."),
                end(""),
            ],
            [
                *FIRST,
                ("thinking_chunk", {"text": "Hm"}),
                ("thinking_done", {"text": "Hm"}),
                ("assistant_chunk", {"text": "On "}),
                ("assistant_chunk", {"text": "it."}),
                done("On it."),
                ("turn_end", {}),
            ],
            id="thinking that ends when the response begins",
        ),
        pytest.param(
            [INIT, PROMPT, end("6")],
            [*FIRST, done("6", variant="result"), ("turn_end", {})],
            id="only the result",
        ),
        pytest.param(
            [INIT, PROMPT, {**end("No key"), "subtype": "error", "is_error": True}],
            [*FIRST, ("error", {"code": "result/error", "message": "No key"}), ("turn_end", {})],
            id="a failed run",
        ),
        pytest.param([INIT, PROMPT, end(None)], [*FIRST, ("turn_end", {})], id="a result without a text"),
        pytest.param(
            [
                INIT,
                PROMPT,
                tool("started", "c1"),
                tool("started", "c2"),
                tool("completed", "c2", result=OK),
                tool("completed", "c1", result=OK),
                tool("completed", "c1", result=OK),
                tool("completed", "c3", result=OK),
                end(""),
            ],
            [
                *FIRST,
                tool_call("c1", "mc1"),
                tool_call("c2", "mc1"),
                tool_result("c2"),
                tool_result("c1"),
                tool_call("c3", "mc1"),
                tool_result("c3"),
                ("turn_end", {}),
            ],
            id="parallel calls, one completed twice, one never started",
        ),
        pytest.param(
            [INIT, tool("started", None), tool("completed", None, result=OK), end("")],
            [FIRST[0], tool_call("2/0", "mc1"), tool_result("2/0"), ("turn_end", {})],
            id="a call without an id",
        ),
        pytest.param(
            [
                INIT,
                line(
                    "tool_call",
                    subtype="completed",
                    call_id=CALL,
                    tool_call={"shellToolCall": {"result": OK}},
                ),
                end(""),
            ],
            [FIRST[0], (tool_result()[0], {**tool_result()[1], "orphan": True}), ("turn_end", {})],
            id="a result without arguments for a call that was never started",
        ),
        pytest.param(
            [INIT, PROMPT, INIT, PROMPT, message_line("assistant", "Built."), INIT, PROMPT, end("")],
            [
                *FIRST,
                FIRST[1],
                done("Built."),
                ("interrupt", {"reason": "error"}),
                ("turn_end", {"partial": True}),
                *FIRST,
                ("turn_end", {}),
            ],
            id="runs that begin before the previous one ended",
        ),
        pytest.param(
            [
                transcript_line("user", text("Build it.")),
                transcript_line(
                    "assistant",
                    {"type": "thinking", "thinking": "Hm"},
                    text("On it."),
                    {"type": "tool_use", "name": "shell", "input": {"command": "make"}},
                ),
                transcript_line("user", {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}),
                transcript_line("assistant", text("Built.")),
                {"type": "turn_ended", "status": "success"},
                transcript_line("user", text("Build it.")),
                {"type": "turn_ended", "status": "error", "error": "Down"},
                transcript_line("user", text("Build it.")),
                {"type": "turn_ended", "status": "aborted"},
                transcript_line("user", text("Build it.")),
                transcript_line("user", text("Build it.")),
            ],
            [
                *FIRST,
                ("thinking_done", {"text": "Hm"}),
                done("On it."),
                tool_call("2/2"),
                ("tool_result", {"toolCallId": "2/2", "result": "ok"}),
                done("Built."),
                ("turn_end", {}),
                *FIRST,
                ("error", {"code": "error", "message": "Down"}),
                ("turn_end", {}),
                *FIRST,
                ("interrupt", {"reason": "user_cancel"}),
                ("turn_end", {"partial": True}),
                *FIRST,
                FIRST[1],
                ("turn_end", {}),
            ],
            id="a transcript",
        ),
        pytest.param(
            [line("system", subtype="weather", permissionMode="default")],
            [
                (
                    "raw",
                    {
                        "source": "cursor",
                        "raw": line("system", subtype="weather", permissionMode="default"),
                    },
                )
            ],
            id="an unknown line",
        ),
    ],
)
def test_line_events(lines: list[Line], events: list[Any]) -> None:
    assert short_events(follow(lines, "cursor", ends=True)) == events


OWN_RUN = [
    INIT,
    PROMPT,
    thinking_delta("Hm"),
    THINKING_END,
    message_line("assistant", "On it.", **MODEL),
    tool("started"),
    tool("completed", result=OK),
    message_line("assistant", "Built."),
    end("On it.Built."),
]


def _runs() -> list[Any]:
    runs = [pytest.param(OWN_RUN, id="own")]
    for path in sorted((CORPUS / "cursor_cli").glob("reifying*.jsonl")):
        lines = [json.loads(each) for each in path.read_text().splitlines()]
        runs.append(pytest.param(lines, id=path.stem))
    return runs


@pytest.mark.parametrize("run", _runs())
@pytest.mark.parametrize("is_cumulative", [True, False])
def test_deltas_match_complete_lines(run: list[Line], is_cumulative: bool) -> None:
    complete, streamed = follow(run, ends=True), follow(_with_deltas(run, is_cumulative), ends=True)

    assert content_events(streamed) == content_events(complete)
    assert texts(streamed)["assistant_chunk"] == "".join(
        event["payload"]["text"] for event in complete if event["type"] == "assistant_done"
    )


def _with_deltas(run: list[Line], is_cumulative: bool) -> list[Line]:
    """Return the run with partial output; a cumulative last text repeats the turn."""
    lines, previous = list[Line](), ""
    for each in run:
        if each["type"] == "assistant":
            text = each["message"]["content"][0]["text"]
            lines += [delta(text[start : start + 7]) for start in range(0, len(text), 7)]
            is_last = "model_call_id" not in each
            previous = previous + text if is_cumulative else text
            each = message_line("assistant", previous) if is_last else each
        lines.append(each)
    return lines


@pytest.mark.parametrize("run", _runs())
def test_run_matches_its_transcript(run: list[Line]) -> None:
    streamed, stored = follow(run, ends=True), follow(_transcript(run), ends=True)

    assert content_events(streamed, without=_only_in_streams) == content_events(
        stored, without=_only_in_streams
    )


def _only_in_streams(name: str) -> bool:
    return name in ("exitCode", "orphan", "structured", "toolCallId")


def _transcript(run: list[Line]) -> list[Line]:
    """Return the run as a transcript, which has no call ids and keeps results as the model received them."""
    lines, thought, events = list[Line](), "", follow(run)
    results = {
        event["payload"]["toolCallId"]: event["payload"] for event in events if event["type"] == "tool_result"
    }
    for each in run:
        thought += each.get("text", "") if each["type"] == "thinking" else ""
        if each["type"] == "user":
            lines.append({"role": "user", "message": {"content": each["message"]["content"]}})
        elif each["type"] == "assistant":
            thinking = [{"type": "thinking", "thinking": thought}] if thought else []
            lines.append(transcript_line("assistant", *thinking, *each["message"]["content"]))
            thought = ""
        elif each["type"] == "tool_call" and each["subtype"] == "started":
            args = each["tool_call"]["shellToolCall"]["args"]
            lines.append(transcript_line("assistant", {"type": "tool_use", "name": "shell", "input": args}))
        elif each["type"] == "tool_call":
            content = results[each["call_id"]]["result"]
            lines.append(
                transcript_line(
                    "user", {"type": "tool_result", "tool_use_id": each["call_id"], "content": content}
                )
            )
    return [*lines, {"type": "turn_ended", "status": "success"}]
