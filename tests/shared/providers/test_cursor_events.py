"""What the lines of Cursor's stream and of its transcripts add to the log."""

import json
from typing import Any

import pytest

from tests.shared.conftest import CORPUS
from tests.shared.logs import follow, said, short, texts

Line = dict[str, Any]
SESSION = "0f3c1c52-5a0e-4d0e-9a53-0d5b3c1f7a10"
CALL = "call_7\nfc_7"
MODEL = {"model_call_id": "mc1", "timestamp_ms": 5}


def line(kind: str, **more: Any) -> Line:
    return {"type": kind, "session_id": SESSION, **more}


def says(role: str, text: str, **more: Any) -> Line:
    return line(role, message={"role": role, "content": [{"type": "text", "text": text}]}, **more)


def piece(text: str) -> Line:
    return says("assistant", text, timestamp_ms=5)


def thinks(text: str) -> Line:
    return line("thinking", subtype="delta", text=text, timestamp_ms=5)


def tool(state: str, id: str | None = CALL, **more: Any) -> Line:
    call = {"shellToolCall": {"args": {"command": "make"}, **more}}
    named = {} if id is None else {"call_id": id}
    return line("tool_call", subtype=state, **named, tool_call=call, **MODEL)


def end(text: str | None, **more: Any) -> Line:
    return line("result", subtype="success", duration_ms=900, is_error=False, result=text, **more)


def wrote(role: str, *content: Line) -> Line:
    """A line of a transcript."""
    return {"role": role, "message": {"content": list(content)}}


def text(words: str) -> Line:
    return {"type": "text", "text": words}


INIT = line(
    "system", subtype="init", apiKeySource="login", cwd="/srv", model="Auto", permissionMode="default"
)
ASKED = says("user", "Build it.")
THOUGHT = line("thinking", subtype="completed", timestamp_ms=5)
OK = {"success": {"exitCode": 0, "stdout": "ok", "stderr": ""}}
FIRST = [("turn_start", {"trigger": "user"}), ("user_message", {"text": "Build it."})]


def called(id: str = CALL, *more: str) -> tuple[Any, ...]:
    return ("tool_call", {"toolCallId": id, "toolName": "shell", "args": {"command": "make"}}, *more)


def answered(id: str = CALL) -> tuple[Any, ...]:
    return ("tool_result", {"toolCallId": id, "result": "ok", "exitCode": 0, "structured": OK})


