"""Codex in the log: what `codex exec --json` prints, of old and now, notifications, and rollout files of every age."""

import json
from base64 import b64encode
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from ash_shared.eventlog import Event, Normalizer, read_line
from tests.shared.conftest import CORPUS
from tests.shared.logs import content_events, context, follow, short_events

Record = dict[str, Any]
ShortEvent = tuple[Any, ...]
Case = tuple[list[Record], list[ShortEvent]]


def exec_item(state: str, kind: str, id: str = "item_0", **rest: Any) -> Record:
    return {"type": f"item.{state}", "item": {"id": id, "type": kind, **rest}}


def item(kind: str, /, **payload: Any) -> Record:
    return {
        "timestamp": "2026-02-03T04:05:06Z",
        "type": "response_item",
        "payload": {"type": kind, **payload},
    }


def event(kind: str, /, **payload: Any) -> Record:
    return {"timestamp": "2026-02-03T04:05:06Z", "type": "event_msg", "payload": {"type": kind, **payload}}


def completed(kind: str, /, **rest: Any) -> Record:
    return event("item_completed", thread_id="t", turn_id="u", item={"type": kind, **rest})


def msg(kind: str, /, **rest: Any) -> Record:
    return {"id": "0", "msg": {"type": kind, **rest}}


def notice(method: str, **params: Any) -> Record:
    return {"method": method, "params": {"threadId": "t", "turnId": "u", **params}}


def says(role: str, text: str, **more: Any) -> Record:
    name = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": name, "text": text}], **more)


def bare(record: Record) -> Record:
    payload: Record = record["payload"]
    return payload


def thinks(*texts: str) -> Record:
    return item("reasoning", summary=[{"type": "summary_text", "text": text} for text in texts])


def calls(call: str = "c1", name: str = "shell") -> Record:
    return item("function_call", name=name, arguments='{"command":["ls"]}', call_id=call)


def answers(call: str = "c1", output: Any = "a.txt\n") -> Record:
    return item("function_call_output", call_id=call, output=output)


def counted(total: int, *, last: int = 5) -> Record:
    counts = {"input_tokens": last, "cached_input_tokens": 1, "output_tokens": 2}
    return event(
        "token_count", info={"total_token_usage": {"total_tokens": total}, "last_token_usage": counts}
    )


THREAD = {"type": "thread.started", "thread_id": "thread-1"}
STARTED, COMPLETED = {"type": "turn.started"}, {"type": "turn.completed"}
META = {"timestamp": "2026-02-03T04:05:05Z", "type": "session_meta", "payload": {"id": "thread-1"}}
BEGINS, ENDS = (
    event("task_started", turn_id="u"),
    event("task_complete", turn_id="u", last_agent_message=None),
)

START: ShortEvent = ("turn_start", {"trigger": "user"})
END: ShortEvent = ("turn_end", {})
CUT = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
CANCELLED = [("interrupt", {"reason": "user_cancel"}), ("turn_end", {"partial": True})]


def prompt(text: str) -> ShortEvent:
    return ("user_message", {"text": text})


def reply(text: str, *response: str, **more: Any) -> ShortEvent:
    return ("assistant_done", {"text": text, **more}, *response)


def thought(text: str, *response: str) -> ShortEvent:
    return ("thinking_done", {"text": text}, *response)


def call(id: str, name: str, args: Any, **more: Any) -> ShortEvent:
    return ("tool_call", {"toolCallId": id, "toolName": name, "args": args, **more})


def result(id: str, result: Any, **more: Any) -> ShortEvent:
    return ("tool_result", {"toolCallId": id, "result": result, **more})


def failed(message: str) -> dict[str, str]:
    return {"code": "error", "message": message}


def output(id: str, chunk: str, offset: int = 0, **more: Any) -> ShortEvent:
    return ("tool_output_chunk", {"toolCallId": id, "chunk": chunk, "offset": offset, **more})


def plain(events: list[Event]) -> list[ShortEvent]:
    """Errors without what they were made from, usage by its counts of input and output."""
    return [(told[0], _plain(told[1]), *told[2:]) for told in short_events(events)]


def _plain(payload: Record) -> Record:
    shown = {key: value for key, value in payload.items() if key not in ("details", "usage")}
    if "usage" in payload:
        shown["usage"] = (payload["usage"]["input_tokens"], payload["usage"]["output_tokens"])
    return shown


def agrees(records: list[Record], expected: list[ShortEvent]) -> None:
    assert plain(follow(records, "codex", ends=True)) == expected


SHELL: Record = {"command": "ls", "status": "in_progress", "exit_code": None, "aggregated_output": ""}
LISTED: Record = {**SHELL, "status": "completed", "exit_code": 0, "aggregated_output": "a\nb\n"}
LS = call("2/0/item_0", "shell", {"command": "ls"})
TODO = [{"text": "Look", "completed": False}]
DONE = [{"text": "Look", "completed": True}]
MCP: Record = {"server": "trees", "tool": "find", "arguments": None, "result": None, "error": None}
AGENT: Record = {"sender_thread_id": "thread-1", "receiver_thread_ids": ["helper"], "agents_states": {}}
FAILURE: Record = {"message": "Out of luck."}

