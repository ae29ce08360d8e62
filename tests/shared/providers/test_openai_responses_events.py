"""OpenAI Responses in the log: streams, the same answers at rest, and what the client sends next."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ash_shared.eventlog import Event, Normalizer, read_line
from tests.shared.conftest import CORPUS
from tests.shared.logs import content_events, context, follow, short_events, texts
from tests.shared.texts import texts_of

Record = dict[str, Any]
Short = tuple[Any, ...]
SOURCE = "openai_responses"


def told(*records: Any, ends: bool = True) -> list[Short]:
    return short_events(follow(records, SOURCE, ends=ends))


def body(*output: Record, status: str = "completed", id: str = "r1", **more: Any) -> Record:
    return {"id": id, "object": "response", "status": status, "output": list(output), **more}


def created(id: str = "r1") -> Record:
    return {"type": "response.created", "response": body(id=id, status="in_progress")}


def ended(*output: Record, status: str = "completed", **more: Any) -> Record:
    return {"type": f"response.{status}", "response": body(*output, status=status, **more)}


def delta(kind: str, text: Any, place: int = 0, **more: Any) -> Record:
    return {"type": f"response.{kind}.delta", "output_index": place, "item_id": "i1", "delta": text, **more}


def done(kind: str, place: int = 0, **more: Any) -> Record:
    return {"type": f"response.{kind}.done", "output_index": place, "item_id": "i1", **more}


def begun(item: Record, place: int = 0) -> Record:
    return {"type": "response.output_item.added", "output_index": place, "item": item}


def finished(item: Record, place: int = 0) -> Record:
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def message(*texts: str, **more: Any) -> Record:
    content = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "id": "m1", "role": "assistant", "content": content, **more}


def reasoning(*summary: str, **more: Any) -> Record:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs1", "summary": parts, **more}


def call(arguments: str = '{"city":"Graz"}', call_id: str = "c1", **more: Any) -> Record:
    named = {"type": "function_call", "id": "fc1", "call_id": call_id, "name": "weather"}
    return {**named, "arguments": arguments, **more}


def output(text: str = "sunny", call_id: str = "c1") -> Record:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
FIRST = {"content_index": 0}
START: Short = ("turn_start", {"trigger": "system"})
END: Short = ("turn_end", {})
USER_START = ("turn_start", {"trigger": "user"})
CUT = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
CALLED = ("tool_call", {"toolCallId": "c1", "toolName": "weather", "args": {"city": "Graz"}}, "r1")
ANSWERED = ("tool_result", {"toolCallId": "c1", "result": "sunny"})


def counted(count: int = 1) -> Short:
    usage = {name: count * each for name, each in USAGE.items()}
    return "turn_end", {"usage": {**usage, "vendor": USAGE} if count == 1 else usage}


def chunk(text: str, **more: Any) -> Short:
    return "assistant_chunk", {"text": text, **more}, "r1"


def spoken(text: str, response: str = "r1", **more: Any) -> Short:
    return "assistant_done", {"text": text, **more}, response


def thought(text: str, **more: Any) -> Short:
    return "thinking_done", {"text": text, **more}, "r1"


def written(text: str, offset: int, id: str = "c1", name: str = "weather") -> Short:
    payload = {"toolCallId": id, "toolName": name, "chunk": text, "offset": offset}
    return "tool_input_chunk", payload, "r1"


def used(id: str, name: str, args: Any, **more: Any) -> Short:
    return "tool_call", {"toolCallId": id, "toolName": name, "args": args, **more}, "r1"


def gave(id: str, result: Any, **more: Any) -> Short:
    return "tool_result", {"toolCallId": id, "result": result, **more}


TEXT = [
    created(),
    begun({"type": "message", "id": "m1", "role": "assistant", "content": [], "status": "in_progress"}),
    delta("output_text", "Good ", **FIRST),
    delta("output_text", "day", **FIRST),
    done("output_text", text="Good day", **FIRST),
]
CALL = [
    created(),
    begun(call("")),
    delta("function_call_arguments", '{"city":'),
    delta("function_call_arguments", '"Graz"}'),
    done("function_call_arguments", arguments='{"city":"Graz"}'),
    finished(call()),
]
CALL_TOLD = [START, written('{"city":', 0), written('"Graz"}', 8), CALLED]

REFUSED = {"type": "refusal", "refusal": "No."}
MCP = {"type": "mcp_call", "id": "mcp1", "name": "ask", "server_label": "wiki", "arguments": "{}"}
CODE = {"type": "code_interpreter_call", "id": "ci1", "code": "1+1", "container_id": "k"}
SEARCH = {"type": "web_search_call", "id": "ws1", "action": {"query": "Graz"}}
SHELL = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls", "pwd"]}}
RUNS = [{"stdout": "a\n", "outcome": {"type": "exit", "exit_code": 0}}]
WROTE = {"type": "shell_call_output", "id": "so1", "call_id": "c1", "output": RUNS}
CREATE = {"type": "create_file", "path": "a", "diff": "+b"}
PATCH = {"type": "apply_patch_call", "call_id": "c1", "operation": CREATE}
PATCHED = {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed", "output": "Done"}
PARTIAL_IMAGE = {
    "type": "response.image_generation_call.partial_image",
    "output_index": 0,
    "item_id": "ig1",
    "partial_image_index": 0,
    "partial_image_b64": "AAAA",
}
OLD = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
COMPACTION = {"type": "compaction", "id": "k2", "encrypted_content": "xyz"}
UNKNOWN = {"type": "response.hologram.delta", "delta": "~"}
TOO_LONG: dict[str, Any] = {"incomplete_details": {"reason": "max_output_tokens"}}
LONG_ERROR = {
    "code": "max_output_tokens",
    "message": "max_output_tokens",
    "details": {"reason": "max_output_tokens"},
}
FAILURE = {"code": "server_error", "message": "Oh."}
ERROR = {"type": "error", "error": FAILURE}
FLAT = {"type": "error", "sequence_number": 1, "code": None, "message": "Oh."}
FAILED = ended(status="failed", error=FAILURE)
WENT_WRONG = ("error", {**FAILURE, "details": FAILURE})

STREAMS: dict[str, tuple[list[Record], list[Short]]] = {
    "a text": (
        [*TEXT, finished(message("Good day")), ended(message("Good day"), usage=USAGE)],
        [START, chunk("Good "), chunk("day"), spoken("Good day"), counted()],
    ),
    "the item counts whatever its pieces were": (
        [*TEXT, finished(message("Good day!")), ended(message("Good day!"))],
        [START, chunk("Good "), chunk("day"), spoken("Good day!"), END],
    ),
    "the text of the end counts where no item comes": (
        [
            *TEXT[:-1],
            done("output_text", text="Good day!", **FIRST),
            {"type": "response.completed", "response": {}},
        ],
        [START, chunk("Good "), chunk("day"), spoken("Good day!"), END],
    ),
    "an end without a piece": (
        [created(), done("output_text", text="Hi", **FIRST)],
        [START, spoken("Hi"), *CUT],
    ),
    "all in the last event": (
        [created(), ended(reasoning("Hm"), message("Hi"), call(), usage=USAGE), output()],
        [START, thought("Hm"), spoken("Hi"), CALLED, ANSWERED, counted()],
    ),
    "only what was not told yet of the last event": (
        [created(), finished(message("Hi")), ended(message("Hi"), message("Bye"))],
        [START, spoken("Hi"), spoken("Bye"), END],
    ),
    "a phase": (
        [created(), finished(message("Hi", phase="commentary")), ended()],
        [START, spoken("Hi", phase="commentary"), END],
    ),
    "several parts, a refusal last": (
        [
            created(),
            delta("output_text", "Hm", **FIRST),
            delta("refusal", "No", content_index=1),
            done("refusal", refusal="No.", content_index=1),
            finished(message("Hm") | {"content": [*message("Hm")["content"], REFUSED]}),
            ended(),
        ],
        [
            START,
            chunk("Hm"),
            chunk("No", variant="refusal"),
            spoken("Hm"),
            spoken("No.", variant="refusal"),
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
            finished(reasoning("One", "Two", content=[{"type": "reasoning_text", "text": "Three"}])),
            ended(),
        ],
        [START]
        + [("thinking_chunk", {"text": text}, "r1") for text in ("One", "Two", "Three")]
        + [thought("One"), thought("Two"), thought("Three"), END],
    ),
    "reasoning that nobody can read": (
        [created(), finished(reasoning(encrypted_content="xyz")), ended(reasoning(encrypted_content="xyz"))],
        [],
    ),
    "a call, and the answer to it": (
        [
            *CALL,
            ended(call(), usage=USAGE),
            output(),
            created("r2"),
            finished(message("Sunny.")),
            ended(message("Sunny."), id="r2", usage=USAGE),
        ],
        [*CALL_TOLD, ANSWERED, spoken("Sunny.", "r2"), counted(2)],
    ),
    "a call that nobody answers": ([*CALL, ended(call())], [*CALL_TOLD, ("turn_end", {"partial": True})]),
    "a call, of which the last event is silent": (
        [*CALL, {"type": "response.completed", "response": {"id": "r1"}}, output()],
        [*CALL_TOLD, ANSWERED, END],
    ),
    "arguments without a piece": (
        [created(), begun(call("")), *CALL[4:], ended(call()), output()],
        [START, CALLED, ANSWERED, END],
    ),
    "a call cut off": (
        CALL[:4],
        [*CALL_TOLD[:3], used("c1", "weather", {"city": "Graz"}, partial=True), *CUT],
    ),
    "a call that began unseen": (
        [delta("function_call_arguments", "{}"), finished(call("{}"))],
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
            begun({"type": "custom_tool_call", "id": "ct1", "call_id": "c1", "name": "sql", "input": ""}),
            delta("custom_tool_call_input", "SELECT 1"),
            done("custom_tool_call_input", input="SELECT 1"),
            finished({"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"}),
        ],
        [START, written("SELECT 1", 0, name="sql"), used("c1", "sql", "SELECT 1"), *CUT],
    ),
    "a tool of a server": (
        [
            created(),
            begun(MCP | {"arguments": ""}),
            delta("mcp_call_arguments", "{}"),
            {"type": "response.mcp_call.completed", "output_index": 0, "item_id": "mcp1"},
            finished(MCP | {"error": "Down."}),
            ended(MCP | {"error": "Down."}),
        ],
        [
            START,
            written("{}", 0, "mcp1", "ask"),
            used("mcp1", "ask", {}, executor="mcp"),
            gave("mcp1", "Down.", error={"code": "error", "message": "Down."}),
            END,
        ],
    ),
    "code that the vendor runs": (
        [
            created(),
            begun(CODE | {"code": "", "outputs": []}),
            delta("code_interpreter_call_code", "1+1"),
            done("code_interpreter_call_code", code="1+1"),
            finished(CODE | {"outputs": [{"type": "logs", "logs": "2"}]}),
            ended(CODE),
        ],
        [
            START,
            written("1+1", 0, "ci1", "code_interpreter"),
            used("ci1", "code_interpreter", {"code": "1+1"}, executor="server"),
            gave("ci1", [{"type": "text", "text": "2", "source_type": "logs"}]),
            END,
        ],
    ),
    "a search": (
        [created(), begun(SEARCH | {"status": "in_progress"}), finished(SEARCH), ended(SEARCH)],
        [START, used("ws1", "web_search", {"query": "Graz"}, executor="server"), END],
    ),
    "a picture, and an early form of it": (
        [
            created(),
            begun({"type": "image_generation_call", "id": "ig1", "status": "in_progress"}),
            PARTIAL_IMAGE,
            finished({"type": "image_generation_call", "id": "ig1", "size": "1x1", "result": "BBBB"}),
            ended(),
        ],
        [
            START,
            (
                "tool_output_chunk",
                {"toolCallId": "ig1", "chunk": "AAAA", "offset": 0, "partialImageIndex": 0},
            ),
            used("ig1", "image_generation", {"size": "1x1"}, executor="server"),
            gave("ig1", [{"type": "image", "source": {"type": "base64", "data": "BBBB"}}]),
            END,
        ],
    ),
    "commands in the vendor's shell": (
        [
            created(),
            begun(SHELL | {"action": {"commands": []}}),
            *(
                {"output_index": 0, "command_index": place, **piece}
                for place, command in enumerate(("ls", "pwd"))
                for piece in (
                    {"type": "response.shell_call_command.added", "command": ""},
                    {"type": "response.shell_call_command.delta", "delta": command},
                    {"type": "response.shell_call_command.done", "command": command},
                )
            ),
            finished(SHELL),
            begun(WROTE | {"output": []}, 1),
            delta("shell_call_output_content", {"stdout": "a\n"}, 1, command_index=0),
            delta("shell_call_output_content", {"stderr": "b\n"}, 1, command_index=1),
            finished(WROTE, 1),
            ended(SHELL, WROTE),
        ],
        [
            START,
            written("ls", 0, name="shell"),
            written("\n", 2, name="shell"),
            written("pwd", 3, name="shell"),
            used("c1", "shell", {"commands": ["ls", "pwd"]}),
            ("tool_output_chunk", {"toolCallId": "c1", "chunk": "a\n", "offset": 0, "stream": "stdout"}),
            ("tool_output_chunk", {"toolCallId": "c1", "chunk": "b\n", "offset": 2, "stream": "stderr"}),
            gave("c1", [{"type": "text", "text": "a\n"}], exitCode=0, structured=RUNS),
            END,
        ],
    ),
    "a patch": (
        [
            created(),
            begun(PATCH | {"operation": {**CREATE, "diff": ""}}),
            delta("apply_patch_call_operation_diff", "+b"),
            done("apply_patch_call_operation_diff", diff="+b"),
            finished(PATCH),
            ended(PATCH),
            PATCHED,
        ],
        [
            START,
            written("+b", 0, name="apply_patch"),
            used("c1", "apply_patch", CREATE),
            gave("c1", "Done"),
            END,
        ],
    ),
    "what says nothing by itself": (
        [
            created(),
            {"type": "response.queued", "response": body(status="queued")},
            {"type": "response.in_progress", "response": body(status="in_progress")},
            {"type": "response.content_part.added", "output_index": 0, "content_index": 0, "part": {}},
            {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": {}},
            finished({"type": "mcp_list_tools", "id": "l1", "server_label": "wiki", "tools": []}),
            finished({"type": "compaction", "id": "k1", "encrypted_content": "xyz"}, 1),
            ended(),
        ],
        [],
    ),
    "an event that nobody knows": (
        [created(), UNKNOWN, finished(message("Hi")), ended()],
        [("raw", {"source": SOURCE, "raw": UNKNOWN}), START, spoken("Hi"), END],
    ),
    "an answer cut short by its maker": (
        [
            *TEXT[:-1],
            finished(message("Good day", status="incomplete")),
            ended(message("Good day"), status="incomplete", usage=USAGE, **TOO_LONG),
        ],
        [
            START,
            chunk("Good "),
            chunk("day"),
            spoken("Good day", partial=True),
            ("error", LONG_ERROR),
            counted(),
        ],
    ),
    "an answer cut short, of which the items are missing": (
        [*TEXT[:-1], ended(status="incomplete", **TOO_LONG)],
        [
            START,
            chunk("Good "),
            chunk("day"),
            spoken("Good day", stopReason="max_output_tokens", partial=True),
            ("error", LONG_ERROR),
            END,
        ],
    ),
    "a failure that is told twice": (
        [*TEXT[:3], ERROR, FAILED],
        [START, chunk("Good "), spoken("Good ", partial=True), WENT_WRONG, *CUT],
    ),
    "a failure that is told twice, the other way round": (
        [*TEXT[:3], FAILED, ERROR],
        [START, chunk("Good "), spoken("Good ", partial=True), WENT_WRONG, *CUT],
    ),
    "two failures": (
        [created(), FAILED, created("r2"), FAILED],
        2 * [START, WENT_WRONG, *CUT],
    ),
    "a failure in the first form, with nothing around it": (
        [FLAT],
        [
            START,
            ("error", {"code": "error", "message": "Oh.", "details": FLAT}),
            *CUT,
        ],
    ),
    "the stream breaks in a text": (
        TEXT[:3],
        [START, chunk("Good "), spoken("Good ", partial=True), *CUT],
    ),
    "the stream breaks between two items": (
        [*TEXT, finished(message("Good day"))],
        [START, chunk("Good "), chunk("day"), spoken("Good day"), *CUT],
    ),
    "ids that change from event to event": (
        [
            created("r1"),
            begun(message(id="m1")),
            delta("output_text", "Hi", item_id="m2", **FIRST),
            {"type": "response.in_progress", "response": body(id="r2", status="in_progress")},
            finished(message("Hi", id="m3")),
            ended(message("Hi", id="m4"), id="r3"),
        ],
        [START, chunk("Hi"), spoken("Hi"), END],
    ),
    "answers one after the other": (
        [
            created(),
            finished(message("One")),
            ended(usage=USAGE),
            created("r2"),
            finished(message("Two")),
            ended(id="r2", usage=USAGE),
        ],
        [START, spoken("One"), counted(), START, spoken("Two", "r2"), counted()],
    ),
    "what the user asks": (
        [
            {"type": "message", "role": "user", "content": "Hi"},
            *TEXT,
            finished(message("Good day")),
            ended(usage=USAGE),
            {"type": "message", "role": "user", "content": "Bye"},
        ],
        [
            USER_START,
            ("user_message", {"text": "Hi"}),
            chunk("Good "),
            chunk("day"),
            spoken("Good day"),
            counted(),
            USER_START,
            ("user_message", {"text": "Bye"}),
            END,
        ],
    ),
}


@pytest.mark.parametrize(("records", "events"), STREAMS.values(), ids=STREAMS)
def test_a_stream(records: list[Record], events: list[Short]) -> None:
    assert told(*records) == events


BODIES: dict[str, tuple[list[Record], list[Short]]] = {
    "an answer": (
        [
            body(reasoning("Hm"), reasoning(), message("Hi"), call(), usage=USAGE),
            output(),
            body(message("Sunny."), id="r2", usage=USAGE),
        ],
        [START, thought("Hm"), spoken("Hi"), CALLED, ANSWERED, spoken("Sunny.", "r2"), counted(2)],
    ),
    "one that is cut short": (
        [body(message("Good", status="incomplete"), status="incomplete", **TOO_LONG)],
        [START, spoken("Good", partial=True), ("error", LONG_ERROR), END],
    ),
    "one that failed": (
        [body(message("Hi"), status="failed", error=FAILURE)],
        [START, spoken("Hi"), WENT_WRONG, *CUT],
    ),
    "one that somebody stopped": (
        [body(status="cancelled")],
        [START, ("interrupt", {"reason": "user_cancel"}), ("turn_end", {"partial": True})],
    ),
    "an error alone": ([{"error": FAILURE}], [START, WENT_WRONG, *CUT]),
    "one in the background, asked for again and again": (
        [
            body(status="queued"),
            body(message("On", status="in_progress"), status="in_progress"),
            body(message("One", status="completed"), status="in_progress"),
            body(message("One", status="completed"), message("Two"), usage=USAGE),
        ],
        [START, spoken("One"), spoken("Two"), counted()],
    ),
    "one whose stream broke": (
        [*TEXT[:3], body(message("Good day"), usage=USAGE)],
        [START, chunk("Good "), spoken("Good day"), counted()],
    ),
    "another one after a stream that broke": (
        [created(), finished(message("One")), body(message("Two"), id="r2")],
        [START, spoken("One"), spoken("Two", "r2"), END],
    ),
    "a history that was made shorter, of which nothing is new": (
        [
            {"object": "response.compaction", "id": "k1", "output": [OLD, COMPACTION], "usage": USAGE},
        ],
        [("summary", {"text": ""})],
    ),
    "a request, and the answer": (
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
            spoken("Hello"),
            counted(),
        ],
    ),
}


@pytest.mark.parametrize(("records", "events"), BODIES.values(), ids=BODIES)
def test_an_answer_at_rest(records: list[Record], events: list[Short]) -> None:
    assert told(*records) == events


WAITING: dict[str, tuple[list[Record], bool]] = {
    "nothing": ([], False),
    "a function": ([call()], True),
    "a function that was answered": ([call(), output()], False),
    "a custom tool": ([{"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": ""}], True),
    "a local shell": ([{"type": "local_shell_call", "id": "l1", "call_id": "c1", "action": {}}], True),
    "a shell": ([SHELL], True),
    "the vendor's shell": ([SHELL, WROTE], False),
    "a patch": ([PATCH], True),
    "a computer": ([{"type": "computer_call", "call_id": "c1", "action": {}}], True),
    "a permission": ([{"type": "mcp_approval_request", "id": "p1", "name": "ask", "arguments": "{}"}], True),
    "a search for tools": (
        [{"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {}}],
        True,
    ),
    "the vendor's search for tools": (
        [{"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}}],
        False,
    ),
    "a search": ([SEARCH], False),
    "a tool of a server": ([MCP], False),
}


@pytest.mark.parametrize(("items", "waits"), WAITING.values(), ids=WAITING)
def test_a_turn_goes_on_while_the_client_is_asked(items: list[Record], waits: bool) -> None:
    user = {"type": "message", "role": "user", "content": "Hi"}

    at_rest = told(user, body(message("Hm"), *items), ends=False)
    in_a_stream = told(user, created(), finished(message("Hm")), ended(message("Hm"), *items), ends=False)

    assert [event[0] for event in at_rest] == [event[0] for event in in_a_stream]
    assert (at_rest[-1] == END) is not waits


def test_lines_that_cannot_be_read_stand_where_they_came() -> None:
    raw = [json.dumps(record) for record in [*TEXT, finished(message("Good day")), ended()]]
    raw[3] = raw[3][:-1]
    normalizer, events = Normalizer(SOURCE), list[Event]()

    for line, text in enumerate(raw):
        events += normalizer.follow(read_line(text, SOURCE), context(line))

    unread = ("raw", {"source": SOURCE, "raw": raw[3]})
    assert short_events(events) == [START, chunk("Good "), unread, spoken("Good day"), END]


# The samples.


def _records(folder: str) -> Iterator[list[Record]]:
    """Those of each file, without the lines that cannot be read."""
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus beside the repository")
    files: dict[str, list[Record]] = {}
    for where, text in texts_of(CORPUS / folder):
        try:
            files.setdefault(where.partition(":")[0], []).append(json.loads(text))
        except ValueError:
            continue
    yield from files.values()


def _unnamed(events: list[Event]) -> list[Event]:
    """In the order of their texts; without the ids of calls that the vendor gave none."""
    told = content_events(events, without=lambda name: False)
    named = [
        {key: value for key, value in event.items() if key != "toolCallId" or "/" not in str(value)}
        for event in told
    ]
    return sorted(named, key=json.dumps)


def test_a_stream_says_what_the_answer_at_rest_says() -> None:
    compared = 0
    for records in _records("openai_responses_stream"):
        answers = [record["response"] for record in records if record["type"] == "response.completed"]
        if answers:
            compared += 1
            assert _unnamed(follow(records, ends=True)) == _unnamed(follow(answers, ends=True))

    assert compared >= 30


def test_a_stream_that_breaks_anywhere_and_is_asked_for_again_says_the_same() -> None:
    for records in _records("openai_responses_stream"):
        ids = [record["response"]["id"] for record in records if record["type"] == "response.created"]
        if len(ids) != 1 or records[-1]["type"] != "response.completed":
            continue
        answer = {**records[-1]["response"], "id": ids[0]}
        whole = _unnamed(follow(records, ends=True))
        for end in {1, 2, 3, len(records) // 3, len(records) // 2, len(records) - 1}:
            events = follow([*records[:end], answer], ends=True)
            assert _unnamed(events) == whole, (ids, end)


def streamed(response: Record) -> list[Record]:
    """The stream that an answer might have come in."""
    pieces = [piece for place, item in enumerate(response["output"]) for piece in _pieces(item, place)]
    return [created(response["id"]), *pieces, {"type": "response.completed", "response": response}]


def _pieces(item: Record, place: int) -> list[Record]:
    halves = [
        delta(kind, half, place, content_index=number)
        for number, (kind, text) in enumerate(_written(item))
        for half in (text[: len(text) // 2], text[len(text) // 2 :])
    ]
    return [begun({**item, "status": "in_progress"}, place), *halves, finished(item, place)]


def _written(item: Record) -> list[tuple[str, str]]:
    """What of an item comes in pieces, and in which kind of them."""
    if item["type"] == "function_call":
        return [("function_call_arguments", item["arguments"])]
    parts = item["content"] if item["type"] == "message" else []
    return [("output_text", part["text"]) for part in parts]


def test_an_answer_says_the_same_in_a_stream() -> None:
    compared = 0
    for records in _records("openai_responses_response"):
        answers = [record for record in records if record.get("object") == "response" and record["output"]]
        events = follow([piece for answer in answers for piece in streamed(answer)], ends=True)
        compared += len(answers)
        assert _unnamed(events) == _unnamed(follow(answers, ends=True))

        whole = "".join(event["payload"]["text"] for event in events if event["type"] == "assistant_done")
        assert texts(events).get("assistant_chunk", "") == whole

    assert compared >= 40