def done(words: str, *more: str, **keys: Any) -> tuple[Any, ...]:
    return ("assistant_done", {"text": words, **keys}, *more)


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        pytest.param(
            [
                INIT,
                ASKED,
                thinks("Hm"),
                thinks(", make"),
                THOUGHT,
                says("assistant", "On it.", **MODEL),
                tool("started"),
                line("interaction_query", subtype="request"),
                tool("completed", result=OK),
                thinks("So"),
                THOUGHT,
                says("assistant", "Built."),
                end("On it.Built.", usage={"inputTokens": 5, "outputTokens": 2}),
            ],
            [
                *FIRST,
                ("thinking_chunk", {"text": "Hm"}),
                ("thinking_chunk", {"text": ", make"}),
                ("thinking_done", {"text": "Hm, make"}),
                done("On it.", "mc1"),
                called(CALL, "mc1"),
                answered(),
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
                ASKED,
                piece("On "),
                piece("it."),
                says("assistant", "On it.", **MODEL),
                tool("started"),
                tool("completed", result=OK),
                piece("Bui"),
                piece("lt."),
                says("assistant", "On it.Built."),
                end("On it.Built."),
            ],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On "}),
                ("assistant_chunk", {"text": "it."}),
                done("On it.", "mc1"),
                called(CALL, "mc1"),
                answered(),
                ("assistant_chunk", {"text": "Bui"}),
                ("assistant_chunk", {"text": "lt."}),
                done("Built."),
                ("turn_end", {}),
            ],
            id="pieces, whole before the call, and all of the turn once more at the end",
        ),
        pytest.param(
            [INIT, ASKED, piece("On "), piece("it."), says("assistant", "On it."), end("On it.")],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On "}),
                ("assistant_chunk", {"text": "it."}),
                done("On it."),
                ("turn_end", {}),
            ],
            id="pieces, and the last text whole",
        ),
        pytest.param(
            [
                INIT,
                ASKED,
                piece("On it."),
                says("assistant", "On it.", **MODEL),
                tool("started"),
                tool("completed", result=OK),
                says("assistant", "On it."),
                end("On it."),
            ],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On it."}),
                done("On it.", "mc1"),
                called(CALL, "mc1"),
                answered(),
                ("turn_end", {}),
            ],
            id="all of the turn once more, and nothing new in it",
        ),
        pytest.param(
            [
                INIT,
                ASKED,
                says("assistant", "Done.", **MODEL),
                tool("started"),
                tool("completed", result=OK),
                says("assistant", "Done."),
                end("Done.Done."),
            ],
            [*FIRST, done("Done.", "mc1"), called(CALL, "mc1"), answered(), done("Done."), ("turn_end", {})],
            id="the same words twice, without pieces",
        ),
        pytest.param(
            [INIT, ASKED, piece("On "), piece("it."), end("On it.")],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On "}),
                ("assistant_chunk", {"text": "it."}),
                done("On it."),
                ("turn_end", {}),
            ],
            id="pieces alone",
        ),
        pytest.param(
            [INIT, ASKED, piece("On it."), tool("started"), tool("completed", result=OK), end("On it.")],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On it."}),
                done("On it."),
                called(CALL, "mc1"),
                answered(),
                ("turn_end", {}),
            ],
            id="pieces that a call ends",
        ),
        pytest.param(
            [INIT, ASKED, piece("On "), thinks("Hm")],
            [
                *FIRST,
                ("assistant_chunk", {"text": "On "}),
                ("thinking_chunk", {"text": "Hm"}),
                done("On ", partial=True),
                ("thinking_done", {"text": "Hm", "partial": True}),
                ("interrupt", {"reason": "error"}),
                ("turn_end", {"partial": True}),
            ],
            id="a run that was cut",
        ),
        pytest.param(
            [INIT, ASKED, thinks("Hm"), piece("On "), piece("it."), says("assistant", "On it."), end("")],
            [
                *FIRST,
                ("thinking_chunk", {"text": "Hm"}),
                ("thinking_done", {"text": "Hm"}),
                ("assistant_chunk", {"text": "On "}),
                ("assistant_chunk", {"text": "it."}),
                done("On it."),
                ("turn_end", {}),
            ],
            id="thinking that ends where the answer begins",
        ),
        pytest.param(
            [INIT, ASKED, end("6")],
            [*FIRST, done("6", variant="result"), ("turn_end", {})],
            id="only the result",
        ),
        pytest.param(
            [INIT, ASKED, {**end("No key"), "subtype": "error", "is_error": True}],
            [*FIRST, ("error", {"code": "result/error", "message": "No key"}), ("turn_end", {})],
            id="a run that failed",
        ),
        pytest.param([INIT, ASKED, end(None)], [*FIRST, ("turn_end", {})], id="a result without a text"),
        pytest.param(
            [
                INIT,
                ASKED,
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
                called("c1", "mc1"),
                called("c2", "mc1"),
                answered("c2"),
                answered("c1"),
                called("c3", "mc1"),
                answered("c3"),
                ("turn_end", {}),
            ],
            id="calls side by side, one completed twice, one never started",
        ),
        pytest.param(
            [INIT, tool("started", None), tool("completed", None, result=OK), end("")],
            [FIRST[0], called("2/0", "mc1"), answered("2/0"), ("turn_end", {})],
            id="a call without a name",
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
            [FIRST[0], (answered()[0], {**answered()[1], "orphan": True}), ("turn_end", {})],
            id="a result without arguments, of a call that was never started",
        ),
        pytest.param(
            [INIT, ASKED, INIT, ASKED, says("assistant", "Built."), INIT, ASKED, end("")],
            [
                *FIRST,
                FIRST[1],
                done("Built."),
                ("interrupt", {"reason": "error"}),
                ("turn_end", {"partial": True}),
                *FIRST,
                ("turn_end", {}),
            ],
            id="runs that begin before the last one ended",
        ),
        pytest.param(
            [
                wrote("user", text("Build it.")),
                wrote(
                    "assistant",
                    {"type": "thinking", "thinking": "Hm"},
                    text("On it."),
                    {"type": "tool_use", "name": "shell", "input": {"command": "make"}},
                ),
                wrote("user", {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}),
                wrote("assistant", text("Built.")),
                {"type": "turn_ended", "status": "success"},
                wrote("user", text("Build it.")),
                {"type": "turn_ended", "status": "error", "error": "Down"},
                wrote("user", text("Build it.")),
                {"type": "turn_ended", "status": "aborted"},
                wrote("user", text("Build it.")),
                wrote("user", text("Build it.")),
            ],
            [
                *FIRST,
                ("thinking_done", {"text": "Hm"}),
                done("On it."),
                called("2/2"),
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
            id="a line that nobody has seen",
        ),
    ],
)
def test_lines_add_events(lines: list[Line], events: list[Any]) -> None:
    assert short(follow(lines, "cursor", is_whole=True)) == events