EXEC: dict[str, Case] = {
    "a thread": ([THREAD], []),
    "an error before the turn": (
        [THREAD, exec_item("completed", "error", message="No such model."), STARTED, COMPLETED],
        [("error", failed("No such model.")), START, END],
    ),
    "texts": (
        [
            THREAD,
            STARTED,
            exec_item("completed", "reasoning", text="Hm."),
            exec_item("completed", "agent_message", "item_4", text="Soon.", phase="commentary"),
            {
                "type": "turn.completed",
                "usage": {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 3},
            },
        ],
        [
            START,
            thought("Hm.", "item_0"),
            reply("Soon.", "item_4", phase="commentary"),
            ("turn_end", {"usage": (5, 3)}),
        ],
    ),
    "a command": (
        [
            THREAD,
            STARTED,
            exec_item("started", "command_execution", **SHELL),
            exec_item("updated", "command_execution", **{**SHELL, "aggregated_output": "a\n"}),
            exec_item("updated", "command_execution", **{**SHELL, "aggregated_output": "a\nb\n"}),
            exec_item("completed", "command_execution", **LISTED),
            exec_item("updated", "command_execution", **{**SHELL, "aggregated_output": "a\nb\nc\n"}),
            COMPLETED,
        ],
        [
            START,
            LS,
            output("2/0/item_0", "a\n"),
            output("2/0/item_0", "b\n", 2),
            result("2/0/item_0", "a\nb\n", exitCode=0),
            END,
        ],
    ),
    "a command that is told when it has ended": (
        [
            THREAD,
            STARTED,
            exec_item("completed", "command_execution", **{**LISTED, "exit_code": 2}),
            COMPLETED,
        ],
        [START, LS, result("2/0/item_0", "a\nb\n", exitCode=2, error=failed("a\nb\n")), END],
    ),
    "a command that was declined": (
        [
            THREAD,
            STARTED,
            exec_item("completed", "command_execution", **{**SHELL, "status": "declined"}),
            COMPLETED,
        ],
        [START, LS, result("2/0/item_0", "", error=failed("")), END],
    ),
    "an open command at the end": (
        [THREAD, STARTED, exec_item("started", "command_execution", **SHELL)],
        [START, LS, *CUT],
    ),
    "two processes, whose items have the same ids": (
        [
            *(THREAD, STARTED, exec_item("completed", "command_execution", **LISTED), COMPLETED),
            *(THREAD, STARTED, exec_item("completed", "command_execution", **LISTED), COMPLETED),
        ],
        [
            *(START, LS, result("2/0/item_0", "a\nb\n", exitCode=0), END),
            *(START, call("6/0/item_0", "shell", {"command": "ls"})),
            *(result("6/0/item_0", "a\nb\n", exitCode=0), END),
        ],
    ),
    "a change of files": (
        [STARTED, exec_item("completed", "file_change", changes=[], status="completed"), COMPLETED],
        [
            START,
            call("1/0/item_0", "apply_patch", {"changes": []}),
            result("1/0/item_0", None, structured={"status": "completed"}),
            END,
        ],
    ),
    "a call of a server's tool that fails": (
        [
            STARTED,
            exec_item("started", "mcp_tool_call", **MCP, status="in_progress"),
            exec_item("completed", "mcp_tool_call", **{**MCP, "error": {"message": "late"}}, status="failed"),
            COMPLETED,
        ],
        [
            START,
            call("1/0/item_0", "find", None, executor="mcp"),
            result("1/0/item_0", "late", error=failed("late")),
            END,
        ],
    ),
    "a search, whose query is known at its end": (
        [
            STARTED,
            exec_item("started", "web_search", query=""),
            exec_item("completed", "web_search", query="oaks"),
            COMPLETED,
        ],
        [
            START,
            call("1/0/item_0", "web_search", {"query": "oaks"}, executor="server"),
            result("1/0/item_0", None),
            END,
        ],
    ),
    "a list of things to do": (
        [
            STARTED,
            exec_item("started", "todo_list", items=TODO),
            exec_item("updated", "todo_list", items=DONE),
            exec_item("completed", "todo_list", items=DONE),
            COMPLETED,
        ],
        [
            START,
            call("1/0/item_0", "todo_list", {"items": TODO}),
            output("1/0/item_0", '{"items": [{"text": "Look", "completed": true}]}\n'),
            result("1/0/item_0", None, structured={"items": DONE}),
            END,
        ],
    ),
    "another agent": (
        [
            STARTED,
            exec_item(
                "started", "collab_tool_call", **AGENT, tool="spawn_agent", prompt="Go.", status="in_progress"
            ),
            exec_item(
                "completed",
                "collab_tool_call",
                **{**AGENT, "agents_states": {"helper": {"status": "running", "message": None}}},
                tool="spawn_agent",
                prompt="Go.",
                status="completed",
            ),
            exec_item(
                "completed",
                "collab_tool_call",
                "item_1",
                **{**AGENT, "agents_states": {"helper": {"status": "completed", "message": "Gone."}}},
                tool="wait",
                prompt=None,
                status="completed",
            ),
            COMPLETED,
        ],
        [
            START,
            (
                "agent_message",
                {"messageId": "1/0/item_0", "targetSessionId": "helper", "message": "Go.", "wait": False},
            ),
            (
                "agent_message",
                {"messageId": "1/0/item_1", "targetSessionId": "helper", "message": "", "wait": True},
            ),
            ("agent_callback", {"messageId": "1/0/item_1", "fromSessionId": "helper", "result": "Gone."}),
            END,
        ],
    ),
    "an agent that cannot be started": (
        [
            STARTED,
            exec_item(
                "completed",
                "collab_tool_call",
                **{**AGENT, "receiver_thread_ids": []},
                tool="spawn_agent",
                prompt="Go.",
                status="failed",
            ),
            COMPLETED,
        ],
        [
            START,
            call("1/0/item_0", "spawn_agent", {"prompt": "Go.", "receiver_thread_ids": []}, executor="agent"),
            result("1/0/item_0", None, error=failed(""), structured={}),
            END,
        ],
    ),
    "a plan": (
        [
            STARTED,
            {"type": "item.plan.delta", "item_id": "item_0", "delta": "1. "},
            {"type": "item.plan.delta", "item_id": "item_0", "delta": "Sow"},
            exec_item("completed", "plan", text="1. Sow."),
            COMPLETED,
        ],
        [
            START,
            ("assistant_chunk", {"text": "1. ", "variant": "plan"}, "item_0"),
            ("assistant_chunk", {"text": "Sow", "variant": "plan"}, "item_0"),
            reply("1. Sow.", "item_0", variant="plan"),
            END,
        ],
    ),
    "a question": (
        [
            STARTED,
            {"type": "request_user_input", "id": "q", "call_id": "c9", "questions": ["Oak?"]},
            COMPLETED,
        ],
        [START, call("c9", "request_user_input", {"questions": ["Oak?"]}), END],
    ),
    "an unknown item": (
        [STARTED, exec_item("completed", "daydream"), COMPLETED],
        [START, ("raw", {"source": "codex", "raw": exec_item("completed", "daydream")}), END],
    ),
    "a turn that fails, with the same error before it and after it": (
        [
            STARTED,
            {"type": "error", **FAILURE},
            {"type": "turn.failed", "error": FAILURE},
            {"type": "error", **FAILURE},
            {"type": "error", "message": "Exit code 1."},
        ],
        [START, ("error", failed("Out of luck.")), END, ("error", failed("Exit code 1."))],
    ),
    "the same error in two turns": (
        [
            STARTED,
            {"type": "turn.failed", "error": FAILURE},
            STARTED,
            {"type": "turn.failed", "error": FAILURE},
        ],
        [START, ("error", {**FAILURE, "code": "turn.failed"}), END] * 2,
    ),
    "a turn without an end": ([THREAD, STARTED], [START, *CUT]),
}

