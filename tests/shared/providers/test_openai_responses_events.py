"""Events of OpenAI Responses: streams, complete responses and requests."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ash_shared.eventlog import Event, Normalizer, parse_line
from tests.shared.logs import content_events, context, follow, short_events, texts
from tests.shared.sample_files import CORPUS
from tests.shared.texts import texts_of

Record = dict[str, Any]
Short = tuple[Any, ...]
SOURCE = "openai_responses"


def short_response_events(*records: Any, ends: bool = True) -> list[Short]:
    return short_events(follow(records, SOURCE, ends=ends))


def body(*output: Record, status: str = "completed", id: str = "r1", **more: Any) -> Record:
    return {"id": id, "object": "response", "status": status, "output": list(output), **more}


def created(id: str = "r1") -> Record:
    return {"type": "response.created", "response": body(id=id, status="in_progress")}


def response_end(*output: Record, status: str = "completed", **more: Any) -> Record:
    return {"type": f"response.{status}", "response": body(*output, status=status, **more)}


def delta(kind: str, text: Any, index: int = 0, **more: Any) -> Record:
    return {"type": f"response.{kind}.delta", "output_index": index, "item_id": "i1", "delta": text, **more}


def done(kind: str, index: int = 0, **more: Any) -> Record:
    return {"type": f"response.{kind}.done", "output_index": index, "item_id": "i1", **more}


def item_added(item: Record, index: int = 0) -> Record:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def item_done(item: Record, index: int = 0) -> Record:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def message(*texts: str, **more: Any) -> Record:
    content = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "id": "m1", "role": "assistant", "content": content, **more}


def reasoning(*summary: str, **more: Any) -> Record:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs1", "summary": parts, **more}


def call(arguments: str = '{"city":"Graz"}', call_id: str = "c1", **more: Any) -> Record:
    fields = {"type": "function_call", "id": "fc1", "call_id": call_id, "name": "weather"}
    return {**fields, "arguments": arguments, **more}


def output(text: str = "sunny", call_id: str = "c1") -> Record:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
FIRST = {"content_index": 0}
START: Short = ("turn_start", {"trigger": "system"})
END: Short = ("turn_end", {})
USER_START = ("turn_start", {"trigger": "user"})
ABORTED = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
CALL_EVENT = ("tool_call", {"toolCallId": "c1", "toolName": "weather", "args": {"city": "Graz"}}, "r1")
RESULT_EVENT = ("tool_result", {"toolCallId": "c1", "result": "sunny"})


def turn_end_with_usage(count: int = 1) -> Short:
    usage = {name: count * each for name, each in USAGE.items()}
    return "turn_end", {"usage": {**usage, "vendor": USAGE} if count == 1 else usage}


def chunk(text: str, **more: Any) -> Short:
    return "assistant_chunk", {"text": text, **more}, "r1"


def text_done(text: str, response: str = "r1", **more: Any) -> Short:
    return "assistant_done", {"text": text, **more}, response


def thinking_done(text: str, **more: Any) -> Short:
    return "thinking_done", {"text": text, **more}, "r1"


def input_chunk(text: str, offset: int, id: str = "c1", name: str = "weather") -> Short:
    payload = {"toolCallId": id, "toolName": name, "chunk": text, "offset": offset}
    return "tool_input_chunk", payload, "r1"


def tool_call(id: str, name: str, args: Any, **more: Any) -> Short:
    return "tool_call", {"toolCallId": id, "toolName": name, "args": args, **more}, "r1"


def tool_result(id: str, result: Any, **more: Any) -> Short:
    return "tool_result", {"toolCallId": id, "result": result, **more}


TEXT = [
    created(),
    item_added({"type": "message", "id": "m1", "role": "assistant", "content": [], "status": "in_progress"}),
    delta("output_text", "Good ", **FIRST),
    delta("output_text", "day", **FIRST),
    done("output_text", text="Good day", **FIRST),
]
CALL = [
    created(),
    item_added(call("")),
    delta("function_call_arguments", '{"city":'),
    delta("function_call_arguments", '"Graz"}'),
    done("function_call_arguments", arguments='{"city":"Graz"}'),
    item_done(call()),
]
CALL_EVENTS = [START, input_chunk('{"city":', 0), input_chunk('"Graz"}', 8), CALL_EVENT]

REFUSAL = {"type": "refusal", "refusal": "No."}
MCP = {"type": "mcp_call", "id": "mcp1", "name": "ask", "server_label": "wiki", "arguments": "{}"}
CODE = {"type": "code_interpreter_call", "id": "ci1", "code": "1+1", "container_id": "k"}
SEARCH = {"type": "web_search_call", "id": "ws1", "action": {"query": "Graz"}}
SHELL = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls", "pwd"]}}
COMMAND_RESULTS = [{"stdout": "a\n", "outcome": {"type": "exit", "exit_code": 0}}]
SHELL_OUTPUT = {"type": "shell_call_output", "id": "so1", "call_id": "c1", "output": COMMAND_RESULTS}
CREATE_FILE = {"type": "create_file", "path": "a", "diff": "+b"}
PATCH = {"type": "apply_patch_call", "call_id": "c1", "operation": CREATE_FILE}
PATCH_OUTPUT = {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed", "output": "Done"}
PARTIAL_IMAGE = {
    "type": "response.image_generation_call.partial_image",
    "output_index": 0,
    "item_id": "ig1",
    "partial_image_index": 0,
    "partial_image_b64": "AAAA",
}
EARLIER_PROMPT = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
COMPACTION = {"type": "compaction", "id": "k2", "encrypted_content": "xyz"}
UNKNOWN = {"type": "response.hologram.delta", "delta": "~"}
INCOMPLETE: dict[str, Any] = {"incomplete_details": {"reason": "max_output_tokens"}}
INCOMPLETE_ERROR = {
    "code": "max_output_tokens",
    "message": "max_output_tokens",
    "details": {"reason": "max_output_tokens"},
}
SERVER_ERROR = {"code": "server_error", "message": "Oh."}
ERROR = {"type": "error", "error": SERVER_ERROR}
FLAT_ERROR = {"type": "error", "sequence_number": 1, "code": None, "message": "Oh."}
FAILED_EVENT = response_end(status="failed", error=SERVER_ERROR)
ERROR_EVENT = ("error", {**SERVER_ERROR, "details": SERVER_ERROR})

STREAMS: dict[str, tuple[list[Record], list[Short]]] = {
    "a text": (
        [*TEXT, item_done(message("Good day")), response_end(message("Good day"), usage=USAGE)],
        [START, chunk("Good "), chunk("day"), text_done("Good day"), turn_end_with_usage()],
    ),
    "the item overrides its deltas": (
        [*TEXT, item_done(message("Good day!")), response_end(message("Good day!"))],
        [START, chunk("Good "), chunk("day"), text_done("Good day!"), END],
    ),
    "the final text counts if no item follows": (
        [
            *TEXT[:-1],
            done("output_text", text="Good day!", **FIRST),
            {"type": "response.completed", "response": {}},
        ],
        [START, chunk("Good "), chunk("day"), text_done("Good day!"), END],
    ),
    "an end without deltas": (
        [created(), done("output_text", text="Hi", **FIRST)],
        [START, text_done("Hi"), *ABORTED],
    ),
    "everything in the last event": (
        [created(), response_end(reasoning("Hm"), message("Hi"), call(), usage=USAGE), output()],
        [START, thinking_done("Hm"), text_done("Hi"), CALL_EVENT, RESULT_EVENT, turn_end_with_usage()],
    ),
    "only new items of the last event": (
        [created(), item_done(message("Hi")), response_end(message("Hi"), message("Bye"))],
        [START, text_done("Hi"), text_done("Bye"), END],
    ),
    "a phase": (
        [created(), item_done(message("Hi", phase="commentary")), response_end()],
        [START, text_done("Hi", phase="commentary"), END],
    ),
    "several parts, ending with a refusal": (
        [
            created(),
            delta("output_text", "Hm", **FIRST),
            delta("refusal", "No", content_index=1),
            done("refusal", refusal="No.", content_index=1),
            item_done(message("Hm") | {"content": [*message("Hm")["content"], REFUSAL]}),
            response_end(),
        ],
        [
            START,
            chunk("Hm"),
            chunk("No", variant="refusal"),
            text_done("Hm"),
            text_done("No.", variant="refusal"),
            END,
        ],
    ),
    "reasoning, summaries and texts": (
        [
            created(),
            delta("reasoning_summary_text", "One", summary_index=0),
            done("reasoning_summary_text", text="One", summary_index=0),
            delta("reasoning_summary_text", "Two", summary_index=1),
            delta("reasoning_text", "Three", **FIRST),
            item_done(reasoning("One", "Two", content=[{"type": "reasoning_text", "text": "Three"}])),
            response_end(),
        ],
        [START]
        + [("thinking_chunk", {"text": text}, "r1") for text in ("One", "Two", "Three")]
        + [thinking_done("One"), thinking_done("Two"), thinking_done("Three"), END],
    ),
    "unreadable reasoning": (
        [
            created(),
            item_done(reasoning(encrypted_content="xyz")),
            response_end(reasoning(encrypted_content="xyz")),
        ],
        [],
    ),
    "a call and its result": (
        [
            *CALL,
            response_end(call(), usage=USAGE),
            output(),
            created("r2"),
            item_done(message("Sunny.")),
            response_end(message("Sunny."), id="r2", usage=USAGE),
        ],
        [*CALL_EVENTS, RESULT_EVENT, text_done("Sunny.", "r2"), turn_end_with_usage(2)],
    ),
    "a call without a result": (
        [*CALL, response_end(call())],
        [*CALL_EVENTS, ("turn_end", {"partial": True})],
    ),
    "a call omitted in the last event": (
        [*CALL, {"type": "response.completed", "response": {"id": "r1"}}, output()],
        [*CALL_EVENTS, RESULT_EVENT, END],
    ),
    "arguments without deltas": (
        [created(), item_added(call("")), *CALL[4:], response_end(call()), output()],
        [START, CALL_EVENT, RESULT_EVENT, END],
    ),
    "a cut call": (
        CALL[:4],
        [*CALL_EVENTS[:3], tool_call("c1", "weather", {"city": "Graz"}, partial=True), *ABORTED],
    ),
    "a call whose start is missing": (
        [delta("function_call_arguments", "{}"), item_done(call("{}"))],
        [
            START,
            ("tool_input_chunk", {"toolCallId": "i1", "toolName": "", "chunk": "{}", "offset": 0}),
            ("tool_call", {"toolCallId": "c1", "toolName": "weather", "args": {}}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a custom tool": (
        [
            created(),
            item_added(
                {"type": "custom_tool_call", "id": "ct1", "call_id": "c1", "name": "sql", "input": ""}
            ),
            delta("custom_tool_call_input", "SELECT 1"),
            done("custom_tool_call_input", input="SELECT 1"),
            item_done({"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"}),
        ],
        [START, input_chunk("SELECT 1", 0, name="sql"), tool_call("c1", "sql", "SELECT 1"), *ABORTED],
    ),
    "an MCP tool": (
        [
            created(),
            item_added(MCP | {"arguments": ""}),
            delta("mcp_call_arguments", "{}"),
            {"type": "response.mcp_call.completed", "output_index": 0, "item_id": "mcp1"},
            item_done(MCP | {"error": "Down."}),
            response_end(MCP | {"error": "Down."}),
        ],
        [
            START,
            input_chunk("{}", 0, "mcp1", "ask"),
            tool_call("mcp1", "ask", {}, executor="mcp"),
            tool_result("mcp1", "Down.", error={"code": "error", "message": "Down."}),
            END,
        ],
    ),
    "code run by the vendor": (
        [
            created(),
            item_added(CODE | {"code": "", "outputs": []}),
            delta("code_interpreter_call_code", "1+1"),
            done("code_interpreter_call_code", code="1+1"),
            item_done(CODE | {"outputs": [{"type": "logs", "logs": "2"}]}),
            response_end(CODE),
        ],
        [
            START,
            input_chunk("1+1", 0, "ci1", "code_interpreter"),
            tool_call("ci1", "code_interpreter", {"code": "1+1"}, executor="server"),
            tool_result("ci1", [{"type": "text", "text": "2", "source_type": "logs"}]),
            END,
        ],
    ),
    "a search": (
        [created(), item_added(SEARCH | {"status": "in_progress"}), item_done(SEARCH), response_end(SEARCH)],
        [START, tool_call("ws1", "web_search", {"query": "Graz"}, executor="server"), END],
    ),
    "an image and a partial version of it": (
        [
            created(),
            item_added({"type": "image_generation_call", "id": "ig1", "status": "in_progress"}),
            PARTIAL_IMAGE,
            item_done({"type": "image_generation_call", "id": "ig1", "size": "1x1", "result": "BBBB"}),
            response_end(),
        ],
        [
            START,
            (
                "tool_output_chunk",
                {"toolCallId": "ig1", "chunk": "AAAA", "offset": 0, "partialImageIndex": 0},
            ),
            tool_call("ig1", "image_generation", {"size": "1x1"}, executor="server"),
            tool_result("ig1", [{"type": "image", "source": {"type": "base64", "data": "BBBB"}}]),
            END,
        ],
    ),
    "commands in the vendor's shell": (
        [
            created(),
            item_added(SHELL | {"action": {"commands": []}}),
            *(
                {"output_index": 0, "command_index": index, **piece}
                for index, command in enumerate(("ls", "pwd"))
                for piece in (
                    {"type": "response.shell_call_command.added", "command": ""},
                    {"type": "response.shell_call_command.delta", "delta": command},
                    {"type": "response.shell_call_command.done", "command": command},
                )
            ),
            item_done(SHELL),
            item_added(SHELL_OUTPUT | {"output": []}, 1),
            delta("shell_call_output_content", {"stdout": "a\n"}, 1, command_index=0),
            delta("shell_call_output_content", {"stderr": "b\n"}, 1, command_index=1),
            item_done(SHELL_OUTPUT, 1),
            response_end(SHELL, SHELL_OUTPUT),
        ],
        [
            START,
            input_chunk("ls", 0, name="shell"),
            input_chunk("\n", 2, name="shell"),
            input_chunk("pwd", 3, name="shell"),
            tool_call("c1", "shell", {"commands": ["ls", "pwd"]}),
            ("tool_output_chunk", {"toolCallId": "c1", "chunk": "a\n", "offset": 0, "stream": "stdout"}),
            ("tool_output_chunk", {"toolCallId": "c1", "chunk": "b\n", "offset": 2, "stream": "stderr"}),
            tool_result("c1", [{"type": "text", "text": "a\n"}], exitCode=0, structured=COMMAND_RESULTS),
            END,
        ],
    ),
    "a patch": (
        [
            created(),
            item_added(PATCH | {"operation": {**CREATE_FILE, "diff": ""}}),
            delta("apply_patch_call_operation_diff", "+b"),
            done("apply_patch_call_operation_diff", diff="+b"),
            item_done(PATCH),
            response_end(PATCH),
            PATCH_OUTPUT,
        ],
        [
            START,
            input_chunk("+b", 0, name="apply_patch"),
            tool_call("c1", "apply_patch", CREATE_FILE),
            tool_result("c1", "Done"),
            END,
        ],
    ),
    "items without events": (
        [
            created(),
            {"type": "response.queued", "response": body(status="queued")},
            {"type": "response.in_progress", "response": body(status="in_progress")},
            {"type": "response.content_part.added", "output_index": 0, "content_index": 0, "part": {}},
            {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": {}},
            item_done({"type": "mcp_list_tools", "id": "l1", "server_label": "wiki", "tools": []}),
            item_done({"type": "compaction", "id": "k1", "encrypted_content": "xyz"}, 1),
            response_end(),
        ],
        [],
    ),
    "an unknown event": (
        [created(), UNKNOWN, item_done(message("Hi")), response_end()],
        [("raw", {"source": SOURCE, "raw": UNKNOWN}), START, text_done("Hi"), END],
    ),
    "an incomplete response": (
        [
            *TEXT[:-1],
            item_done(message("Good day", status="incomplete")),
            response_end(message("Good day"), status="incomplete", usage=USAGE, **INCOMPLETE),
        ],
        [
            START,
            chunk("Good "),
            chunk("day"),
            text_done("Good day", partial=True),
            ("error", INCOMPLETE_ERROR),
            turn_end_with_usage(),
        ],
    ),
    "an incomplete response without its items": (
        [*TEXT[:-1], response_end(status="incomplete", **INCOMPLETE)],
        [
            START,
            chunk("Good "),
            chunk("day"),
            text_done("Good day", stopReason="max_output_tokens", partial=True),
            ("error", INCOMPLETE_ERROR),
            END,
        ],
    ),
    "a failure reported twice": (
        [*TEXT[:3], ERROR, FAILED_EVENT],
        [START, chunk("Good "), text_done("Good ", partial=True), ERROR_EVENT, *ABORTED],
    ),
    "a failure reported twice in reverse order": (
        [*TEXT[:3], FAILED_EVENT, ERROR],
        [START, chunk("Good "), text_done("Good ", partial=True), ERROR_EVENT, *ABORTED],
    ),
    "two failures": (
        [created(), FAILED_EVENT, created("r2"), FAILED_EVENT],
        2 * [START, ERROR_EVENT, *ABORTED],
    ),
    "a failure in the flat form": (
        [FLAT_ERROR],
        [
            START,
            ("error", {"code": "error", "message": "Oh.", "details": FLAT_ERROR}),
            *ABORTED,
        ],
    ),
    "a stream broken in a text": (
        TEXT[:3],
        [START, chunk("Good "), text_done("Good ", partial=True), *ABORTED],
    ),
    "a stream broken between two items": (
        [*TEXT, item_done(message("Good day"))],
        [START, chunk("Good "), chunk("day"), text_done("Good day"), *ABORTED],
    ),
    "ids that change with every event": (
        [
            created("r1"),
            item_added(message(id="m1")),
            delta("output_text", "Hi", item_id="m2", **FIRST),
            {"type": "response.in_progress", "response": body(id="r2", status="in_progress")},
            item_done(message("Hi", id="m3")),
            response_end(message("Hi", id="m4"), id="r3"),
        ],
        [START, chunk("Hi"), text_done("Hi"), END],
    ),
    "consecutive responses": (
        [
            created(),
            item_done(message("One")),
            response_end(usage=USAGE),
            created("r2"),
            item_done(message("Two")),
            response_end(id="r2", usage=USAGE),
        ],
        [
            START,
            text_done("One"),
            turn_end_with_usage(),
            START,
            text_done("Two", "r2"),
            turn_end_with_usage(),
        ],
    ),
    "user input": (
        [
            {"type": "message", "role": "user", "content": "Hi"},
            *TEXT,
            item_done(message("Good day")),
            response_end(usage=USAGE),
            {"type": "message", "role": "user", "content": "Bye"},
        ],
        [
            USER_START,
            ("user_message", {"text": "Hi"}),
            chunk("Good "),
            chunk("day"),
            text_done("Good day"),
            turn_end_with_usage(),
            USER_START,
            ("user_message", {"text": "Bye"}),
            END,
        ],
    ),
}


def test_speech_is_in_its_turn_with_its_transcript() -> None:
    def audio(number: int, name: str, **more: Any) -> Record:
        return {"type": f"response.audio.{name}", "sequence_number": number, **more}

    records = [
        created(),
        audio(1, "delta", delta="UklG"),
        audio(2, "transcript.delta", delta="At "),
        audio(3, "delta", delta="Rg=="),
        audio(4, "transcript.delta", delta="nine."),
        audio(5, "transcript.done"),
        audio(6, "done"),
        response_end(),
    ]

    events = follow(records, SOURCE, ends=True)

    assert short_events(events) == [
        ("turn_start", {"trigger": "system"}),
        ("audio_chunk", {"data": "UklG", "seq": 0}, "r1"),
        ("assistant_chunk", {"text": "At ", "variant": "transcript"}, "r1"),
        ("audio_chunk", {"data": "Rg==", "seq": 1}, "r1"),
        ("assistant_chunk", {"text": "nine.", "variant": "transcript"}, "r1"),
        ("assistant_done", {"text": "At nine.", "variant": "transcript"}, "r1"),
        ("audio_done", {}, "r1"),
        ("turn_end", {}),
    ]
    assert len({event["turnId"] for event in events}) == 1


@pytest.mark.parametrize(("records", "events"), STREAMS.values(), ids=STREAMS)
def test_stream_events(records: list[Record], events: list[Short]) -> None:
    assert short_response_events(*records) == events


BODIES: dict[str, tuple[list[Record], list[Short]]] = {
    "a response": (
        [
            body(reasoning("Hm"), reasoning(), message("Hi"), call(), usage=USAGE),
            output(),
            body(message("Sunny."), id="r2", usage=USAGE),
        ],
        [
            START,
            thinking_done("Hm"),
            text_done("Hi"),
            CALL_EVENT,
            RESULT_EVENT,
            text_done("Sunny.", "r2"),
            turn_end_with_usage(2),
        ],
    ),
    "an incomplete response": (
        [body(message("Good", status="incomplete"), status="incomplete", **INCOMPLETE)],
        [START, text_done("Good", partial=True), ("error", INCOMPLETE_ERROR), END],
    ),
    "a failed response": (
        [body(message("Hi"), status="failed", error=SERVER_ERROR)],
        [START, text_done("Hi"), ERROR_EVENT, *ABORTED],
    ),
    "a cancelled response": (
        [body(status="cancelled")],
        [START, ("interrupt", {"reason": "user_cancel"}), ("turn_end", {"partial": True})],
    ),
    "a bare error": ([{"error": SERVER_ERROR}], [START, ERROR_EVENT, *ABORTED]),
    "a background response requested repeatedly": (
        [
            body(status="queued"),
            body(message("On", status="in_progress"), status="in_progress"),
            body(message("One", status="completed"), status="in_progress"),
            body(message("One", status="completed"), message("Two"), usage=USAGE),
        ],
        [START, text_done("One"), text_done("Two"), turn_end_with_usage()],
    ),
    "a response whose stream broke": (
        [*TEXT[:3], body(message("Good day"), usage=USAGE)],
        [START, chunk("Good "), text_done("Good day"), turn_end_with_usage()],
    ),
    "another response after a broken stream": (
        [created(), item_done(message("One")), body(message("Two"), id="r2")],
        [START, text_done("One"), text_done("Two", "r2"), END],
    ),
    "a compacted history without new content": (
        [
            {
                "object": "response.compaction",
                "id": "k1",
                "output": [EARLIER_PROMPT, COMPACTION],
                "usage": USAGE,
            },
        ],
        [("summary", {"text": ""})],
    ),
    "a request and its response": (
        [
            {
                "model": "m",
                "instructions": "Be kind.",
                "input": [{"role": "user", "content": "Hi"}, reasoning()],
            },
            body(message("Hello"), usage=USAGE),
        ],
        [
            ("system_message", {"text": "Be kind."}),
            USER_START,
            ("user_message", {"text": "Hi"}),
            text_done("Hello"),
            turn_end_with_usage(),
        ],
    ),
}


@pytest.mark.parametrize(("records", "events"), BODIES.values(), ids=BODIES)
def test_complete_response_events(records: list[Record], events: list[Short]) -> None:
    assert short_response_events(*records) == events


WAITING: dict[str, tuple[list[Record], bool]] = {
    "nothing": ([], False),
    "a function": ([call()], True),
    "a function with a result": ([call(), output()], False),
    "a custom tool": ([{"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": ""}], True),
    "a local shell": ([{"type": "local_shell_call", "id": "l1", "call_id": "c1", "action": {}}], True),
    "a shell": ([SHELL], True),
    "the vendor's shell": ([SHELL, SHELL_OUTPUT], False),
    "a patch": ([PATCH], True),
    "a computer": ([{"type": "computer_call", "call_id": "c1", "action": {}}], True),
    "an approval request": (
        [{"type": "mcp_approval_request", "id": "p1", "name": "ask", "arguments": "{}"}],
        True,
    ),
    "a tool search": (
        [{"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {}}],
        True,
    ),
    "the vendor's tool search": (
        [{"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}}],
        False,
    ),
    "a search": ([SEARCH], False),
    "an MCP tool": ([MCP], False),
}


@pytest.mark.parametrize(("items", "is_pending"), WAITING.values(), ids=WAITING)
def test_turn_stays_open_while_client_call_is_pending(items: list[Record], is_pending: bool) -> None:
    user = {"type": "message", "role": "user", "content": "Hi"}

    complete = short_response_events(user, body(message("Hm"), *items), ends=False)
    streamed_events = short_response_events(
        user, created(), item_done(message("Hm")), response_end(message("Hm"), *items), ends=False
    )

    assert [event[0] for event in complete] == [event[0] for event in streamed_events]
    assert (complete[-1] == END) is not is_pending


def test_keeps_unreadable_lines_in_order() -> None:
    raw = [json.dumps(record) for record in [*TEXT, item_done(message("Good day")), response_end()]]
    raw[3] = raw[3][:-1]
    normalizer, events = Normalizer(SOURCE), list[Event]()

    for line, text in enumerate(raw):
        events += normalizer.follow(parse_line(text, SOURCE), context(line))

    unreadable = ("raw", {"source": SOURCE, "raw": raw[3]})
    assert short_events(events) == [START, chunk("Good "), unreadable, text_done("Good day"), END]


# Captured samples


def _records(folder: str) -> Iterator[list[Record]]:
    """Yield the records of each file, without unreadable lines."""
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus next to the repository")
    files: dict[str, list[Record]] = {}
    for location, text in texts_of(CORPUS / folder):
        try:
            files.setdefault(location.partition(":")[0], []).append(json.loads(text))
        except ValueError:
            continue
    yield from files.values()


def _comparable(events: list[Event]) -> list[Event]:
    """Return the events sorted by text, without generated call ids."""
    payloads = content_events(events, without=lambda name: False)
    without_ids = [
        {key: value for key, value in event.items() if key != "toolCallId" or "/" not in str(value)}
        for event in payloads
    ]
    return sorted(without_ids, key=json.dumps)


def test_captured_streams_match_their_responses() -> None:
    compared = 0
    for records in _records("openai_responses_stream"):
        responses = [record["response"] for record in records if record["type"] == "response.completed"]
        if responses:
            compared += 1
            assert _comparable(follow(records, ends=True)) == _comparable(follow(responses, ends=True))

    assert compared >= 30


@pytest.mark.slow
def test_response_after_a_broken_stream_adds_the_rest() -> None:
    for records in _records("openai_responses_stream"):
        ids = [record["response"]["id"] for record in records if record["type"] == "response.created"]
        if len(ids) != 1 or records[-1]["type"] != "response.completed":
            continue
        response = {**records[-1]["response"], "id": ids[0]}
        expected = _comparable(follow(records, ends=True))
        for end in {1, 2, 3, len(records) // 3, len(records) // 2, len(records) - 1}:
            events = follow([*records[:end], response], ends=True)
            assert _comparable(events) == expected, (ids, end)


def streamed(response: Record) -> list[Record]:
    """Return a possible stream of the response."""
    item_events = [
        event for index, item in enumerate(response["output"]) for event in _item_events(item, index)
    ]
    return [created(response["id"]), *item_events, {"type": "response.completed", "response": response}]


def _item_events(item: Record, index: int) -> list[Record]:
    halves = [
        delta(kind, half, index, content_index=number)
        for number, (kind, text) in enumerate(_item_deltas(item))
        for half in (text[: len(text) // 2], text[len(text) // 2 :])
    ]
    return [item_added({**item, "status": "in_progress"}, index), *halves, item_done(item, index)]


def _item_deltas(item: Record) -> list[tuple[str, str]]:
    """Return the delta types and texts of an item."""
    if item["type"] == "function_call":
        return [("function_call_arguments", item["arguments"])]
    parts = item["content"] if item["type"] == "message" else []
    return [("output_text", part["text"]) for part in parts]


def test_complete_response_matches_its_stream() -> None:
    compared = 0
    for records in _records("openai_responses_response"):
        responses = [record for record in records if record.get("object") == "response" and record["output"]]
        events = follow([event for response in responses for event in streamed(response)], ends=True)
        compared += len(responses)
        assert _comparable(events) == _comparable(follow(responses, ends=True))

        joined = "".join(event["payload"]["text"] for event in events if event["type"] == "assistant_done")
        assert texts(events).get("assistant_chunk", "") == joined

    assert compared >= 40


@pytest.mark.slow
def test_many_items_take_linear_time() -> None:
    """Searching all emitted items for each item would take more than a minute."""
    count = 20_000
    items = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"{number}"}]}
        for number in range(count)
    ]
    record = parse_line(json.dumps(response_end(*items)), SOURCE)

    events = Normalizer(SOURCE).follow(record, context(1))

    assert [event["payload"]["text"] for event in events if event["type"] == "assistant_done"] == [
        f"{number}" for number in range(count)
    ]