OWN = [
    INIT,
    ASKED,
    thinks("Hm"),
    THOUGHT,
    says("assistant", "On it.", **MODEL),
    tool("started"),
    tool("completed", result=OK),
    says("assistant", "Built."),
    end("On it.Built."),
]


def _runs() -> list[Any]:
    found = [pytest.param(OWN, id="own")]
    for path in sorted((CORPUS / "cursor_cli").glob("reifying*.jsonl")):
        lines = [json.loads(each) for each in path.read_text().splitlines()]
        found.append(pytest.param(lines, id=path.stem))
    return found


@pytest.mark.parametrize("run", _runs())
@pytest.mark.parametrize("is_cumulative", [True, False])
def test_pieces_say_the_same_as_whole_lines(run: list[Line], is_cumulative: bool) -> None:
    whole, in_pieces = follow(run, is_whole=True), follow(_in_pieces(run, is_cumulative), is_whole=True)

    assert said(in_pieces) == said(whole)
    assert texts(in_pieces)["assistant_chunk"] == "".join(
        event["payload"]["text"] for event in whole if event["type"] == "assistant_done"
    )


def _in_pieces(run: list[Line], is_cumulative: bool) -> list[Line]:
    """The run with partial output: the last text may be that of all answers."""
    lines, before = list[Line](), ""
    for each in run:
        if each["type"] == "assistant":
            text = each["message"]["content"][0]["text"]
            lines += [piece(text[place : place + 7]) for place in range(0, len(text), 7)]
            is_last = "model_call_id" not in each
            before = before + text if is_cumulative else text
            each = says("assistant", before) if is_last else each
        lines.append(each)
    return lines


@pytest.mark.parametrize("run", _runs())
def test_a_run_and_its_transcript_say_the_same(run: list[Line]) -> None:
    streamed, stored = follow(run, is_whole=True), follow(_transcript(run), is_whole=True)

    assert said(streamed, without=_told_by_streams) == said(stored, without=_told_by_streams)


def _told_by_streams(name: str) -> bool:
    return name in ("exitCode", "orphan", "structured", "toolCallId")


def _transcript(run: list[Line]) -> list[Line]:
    """A transcript names no calls, and keeps what the model was given of the results."""
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
            lines.append(wrote("assistant", *thinking, *each["message"]["content"]))
            thought = ""
        elif each["type"] == "tool_call" and each["subtype"] == "started":
            given = each["tool_call"]["shellToolCall"]["args"]
            lines.append(wrote("assistant", {"type": "tool_use", "name": "shell", "input": given}))
        elif each["type"] == "tool_call":
            content = results[each["call_id"]]["result"]
            lines.append(
                wrote("user", {"type": "tool_result", "tool_use_id": each["call_id"], "content": content})
            )
    return [*lines, {"type": "turn_ended", "status": "success"}]