OLD: dict[str, Case] = {
    "a turn in pieces": (
        [
            {"model": "gpt-x", "provider": "openai", "sandbox": "read-only", "workdir": "/tmp"},
            {"prompt": "Count."},
            msg("task_started"),
            msg("agent_reasoning_delta", delta="Let me"),
            msg("agent_reasoning_delta", delta=" see."),
            msg("agent_reasoning_section_break"),
            msg("agent_reasoning", text="Let me see."),
            msg("agent_message_delta", delta="On"),
            msg("agent_message_content_delta", thread_id="t", turn_id="u", item_id="m", delta="On"),
            msg("agent_message_delta", delta="e."),
            msg("agent_message", message="One."),
            msg("agent_message_delta", delta="Two."),
            msg("agent_message", message="Two."),
            msg("token_count", input_tokens=7, cached_input_tokens=2, output_tokens=1),
            msg("task_complete", last_agent_message="Two."),
        ],
        [
            START,
            prompt("Count."),
            ("thinking_chunk", {"text": "Let me"}),
            ("thinking_chunk", {"text": " see."}),
            thought("Let me see."),
            ("assistant_chunk", {"text": "On"}),
            ("assistant_chunk", {"text": "e."}),
            reply("One."),
            ("assistant_chunk", {"text": "Two."}),
            reply("Two."),
            ("turn_end", {"usage": (5, 1)}),
        ],
    ),
    "calls": (
        [
            msg("task_started"),
            msg("exec_command_begin", call_id="c1", command=["ls"], cwd="/tmp"),
            msg(
                "exec_command_output_delta",
                call_id="c1",
                stream="stdout",
                chunk=b64encode("ä\n".encode()).decode(),
            ),
            msg("exec_command_output_delta", call_id="c1", stream="stderr", chunk=[195, 10]),
            msg("exec_command_end", call_id="c1", stdout="ä\n", stderr="b\n", exit_code=1),
            msg("patch_apply_begin", call_id="c2", changes={}, auto_approved=True),
            msg("patch_apply_end", call_id="c2", stdout="Success", stderr="", success=True),
            msg(
                "mcp_tool_call_begin",
                call_id="c3",
                invocation={"server": "trees", "tool": "find", "arguments": {}},
            ),
            msg(
                "mcp_tool_call_end",
                call_id="c3",
                invocation={"server": "trees", "tool": "find", "arguments": {}},
                result={"Err": "late"},
            ),
            msg("web_search_begin", call_id="c4"),
            msg("web_search_end", call_id="c4", query="oaks"),
            msg("context_compacted"),
            msg("task_complete", last_agent_message="Nothing to say."),
        ],
        [
            START,
            call("c1", "shell", {"command": ["ls"], "cwd": "/tmp"}),
            output("c1", "ä\n", stream="stdout"),
            output("c1", "\ufffd\n", 2, stream="stderr"),
            result("c1", "ä\n", exitCode=1, error=failed("ä\n")),
            call("c2", "apply_patch", {"changes": {}}),
            result("c2", "Success"),
            call("c3", "find", {}, executor="mcp"),
            result("c3", "late", error=failed("late")),
            call("c4", "web_search", {"query": "oaks"}, executor="server"),
            result("c4", None),
            ("summary", {"text": ""}),
            reply("Nothing to say."),
            END,
        ],
    ),
    "an error, and the end of the stream": (
        [
            {"prompt": "Go."},
            msg("task_started"),
            msg("agent_message_delta", delta="Wa"),
            msg("error", message="Gone."),
        ],
        [
            START,
            prompt("Go."),
            ("assistant_chunk", {"text": "Wa"}),
            ("error", failed("Gone.")),
            reply("Wa", partial=True),
            *CUT,
        ],
    ),
}

