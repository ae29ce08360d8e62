"""Events of Codex: current and legacy output of `codex exec --json`, app server notifications, and rollout
files."""

import json
from base64 import b64encode
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from ash_shared.eventlog import Event, Normalizer, parse_line
from tests.shared.logs import content_events, context, follow, short_events
from tests.shared.records.codex import (
    THREAD,
    bare,
    call_item,
    completed,
    event,
    exec_item,
    item,
    message_item,
    msg,
    notice,
    output_item,
    reasoning_item,
)
from tests.shared.sample_files import CORPUS

Record = dict[str, Any]
ShortEvent = tuple[Any, ...]
Case = tuple[list[Record], list[ShortEvent]]


def token_count(total: int, *, last: int = 5) -> Record:
    counts = {"input_tokens": last, "cached_input_tokens": 1, "output_tokens": 2}
    return event(
        "token_count", info={"total_token_usage": {"total_tokens": total}, "last_token_usage": counts}
    )


def usage_record(total: int) -> Record:
    counts = {"input_tokens": 5, "cached_input_tokens": 1, "output_tokens": 2}
    payload = {"response_id": "r", "usage": counts, "thread_token_usage": {"total_tokens": total}}
    return {"type": "token_usage_record", "payload": payload}


def spoken(role: str, text: str) -> Record:
    return {"type": "realtime_item", "payload": {"type": "transcript_segment", "role": role, "text": text}}


STARTED, COMPLETED = {"type": "turn.started"}, {"type": "turn.completed"}
META = {"timestamp": "2026-02-03T04:05:05Z", "type": "session_meta", "payload": {"id": "thread-1"}}
TASK_STARTED, TASK_COMPLETE = (
    event("task_started", turn_id="u"),
    event("task_complete", turn_id="u", last_agent_message=None),
)

START: ShortEvent = ("turn_start", {"trigger": "user"})
END: ShortEvent = ("turn_end", {})
ABORTED = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
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


def without_details(events: list[Event]) -> list[ShortEvent]:
    """Return short events without error details, with usage as input and output counts."""
    return [(each[0], _without_details(each[1]), *each[2:]) for each in short_events(events)]


def _without_details(payload: Record) -> Record:
    visible = {key: value for key, value in payload.items() if key not in ("details", "usage")}
    if "usage" in payload:
        visible["usage"] = (payload["usage"]["input_tokens"], payload["usage"]["output_tokens"])
    return visible


def assert_events(records: list[Record], expected: list[ShortEvent]) -> None:
    assert without_details(follow(records, "codex", ends=True)) == expected