NOTICES: dict[str, Case] = {
    "a turn": (
        [
            notice("turn/started", turn={"id": "u", "items": [], "status": "inProgress"}),
            notice(
                "item/started",
                item={"type": "userMessage", "id": "i0", "content": [{"type": "text", "text": "Go."}]},
            ),
            notice(
                "item/completed",
                item={"type": "userMessage", "id": "i0", "content": [{"type": "text", "text": "Go."}]},
            ),
            notice("item/started", item={"type": "reasoning", "id": "i1", "summary": [], "content": []}),
            notice("item/reasoning/summaryTextDelta", itemId="i1", summaryIndex=0, delta="Hm"),
            notice("item/reasoning/summaryTextDelta", itemId="i1", summaryIndex=1, delta="Aha"),
            notice(
                "item/completed",
                item={"type": "reasoning", "id": "i1", "summary": ["Hm.", "Aha."], "content": []},
            ),
            notice(
                "item/started",
                item={"type": "commandExecution", "id": "c1", "command": "ls", "status": "inProgress"},
            ),
            notice("item/commandExecution/outputDelta", itemId="c1", delta="a\n"),
            notice(
                "item/completed",
                item={
                    "type": "commandExecution",
                    "id": "c1",
                    "command": "ls",
                    "status": "completed",
                    "aggregatedOutput": "a\n",
                    "exitCode": 0,
                },
            ),
            notice("item/started", item={"type": "agentMessage", "id": "i2", "text": ""}),
            notice("item/agentMessage/delta", itemId="i2", delta="Gone"),
            notice("item/completed", item={"type": "agentMessage", "id": "i2", "text": "Gone."}),
            notice(
                "thread/tokenUsage/updated",
                tokenUsage={"total": {"totalTokens": 9}, "last": {"inputTokens": 7, "outputTokens": 2}},
            ),
            notice("turn/completed", turn={"id": "u", "items": [], "status": "completed", "error": None}),
        ],
        [
            START,
            prompt("Go."),
            ("thinking_chunk", {"text": "Hm"}, "i1"),
            ("thinking_chunk", {"text": "Aha"}, "i1"),
            thought("Hm.", "i1"),
            thought("Aha.", "i1"),
            call("c1", "shell", {"command": "ls"}),
            output("c1", "a\n"),
            result("c1", "a\n", exitCode=0),
            ("assistant_chunk", {"text": "Gone"}, "i2"),
            reply("Gone.", "i2"),
            ("turn_end", {"usage": (7, 2)}),
        ],
    ),
    "a plan within a message": (
        [
            notice("turn/started", turn={"id": "u"}),
            notice("item/agentMessage/delta", itemId="i1", delta="Here"),
            notice("item/plan/delta", itemId="i2", delta="1."),
            notice("item/completed", item={"type": "plan", "id": "i2", "text": "1. Sow."}),
            notice("item/agentMessage/delta", itemId="i1", delta=" it is."),
            notice("item/completed", item={"type": "agentMessage", "id": "i1", "text": "Here it is."}),
            notice("item/completed", item={"type": "agentMessage", "id": "i1", "text": "Here it is."}),
            notice("turn/completed", turn={"id": "u", "status": "completed"}),
        ],
        [
            START,
            ("assistant_chunk", {"text": "Here"}, "i1"),
            ("assistant_chunk", {"text": "1.", "variant": "plan"}, "i2"),
            reply("1. Sow.", "i2", variant="plan"),
            ("assistant_chunk", {"text": " it is."}, "i1"),
            reply("Here it is.", "i1"),
            END,
        ],
    ),
    "turns that are stopped, and that fail": (
        [
            notice("turn/started", turn={"id": "u"}),
            notice("turn/completed", turn={"id": "u", "status": "interrupted"}),
            notice("turn/started", turn={"id": "v"}),
            notice("error", error=FAILURE, willRetry=False),
            notice("turn/completed", turn={"id": "v", "status": "failed", "error": FAILURE}),
        ],
        [START, *CANCELLED, START, ("error", failed("Out of luck.")), END],
    ),
}

RUN = (
    "<user_shell_command>\n<command>\ntrue {}\n</command>\n<result>\nExit code: 3\nDuration: 0.0100 seconds\n"
    "Output:\n{}\n</result>\n</user_shell_command>"
)
ENVIRONMENT = "<environment_context>\n  <cwd>/tmp</cwd>\n</environment_context>"
USED = call("c1", "shell", {"command": ["ls"]})
EXEC_END: Record = {
    "command": ["ls"],
    "cwd": "/tmp",
    "stdout": "",
    "stderr": "",
    "aggregated_output": "a.txt\n",
}

ROLLOUT: dict[str, Case] = {
    "a turn, told twice": (
        [
            META,
            BEGINS,
            says("developer", "Be brief."),
            says("user", ENVIRONMENT),
            says("user", "List."),
            event("user_message", message="List.", images=[]),
            event("agent_reasoning", text="One."),
            event("agent_reasoning", text="Two."),
            thinks("One.", "Two."),
            event("agent_message", message="Wait.", phase="commentary"),
            says("assistant", "Wait.", phase="commentary"),
            calls(),
            counted(10),
            event("exec_command_end", call_id="c1", exit_code=0, **EXEC_END),
            answers(),
            counted(10),
            counted(20),
            event("task_complete", turn_id="u", last_agent_message="Wait."),
        ],
        [
            START,
            ("system_message", {"text": "Be brief.", "variant": "instructions"}),
            ("user_message", {"text": ENVIRONMENT, "visibleText": "", "synthetic": True}),
            prompt("List."),
            thought("One."),
            thought("Two."),
            reply("Wait.", phase="commentary"),
            USED,
            result("c1", "a.txt\n", exitCode=0),
            ("turn_end", {"usage": (8, 4)}),
        ],
    ),
    "what the program writes in the person's name begins no turn": (
        [says("user", ENVIRONMENT), says("user", "# AGENTS.md instructions for /tmp\n\nBe kind.")],
        [
            ("user_message", {"text": ENVIRONMENT, "visibleText": "", "synthetic": True}),
            ("user_message", {"text": "# AGENTS.md instructions for /tmp\n\nBe kind.", "synthetic": True}),
        ],
    ),
    "prompts begin turns where nothing else does": (
        [event("user_message", message="One."), says("assistant", "1"), event("user_message", text="Two.")],
        [START, prompt("One."), reply("1"), END, START, prompt("Two."), END],
    ),
    "a prompt in the midst of a turn": (
        [BEGINS, says("user", "One."), says("assistant", "1"), says("user", "Two."), ENDS],
        [START, prompt("One."), reply("1"), prompt("Two."), END],
    ),
    "events alone": (
        [
            event("user_message", message="Look."),
            event("agent_reasoning", text="Hm."),
            event("agent_message", message="First."),
            event(
                "mcp_tool_call_end",
                call_id="c1",
                invocation={"server": "s", "tool": "t", "arguments": {}},
                result={"Ok": {"content": []}},
            ),
            event("agent_message", message="Second."),
            event("user_message", message="More."),
            event("agent_message", message="Third."),
        ],
        [
            *(START, prompt("Look."), thought("Hm."), reply("First."), call("c1", "t", {}, executor="mcp")),
            *(result("c1", []), reply("Second."), END, START, prompt("More."), reply("Third."), END),
        ],
    ),
    "answers before the next prompt, and at the end": (
        [
            *(event("user_message", message="One."), event("agent_message", message="1")),
            *(event("user_message", message="Two."), BEGINS, event("agent_message", message="2")),
            event("task_complete", turn_id="u", last_agent_message="2"),
        ],
        [START, prompt("One."), reply("1"), END, START, prompt("Two."), reply("2"), END],
    ),
    "items alone, in a file of the first": (
        [
            {"id": "thread-1", "timestamp": "2025-04-01T00:00:00Z", "instructions": None},
            bare(says("user", "<user_instructions>\n\nBe kind.\n\n</user_instructions>")),
            {"record_type": "state"},
            bare(says("user", "List.")),
            bare(thinks("Hm.")),
            bare(item("reasoning", summary=[], encrypted_content="x")),
            bare(calls()),
            bare(answers(output='{"output":"no","metadata":{"exit_code":1}}')),
            bare(says("assistant", "No.")),
        ],
        [
            (
                "user_message",
                {
                    "text": "<user_instructions>\n\nBe kind.\n\n</user_instructions>",
                    "visibleText": "",
                    "synthetic": True,
                },
            ),
            START,
            prompt("List."),
            thought("Hm."),
            USED,
            result(
                "c1",
                '{"output":"no","metadata":{"exit_code":1}}',
                exitCode=1,
                error=failed('{"output":"no","metadata":{"exit_code":1}}'),
            ),
            reply("No."),
            END,
        ],
    ),
    "a picture, around which an item has marks": (
        [
            BEGINS,
            item(
                "message",
                role="user",
                content=[
                    {"type": "input_text", "text": "<image name=[Image #1]>"},
                    {"type": "input_image", "image_url": "https://example.com/a.png"},
                    {"type": "input_text", "text": "</image>"},
                    {"type": "input_text", "text": "What is it?"},
                ],
            ),
            event("user_message", message="What is it?", images=["https://example.com/a.png"]),
            ENDS,
        ],
        [
            START,
            (
                "user_message",
                {
                    "text": "What is it?",
                    "content": [
                        {
                            "type": "image",
                            "source": {"type": "url", "url": "https://example.com/a.png"},
                            "source_type": "input_image",
                        },
                        {"type": "text", "text": "What is it?", "source_type": "input_text"},
                    ],
                },
            ),
            END,
        ],
    ),
    "a command of the person's own": (
        [
            BEGINS,
            event("exec_command_end", call_id="x", source="user_shell", exit_code=3, **EXEC_END),
            says("user", RUN.format("&amp;&amp; ls", "a &lt; b")),
            ENDS,
        ],
        [
            START,
            call("3/0", "shell", {"command": "true && ls"}, executor="user"),
            result("3/0", "a < b", exitCode=3, error=failed("a < b")),
            END,
        ],
    ),
    "one of before marks were escaped": (
        [BEGINS, says("user", RUN.format("", "<a> &amp;")), ENDS],
        [
            START,
            call("2/0", "shell", {"command": "true "}, executor="user"),
            result("2/0", "<a> &amp;", exitCode=3, error=failed("<a> &amp;")),
            END,
        ],
    ),
    "a turn that is stopped": (
        [
            *(BEGINS, says("user", "Go."), event("agent_reasoning", text="Hm."), calls()),
            event("exec_command_end", call_id="c1", exit_code=130, **EXEC_END),
            event("turn_aborted", turn_id="u", reason="interrupted"),
            says("user", "<turn_aborted>\nThe user interrupted.\n</turn_aborted>"),
        ],
        [
            *(START, prompt("Go."), thought("Hm."), USED),
            result("c1", "a.txt\n", exitCode=130, error=failed("a.txt\n")),
            *CANCELLED,
            (
                "user_message",
                {
                    "text": "<turn_aborted>\nThe user interrupted.\n</turn_aborted>",
                    "visibleText": "",
                    "synthetic": True,
                },
            ),
        ],
    ),
    "a turn that begins in another": (
        [BEGINS, says("user", "Go."), calls(), event("turn_started", turn_id="v"), says("assistant", "Hm.")],
        [START, prompt("Go."), USED, *CUT, START, reply("Hm."), *CUT],
    ),
    "a result without a call": (
        [BEGINS, answers("c7"), ENDS],
        [START, result("c7", "a.txt\n", orphan=True), END],
    ),
    "an open call at the end of a file without ends": (
        [says("user", "Go."), calls()],
        [START, prompt("Go."), USED, ("turn_end", {"partial": True})],
    ),
    "what events add to the results of items, and calls that have no item": (
        [
            BEGINS,
            event("exec_command_begin", call_id="c1", command=["ls"], cwd="/tmp"),
            item("custom_tool_call", call_id="c2", name="apply_patch", input="*** Begin Patch"),
            event(
                "patch_apply_end", call_id="c2", stdout="Success", stderr="", success=True, changes={"a": {}}
            ),
            item("custom_tool_call_output", call_id="c2", output="Done."),
            event(
                "patch_apply_end", call_id="c2", stdout="Success", stderr="", success=True, changes={"a": {}}
            ),
            event("exec_command_end", call_id="c3", exit_code=0, **EXEC_END),
            calls("c3"),
            answers("c3", "the same"),
            ENDS,
        ],
        [
            START,
            call("c2", "apply_patch", "*** Begin Patch"),
            result("c2", "Done.", structured={"changes": {"a": {}}}),
            call("c3", "shell", {"command": ["ls"], "cwd": "/tmp"}),
            result("c3", "a.txt\n", exitCode=0),
            END,
        ],
    ),
    "a search": (
        [
            BEGINS,
            event("web_search_end", call_id="ws-1", query="oaks", action={"type": "search", "query": "oaks"}),
            item("web_search_call", status="completed", action={"type": "search", "query": "oaks"}),
            ENDS,
        ],
        [
            START,
            call("3/0", "web_search", {"type": "search", "query": "oaks"}, executor="server"),
            result("3/0", None),
            END,
        ],
    ),
    "items of a turn beside those of the model": (
        [
            BEGINS,
            completed("UserMessage", id="i0", content=[{"type": "text", "text": "Plan."}]),
            says("user", "Plan."),
            says("user", '<hook_prompt hook_run_id="h">Careful.</hook_prompt>'),
            completed("HookPrompt", id="i9", fragments=[{"text": "Careful.", "hook_run_id": "h"}]),
            completed("Reasoning", id="i1", summary_text=["One.", "Two."], raw_content=[]),
            thinks("One.", "Two."),
            calls(),
            completed(
                "CommandExecution",
                id="c1",
                command=["ls"],
                status="completed",
                aggregated_output="a",
                exit_code=0,
            ),
            answers(),
            completed(
                "AgentMessage", id="i2", content=[{"type": "Text", "text": "So."}], phase="final_answer"
            ),
            says("assistant", "So.", phase="final_answer"),
            completed("Plan", id="i3", text="1. Sow."),
            completed("Sleep", id="i4", duration_ms=5),
            completed("ContextCompaction", id="i5"),
            ENDS,
        ],
        [
            *(START, prompt("Plan.")),
            (
                "user_message",
                {
                    "text": '<hook_prompt hook_run_id="h">Careful.</hook_prompt>',
                    "visibleText": "",
                    "synthetic": True,
                },
            ),
            *(thought("One."), thought("Two."), USED, result("c1", "a.txt\n", exitCode=0)),
            *(reply("So.", phase="final_answer"), reply("1. Sow.", variant="plan")),
            *(call("i4", "sleep", {"duration_ms": 5}), result("i4", None), END),
        ],
    ),
    "items of a turn alone": (
        [
            completed("UserMessage", id="i0", content=[{"type": "text", "text": "Plan."}]),
            completed("AgentMessage", id="i2", content=[{"type": "Text", "text": "So."}]),
            completed(
                "CommandExecution",
                id="c1",
                command=["ls"],
                status="failed",
                aggregated_output="a",
                exit_code=1,
            ),
        ],
        [
            *(START, prompt("Plan."), reply("So."), USED),
            *(result("c1", "a", exitCode=1, error=failed("a")), END),
        ],
    ),
    "a summary": (
        [
            BEGINS,
            {
                "type": "compacted",
                "payload": {"message": "So far.", "replacement_history": [bare(says("user", "Hi."))]},
            },
            event("context_compacted"),
            ENDS,
            {
                "type": "compacted",
                "payload": {"message": "", "replacement_history": [bare(says("user", "Hi."))]},
            },
            event("context_compacted"),
        ],
        [START, ("summary", {"text": "So far."}), END, ("summary", {"text": ""})],
    ),
    "other agents": (
        [
            BEGINS,
            event(
                "collab_agent_spawn_end",
                call_id="c1",
                sender_thread_id="t",
                new_thread_id="helper",
                prompt="Go.",
                status="running",
            ),
            event(
                "collab_agent_interaction_end",
                call_id="c2",
                sender_thread_id="t",
                receiver_thread_id="helper",
                prompt="On.",
                status={"completed": "x"},
            ),
            event(
                "collab_waiting_end",
                call_id="c3",
                sender_thread_id="t",
                statuses={"helper": {"completed": "Gone."}, "other": "running"},
            ),
            event(
                "collab_close_end",
                call_id="c4",
                sender_thread_id="t",
                receiver_thread_id="helper",
                status="shutdown",
            ),
            event(
                "sub_agent_activity",
                event_id="c5",
                occurred_at_ms=1,
                agent_thread_id="helper",
                agent_path="/root/h",
                kind="started",
            ),
            completed(
                "SubAgentActivity", id="c5", agent_thread_id="helper", agent_path="/root/h", kind="started"
            ),
            item(
                "agent_message",
                id="m1",
                author="/root/h",
                recipient="/root",
                content=[{"type": "input_text", "text": "Here."}],
            ),
            {
                "timestamp": "2026-02-03T04:05:06Z",
                "type": "inter_agent_communication",
                "payload": {
                    "author": "/root/h",
                    "recipient": "/root",
                    "content": "Bye.",
                    "trigger_turn": False,
                },
            },
            {
                "timestamp": "2026-02-03T04:05:06Z",
                "type": "inter_agent_communication_metadata",
                "payload": {"trigger_turn": False},
            },
            ENDS,
        ],
        [
            START,
            (
                "agent_message",
                {"messageId": "c1", "targetSessionId": "helper", "message": "Go.", "wait": False},
            ),
            (
                "agent_message",
                {"messageId": "c2", "targetSessionId": "helper", "message": "On.", "wait": False},
            ),
            ("agent_callback", {"messageId": "c3", "fromSessionId": "helper", "result": "Gone."}),
            (
                "agent_message",
                {
                    "messageId": "c5",
                    "targetAgentId": "/root/h",
                    "targetSessionId": "helper",
                    "message": "",
                    "wait": False,
                },
            ),
            ("agent_callback", {"messageId": "m1", "fromAgentId": "/root/h", "result": "Here."}),
            ("agent_callback", {"messageId": "/root/h", "fromAgentId": "/root/h", "result": "Bye."}),
            END,
        ],
    ),
    "turns that are taken back": (
        [
            event("thread_rolled_back", num_turns=2),
            event("undo_completed", success=True),
            event("undo_completed", success=False),
        ],
        [("retraction", {"turns": 2}), ("retraction", {"turns": 1})],
    ),
    "an error, and the same where the turn ends": (
        [BEGINS, event("error", message="Out of luck."), event("turn_complete", turn_id="u", error=FAILURE)],
        [START, ("error", failed("Out of luck.")), END],
    ),
    "a count that is told once more in the next turn": (
        [
            BEGINS,
            counted(10),
            ENDS,
            event("task_started", turn_id="v"),
            counted(10),
            counted(20, last=9),
            ENDS,
        ],
        [START, ("turn_end", {"usage": (4, 2)}), START, ("turn_end", {"usage": (8, 2)})],
    ),
    "the last text, where no other came": (
        [BEGINS, event("task_complete", turn_id="u", last_agent_message="Done.")],
        [START, reply("Done."), END],
    ),
    "a fork: what came of its parent stays": (
        [
            META,
            {**META, "payload": {"id": "thread-0"}},
            says("user", "One."),
            says("assistant", "1"),
            BEGINS,
            says("user", "Two."),
            ENDS,
        ],
        [START, prompt("One."), reply("1"), END, START, prompt("Two."), END],
    ),
    "what is silent": (
        [
            {"type": "turn_context", "payload": {"model": "gpt-x", "cwd": "/tmp"}},
            {"type": "world_state", "payload": {"full": True, "state": {}}},
            item("ghost_snapshot", ghost_commit={}),
            *map(
                event,
                ("guardian_assessment", "thread_name_updated", "entered_review_mode", "web_search_begin"),
            ),
            event("token_count", info=None),
        ],
        [],
    ),
}