SHELL: Record = {"command": "ls", "status": "in_progress", "exit_code": None, "aggregated_output": ""}
LS_DONE: Record = {**SHELL, "status": "completed", "exit_code": 0, "aggregated_output": "a\nb\n"}
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
            exec_item("completed", "command_execution", **LS_DONE),
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
    "a command reported only when it has ended": (
        [
            THREAD,
            STARTED,
            exec_item("completed", "command_execution", **{**LS_DONE, "exit_code": 2}),
            COMPLETED,
        ],
        [START, LS, result("2/0/item_0", "a\nb\n", exitCode=2, error=failed("a\nb\n")), END],
    ),
    "a declined command": (
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
        [START, LS, *ABORTED],
    ),
    "two processes whose items have the same ids": (
        [
            *(THREAD, STARTED, exec_item("completed", "command_execution", **LS_DONE), COMPLETED),
            *(THREAD, STARTED, exec_item("completed", "command_execution", **LS_DONE), COMPLETED),
        ],
        [
            *(START, LS, result("2/0/item_0", "a\nb\n", exitCode=0), END),
            *(START, call("6/0/item_0", "shell", {"command": "ls"})),
            *(result("6/0/item_0", "a\nb\n", exitCode=0), END),
        ],
    ),
    "a file change": (
        [STARTED, exec_item("completed", "file_change", changes=[], status="completed"), COMPLETED],
        [
            START,
            call("1/0/item_0", "apply_patch", {"changes": []}),
            result("1/0/item_0", None, structured={"status": "completed"}),
            END,
        ],
    ),
    "a failing MCP call": (
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
    "a search whose query is known at its end": (
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
    "a to-do list": (
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
    "a failing turn with the same error before and after it": (
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
    "a turn without an end": ([THREAD, STARTED], [START, *ABORTED]),
}

LEGACY: dict[str, Case] = {
    "a streamed turn": (
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
            *ABORTED,
        ],
    ),
}

NOTIFICATIONS: dict[str, Case] = {
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
    "interrupted and failing turns": (
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
CALL_EVENT = call("c1", "shell", {"command": ["ls"]})
EXEC_END: Record = {
    "command": ["ls"],
    "cwd": "/tmp",
    "stdout": "",
    "stderr": "",
    "aggregated_output": "a.txt\n",
}

ROLLOUT: dict[str, Case] = {
    "a turn recorded twice": (
        [
            META,
            TASK_STARTED,
            message_item("developer", "Be brief."),
            message_item("user", ENVIRONMENT),
            message_item("user", "List."),
            event("user_message", message="List.", images=[]),
            event("agent_reasoning", text="One."),
            event("agent_reasoning", text="Two."),
            reasoning_item("One.", "Two."),
            event("agent_message", message="Wait.", phase="commentary"),
            message_item("assistant", "Wait.", phase="commentary"),
            call_item(),
            token_count(10),
            event("exec_command_end", call_id="c1", exit_code=0, **EXEC_END),
            output_item(),
            token_count(10),
            token_count(20),
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
            CALL_EVENT,
            result("c1", "a.txt\n", exitCode=0),
            ("turn_end", {"usage": (8, 4)}),
        ],
    ),
    "messages written by Codex in the user's role begin no turn": (
        [
            message_item("user", ENVIRONMENT),
            message_item("user", "# AGENTS.md instructions for /tmp\n\nBe kind."),
        ],
        [
            ("user_message", {"text": ENVIRONMENT, "visibleText": "", "synthetic": True}),
            ("user_message", {"text": "# AGENTS.md instructions for /tmp\n\nBe kind.", "synthetic": True}),
        ],
    ),
    "prompts begin turns if no record does": (
        [
            event("user_message", message="One."),
            message_item("assistant", "1"),
            event("user_message", text="Two."),
        ],
        [START, prompt("One."), reply("1"), END, START, prompt("Two."), END],
    ),
    "a prompt during a turn": (
        [
            TASK_STARTED,
            message_item("user", "One."),
            message_item("assistant", "1"),
            message_item("user", "Two."),
            TASK_COMPLETE,
        ],
        [START, prompt("One."), reply("1"), prompt("Two."), END],
    ),
    "events only": (
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
    "responses before the next prompt, and at the end": (
        [
            *(event("user_message", message="One."), event("agent_message", message="1")),
            *(event("user_message", message="Two."), TASK_STARTED, event("agent_message", message="2")),
            event("task_complete", turn_id="u", last_agent_message="2"),
        ],
        [START, prompt("One."), reply("1"), END, START, prompt("Two."), reply("2"), END],
    ),
    "items only, in an early file": (
        [
            {"id": "thread-1", "timestamp": "2025-04-01T00:00:00Z", "instructions": None},
            bare(message_item("user", "<user_instructions>\n\nBe kind.\n\n</user_instructions>")),
            {"record_type": "state"},
            bare(message_item("user", "List.")),
            bare(reasoning_item("Hm.")),
            bare(item("reasoning", summary=[], encrypted_content="x")),
            bare(call_item()),
            bare(output_item(output='{"output":"no","metadata":{"exit_code":1}}')),
            bare(message_item("assistant", "No.")),
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
            CALL_EVENT,
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
    "an image with labels around it in the item": (
        [
            TASK_STARTED,
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
            TASK_COMPLETE,
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
    "a command run by the user": (
        [
            TASK_STARTED,
            event("exec_command_end", call_id="x", source="user_shell", exit_code=3, **EXEC_END),
            message_item("user", RUN.format("&amp;&amp; ls", "a &lt; b")),
            TASK_COMPLETE,
        ],
        [
            START,
            call("3/0", "shell", {"command": "true && ls"}, executor="user"),
            result("3/0", "a < b", exitCode=3, error=failed("a < b")),
            END,
        ],
    ),
    "a user command before markup was escaped": (
        [TASK_STARTED, message_item("user", RUN.format("", "<a> &amp;")), TASK_COMPLETE],
        [
            START,
            call("2/0", "shell", {"command": "true "}, executor="user"),
            result("2/0", "<a> &amp;", exitCode=3, error=failed("<a> &amp;")),
            END,
        ],
    ),
    "an interrupted turn": (
        [
            *(TASK_STARTED, message_item("user", "Go."), event("agent_reasoning", text="Hm."), call_item()),
            event("exec_command_end", call_id="c1", exit_code=130, **EXEC_END),
            event("turn_aborted", turn_id="u", reason="interrupted"),
            message_item("user", "<turn_aborted>\nThe user interrupted.\n</turn_aborted>"),
        ],
        [
            *(START, prompt("Go."), thought("Hm."), CALL_EVENT),
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
    "a turn that begins in another turn": (
        [
            TASK_STARTED,
            message_item("user", "Go."),
            call_item(),
            event("turn_started", turn_id="v"),
            message_item("assistant", "Hm."),
        ],
        [START, prompt("Go."), CALL_EVENT, *ABORTED, START, reply("Hm."), *ABORTED],
    ),
    "a result without a call": (
        [TASK_STARTED, output_item("c7"), TASK_COMPLETE],
        [START, result("c7", "a.txt\n", orphan=True), END],
    ),
    "an open call at the end of a file without turn ends": (
        [message_item("user", "Go."), call_item()],
        [START, prompt("Go."), CALL_EVENT, ("turn_end", {"partial": True})],
    ),
    "details that events add to results, and calls without an item": (
        [
            TASK_STARTED,
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
            call_item("c3"),
            output_item("c3", "the same"),
            TASK_COMPLETE,
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
            TASK_STARTED,
            event("web_search_end", call_id="ws-1", query="oaks", action={"type": "search", "query": "oaks"}),
            item("web_search_call", status="completed", action={"type": "search", "query": "oaks"}),
            TASK_COMPLETE,
        ],
        [
            START,
            call("3/0", "web_search", {"type": "search", "query": "oaks"}, executor="server"),
            result("3/0", None),
            END,
        ],
    ),
    "turn items next to response items": (
        [
            TASK_STARTED,
            completed("UserMessage", id="i0", content=[{"type": "text", "text": "Plan."}]),
            message_item("user", "Plan."),
            message_item("user", '<hook_prompt hook_run_id="h">Careful.</hook_prompt>'),
            completed("HookPrompt", id="i9", fragments=[{"text": "Careful.", "hook_run_id": "h"}]),
            completed("Reasoning", id="i1", summary_text=["One.", "Two."], raw_content=[]),
            reasoning_item("One.", "Two."),
            call_item(),
            completed(
                "CommandExecution",
                id="c1",
                command=["ls"],
                status="completed",
                aggregated_output="a",
                exit_code=0,
            ),
            output_item(),
            completed(
                "AgentMessage", id="i2", content=[{"type": "Text", "text": "So."}], phase="final_answer"
            ),
            message_item("assistant", "So.", phase="final_answer"),
            completed("Plan", id="i3", text="1. Sow."),
            completed("Sleep", id="i4", duration_ms=5),
            completed("ContextCompaction", id="i5"),
            TASK_COMPLETE,
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
            *(thought("One."), thought("Two."), CALL_EVENT, result("c1", "a.txt\n", exitCode=0)),
            *(reply("So.", phase="final_answer"), reply("1. Sow.", variant="plan")),
            *(call("i4", "sleep", {"duration_ms": 5}), result("i4", None), END),
        ],
    ),
    "turn items only": (
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
            *(START, prompt("Plan."), reply("So."), CALL_EVENT),
            *(result("c1", "a", exitCode=1, error=failed("a")), END),
        ],
    ),
    "a summary": (
        [
            TASK_STARTED,
            {
                "type": "compacted",
                "payload": {"message": "So far.", "replacement_history": [bare(message_item("user", "Hi."))]},
            },
            event("context_compacted"),
            TASK_COMPLETE,
            {
                "type": "compacted",
                "payload": {"message": "", "replacement_history": [bare(message_item("user", "Hi."))]},
            },
            event("context_compacted"),
        ],
        [START, ("summary", {"text": "So far."}), END, ("summary", {"text": ""})],
    ),
    "calls that start agents": (
        [
            TASK_STARTED,
            call_item("c1", "spawn_agent"),
            event(
                "collab_agent_spawn_end",
                call_id="c1",
                sender_thread_id="t",
                new_thread_id="one",
                prompt="Go.",
            ),
            output_item("c1", "Started."),
            call_item("c2", "spawn_agent"),
            event(
                "sub_agent_activity",
                event_id="c2",
                agent_thread_id="two",
                agent_path="/root/h",
                kind="started",
            ),
            output_item("c2", '{"task_name":"h"}'),
            call_item("c3", "send_message"),
            event("sub_agent_activity", event_id="c3", agent_thread_id="two", kind="interacted"),
            output_item("c3", '{"agent_id":"two"}'),
            call_item("c4", "spawn_agent"),
            output_item("c4", '{"agent_id":"three","nickname":"Ada"}'),
            TASK_COMPLETE,
        ],
        [
            *(START, call("c1", "spawn_agent", CALL_EVENT[1]["args"])),
            (
                "agent_message",
                {"messageId": "c1", "targetSessionId": "one", "message": "Go.", "wait": False},
            ),
            *(result("c1", "Started.", agentId="one"), call("c2", "spawn_agent", CALL_EVENT[1]["args"])),
            (
                "agent_message",
                {
                    "messageId": "c2",
                    "targetAgentId": "/root/h",
                    "targetSessionId": "two",
                    "message": "",
                    "wait": False,
                },
            ),
            result("c2", '{"task_name":"h"}', agentId="two"),
            call("c3", "send_message", CALL_EVENT[1]["args"]),
            ("agent_message", {"messageId": "c3", "targetSessionId": "two", "message": "", "wait": False}),
            *(result("c3", '{"agent_id":"two"}'), call("c4", "spawn_agent", CALL_EVENT[1]["args"])),
            *(result("c4", '{"agent_id":"three","nickname":"Ada"}', agentId="three"), END),
        ],
    ),
    "other agents": (
        [
            TASK_STARTED,
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
            TASK_COMPLETE,
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
    "notifications of subagents": (
        [
            TASK_STARTED,
            *(
                message_item("user", f"<subagent_notification>\n{report}\n</subagent_notification>")
                for report in (
                    '{"agent_id": "helper", "status": {"completed": "Here."}}',
                    '{"agent_path": "/root/h", "status": {"errored": null}}',
                    '{"agent_path": "/root/h", "status": "running"}',
                )
            ),
            TASK_COMPLETE,
        ],
        [
            START,
            ("agent_callback", {"messageId": "helper", "fromSessionId": "helper", "result": "Here."}),
            ("agent_callback", {"messageId": "/root/h", "fromAgentId": "/root/h", "result": "errored"}),
            (
                "user_message",
                {
                    "text": "<subagent_notification>\n"
                    '{"agent_path": "/root/h", "status": "running"}\n</subagent_notification>',
                    "visibleText": "",
                    "synthetic": True,
                },
            ),
            END,
        ],
    ),
    "retracted turns": (
        [
            event("thread_rolled_back", num_turns=2),
            event("undo_completed", success=True),
            event("undo_completed", success=False),
        ],
        [("retraction", {"turns": 2}), ("retraction", {"turns": 1})],
    ),
    "an error repeated at the end of the turn": (
        [
            TASK_STARTED,
            event("error", message="Out of luck."),
            event("turn_complete", turn_id="u", error=FAILURE),
        ],
        [START, ("error", failed("Out of luck.")), END],
    ),
    "a token count repeated in the next turn": (
        [
            TASK_STARTED,
            token_count(10),
            TASK_COMPLETE,
            event("task_started", turn_id="v"),
            token_count(10),
            token_count(20, last=9),
            TASK_COMPLETE,
        ],
        [START, ("turn_end", {"usage": (4, 2)}), START, ("turn_end", {"usage": (8, 2)})],
    ),
    "usage that two kinds of records state, with equal and with different totals": (
        [
            TASK_STARTED,
            token_count(10),
            usage_record(15),
            token_count(25),
            token_count(25),
            usage_record(20),
            token_count(20),
            usage_record(20),
            event("raw_response_completed", response_id="r", token_usage={"output_tokens": 2}),
            token_count(30),
            TASK_COMPLETE,
        ],
        [START, ("turn_end", {"usage": (16, 8)})],
    ),
    "a message that no person typed here begins no turn": (
        [
            {**message_item("user", "One."), "metadata": {"inherited_user_message": True}},
            {**message_item("user", "Two."), "metadata": {"harness_authored_configuration": True}},
            {**message_item("user", "Three."), "metadata": {"user_input_order": 1}},
        ],
        [
            ("user_message", {"text": "One.", "synthetic": True}),
            ("user_message", {"text": "Two.", "synthetic": True}),
            START,
            prompt("Three."),
            END,
        ],
    ),
    "spoken words": (
        [spoken("user", "How is"), spoken("user", "the hive?"), spoken("assistant", "Calm.")],
        [START, prompt("How is"), prompt("the hive?"), reply("Calm."), END],
    ),
    "notices": (
        [event("auth_recovery_started", provider="hive", message="Signing in again")],
        [("system_message", {"text": "Signing in again", "variant": "notice"})],
    ),
    "the last text, if it was not emitted before": (
        [TASK_STARTED, event("task_complete", turn_id="u", last_agent_message="Done.")],
        [START, reply("Done."), END],
    ),
    "a fork keeps the messages of its parent": (
        [
            META,
            {**META, "payload": {"id": "thread-0"}},
            message_item("user", "One."),
            message_item("assistant", "1"),
            TASK_STARTED,
            message_item("user", "Two."),
            TASK_COMPLETE,
        ],
        [START, prompt("One."), reply("1"), END, START, prompt("Two."), END],
    ),
    "records without events": (
        [
            {"type": "turn_context", "payload": {"model": "gpt-x", "cwd": "/tmp"}},
            {"type": "world_state", "payload": {"full": True, "state": {}}},
            item("ghost_snapshot", ghost_commit={}),
            *map(
                event,
                ("guardian_assessment", "thread_name_updated", "entered_review_mode", "web_search_begin"),
            ),
            event("token_count", info=None),
            item("configuration_update", reasoning={"effort": "high"}),
            {"type": "retained_context", "payload": {"type": "verified_answer", "text": "Calm."}},
            {"type": "realtime_item", "payload": {"type": "realtime_session_started", "id": "r"}},
        ],
        [],
    ),
}

CASES = {**EXEC, **{f"legacy: {name}": case for name, case in LEGACY.items()}}
CASES |= {f"notifications: {name}": case for name, case in NOTIFICATIONS.items()}
CASES |= {f"rollout: {name}": case for name, case in ROLLOUT.items()}


@pytest.mark.parametrize("name", CASES)
def test_line_events(name: str) -> None:
    assert_events(*CASES[name])


def test_turn_has_the_id_given_by_codex() -> None:
    events = follow([TASK_STARTED, message_item("user", "Go."), TASK_COMPLETE])
    assert [event["turnId"] for event in events] == ["u"] * 3


DUPLICATES: dict[str, tuple[list[Record], list[ShortEvent]]] = {
    "a response": ([event("agent_message", message="Hi."), message_item("assistant", "Hi.")], [reply("Hi.")]),
    "a prompt": ([event("user_message", message="Hi."), message_item("user", "Hi.")], [prompt("Hi.")]),
    "reasoning in parts": (
        [
            event("agent_reasoning", text="One."),
            event("agent_reasoning", text="Two."),
            reasoning_item("One.", "Two."),
        ],
        [thought("One."), thought("Two.")],
    ),
    "the same response twice": (
        [
            event("agent_message", message="Hi."),
            message_item("assistant", "Hi."),
            event("agent_message", message="Hi."),
            message_item("assistant", "Hi."),
        ],
        [reply("Hi."), reply("Hi.")],
    ),
}


@pytest.mark.parametrize("name", DUPLICATES)
def test_emits_duplicates_once_in_any_order(name: str) -> None:
    records, expected = DUPLICATES[name]
    for order in permutations(records):
        events = without_details(follow([TASK_STARTED, *order, TASK_COMPLETE], ends=True))
        assert sorted(map(str, events)) == sorted(map(str, [START, *expected, END]))


# The same session as a stream and as a file


def as_stream(records: list[Record]) -> list[Record]:
    """Return a rollout file as `codex exec` would have printed it: texts from items, or from events without an
    item, and prompts, which exec does not print."""
    record_texts = [[(kind, text, more) for kind, text, more in _texts(record) if text] for record in records]
    item_texts = {
        (kind, text)
        for record, texts in zip(records, record_texts, strict=True)
        for kind, text, _ in texts
        if not _is_event(record)
    }
    printed = [
        _exec_line(f"item_{number}.{index}", *text)
        for number, (record, texts) in enumerate(zip(records, record_texts, strict=True))
        for index, text in enumerate(texts)
        if not (_is_event(record) and text[:2] in item_texts)
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


def _exec_line(id: str, kind: str, text: str, more: Record) -> Record:
    return {"prompt": text} if kind == "user_message" else exec_item("completed", kind, id, text=text, **more)


SESSION = [
    META,
    message_item("user", ENVIRONMENT),
    message_item("user", "List."),
    event("user_message", message="List.", images=[]),
    event("agent_reasoning", text="One."),
    event("agent_reasoning", text="Two."),
    reasoning_item("One.", "Two."),
    call_item(),
    event("agent_message", message="Wait.", phase="commentary"),
    output_item(),
    message_item("assistant", "Wait.", phase="commentary"),
    message_item("user", "Go on."),
    event("user_message", message="Go on.", images=[]),
    event("agent_message", message="Done."),
    message_item("assistant", "Done."),
]

TEXT_TYPES = frozenset({"assistant_done", "thinking_done", "user_message"})


def messages(records: list[Record]) -> list[Record]:
    return [
        each for each in content_events(follow(records, "codex", ends=True)) if each["type"] in TEXT_TYPES
    ]


def test_stream_matches_the_session_file() -> None:
    events = messages(SESSION)
    assert [(event["type"], event["text"]) for event in events] == [
        *(("assistant_done", "Wait."), ("assistant_done", "Done.")),
        *(("thinking_done", "One."), ("thinking_done", "Two.")),
        *(("user_message", ENVIRONMENT), ("user_message", "List."), ("user_message", "Go on.")),
    ]
    assert events == messages(as_stream(SESSION))


# Captured sessions


def captured(*folders: str) -> list[Path]:
    paths = [path for folder in folders for path in sorted((CORPUS / folder).glob("*.jsonl"))]
    return paths or [Path("absent")]


def lines_of(path: Path) -> list[str]:
    if not path.exists():
        pytest.skip("no captured files here")
    return [line for line in path.read_text().split("\n") if line.strip()]


@pytest.mark.parametrize("path", captured("codex_rollout"), ids=lambda path: path.stem)
def test_captured_files_match_their_streams(path: Path) -> None:
    lines = lines_of(path)
    if any("[trimmed for fixture]" in line for line in lines):
        pytest.skip("its texts were all replaced by the same text")
    records = [json.loads(line) for line in lines if _is_json(line)]
    assert messages(records) == messages(as_stream(records))


def _is_json(line: str) -> bool:
    return line.startswith("{") and line.endswith("}")


def all_events(lines: list[str]) -> list[Event]:
    normalizer, events = Normalizer(), list[Event]()
    for number, line in enumerate(lines):
        events += normalizer.follow(parse_line(line), context(number))
    return events + normalizer.close(context("end"))


def resumed_events(lines: list[str], is_saved: Callable[[int], bool]) -> list[Event]:
    """Return the events of lines; the normaliser is replaced by a restored one after each line selected by
    `is_saved`."""
    normalizer, events = Normalizer(), list[Event]()
    for number, line in enumerate(lines):
        events += normalizer.follow(parse_line(line), context(number))
        if is_saved(number):
            normalizer = Normalizer(state=normalizer.state())
    return events + normalizer.close(context("end"))


@pytest.mark.parametrize("path", captured("codex_rollout", "codex_exec"), ids=lambda path: path.stem)
def test_captured_files_give_same_events_when_resumed(path: Path) -> None:
    lines = lines_of(path)
    expected = all_events(lines)
    assert resumed_events(lines, lambda number: True) == expected
    for cut in range(0, len(lines), max(1, len(lines) // 12)):
        assert resumed_events(lines, lambda number, cut=cut: number == cut) == expected  # type: ignore[misc]