CASES = {**EXEC, **{f"old: {name}": case for name, case in OLD.items()}}
CASES |= {f"notices: {name}": case for name, case in NOTICES.items()}
CASES |= {f"rollout: {name}": case for name, case in ROLLOUT.items()}


@pytest.mark.parametrize("name", CASES)
def test_what_lines_say(name: str) -> None:
    agrees(*CASES[name])


def test_a_turn_has_the_id_that_codex_gave_it() -> None:
    told = follow([BEGINS, says("user", "Go."), ENDS])
    assert [event["turnId"] for event in told] == ["u"] * 3


TWINS: dict[str, tuple[list[Record], list[ShortEvent]]] = {
    "an answer": ([event("agent_message", message="Hi."), says("assistant", "Hi.")], [reply("Hi.")]),
    "a prompt": ([event("user_message", message="Hi."), says("user", "Hi.")], [prompt("Hi.")]),
    "reasoning in parts": (
        [
            event("agent_reasoning", text="One."),
            event("agent_reasoning", text="Two."),
            thinks("One.", "Two."),
        ],
        [thought("One."), thought("Two.")],
    ),
    "the same answer twice": (
        [
            event("agent_message", message="Hi."),
            says("assistant", "Hi."),
            event("agent_message", message="Hi."),
            says("assistant", "Hi."),
        ],
        [reply("Hi."), reply("Hi.")],
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_twins_are_told_once_in_any_order(name: str) -> None:
    records, expected = TWINS[name]
    for order in permutations(records):
        told = plain(follow([BEGINS, *order, ENDS], ends=True))
        assert sorted(map(str, told)) == sorted(map(str, [START, *expected, END]))


# --- The same session as a stream and as a file


def as_stream(records: list[Record]) -> list[Record]:
    """A rollout file as `codex exec` would have printed it: what was said and thought, by items, or by events where no
    item says it; prompts, which it does not print, as the caller adds them."""
    told = [[(kind, text, more) for kind, text, more in _texts(record) if text] for record in records]
    of_items = {
        (kind, text)
        for record, texts in zip(records, told, strict=True)
        for kind, text, _ in texts
        if not _is_event(record)
    }
    printed = [
        _printed(f"item_{number}.{place}", *text)
        for number, (record, texts) in enumerate(zip(records, told, strict=True))
        for place, text in enumerate(texts)
        if not (_is_event(record) and text[:2] in of_items)
    ]
    return [THREAD, *printed, COMPLETED]


def _is_event(record: Record) -> bool:
    return record.get("type") == "event_msg"


def _texts(record: Record) -> list[tuple[str, str, Record]]:
    payload = record.get("payload", record)
    kind = payload.get("type") or payload.get("role")
    phase = {"phase": payload["phase"]} if "phase" in payload else {}
    if kind in ("user_message", "agent_message") and _is_event(record):
        return [(kind, payload.get("message") or payload.get("text"), phase)]
    if kind == "agent_reasoning":
        return [("reasoning", payload["text"], {})]
    if kind == "reasoning":
        return [("reasoning", part["text"], {}) for part in payload["summary"]]
    if kind in ("assistant", "message", "user") and payload["role"] != "developer":
        content = payload.get("content") or payload["message"]
        parts = [{"text": content}] if isinstance(content, str) else content
        name = "user_message" if payload["role"] == "user" else "agent_message"
        return [(name, "".join(part.get("text", "") for part in parts), phase)]
    return []


def _printed(id: str, kind: str, text: str, more: Record) -> Record:
    return {"prompt": text} if kind == "user_message" else exec_item("completed", kind, id, text=text, **more)


SESSION = [
    META,
    says("user", ENVIRONMENT),
    says("user", "List."),
    event("user_message", message="List.", images=[]),
    event("agent_reasoning", text="One."),
    event("agent_reasoning", text="Two."),
    thinks("One.", "Two."),
    calls(),
    event("agent_message", message="Wait.", phase="commentary"),
    answers(),
    says("assistant", "Wait.", phase="commentary"),
    says("user", "Go on."),
    event("user_message", message="Go on.", images=[]),
    event("agent_message", message="Done."),
    says("assistant", "Done."),
]

MESSAGES = frozenset({"assistant_done", "thinking_done", "user_message"})


def messages(records: list[Record]) -> list[Record]:
    return [told for told in content_events(follow(records, "codex", ends=True)) if told["type"] in MESSAGES]


def test_a_stream_and_the_file_of_a_session_say_the_same() -> None:
    told = messages(SESSION)
    assert [(event["type"], event["text"]) for event in told] == [
        *(("assistant_done", "Wait."), ("assistant_done", "Done.")),
        *(("thinking_done", "One."), ("thinking_done", "Two.")),
        *(("user_message", ENVIRONMENT), ("user_message", "List."), ("user_message", "Go on.")),
    ]
    assert told == messages(as_stream(SESSION))


# --- Captured sessions


def captured(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((CORPUS / folder).glob("*.jsonl"))]
    return found or [Path("absent")]


def lines_of(path: Path) -> list[str]:
    if not path.exists():
        pytest.skip("no captured files here")
    return [line for line in path.read_text().split("\n") if line.strip()]


@pytest.mark.parametrize("path", captured("codex_rollout"), ids=lambda path: path.stem)
def test_captured_files_say_what_their_streams_would_have(path: Path) -> None:
    lines = lines_of(path)
    if any("[trimmed for fixture]" in line for line in lines):
        pytest.skip("its texts were replaced, all by the same")
    records = [json.loads(line) for line in lines if _is_json(line)]
    assert messages(records) == messages(as_stream(records))


def _is_json(line: str) -> bool:
    return line.startswith("{") and line.endswith("}")


def whole(lines: list[str]) -> list[Event]:
    normalizer, events = Normalizer(), list[Event]()
    for number, line in enumerate(lines):
        events += normalizer.follow(read_line(line), context(number))
    return events + normalizer.close(context("end"))


def in_steps(lines: list[str], keeps: Callable[[int], bool]) -> list[Event]:
    """With another normaliser, that has the state of the one before it, after each line that `keeps` names."""
    normalizer, events = Normalizer(), list[Event]()
    for number, line in enumerate(lines):
        events += normalizer.follow(read_line(line), context(number))
        if keeps(number):
            normalizer = Normalizer(state=normalizer.state())
    return events + normalizer.close(context("end"))


@pytest.mark.parametrize("path", captured("codex_rollout", "codex_exec"), ids=lambda path: path.stem)
def test_captured_files_are_the_same_line_by_line_and_from_the_middle(path: Path) -> None:
    lines = lines_of(path)
    expected = whole(lines)
    assert in_steps(lines, lambda number: True) == expected
    for cut in range(0, len(lines), max(1, len(lines) // 12)):
        assert in_steps(lines, lambda number, cut=cut: number == cut) == expected  # type: ignore[misc]
