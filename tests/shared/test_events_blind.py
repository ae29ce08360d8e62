"""Short sessions of every format with the log that they must give, written from the design of the events alone.

Each row is compared whole. An event stands as its type, the answer that it is of, and its payload; of usage, what went
in and what came out. Nothing follows the last record of a row: what is open then is closed.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ash_shared.normalize import Event
from tests.shared.logs import follow

Record = dict[str, Any]
Case = tuple[list[Record], list[str]]

SESSION_OF_CLAUDE = "5f0c1c52-5a0e-4d0e-9a53-0d5b3c1f7a11"
THREAD = "0199a213-81c0-7800-8aa1-bbab2a035a53"
CURSOR_SESSION = {"session_id": "cu-1"}
TIME = "2026-01-01T00:00:00.000Z"


def told(event: Event) -> str:
    payload = dict(event["payload"])
    if "usage" in payload:
        payload["usage"] = [payload["usage"]["input_tokens"], payload["usage"]["output_tokens"]]
    answer = f" <{event['responseId']}>" if "responseId" in event else ""
    said = f" {json.dumps(payload, ensure_ascii=False)}" if payload else ""
    return f"{event['type']}{answer}{said}"


# --- Chat Completions


def asked(said: str) -> Record:
    return {"role": "user", "content": said}


def tool_says(id: str, said: str) -> Record:
    return {"role": "tool", "tool_call_id": id, "content": said}


def piece(delta: Record, finish: str | None = None, id: str = "c1", index: int = 0) -> Record:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {"id": id, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def nameless(delta: Record, finish: str | None = None) -> Record:
    return {name: value for name, value in piece(delta, finish).items() if name != "id"}


def counts(read: int, written: int, id: str = "c1") -> Record:
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return {**piece({}, id=id), "choices": [], "usage": usage}


def call_piece(
    index: int | None, id: str | None = None, name: str | None = None, arguments: str | None = None
) -> Record:
    function = {"name": name, "arguments": arguments}
    call = {"index": index, "id": id, "type": "function" if id else None}
    return {
        **{key: value for key, value in call.items() if value is not None},
        "function": {key: value for key, value in function.items() if value is not None},
    }


# --- Responses


def asked_item(said: str) -> Record:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}


def output_item(call: str, output: str) -> Record:
    return {"type": "function_call_output", "call_id": call, "output": output}


def message_item(id: str, said: str | None, status: str = "completed", **more: Any) -> Record:
    content = [] if said is None else [{"type": "output_text", "text": said, "annotations": []}]
    return {"type": "message", "id": id, "role": "assistant", "status": status, "content": content, **more}


def function_call(id: str, call: str, name: str, arguments: str, status: str = "completed") -> Record:
    return {
        "type": "function_call",
        "id": id,
        "call_id": call,
        "name": name,
        "arguments": arguments,
        "status": status,
    }


APPROVAL: Record = {
    "type": "mcp_approval_request",
    "id": "ap",
    "name": "t",
    "server_label": "s",
    "arguments": "{}",
}


def response(kind: str, **more: Any) -> Record:
    return {"type": f"response.{kind}", **more}


def begins(id: str = "r1") -> Record:
    return response(
        "created", response={"id": id, "object": "response", "status": "in_progress", "output": []}
    )


def completes(
    id: str = "r1", output: Any = (), i: int = 10, o: int = 5, status: str = "completed", **more: Any
) -> Record:
    usage = {"input_tokens": i, "output_tokens": o, "total_tokens": i + o}
    whole = {
        "id": id,
        "object": "response",
        "status": status,
        "output": list(output),
        "usage": usage,
        **more,
    }
    return response(status, response=whole)


def item_added(place: int, item: Record) -> Record:
    return response("output_item.added", output_index=place, item=item)


def item_done(place: int, item: Record) -> Record:
    return response("output_item.done", output_index=place, item=item)


def text_delta(place: int, id: str, delta: str) -> Record:
    return response("output_text.delta", output_index=place, content_index=0, item_id=id, delta=delta)


def text_done(place: int, id: str, text: str) -> Record:
    return response("output_text.done", output_index=place, content_index=0, item_id=id, text=text)


def arguments_delta(place: int, id: str, delta: str) -> Record:
    return response("function_call_arguments.delta", output_index=place, item_id=id, delta=delta)


def arguments_done(place: int, id: str, arguments: str) -> Record:
    return response("function_call_arguments.done", output_index=place, item_id=id, arguments=arguments)


# --- Claude Code: its stream


def text(said: str) -> Record:
    return {"type": "text", "text": said}


def thinking(said: str, signature: str = "sig") -> Record:
    return {"type": "thinking", "thinking": said, "signature": signature}


def tool_use(id: str, name: str, given: Record) -> Record:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def tool_result(id: str, content: Any, **more: Any) -> list[Record]:
    return [{"type": "tool_result", "tool_use_id": id, "content": content, **more}]


def usage(read: int, written: int) -> Record:
    return {
        "input_tokens": read,
        "output_tokens": written,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def api_message(id: str, content: list[Record], counted: Record | None = None) -> Record:
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": None,
        "usage": counted or usage(3, 1),
    }


def init() -> Record:
    return {
        "type": "system",
        "subtype": "init",
        "session_id": SESSION_OF_CLAUDE,
        "cwd": "/w",
        "tools": ["Bash"],
        "model": "m",
    }


def user(content: Any, parent: str | None = None, **more: Any) -> Record:
    message = {"role": "user", "content": content}
    return {
        "type": "user",
        "message": message,
        "parent_tool_use_id": parent,
        "session_id": SESSION_OF_CLAUDE,
        **more,
    }


def assistant(
    id: str, content: Any, parent: str | None = None, usage: Record | None = None, **more: Any
) -> Record:
    blocks = content if isinstance(content, list) else [content]
    return {
        "type": "assistant",
        "message": api_message(id, blocks, usage),
        "parent_tool_use_id": parent,
        "session_id": SESSION_OF_CLAUDE,
        **more,
    }


def result(said: str = "", cost: float = 0.5, i: int = 3, o: int = 1, **more: Any) -> Record:
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "num_turns": 1,
        "result": said,
        "session_id": SESSION_OF_CLAUDE,
        "total_cost_usd": cost,
        "usage": usage(i, o),
        **more,
    }


def streamed(event: Record, parent: str | None = None) -> Record:
    return {
        "type": "stream_event",
        "event": event,
        "parent_tool_use_id": parent,
        "session_id": SESSION_OF_CLAUDE,
    }


def message_starts(id: str, parent: str | None = None) -> Record:
    return streamed({"type": "message_start", "message": api_message(id, [])}, parent)


def block_starts(place: int, block: Record, parent: str | None = None) -> Record:
    return streamed({"type": "content_block_start", "index": place, "content_block": block}, parent)


def block_delta(place: int, parent: str | None = None, **delta: Any) -> Record:
    return streamed({"type": "content_block_delta", "index": place, "delta": delta}, parent)


def text_piece(place: int, said: str, parent: str | None = None) -> Record:
    return block_delta(place, parent, type="text_delta", text=said)


def input_piece(place: int, given: str, parent: str | None = None) -> Record:
    return block_delta(place, parent, type="input_json_delta", partial_json=given)


def block_stops(place: int, parent: str | None = None) -> Record:
    return streamed({"type": "content_block_stop", "index": place}, parent)


def message_delta(stop: str, written: int = 1, parent: str | None = None) -> Record:
    delta = {"stop_reason": stop, "stop_sequence": None}
    return streamed({"type": "message_delta", "delta": delta, "usage": {"output_tokens": written}}, parent)


def message_stops(parent: str | None = None) -> Record:
    return streamed({"type": "message_stop"}, parent)


# --- Claude Code: its session files


def line(wire: str, **more: Any) -> Record:
    return {
        "parentUuid": None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/w",
        "sessionId": SESSION_OF_CLAUDE,
        "version": "2.1.0",
        "type": wire,
        "timestamp": TIME,
        **more,
    }


def envelope() -> Record:
    return line("attachment")


def user_line(content: Any, **more: Any) -> Record:
    return line("user", message={"role": "user", "content": content}, **more)


def assistant_line(id: str, *blocks: Record, usage: Record | None = None, **more: Any) -> Record:
    return line("assistant", requestId="q", message=api_message(id, list(blocks), usage), **more)


def system_line(subtype: str, **more: Any) -> Record:
    return line("system", subtype=subtype, **more)


# --- Codex: exec


TURN_STARTED: Record = {"type": "turn.started"}


def thread_started(id: str = THREAD) -> Record:
    return {"type": "thread.started", "thread_id": id}


def turn_completed(read: int = 10, written: int = 5) -> Record:
    usage = {"input_tokens": read, "cached_input_tokens": 0, "output_tokens": written}
    return {"type": "turn.completed", "usage": usage}


def item(state: str, id: str, kind: str, **more: Any) -> Record:
    return {"type": f"item.{state}", "item": {"id": id, "type": kind, **more}}


def command(
    state: str,
    id: str,
    out: str = "",
    code: int | None = None,
    status: str = "in_progress",
    c: str = "ls",
) -> Record:
    return item(
        state, id, "command_execution", command=c, aggregated_output=out, exit_code=code, status=status
    )


# --- Codex: rollouts


def rollout(wire: str, **payload: Any) -> Record:
    return {"timestamp": TIME, "type": wire, "payload": payload}


def bare(record: Record) -> Record:
    payload: Record = record["payload"]
    return payload


def session_meta(id: str = THREAD, **more: Any) -> Record:
    return rollout("session_meta", id=id, timestamp=TIME, cwd="/w", cli_version="0.104.0", **more)


def context() -> Record:
    return rollout("turn_context", cwd="/w", model="m", approval_policy="never")


def event_msg(kind: str, **more: Any) -> Record:
    return {"timestamp": TIME, "type": "event_msg", "payload": {"type": kind, **more}}


def response_item(kind: str, **more: Any) -> Record:
    return {"timestamp": TIME, "type": "response_item", "payload": {"type": kind, **more}}


def message(role: str, said: str, **more: Any) -> Record:
    name = "output_text" if role == "assistant" else "input_text"
    return response_item("message", role=role, content=[{"type": name, "text": said}], **more)


def reasoning(*summary: str) -> Record:
    told = [{"type": "summary_text", "text": said} for said in summary]
    return response_item("reasoning", summary=told, content=None, encrypted_content="xx")


def calls(id: str, name: str = "shell", arguments: str = '{"command":["ls"]}') -> Record:
    return response_item("function_call", name=name, arguments=arguments, call_id=id)


def answers(id: str, output: str) -> Record:
    return response_item("function_call_output", call_id=id, output=output)


def task_started(id: str = "T1") -> Record:
    return event_msg("task_started", turn_id=id)


def task_complete(id: str = "T1", last: str | None = None) -> Record:
    return event_msg("task_complete", turn_id=id, last_agent_message=last)


def user_message(said: str) -> Record:
    return event_msg("user_message", message=said, images=[], text_elements=[])


def agent_message(said: str, **more: Any) -> Record:
    return event_msg("agent_message", message=said, **more)


def token_count(all_read: int, all_written: int, read: int, written: int) -> Record:
    usages = {"total_token_usage": (all_read, all_written), "last_token_usage": (read, written)}
    info = {
        name: {
            "input_tokens": i,
            "cached_input_tokens": 0,
            "output_tokens": o,
            "reasoning_output_tokens": 0,
            "total_tokens": i + o,
        }
        for name, (i, o) in usages.items()
    }
    return event_msg("token_count", info=info, rate_limits=None)


def no_token_count() -> Record:
    return event_msg("token_count", info=None, rate_limits={})


# --- Gemini, and its CLI


def contents(*said: Any) -> Record:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in said]}


def candidate(
    *parts: Record,
    finish: str | None = None,
    rid: str | None = "g1",
    usage: tuple[int, int] | None = None,
) -> Record:
    answer: Record = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        answer["finishReason"] = finish
    record: Record = {"candidates": [answer], "modelVersion": "gemini"}
    if rid:
        record["responseId"] = rid
    if usage:
        read, written = usage
        record["usageMetadata"] = {
            "promptTokenCount": read,
            "candidatesTokenCount": written,
            "totalTokenCount": read + written,
        }
    return record


def gemini_init() -> Record:
    return {"type": "init", "timestamp": TIME, "session_id": "g-1", "model": "gemini"}


def gemini_message(role: str, content: str, **more: Any) -> Record:
    return {"type": "message", "timestamp": TIME, "role": role, "content": content, **more}


def gemini_call(id: str, name: str, parameters: Record) -> Record:
    return {
        "type": "tool_use",
        "timestamp": TIME,
        "tool_name": name,
        "tool_id": id,
        "parameters": parameters,
    }


def gemini_result(id: str, status: str = "success", **more: Any) -> Record:
    return {"type": "tool_result", "timestamp": TIME, "tool_id": id, "status": status, **more}


def gemini_end(status: str = "success", i: int = 10, o: int = 5, **more: Any) -> Record:
    stats = {"total_tokens": i + o, "input_tokens": i, "output_tokens": o, "cached": 0}
    return {"type": "result", "timestamp": TIME, "status": status, "stats": stats, **more}


def chat_record(id: str, kind: str, content: Any, **more: Any) -> Record:
    return {"id": id, "timestamp": TIME, "type": kind, "content": content, **more}


# --- Cursor


def cursor_line(wire: str, **more: Any) -> Record:
    return {"type": wire, "session_id": "cu-1", **more}


def cursor_init() -> Record:
    return cursor_line("system", subtype="init", cwd="/w", model="M", permissionMode="default")


def cursor_user(said: str) -> Record:
    return cursor_line("user", message={"role": "user", "content": [text(said)]})


def cursor_says(said: str, **more: Any) -> Record:
    return cursor_line("assistant", message={"role": "assistant", "content": [text(said)]}, **more)


def cursor_thinks(said: str) -> Record:
    return cursor_line("thinking", subtype="delta", text=said, timestamp_ms=1)


def cursor_thought() -> Record:
    return cursor_line("thinking", subtype="completed", timestamp_ms=2)


def cursor_call(id: str, tool: str, given: Record) -> Record:
    call = {tool: {"args": given}}
    return cursor_line("tool_call", subtype="started", call_id=id, tool_call=call, model_call_id="mc")


def cursor_called(id: str, tool: str, given: Record, answer: Record) -> Record:
    call = {tool: {"args": given, "result": answer}}
    return cursor_line("tool_call", subtype="completed", call_id=id, tool_call=call, model_call_id="mc")


def cursor_result(said: str, **more: Any) -> Record:
    return cursor_line("result", subtype="success", is_error=False, result=said, **more)


# --- The sessions


OPENAI_CHAT: dict[str, Case] = {
    "chat reasoning, text, usage late": (
        [
            asked("Hello"),
            piece({"role": "assistant", "content": ""}),
            piece({"reasoning_content": "Let "}),
            piece({"reasoning_content": "me"}),
            piece({"content": "Hi"}),
            piece({"content": " there"}),
            piece({}, "stop"),
            counts(10, 5),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hello"}',
            'thinking_chunk <c1> {"text": "Let "}',
            'thinking_chunk <c1> {"text": "me"}',
            'thinking_done <c1> {"text": "Let me"}',
            'assistant_chunk <c1> {"text": "Hi"}',
            'assistant_chunk <c1> {"text": " there"}',
            'assistant_done <c1> {"text": "Hi there", "stopReason": "stop"}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "chat agent loop with interleaved parallel calls": (
        [
            asked("Compare"),
            piece({"role": "assistant", "content": "Looking."}),
            piece({"tool_calls": [call_piece(0, "a", "read", "")]}),
            piece({"tool_calls": [call_piece(1, "b", "read", "")]}),
            piece({"tool_calls": [call_piece(0, None, None, '{"p":')]}),
            piece({"tool_calls": [call_piece(1, None, None, '{"p":')]}),
            piece({"tool_calls": [call_piece(0, None, None, "1}"), call_piece(1, None, None, "2}")]}),
            piece({}, "tool_calls"),
            counts(10, 5),
            tool_says("b", "two"),
            tool_says("a", "one"),
            piece({"role": "assistant", "content": "Same."}, id="c2"),
            piece({}, "stop", id="c2"),
            counts(20, 2, "c2"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Compare"}',
            'assistant_chunk <c1> {"text": "Looking."}',
            'tool_input_chunk <c1> {"toolCallId": "a", "toolName": "read", "chunk": "{\\"p\\":", "offset": 0}',
            'tool_input_chunk <c1> {"toolCallId": "b", "toolName": "read", "chunk": "{\\"p\\":", "offset": 0}',
            'tool_input_chunk <c1> {"toolCallId": "a", "toolName": "read", "chunk": "1}", "offset": 5}',
            'tool_input_chunk <c1> {"toolCallId": "b", "toolName": "read", "chunk": "2}", "offset": 5}',
            'assistant_done <c1> {"text": "Looking.", "stopReason": "tool_calls"}',
            'tool_call <c1> {"toolCallId": "a", "toolName": "read", "args": {"p": 1}}',
            'tool_call <c1> {"toolCallId": "b", "toolName": "read", "args": {"p": 2}}',
            'tool_result {"toolCallId": "b", "result": "two"}',
            'tool_result {"toolCallId": "a", "result": "one"}',
            'assistant_chunk <c2> {"text": "Same."}',
            'assistant_done <c2> {"text": "Same.", "stopReason": "stop"}',
            'turn_end {"usage": [30, 7]}',
        ],
    ),
    "chat cut in the arguments": (
        [
            asked("Hi"),
            piece({"reasoning": "Hm"}),
            piece({"tool_calls": [call_piece(0, "a", "read", '{"pa')]}),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'thinking_chunk <c1> {"text": "Hm"}',
            'thinking_done <c1> {"text": "Hm"}',
            'tool_input_chunk <c1> {"toolCallId": "a", "toolName": "read", "chunk": "{\\"pa", "offset": 0}',
            'tool_call <c1> {"toolCallId": "a", "toolName": "read", "args": "{\\"pa", "partial": true}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
        ],
    ),
    "chat ids repeated in a later turn, empty first id": (
        [
            asked("One"),
            {
                "id": "",
                "object": "",
                "model": "",
                "choices": [],
                "prompt_filter_results": [{"prompt_index": 0}],
            },
            piece(
                {"role": "assistant", "content": None, "tool_calls": [call_piece(0, "call_0", "ls", "{}")]},
                "tool_calls",
            ),
            tool_says("call_0", "x"),
            piece({"content": "First."}, id="c2"),
            piece({}, "stop", id="c2"),
            asked("Two"),
            piece({"tool_calls": [call_piece(0, "call_0", "ls", "{}")]}, "tool_calls", id="c3"),
            tool_says("call_0", "y"),
            piece({"content": "Second."}, "stop", id="c4"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'tool_input_chunk <c1> {"toolCallId": "call_0", "toolName": "ls", "chunk": "{}", "offset": 0}',
            'tool_call <c1> {"toolCallId": "call_0", "toolName": "ls", "args": {}}',
            'tool_result {"toolCallId": "call_0", "result": "x"}',
            'assistant_chunk <c2> {"text": "First."}',
            'assistant_done <c2> {"text": "First.", "stopReason": "stop"}',
            "turn_end",
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'tool_input_chunk <c3> {"toolCallId": "call_0", "toolName": "ls", "chunk": "{}", "offset": 0}',
            'tool_call <c3> {"toolCallId": "call_0", "toolName": "ls", "args": {}}',
            'tool_result {"toolCallId": "call_0", "result": "y"}',
            'assistant_chunk <c4> {"text": "Second."}',
            'assistant_done <c4> {"text": "Second.", "stopReason": "stop"}',
            "turn_end",
        ],
    ),
    "chat whole calls without index, finish stop": (
        [
            asked("Go"),
            piece(
                {
                    "role": "assistant",
                    "tool_calls": [
                        call_piece(None, "a", "ls", '{"d":1}'),
                        call_piece(None, "b", "ls", '{"d":2}'),
                    ],
                }
            ),
            piece({}, "stop"),
            tool_says("a", "x"),
            tool_says("b", "y"),
            piece({"content": "Done."}, id="c2"),
            piece({}, "stop", id="c2"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_input_chunk <c1> {"toolCallId": "a", "toolName": "ls", "chunk": "{\\"d\\":1}", "offset": 0}',
            'tool_input_chunk <c1> {"toolCallId": "b", "toolName": "ls", "chunk": "{\\"d\\":2}", "offset": 0}',
            'tool_call <c1> {"toolCallId": "a", "toolName": "ls", "args": {"d": 1}}',
            'tool_call <c1> {"toolCallId": "b", "toolName": "ls", "args": {"d": 2}}',
            'tool_result {"toolCallId": "a", "result": "x"}',
            'tool_result {"toolCallId": "b", "result": "y"}',
            'assistant_chunk <c2> {"text": "Done."}',
            'assistant_done <c2> {"text": "Done.", "stopReason": "stop"}',
            "turn_end",
        ],
    ),
    "chat error body alone": (
        [
            asked("Go"),
            {"error": {"message": "Rate limit", "type": "rate_limit", "code": "rate_limit_exceeded"}},
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'error {"code": "rate_limit_exceeded", "message": "Rate limit", "details": {"message": '
            '"Rate limit", "type": "rate_limit", "code": "rate_limit_exceeded"}}',
            "turn_end",
        ],
    ),
    "chat refusal": (
        [
            asked("Go"),
            piece({"role": "assistant", "content": "", "refusal": None}),
            piece({"refusal": "I "}),
            piece({"refusal": "cannot."}),
            piece({}, "stop"),
            counts(5, 3),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_chunk <c1> {"text": "I ", "variant": "refusal"}',
            'assistant_chunk <c1> {"text": "cannot.", "variant": "refusal"}',
            'assistant_done <c1> {"text": "I cannot.", "variant": "refusal", "stopReason": "stop"}',
            'turn_end {"usage": [5, 3]}',
        ],
    ),
    "chat legacy function_call": (
        [
            asked("Go"),
            piece({"role": "assistant", "content": None, "function_call": {"name": "w", "arguments": ""}}),
            piece({"function_call": {"arguments": '{"c":1}'}}),
            piece({}, "function_call"),
            {"role": "function", "name": "w", "content": "sun"},
            piece({"content": "Sunny."}, id="c2"),
            piece({}, "stop", id="c2"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_input_chunk <c1> {"toolCallId": "2/0", "toolName": "w", "chunk": "{\\"c\\":1}", "offset": 0}',
            'tool_call <c1> {"toolCallId": "2/0", "toolName": "w", "args": {"c": 1}}',
            'tool_result {"toolCallId": "2/0", "result": "sun"}',
            'assistant_chunk <c2> {"text": "Sunny."}',
            'assistant_done <c2> {"text": "Sunny.", "stopReason": "stop"}',
            "turn_end",
        ],
    ),
    "chat new id at the same index is a new call": (
        [
            asked("Go"),
            piece({"tool_calls": [call_piece(0, "a", "ls", '{"d":1}')]}),
            piece({"tool_calls": [call_piece(0, "b", "cat", '{"f":2}')]}),
            piece({}, "tool_calls"),
            tool_says("a", "x"),
            tool_says("b", "y"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_input_chunk <c1> {"toolCallId": "a", "toolName": "ls", "chunk": "{\\"d\\":1}", "offset": 0}',
            'tool_call <c1> {"toolCallId": "a", "toolName": "ls", "args": {"d": 1}}',
            'tool_input_chunk <c1> {"toolCallId": "b", "toolName": "cat", "chunk": "{\\"f\\":2}", "offset": 0}',
            'tool_call <c1> {"toolCallId": "b", "toolName": "cat", "args": {"f": 2}}',
            'tool_result {"toolCallId": "a", "result": "x"}',
            'tool_result {"toolCallId": "b", "result": "y"}',
            "turn_end",
        ],
    ),
    "chat reasoning twice in one delta, name empty in continuation, truncated args by length": (
        [
            asked("Go"),
            piece({"reasoning": "Hm", "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]}),
            piece({"tool_calls": [call_piece(0, "a", "w", "")]}),
            piece({"tool_calls": [{"index": 0, "id": "", "function": {"name": "", "arguments": '{"x"'}}]}),
            piece({}, "length"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'thinking_chunk <c1> {"text": "Hm"}',
            'thinking_done <c1> {"text": "Hm"}',
            'tool_input_chunk <c1> {"toolCallId": "a", "toolName": "w", "chunk": "{\\"x\\"", "offset": 0}',
            'tool_call <c1> {"toolCallId": "a", "toolName": "w", "args": "{\\"x\\""}',
            'turn_end {"partial": true}',
        ],
    ),
    "chat loop, the same id in both answers": (
        [
            asked("Go"),
            piece({"content": "Look."}),
            piece({"tool_calls": [call_piece(0, "a", "ls", "{}")]}),
            piece({}, "tool_calls"),
            tool_says("a", "x"),
            piece({"content": "End."}),
            piece({}, "stop"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_chunk <c1> {"text": "Look."}',
            'tool_input_chunk <c1> {"toolCallId": "a", "toolName": "ls", "chunk": "{}", "offset": 0}',
            'assistant_done <c1> {"text": "Look.", "stopReason": "tool_calls"}',
            'tool_call <c1> {"toolCallId": "a", "toolName": "ls", "args": {}}',
            'tool_result {"toolCallId": "a", "result": "x"}',
            'assistant_chunk <c1> {"text": "End."}',
            'assistant_done <c1> {"text": "End.", "stopReason": "stop"}',
            "turn_end",
        ],
    ),
    "chat loop, no ids, call id repeated": (
        [
            asked("Go"),
            nameless({"tool_calls": [call_piece(0, "call_0", "ls", '{"d":1}')]}),
            nameless({}, "tool_calls"),
            tool_says("call_0", "x"),
            nameless({"tool_calls": [call_piece(0, "call_0", "ls", '{"d":2}')]}),
            nameless({}, "tool_calls"),
            tool_says("call_0", "y"),
            nameless({"content": "End."}),
            nameless({}, "stop"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_input_chunk {"toolCallId": "call_0", "toolName": "ls", "chunk": "{\\"d\\":1}", "offset": 0}',
            'tool_call {"toolCallId": "call_0", "toolName": "ls", "args": {"d": 1}}',
            'tool_result {"toolCallId": "call_0", "result": "x"}',
            'tool_input_chunk {"toolCallId": "call_0", "toolName": "ls", "chunk": "{\\"d\\":2}", "offset": 0}',
            'tool_call {"toolCallId": "call_0", "toolName": "ls", "args": {"d": 2}}',
            'tool_result {"toolCallId": "call_0", "result": "y"}',
            'assistant_chunk {"text": "End."}',
            'assistant_done {"text": "End.", "stopReason": "stop"}',
            "turn_end",
        ],
    ),
    "chat cut, then the next prompt": (
        [
            asked("Go"),
            piece({"content": "Half"}),
            asked("Again"),
            piece({"content": "Yes."}, id="c2"),
            piece({}, "stop", id="c2"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_chunk <c1> {"text": "Half"}',
            'assistant_done <c1> {"text": "Half", "partial": true}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Again"}',
            'assistant_chunk <c2> {"text": "Yes."}',
            'assistant_done <c2> {"text": "Yes.", "stopReason": "stop"}',
            "turn_end",
        ],
    ),
    "chat cut, the answer begun again": (
        [
            asked("Go"),
            piece({"content": "Half"}),
            piece({"role": "assistant", "content": "Whole"}, id="c2"),
            piece({}, "stop", id="c2"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_chunk <c1> {"text": "Half"}',
            'assistant_done <c1> {"text": "Half", "partial": true}',
            'assistant_chunk <c2> {"text": "Whole"}',
            'assistant_done <c2> {"text": "Whole", "stopReason": "stop"}',
            "turn_end",
        ],
    ),
    "chat two choices": (
        [
            asked("Go"),
            piece({"content": "A1"}),
            piece({"content": "B1"}, index=1),
            piece({"content": "A2"}),
            piece({"content": "B2"}, index=1),
            piece({}, "stop"),
            piece({}, "stop", index=1),
            counts(3, 4),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_chunk <c1> {"text": "A1"}',
            'assistant_chunk <c1> {"text": "B1", "choiceIndex": 1}',
            'assistant_chunk <c1> {"text": "A2"}',
            'assistant_chunk <c1> {"text": "B2", "choiceIndex": 1}',
            'assistant_done <c1> {"text": "A1A2", "stopReason": "stop"}',
            'assistant_done <c1> {"text": "B1B2", "choiceIndex": 1, "stopReason": "stop"}',
            'turn_end {"usage": [3, 4]}',
        ],
    ),
}

OPENAI_RESPONSES: dict[str, Case] = {
    "responses reasoning summary and text": (
        [
            asked_item("Hi"),
            begins(),
            response(
                "in_progress",
                response={"id": "r1", "object": "response", "status": "in_progress", "output": []},
            ),
            item_added(0, {"type": "reasoning", "id": "rs", "summary": []}),
            response(
                "reasoning_summary_part.added",
                output_index=0,
                summary_index=0,
                item_id="rs",
                part={"type": "summary_text", "text": ""},
            ),
            response(
                "reasoning_summary_text.delta", output_index=0, summary_index=0, item_id="rs", delta="Think"
            ),
            response(
                "reasoning_summary_text.done", output_index=0, summary_index=0, item_id="rs", text="Think"
            ),
            item_done(
                0, {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Think"}]}
            ),
            item_added(1, message_item("m", None, "in_progress")),
            response(
                "content_part.added",
                output_index=1,
                content_index=0,
                item_id="m",
                part={"type": "output_text", "text": ""},
            ),
            text_delta(1, "m", "He"),
            text_delta(1, "m", "llo"),
            text_done(1, "m", "Hello"),
            response(
                "content_part.done",
                output_index=1,
                content_index=0,
                item_id="m",
                part={"type": "output_text", "text": "Hello"},
            ),
            item_done(1, message_item("m", "Hello")),
            completes(
                output=[
                    {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Think"}]},
                    message_item("m", "Hello"),
                ]
            ),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'thinking_chunk <r1> {"text": "Think"}',
            'thinking_done <r1> {"text": "Think"}',
            'assistant_chunk <r1> {"text": "He"}',
            'assistant_chunk <r1> {"text": "llo"}',
            'assistant_done <r1> {"text": "Hello"}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "responses loop with interleaved calls": (
        [
            asked_item("Hi"),
            begins(),
            item_added(0, function_call("f0", "a", "ls", "", "in_progress")),
            item_added(1, function_call("f1", "b", "ls", "", "in_progress")),
            arguments_delta(1, "f1", '{"d":'),
            arguments_delta(0, "f0", '{"d":1}'),
            arguments_delta(1, "f1", "2}"),
            arguments_done(1, "f1", '{"d":2}'),
            arguments_done(0, "f0", '{"d":1}'),
            item_done(1, function_call("f1", "b", "ls", '{"d":2}')),
            item_done(0, function_call("f0", "a", "ls", '{"d":1}')),
            completes(
                output=[function_call("f0", "a", "ls", '{"d":1}'), function_call("f1", "b", "ls", '{"d":2}')]
            ),
            output_item("a", "x"),
            output_item("b", "y"),
            begins("r2"),
            item_added(0, message_item("m2", None)),
            text_delta(0, "m2", "Ok."),
            text_done(0, "m2", "Ok."),
            item_done(0, message_item("m2", "Ok.")),
            completes("r2", [message_item("m2", "Ok.")], 30, 3),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'tool_input_chunk <r1> {"toolCallId": "b", "toolName": "ls", "chunk": "{\\"d\\":", "offset": 0}',
            'tool_input_chunk <r1> {"toolCallId": "a", "toolName": "ls", "chunk": "{\\"d\\":1}", "offset": 0}',
            'tool_input_chunk <r1> {"toolCallId": "b", "toolName": "ls", "chunk": "2}", "offset": 5}',
            'tool_call <r1> {"toolCallId": "b", "toolName": "ls", "args": {"d": 2}}',
            'tool_call <r1> {"toolCallId": "a", "toolName": "ls", "args": {"d": 1}}',
            'tool_result {"toolCallId": "a", "result": "x"}',
            'tool_result {"toolCallId": "b", "result": "y"}',
            'assistant_chunk <r2> {"text": "Ok."}',
            'assistant_done <r2> {"text": "Ok."}',
            'turn_end {"usage": [40, 8]}',
        ],
    ),
    "responses text before and after a call": (
        [
            asked_item("Hi"),
            begins(),
            item_added(0, message_item("m0", None, phase="commentary")),
            text_delta(0, "m0", "Wait."),
            text_done(0, "m0", "Wait."),
            item_done(0, message_item("m0", "Wait.", phase="commentary")),
            item_added(1, function_call("f", "a", "ls", "", "in_progress")),
            arguments_delta(1, "f", "{}"),
            arguments_done(1, "f", "{}"),
            item_done(1, function_call("f", "a", "ls", "{}")),
            item_added(2, message_item("m1", None)),
            text_delta(2, "m1", "More."),
            text_done(2, "m1", "More."),
            item_done(2, message_item("m1", "More.")),
            completes(),
            output_item("a", "x"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'assistant_chunk <r1> {"text": "Wait."}',
            'assistant_done <r1> {"text": "Wait.", "phase": "commentary"}',
            'tool_input_chunk <r1> {"toolCallId": "a", "toolName": "ls", "chunk": "{}", "offset": 0}',
            'tool_call <r1> {"toolCallId": "a", "toolName": "ls", "args": {}}',
            'assistant_chunk <r1> {"text": "More."}',
            'assistant_done <r1> {"text": "More."}',
            'tool_result {"toolCallId": "a", "result": "x"}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "responses error and failed are one error": (
        [
            asked_item("Hi"),
            begins(),
            item_added(0, message_item("m", None)),
            text_delta(0, "m", "Hal"),
            {"type": "error", "code": "server_error", "message": "Boom", "param": None, "sequence_number": 5},
            response(
                "failed",
                response={
                    "id": "r1",
                    "object": "response",
                    "status": "failed",
                    "output": [],
                    "error": {"code": "server_error", "message": "Boom"},
                },
            ),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'assistant_chunk <r1> {"text": "Hal"}',
            'assistant_done <r1> {"text": "Hal", "partial": true}',
            'error {"code": "server_error", "message": "Boom", "details": {"type": "error", "code": '
            '"server_error", "message": "Boom", "param": null, "sequence_number": 5}}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
        ],
    ),
    "responses incomplete": (
        [
            asked_item("Hi"),
            begins(),
            item_added(0, message_item("m", None)),
            text_delta(0, "m", "Hal"),
            text_done(0, "m", "Hal"),
            item_done(0, message_item("m", "Hal", "incomplete")),
            completes(
                output=[message_item("m", "Hal", "incomplete")],
                status="incomplete",
                incomplete_details={"reason": "max_output_tokens"},
            ),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'assistant_chunk <r1> {"text": "Hal"}',
            'assistant_done <r1> {"text": "Hal", "partial": true}',
            'error {"code": "max_output_tokens", "message": "max_output_tokens", "details": {"reason": '
            '"max_output_tokens"}}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "responses without item events": (
        [
            asked_item("Hi"),
            begins(),
            completes(output=[message_item("m", "All."), function_call("f", "a", "ls", "{}")]),
            output_item("a", "x"),
            begins("r2"),
            response("function_call_arguments.done", output_index=0, item_id="f2", arguments='{"q":1}'),
            item_done(0, function_call("f2", "b", "ls", '{"q":1}')),
            completes("r2", [function_call("f2", "b", "ls", '{"q":1}')]),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'assistant_done <r1> {"text": "All."}',
            'tool_call <r1> {"toolCallId": "a", "toolName": "ls", "args": {}}',
            'tool_result {"toolCallId": "a", "result": "x"}',
            'tool_call <r2> {"toolCallId": "b", "toolName": "ls", "args": {"q": 1}}',
            'turn_end {"usage": [20, 10], "partial": true}',
        ],
    ),
    "responses ids rotate": (
        [
            asked_item("Hi"),
            begins(),
            item_added(0, message_item("mA", None)),
            text_delta(0, "mB", "He"),
            text_delta(0, "mC", "y"),
            text_done(0, "mD", "Hey"),
            item_done(0, message_item("mE", "Hey")),
            item_added(1, function_call("fA", "a", "ls", "", "in_progress")),
            arguments_delta(1, "fB", "{}"),
            item_done(1, function_call("fC", "a", "ls", "{}")),
            completes("r9", [message_item("mZ", "Hey"), function_call("fZ", "a", "ls", "{}")]),
            output_item("a", "x"),
            begins("r2"),
            completes("r2", [message_item("m", "End.")]),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'assistant_chunk <r1> {"text": "He"}',
            'assistant_chunk <r1> {"text": "y"}',
            'assistant_done <r1> {"text": "Hey"}',
            'tool_input_chunk <r1> {"toolCallId": "a", "toolName": "ls", "chunk": "{}", "offset": 0}',
            'tool_call <r1> {"toolCallId": "a", "toolName": "ls", "args": {}}',
            'tool_result {"toolCallId": "a", "result": "x"}',
            'assistant_done <r2> {"text": "End."}',
            'turn_end {"usage": [20, 10]}',
        ],
    ),
    "responses code interpreter and refusal": (
        [
            asked_item("Hi"),
            begins(),
            item_added(
                0,
                {
                    "type": "code_interpreter_call",
                    "id": "ci",
                    "status": "in_progress",
                    "code": "",
                    "container_id": "k",
                },
            ),
            response("code_interpreter_call_code.delta", output_index=0, item_id="ci", delta="1+"),
            response("code_interpreter_call_code.delta", output_index=0, item_id="ci", delta="1"),
            response("code_interpreter_call_code.done", output_index=0, item_id="ci", code="1+1"),
            response("code_interpreter_call.interpreting", output_index=0, item_id="ci"),
            item_done(
                0,
                {
                    "type": "code_interpreter_call",
                    "id": "ci",
                    "status": "completed",
                    "code": "1+1",
                    "container_id": "k",
                    "outputs": [{"type": "logs", "logs": "2"}],
                },
            ),
            item_added(1, message_item("m", None)),
            response("refusal.delta", output_index=1, content_index=0, item_id="m", delta="No."),
            response("refusal.done", output_index=1, content_index=0, item_id="m", refusal="No."),
            item_done(
                1,
                {
                    "type": "message",
                    "id": "m",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "refusal", "refusal": "No."}],
                },
            ),
            completes(),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'tool_input_chunk <r1> {"toolCallId": "ci", "toolName": "code_interpreter", "chunk": "1+", "offset": 0}',
            'tool_input_chunk <r1> {"toolCallId": "ci", "toolName": "code_interpreter", "chunk": "1", "offset": 2}',
            'tool_call <r1> {"toolCallId": "ci", "toolName": "code_interpreter", "args": {"code": '
            '"1+1"}, "executor": "server"}',
            'tool_result {"toolCallId": "ci", "result": [{"type": "text", "text": "2", "source_type": "logs"}]}',
            'assistant_chunk <r1> {"text": "No.", "variant": "refusal"}',
            'assistant_done <r1> {"text": "No.", "variant": "refusal"}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "responses next turn without an end": (
        [
            asked_item("One"),
            begins(),
            text_delta(0, "m", "Ha"),
            asked_item("Two"),
            begins("r2"),
            item_added(0, message_item("m2", None)),
            text_delta(0, "m2", "Yes"),
            text_done(0, "m2", "Yes"),
            completes("r2", [message_item("m2", "Yes")]),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'assistant_chunk <r1> {"text": "Ha"}',
            'assistant_done <r1> {"text": "Ha", "partial": true}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_chunk <r2> {"text": "Yes"}',
            'assistant_done <r2> {"text": "Yes"}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "responses retry after failure": (
        [
            asked_item("Hi"),
            begins(),
            text_delta(0, "m", "Ha"),
            response(
                "failed",
                response={
                    "id": "r1",
                    "object": "response",
                    "status": "failed",
                    "output": [],
                    "error": {"code": "server_error", "message": "Boom"},
                },
            ),
            begins("r2"),
            item_added(0, message_item("m2", None)),
            text_delta(0, "m2", "Yes"),
            item_done(0, message_item("m2", "Yes")),
            completes("r2", [message_item("m2", "Yes")]),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'assistant_chunk <r1> {"text": "Ha"}',
            'assistant_done <r1> {"text": "Ha", "partial": true}',
            'error {"code": "server_error", "message": "Boom", "details": {"code": "server_error", '
            '"message": "Boom"}}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
            'turn_start {"trigger": "system"}',
            'assistant_chunk <r2> {"text": "Yes"}',
            'assistant_done <r2> {"text": "Yes"}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "responses approval": (
        [
            asked_item("Hi"),
            begins(),
            item_added(0, APPROVAL),
            item_done(0, APPROVAL),
            completes(output=[APPROVAL]),
            {"type": "mcp_approval_response", "approval_request_id": "ap", "approve": True},
            begins("r2"),
            item_done(
                0,
                {
                    "type": "mcp_call",
                    "id": "mc",
                    "name": "t",
                    "server_label": "s",
                    "arguments": '{"a":1}',
                    "output": "out",
                    "error": None,
                    "status": "completed",
                    "approval_request_id": "ap",
                },
            ),
            item_done(1, message_item("m", "E")),
            completes("r2", [message_item("m", "E")]),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'tool_call <r2> {"toolCallId": "mc", "toolName": "t", "args": {"a": 1}, "executor": "mcp"}',
            'tool_result {"toolCallId": "mc", "result": "out"}',
            'assistant_done <r2> {"text": "E"}',
            'turn_end {"usage": [20, 10]}',
        ],
    ),
}

CLAUDE: dict[str, Case] = {
    "claude stream whole": (
        [
            init(),
            user("List"),
            assistant("m1", thinking("Hm")),
            assistant("m1", text("I look.")),
            assistant("m1", tool_use("t1", "Bash", {"command": "ls"}), usage=usage(3, 4)),
            user(tool_result("t1", "a.txt")),
            assistant("m2", text("One file."), usage=usage(5, 6)),
            result("One file.", 0.5, 8, 10),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "List"}',
            'thinking_done <m1> {"text": "Hm", "signature": "sig"}',
            'assistant_done <m1> {"text": "I look."}',
            'tool_call <m1> {"toolCallId": "t1", "toolName": "Bash", "args": {"command": "ls"}}',
            'tool_result {"toolCallId": "t1", "result": "a.txt"}',
            'assistant_done <m2> {"text": "One file."}',
            'turn_end {"usage": [8, 10], "costUsd": 0.5}',
        ],
    ),
    "claude stream partial": (
        [
            init(),
            user("List"),
            message_starts("m1"),
            block_starts(0, {"type": "thinking", "thinking": "", "signature": ""}),
            block_delta(0, type="thinking_delta", thinking="H"),
            block_delta(0, type="thinking_delta", thinking="m"),
            block_delta(0, type="signature_delta", signature="sig"),
            assistant("m1", thinking("Hm")),
            block_stops(0),
            block_starts(1, text("")),
            text_piece(1, "I "),
            text_piece(1, "look."),
            assistant("m1", text("I look.")),
            block_stops(1),
            block_starts(2, tool_use("t1", "Bash", {})),
            input_piece(2, ""),
            input_piece(2, '{"comm'),
            input_piece(2, 'and":"ls"}'),
            assistant("m1", tool_use("t1", "Bash", {"command": "ls"})),
            block_stops(2),
            message_delta("tool_use", 9),
            message_stops(),
            user(tool_result("t1", "a.txt")),
            message_starts("m2"),
            block_starts(0, text("")),
            text_piece(0, "One."),
            assistant("m2", text("One.")),
            block_stops(0),
            message_delta("end_turn", 4),
            message_stops(),
            result("One.", 0.5, 6, 13),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "List"}',
            'thinking_chunk <m1> {"text": "H"}',
            'thinking_chunk <m1> {"text": "m"}',
            'thinking_done <m1> {"text": "Hm", "signature": "sig"}',
            'assistant_chunk <m1> {"text": "I "}',
            'assistant_chunk <m1> {"text": "look."}',
            'assistant_done <m1> {"text": "I look."}',
            'tool_input_chunk <m1> {"toolCallId": "t1", "toolName": "Bash", "chunk": "{\\"comm", "offset": 0}',
            'tool_input_chunk <m1> {"toolCallId": "t1", "toolName": "Bash", "chunk": "and\\":\\"ls\\"}", '
            '"offset": 6}',
            'tool_call <m1> {"toolCallId": "t1", "toolName": "Bash", "args": {"command": "ls"}}',
            'tool_result {"toolCallId": "t1", "result": "a.txt"}',
            'assistant_chunk <m2> {"text": "One."}',
            'assistant_done <m2> {"text": "One."}',
            'turn_end {"usage": [6, 13], "costUsd": 0.5}',
        ],
    ),
    "claude stream two turns, cost cumulative": (
        [
            init(),
            user("One"),
            assistant("m1", text("First."), usage=usage(3, 2)),
            result("First.", 0.5, 3, 2),
            init(),
            user("Two"),
            assistant("m2", text("Second."), usage=usage(4, 5)),
            result("Second.", 0.75, 4, 5),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'assistant_done <m1> {"text": "First."}',
            'turn_end {"usage": [3, 2], "costUsd": 0.5}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_done <m2> {"text": "Second."}',
            'turn_end {"usage": [4, 5], "costUsd": 0.25}',
        ],
    ),
    "claude stream two subagents interleaved": (
        [
            init(),
            user("Go"),
            assistant("m1", tool_use("t1", "Task", {"prompt": "A"})),
            assistant("m1", tool_use("t2", "Task", {"prompt": "B"})),
            user([text("A")], "t1"),
            user([text("B")], "t2"),
            assistant("s1", tool_use("b1", "Bash", {"command": "a"}), "t1"),
            assistant("s2", text("Thinking B"), "t2"),
            assistant("s2", tool_use("b2", "Bash", {"command": "b"}), "t2"),
            user(tool_result("b2", "rb"), "t2"),
            user(tool_result("b1", "ra"), "t1"),
            assistant("s3", text("A done"), "t1"),
            user(tool_result("t1", [text("A done")])),
            assistant("s4", text("B done"), "t2"),
            user(tool_result("t2", [text("B done")])),
            assistant("m2", text("Both.")),
            result("Both."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_call <m1> {"toolCallId": "t1", "toolName": "Task", "args": {"prompt": "A"}}',
            'tool_call <m1> {"toolCallId": "t2", "toolName": "Task", "args": {"prompt": "B"}}',
            'user_message {"text": "A", "parentToolCallId": "t1"}',
            'user_message {"text": "B", "parentToolCallId": "t2"}',
            'tool_call <s1> {"toolCallId": "b1", "toolName": "Bash", "args": {"command": "a"}, '
            '"parentToolCallId": "t1"}',
            'assistant_done <s2> {"text": "Thinking B", "parentToolCallId": "t2"}',
            'tool_call <s2> {"toolCallId": "b2", "toolName": "Bash", "args": {"command": "b"}, '
            '"parentToolCallId": "t2"}',
            'tool_result {"toolCallId": "b2", "result": "rb", "parentToolCallId": "t2"}',
            'tool_result {"toolCallId": "b1", "result": "ra", "parentToolCallId": "t1"}',
            'assistant_done <s3> {"text": "A done", "parentToolCallId": "t1"}',
            'tool_result {"toolCallId": "t1", "result": [{"type": "text", "text": "A done"}]}',
            'assistant_done <s4> {"text": "B done", "parentToolCallId": "t2"}',
            'tool_result {"toolCallId": "t2", "result": [{"type": "text", "text": "B done"}]}',
            'assistant_done <m2> {"text": "Both."}',
            'turn_end {"usage": [3, 1], "costUsd": 0.5}',
        ],
    ),
    "claude stream partial lanes interleaved": (
        [
            init(),
            user("Go"),
            assistant("m1", tool_use("t1", "Task", {"prompt": "A"})),
            assistant("m1", tool_use("t2", "Task", {"prompt": "B"})),
            message_starts("s1", "t1"),
            block_starts(0, text(""), "t1"),
            message_starts("s2", "t2"),
            block_starts(0, text(""), "t2"),
            text_piece(0, "a1", "t1"),
            text_piece(0, "b1", "t2"),
            text_piece(0, "a2", "t1"),
            text_piece(0, "b2", "t2"),
            assistant("s2", text("b1b2"), "t2"),
            block_stops(0, "t2"),
            message_stops("t2"),
            assistant("s1", text("a1a2"), "t1"),
            block_stops(0, "t1"),
            message_stops("t1"),
            user(tool_result("t1", "a")),
            user(tool_result("t2", "b")),
            assistant("m2", text("End.")),
            result("End."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_call <m1> {"toolCallId": "t1", "toolName": "Task", "args": {"prompt": "A"}}',
            'tool_call <m1> {"toolCallId": "t2", "toolName": "Task", "args": {"prompt": "B"}}',
            'assistant_chunk <s1> {"text": "a1", "parentToolCallId": "t1"}',
            'assistant_chunk <s2> {"text": "b1", "parentToolCallId": "t2"}',
            'assistant_chunk <s1> {"text": "a2", "parentToolCallId": "t1"}',
            'assistant_chunk <s2> {"text": "b2", "parentToolCallId": "t2"}',
            'assistant_done <s2> {"text": "b1b2", "parentToolCallId": "t2"}',
            'assistant_done <s1> {"text": "a1a2", "parentToolCallId": "t1"}',
            'tool_result {"toolCallId": "t1", "result": "a"}',
            'tool_result {"toolCallId": "t2", "result": "b"}',
            'assistant_done <m2> {"text": "End."}',
            'turn_end {"usage": [3, 1], "costUsd": 0.5}',
        ],
    ),
    "claude stream cut in text": (
        [init(), user("Go"), message_starts("m1"), block_starts(0, text("")), text_piece(0, "Half a")],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_chunk <m1> {"text": "Half a"}',
            'assistant_done <m1> {"text": "Half a", "partial": true}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
        ],
    ),
    "claude stream cut in a call, next process goes on": (
        [
            init(),
            user("Go"),
            message_starts("m1"),
            block_starts(0, tool_use("t1", "Bash", {})),
            input_piece(0, '{"com'),
            init(),
            user("Again"),
            assistant("m2", text("Yes.")),
            result("Yes."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_input_chunk <m1> {"toolCallId": "t1", "toolName": "Bash", "chunk": "{\\"com", "offset": 0}',
            'tool_call <m1> {"toolCallId": "t1", "toolName": "Bash", "args": "{\\"com", "partial": true}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Again"}',
            'assistant_done <m2> {"text": "Yes."}',
            'turn_end {"usage": [3, 1], "costUsd": 0.5}',
        ],
    ),
    "claude stream fallback retracts": (
        [
            init(),
            user("Go"),
            {**assistant("m1", text("Bad")), "uuid": "bad-1"},
            {
                "type": "system",
                "subtype": "model_refusal_fallback",
                "content": "Switched",
                "original_model": "x",
                "fallback_model": "y",
                "retracted_message_uuids": ["bad-1"],
                "session_id": SESSION_OF_CLAUDE,
                "uuid": "sf",
            },
            assistant("m2", text("Good")),
            result("Good"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_done <m1> {"text": "Bad"}',
            'system_message {"text": "Switched", "variant": "notice"}',
            'retraction {"messageIds": ["bad-1"]}',
            'assistant_done <m2> {"text": "Good"}',
            'turn_end {"usage": [3, 1], "costUsd": 0.5}',
        ],
    ),
    "claude stream result echo and api error": (
        [
            init(),
            user("Go"),
            assistant("m1", text("API Error: 500"), error="server_error"),
            result("API Error: 500", 0.0, is_error=True),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_done <m1> {"text": "API Error: 500"}',
            'error {"code": "server_error", "message": "API Error: 500", "details": {"error": "server_error"}}',
            'turn_end {"usage": [3, 1], "costUsd": 0.0}',
        ],
    ),
    "claude stream server tool, replay line, steering": (
        [
            init(),
            user("Go", isReplay=True),
            assistant(
                "m1",
                [
                    text("Wait. "),
                    {"type": "server_tool_use", "id": "sv", "name": "web_search", "input": {"query": "q"}},
                    {"type": "web_search_tool_result", "tool_use_id": "sv", "content": []},
                    text("Found."),
                ],
            ),
            result("Found."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_done <m1> {"text": "Wait. "}',
            'tool_call <m1> {"toolCallId": "sv", "toolName": "web_search", "args": {"query": "q"}, '
            '"executor": "server"}',
            'tool_result {"toolCallId": "sv", "result": null, "structured": []}',
            'assistant_done <m1> {"text": "Found."}',
            'turn_end {"usage": [3, 1], "costUsd": 0.5}',
        ],
    ),
    "claude lines two turns, one answer over not adjacent lines": (
        [
            {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}, "isSnapshotUpdate": False},
            user_line("One"),
            assistant_line("m1", thinking("Hm"), usage=usage(3, 1)),
            assistant_line("m1", tool_use("t1", "Bash", {"command": "a"}), usage=usage(3, 2)),
            user_line(tool_result("t1", "ra")),
            assistant_line("m1", tool_use("t2", "Bash", {"command": "b"}), usage=usage(3, 9)),
            user_line(tool_result("t2", "rb", is_error=True)),
            assistant_line("m2", text("Done."), usage=usage(5, 6)),
            system_line("turn_duration", durationMs=5),
            user_line("Two"),
            assistant_line("m3", text("Yes."), usage=usage(1, 1)),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'thinking_done <m1> {"text": "Hm", "signature": "sig"}',
            'tool_call <m1> {"toolCallId": "t1", "toolName": "Bash", "args": {"command": "a"}}',
            'tool_result {"toolCallId": "t1", "result": "ra"}',
            'tool_call <m1> {"toolCallId": "t2", "toolName": "Bash", "args": {"command": "b"}}',
            'tool_result {"toolCallId": "t2", "result": "rb", "error": {"code": "error", "message": "rb"}}',
            'assistant_done <m2> {"text": "Done."}',
            'turn_end {"usage": [8, 15]}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_done <m3> {"text": "Yes."}',
            'turn_end {"usage": [1, 1]}',
        ],
    ),
    "claude lines interrupted": (
        [
            user_line("One"),
            assistant_line("m1", tool_use("t1", "Bash", {"command": "a"})),
            user_line(tool_result("t1", "Rejected", is_error=True), toolUseResult="User rejected tool use"),
            user_line([text("[Request interrupted by user for tool use]")]),
            user_line("Two"),
            assistant_line("m2", text("Fine.")),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'tool_call <m1> {"toolCallId": "t1", "toolName": "Bash", "args": {"command": "a"}}',
            'tool_result {"toolCallId": "t1", "result": "Rejected", "error": {"code": "error", '
            '"message": "Rejected"}}',
            'interrupt {"reason": "user_cancel"}',
            'turn_end {"usage": [3, 1], "partial": true}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_done <m2> {"text": "Fine."}',
            'turn_end {"usage": [3, 1]}',
        ],
    ),
    "claude lines queued prompt told once": (
        [
            user_line("One"),
            assistant_line("m1", tool_use("t1", "Bash", {"command": "a"})),
            {
                "type": "queue-operation",
                "operation": "enqueue",
                "timestamp": "2026-01-01T00:00:01.000Z",
                "sessionId": SESSION_OF_CLAUDE,
                "content": "also b",
            },
            user_line(tool_result("t1", "ra")),
            {
                "type": "queue-operation",
                "operation": "remove",
                "timestamp": "2026-01-01T00:00:01.000Z",
                "sessionId": SESSION_OF_CLAUDE,
            },
            {
                **envelope(),
                "type": "attachment",
                "attachment": {"type": "queued_command", "prompt": "also b", "commandMode": "prompt"},
            },
            assistant_line("m2", text("Both.")),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'tool_call <m1> {"toolCallId": "t1", "toolName": "Bash", "args": {"command": "a"}}',
            'tool_result {"toolCallId": "t1", "result": "ra"}',
            'user_message {"text": "also b"}',
            'assistant_done <m2> {"text": "Both."}',
            'turn_end {"usage": [6, 2]}',
        ],
    ),
    "claude lines queued prompt sent later told once": (
        [
            user_line("One"),
            assistant_line("m1", text("Work")),
            {
                "type": "queue-operation",
                "operation": "enqueue",
                "timestamp": "2026-01-01T00:00:01.000Z",
                "sessionId": SESSION_OF_CLAUDE,
                "content": "next",
            },
            assistant_line("m2", text("Done.")),
            {
                "type": "queue-operation",
                "operation": "dequeue",
                "timestamp": "2026-01-01T00:00:02.000Z",
                "sessionId": SESSION_OF_CLAUDE,
            },
            user_line("next"),
            assistant_line("m3", text("Next done.")),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'assistant_done <m1> {"text": "Work"}',
            'assistant_done <m2> {"text": "Done."}',
            'turn_end {"usage": [6, 2]}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "next"}',
            'assistant_done <m3> {"text": "Next done."}',
            'turn_end {"usage": [3, 1]}',
        ],
    ),
    "claude lines slash command that the model answers": (
        [
            user_line(
                "<command-message>review is running…</command-message>\n<command-name>/review</command-name>"
            ),
            user_line([text("You are a reviewer")], isMeta=True),
            assistant_line("m2", text("Fine.")),
            user_line("Two"),
            assistant_line("m3", text("Yes.")),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "<command-message>review is '
            'running…</command-message>\\n<command-name>/review</command-name>"}',
            'user_message {"text": "You are a reviewer", "synthetic": true}',
            'assistant_done <m2> {"text": "Fine."}',
            'turn_end {"usage": [3, 1]}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_done <m3> {"text": "Yes."}',
            'turn_end {"usage": [3, 1]}',
        ],
    ),
    "claude api stream, agent loop": (
        [
            {"role": "user", "content": "Go"},
            *[
                x["event"]
                for x in [
                    message_starts("m1"),
                    block_starts(0, text("")),
                    text_piece(0, "Look."),
                    block_stops(0),
                    block_starts(1, tool_use("t1", "ls", {})),
                    input_piece(1, "{}"),
                    block_stops(1),
                    message_delta("tool_use", 9),
                    message_stops(),
                ]
            ],
            {"role": "user", "content": tool_result("t1", "x")},
            *[
                x["event"]
                for x in [
                    message_starts("m2"),
                    block_starts(0, text("")),
                    text_piece(0, "End."),
                    block_stops(0),
                    message_delta("end_turn", 4),
                    message_stops(),
                ]
            ],
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_chunk <m1> {"text": "Look."}',
            'assistant_done <m1> {"text": "Look."}',
            'tool_input_chunk <m1> {"toolCallId": "t1", "toolName": "ls", "chunk": "{}", "offset": 0}',
            'tool_call <m1> {"toolCallId": "t1", "toolName": "ls", "args": {}}',
            'tool_result {"toolCallId": "t1", "result": "x"}',
            'assistant_chunk <m2> {"text": "End."}',
            'assistant_done <m2> {"text": "End."}',
            'turn_end {"usage": [6, 13]}',
        ],
    ),
    "claude api stream, two parallel subagent lanes with the same message ids": (
        [
            init(),
            user("Go"),
            assistant("m1", [tool_use("t1", "Task", {}), tool_use("t2", "Task", {})]),
            user([text("A")], "t1"),
            user([text("B")], "t2"),
            assistant("s1", text("same text of both of them"), "t1"),
            assistant("s2", text("same text of both of them"), "t2"),
            user(tool_result("t1", "a")),
            user(tool_result("t2", "b")),
            assistant("m2", text("same text of both of them")),
            result("same text of both of them"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_call <m1> {"toolCallId": "t1", "toolName": "Task", "args": {}}',
            'tool_call <m1> {"toolCallId": "t2", "toolName": "Task", "args": {}}',
            'user_message {"text": "A", "parentToolCallId": "t1"}',
            'user_message {"text": "B", "parentToolCallId": "t2"}',
            'assistant_done <s1> {"text": "same text of both of them", "parentToolCallId": "t1"}',
            'assistant_done <s2> {"text": "same text of both of them", "parentToolCallId": "t2"}',
            'tool_result {"toolCallId": "t1", "result": "a"}',
            'tool_result {"toolCallId": "t2", "result": "b"}',
            'assistant_done <m2> {"text": "same text of both of them"}',
            'turn_end {"usage": [3, 1], "costUsd": 0.5}',
        ],
    ),
    "claude stream only subagent text then result": (
        [
            init(),
            user("Go"),
            assistant("m1", tool_use("t1", "Task", {})),
            assistant("s1", text("sub"), "t1"),
            user(tool_result("t1", "sub")),
            result("Final.", 0.5),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_call <m1> {"toolCallId": "t1", "toolName": "Task", "args": {}}',
            'assistant_done <s1> {"text": "sub", "parentToolCallId": "t1"}',
            'tool_result {"toolCallId": "t1", "result": "sub"}',
            'assistant_done {"text": "Final.", "variant": "result"}',
            'turn_end {"usage": [3, 1], "costUsd": 0.5}',
        ],
    ),
    "claude lines prompt queued twice, equal": (
        [
            user_line("continue"),
            assistant_line("m1", text("A")),
            {
                "type": "queue-operation",
                "operation": "enqueue",
                "sessionId": SESSION_OF_CLAUDE,
                "content": "continue",
                "timestamp": "2026-01-01T00:00:01.000Z",
            },
            assistant_line("m2", text("B")),
            {
                "type": "queue-operation",
                "operation": "dequeue",
                "sessionId": SESSION_OF_CLAUDE,
                "timestamp": "2026-01-01T00:00:01.000Z",
            },
            user_line("continue"),
            assistant_line("m3", text("C")),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "continue"}',
            'assistant_done <m1> {"text": "A"}',
            'assistant_done <m2> {"text": "B"}',
            'turn_end {"usage": [6, 2]}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "continue"}',
            'assistant_done <m3> {"text": "C"}',
            'turn_end {"usage": [3, 1]}',
        ],
    ),
}

CODEX: dict[str, Case] = {
    "exec plain": (
        [
            thread_started(),
            TURN_STARTED,
            item("completed", "item_0", "reasoning", text="Hm"),
            command("started", "item_1"),
            command("updated", "item_1", "a\n"),
            command("updated", "item_1", "a\nb\n"),
            command("completed", "item_1", "a\nb\n", 0, "completed"),
            item("completed", "item_2", "agent_message", text="Two."),
            turn_completed(),
        ],
        [
            'turn_start {"trigger": "user"}',
            'thinking_done <item_0> {"text": "Hm"}',
            'tool_call {"toolCallId": "2/0/item_1", "toolName": "shell", "args": {"command": "ls"}}',
            'tool_output_chunk {"toolCallId": "2/0/item_1", "chunk": "a\\n", "offset": 0}',
            'tool_output_chunk {"toolCallId": "2/0/item_1", "chunk": "b\\n", "offset": 2}',
            'tool_result {"toolCallId": "2/0/item_1", "result": "a\\nb\\n", "exitCode": 0}',
            'assistant_done <item_2> {"text": "Two."}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "exec completed only, failures": (
        [
            thread_started(),
            TURN_STARTED,
            command("completed", "item_0", "no\n", 1, "failed"),
            command("started", "item_1", c="rm"),
            command("completed", "item_1", "", None, "declined", c="rm"),
            item("completed", "item_2", "agent_message", text="No."),
            turn_completed(),
        ],
        [
            'turn_start {"trigger": "user"}',
            'tool_call {"toolCallId": "2/0/item_0", "toolName": "shell", "args": {"command": "ls"}}',
            'tool_result {"toolCallId": "2/0/item_0", "result": "no\\n", "error": {"code": "error", '
            '"message": "no\\n"}, "exitCode": 1}',
            'tool_call {"toolCallId": "2/0/item_1", "toolName": "shell", "args": {"command": "rm"}}',
            'tool_result {"toolCallId": "2/0/item_1", "result": "", "error": {"code": "error", "message": ""}}',
            'assistant_done <item_2> {"text": "No."}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "exec resumed, item ids start again": (
        [
            thread_started(),
            TURN_STARTED,
            command("completed", "item_0", "1", 0, "completed"),
            item("completed", "item_1", "agent_message", text="One."),
            turn_completed(),
            thread_started(),
            TURN_STARTED,
            command("started", "item_0"),
            command("completed", "item_0", "2", 0, "completed"),
            item("completed", "item_1", "agent_message", text="Two."),
            turn_completed(20, 6),
        ],
        [
            'turn_start {"trigger": "user"}',
            'tool_call {"toolCallId": "2/0/item_0", "toolName": "shell", "args": {"command": "ls"}}',
            'tool_result {"toolCallId": "2/0/item_0", "result": "1", "exitCode": 0}',
            'assistant_done <item_1> {"text": "One."}',
            'turn_end {"usage": [10, 5]}',
            'turn_start {"trigger": "user"}',
            'tool_call {"toolCallId": "7/0/item_0", "toolName": "shell", "args": {"command": "ls"}}',
            'tool_result {"toolCallId": "7/0/item_0", "result": "2", "exitCode": 0}',
            'assistant_done <item_1> {"text": "Two."}',
            'turn_end {"usage": [20, 6]}',
        ],
    ),
    "exec error item before the turn, mcp null arguments": (
        [
            thread_started(),
            item("completed", "item_0", "error", message="Model metadata not found"),
            TURN_STARTED,
            item(
                "started",
                "item_1",
                "mcp_tool_call",
                server="s",
                tool="t",
                arguments=None,
                status="in_progress",
            ),
            item(
                "completed",
                "item_1",
                "mcp_tool_call",
                server="s",
                tool="t",
                arguments=None,
                result=None,
                error={"message": "no server"},
                status="failed",
            ),
            item("completed", "item_2", "agent_message", text="End."),
            turn_completed(),
        ],
        [
            'error {"code": "error", "message": "Model metadata not found", "details": {"id": '
            '"item_0", "type": "error", "message": "Model metadata not found"}}',
            'turn_start {"trigger": "user"}',
            'tool_call {"toolCallId": "3/0/item_1", "toolName": "t", "args": null, "executor": "mcp"}',
            'tool_result {"toolCallId": "3/0/item_1", "result": "no server", "error": {"code": '
            '"error", "message": "no server"}}',
            'assistant_done <item_2> {"text": "End."}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "exec todo list, parallel commands": (
        [
            thread_started(),
            TURN_STARTED,
            item("started", "item_0", "todo_list", items=[{"text": "a", "completed": False}]),
            command("started", "item_1", c="a"),
            command("started", "item_2", c="b"),
            command("completed", "item_2", "B", 0, "completed", c="b"),
            item("updated", "item_0", "todo_list", items=[{"text": "a", "completed": True}]),
            command("completed", "item_1", "A", 0, "completed", c="a"),
            item("completed", "item_3", "agent_message", text="Ok."),
            item("completed", "item_0", "todo_list", items=[{"text": "a", "completed": True}]),
            turn_completed(),
        ],
        [
            'turn_start {"trigger": "user"}',
            'tool_call {"toolCallId": "2/0/item_0", "toolName": "todo_list", "args": {"items": '
            '[{"text": "a", "completed": false}]}}',
            'tool_call {"toolCallId": "2/0/item_1", "toolName": "shell", "args": {"command": "a"}}',
            'tool_call {"toolCallId": "2/0/item_2", "toolName": "shell", "args": {"command": "b"}}',
            'tool_result {"toolCallId": "2/0/item_2", "result": "B", "exitCode": 0}',
            'tool_output_chunk {"toolCallId": "2/0/item_0", "chunk": "{\\"items\\": [{\\"text\\": \\"a\\", '
            '\\"completed\\": true}]}\\n", "offset": 0}',
            'tool_result {"toolCallId": "2/0/item_1", "result": "A", "exitCode": 0}',
            'assistant_done <item_3> {"text": "Ok."}',
            'tool_result {"toolCallId": "2/0/item_0", "result": null, "structured": {"items": '
            '[{"text": "a", "completed": true}]}}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "exec collab": (
        [
            thread_started(),
            TURN_STARTED,
            item(
                "started",
                "item_0",
                "collab_tool_call",
                tool="spawn_agent",
                sender_thread_id=THREAD,
                receiver_thread_ids=[],
                prompt="Do",
                agents_states={},
                status="in_progress",
            ),
            item(
                "completed",
                "item_0",
                "collab_tool_call",
                tool="spawn_agent",
                sender_thread_id=THREAD,
                receiver_thread_ids=["th2"],
                prompt="Do",
                agents_states={"th2": {"status": "running", "message": None}},
                status="completed",
            ),
            item(
                "started",
                "item_1",
                "collab_tool_call",
                tool="wait",
                sender_thread_id=THREAD,
                receiver_thread_ids=["th2"],
                prompt=None,
                agents_states={},
                status="in_progress",
            ),
            item(
                "completed",
                "item_1",
                "collab_tool_call",
                tool="wait",
                sender_thread_id=THREAD,
                receiver_thread_ids=["th2"],
                prompt=None,
                agents_states={"th2": {"status": "completed", "message": "Did"}},
                status="completed",
            ),
            item("completed", "item_2", "agent_message", text="Ok."),
            turn_completed(),
        ],
        [
            'turn_start {"trigger": "user"}',
            'agent_message {"messageId": "2/0/item_0", "targetSessionId": "th2", "message": "Do", "wait": false}',
            'agent_message {"messageId": "2/0/item_1", "targetSessionId": "th2", "message": "", "wait": true}',
            'agent_callback {"messageId": "2/0/item_1", "fromSessionId": "th2", "result": "Did"}',
            'assistant_done <item_2> {"text": "Ok."}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "exec file change, search, updated after completed, unknown": (
        [
            thread_started(),
            TURN_STARTED,
            item(
                "completed",
                "item_0",
                "file_change",
                changes=[{"path": "a", "kind": "add"}],
                status="completed",
            ),
            item("started", "item_1", "web_search", query="q"),
            item("completed", "item_1", "web_search", query="q"),
            command("completed", "item_2", "x", 0, "completed"),
            command("updated", "item_2", "x", 0, "completed"),
            item("completed", "item_3", "future_item", foo=1),
            item("completed", "item_4", "agent_message", text="E"),
            turn_completed(),
        ],
        [
            'turn_start {"trigger": "user"}',
            'tool_call {"toolCallId": "2/0/item_0", "toolName": "apply_patch", "args": {"changes": '
            '[{"path": "a", "kind": "add"}]}}',
            'tool_result {"toolCallId": "2/0/item_0", "result": null, "structured": {"status": "completed"}}',
            'tool_call {"toolCallId": "2/0/item_1", "toolName": "web_search", "args": {"query": "q"}, '
            '"executor": "server"}',
            'tool_result {"toolCallId": "2/0/item_1", "result": null}',
            'tool_call {"toolCallId": "2/0/item_2", "toolName": "shell", "args": {"command": "ls"}}',
            'tool_result {"toolCallId": "2/0/item_2", "result": "x", "exitCode": 0}',
            'raw {"source": "codex", "raw": {"type": "item.completed", "item": {"id": "item_3", '
            '"type": "future_item", "foo": 1}}}',
            'assistant_done <item_4> {"text": "E"}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "rollout twins item first": (
        [
            session_meta(),
            task_started(),
            user_message("Go"),
            message("user", "Go"),
            reasoning("**Plan**", "**More**"),
            event_msg("agent_reasoning", text="**Plan**"),
            event_msg("agent_reasoning", text="**More**"),
            message("assistant", "Done."),
            agent_message("Done."),
            task_complete(last="Done."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'thinking_done {"text": "**Plan**"}',
            'thinking_done {"text": "**More**"}',
            'assistant_done {"text": "Done."}',
            "turn_end",
        ],
    ),
    "rollout equal texts twice": (
        [
            session_meta(),
            task_started(),
            user_message("Go"),
            agent_message("OK"),
            message("assistant", "OK"),
            calls("c1"),
            answers("c1", "x"),
            agent_message("OK"),
            message("assistant", "OK"),
            task_complete(last="OK"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_done {"text": "OK"}',
            'tool_call {"toolCallId": "c1", "toolName": "shell", "args": {"command": ["ls"]}}',
            'tool_result {"toolCallId": "c1", "result": "x"}',
            'assistant_done {"text": "OK"}',
            "turn_end",
        ],
    ),
    "rollout aborted with an orphan thought": (
        [
            session_meta(),
            task_started(),
            user_message("Go"),
            event_msg("agent_reasoning", text="**Lost**"),
            calls("c1"),
            event_msg("turn_aborted", reason="interrupted", turn_id="T1"),
            task_started("T2"),
            user_message("Again"),
            message("assistant", "Yes."),
            task_complete("T2", "Yes."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'thinking_done {"text": "**Lost**"}',
            'tool_call {"toolCallId": "c1", "toolName": "shell", "args": {"command": ["ls"]}}',
            'interrupt {"reason": "user_cancel"}',
            'turn_end {"partial": true}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Again"}',
            'assistant_done {"text": "Yes."}',
            "turn_end",
        ],
    ),
    "rollout started while open, end of file": (
        [
            session_meta(),
            task_started("T1"),
            user_message("One"),
            calls("c1"),
            task_started("T2"),
            user_message("Two"),
            agent_message("Only event"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'tool_call {"toolCallId": "c1", "toolName": "shell", "args": {"command": ["ls"]}}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_done {"text": "Only event"}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
        ],
    ),
    "rollout command ends twin": (
        [
            session_meta(),
            task_started(),
            user_message("Go"),
            calls("c1", "exec_command", '{"cmd":"ls"}'),
            event_msg("exec_command_begin", call_id="c1", command=["ls"], cwd="/w"),
            event_msg(
                "exec_command_end",
                call_id="c1",
                stdout="a\n",
                stderr="",
                aggregated_output="a\n",
                exit_code=2,
                duration={"secs": 0, "nanos": 5},
                formatted_output="a\n",
                status="failed",
            ),
            answers("c1", "Exit code: 2\nOutput:\na\n"),
            calls("c2"),
            answers("c2", '{"output":"b","metadata":{"exit_code":0,"duration_seconds":0.1}}'),
            message("assistant", "E"),
            task_complete(),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_call {"toolCallId": "c1", "toolName": "exec_command", "args": {"cmd": "ls"}}',
            'tool_result {"toolCallId": "c1", "result": "Exit code: 2\\nOutput:\\na\\n", "error": '
            '{"code": "error", "message": "Exit code: 2\\nOutput:\\na\\n"}, "exitCode": 2}',
            'tool_call {"toolCallId": "c2", "toolName": "shell", "args": {"command": ["ls"]}}',
            'tool_result {"toolCallId": "c2", "result": '
            '"{\\"output\\":\\"b\\",\\"metadata\\":{\\"exit_code\\":0,\\"duration_seconds\\":0.1}}", "exitCode": '
            "0}",
            'assistant_done {"text": "E"}',
            "turn_end",
        ],
    ),
    "rollout token counts repeated": (
        [
            session_meta(),
            task_started(),
            user_message("One"),
            no_token_count(),
            token_count(10, 5, 10, 5),
            token_count(10, 5, 10, 5),
            message("assistant", "A1"),
            token_count(30, 8, 20, 3),
            token_count(30, 8, 20, 3),
            task_complete(),
            task_started("T2"),
            user_message("Two"),
            token_count(30, 8, 20, 3),
            message("assistant", "A2"),
            token_count(70, 9, 40, 1),
            task_complete("T2"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'assistant_done {"text": "A1"}',
            'turn_end {"usage": [30, 8]}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_done {"text": "A2"}',
            'turn_end {"usage": [40, 1]}',
        ],
    ),
    "rollout compacted": (
        [
            session_meta(),
            task_started(),
            user_message("One"),
            message("assistant", "First."),
            agent_message("First."),
            task_complete(),
            task_started("T2"),
            user_message("Two"),
            rollout(
                "compacted",
                message="Summary of all",
                replacement_history=[
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "One"}]}
                ],
            ),
            event_msg("context_compacted"),
            message("assistant", "Second."),
            task_complete("T2"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'assistant_done {"text": "First."}',
            "turn_end",
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'summary {"text": "Summary of all"}',
            'assistant_done {"text": "Second."}',
            "turn_end",
        ],
    ),
    "rollout rolled back": (
        [
            session_meta(),
            task_started(),
            user_message("One"),
            message("assistant", "First."),
            task_complete(),
            task_started("T2"),
            user_message("Two"),
            message("assistant", "Second."),
            task_complete("T2"),
            event_msg("thread_rolled_back", num_turns=1),
            task_started("T3"),
            user_message("Three"),
            message("assistant", "Third."),
            task_complete("T3"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'assistant_done {"text": "First."}',
            "turn_end",
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_done {"text": "Second."}',
            "turn_end",
            'retraction {"turns": 1}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Three"}',
            'assistant_done {"text": "Third."}',
            "turn_end",
        ],
    ),
    "rollout steering in a turn": (
        [
            session_meta(),
            task_started(),
            message("user", "One"),
            user_message("One"),
            calls("c1"),
            message("user", "also"),
            user_message("also"),
            answers("c1", "x"),
            message("assistant", "Both."),
            agent_message("Both."),
            task_complete(),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'tool_call {"toolCallId": "c1", "toolName": "shell", "args": {"command": ["ls"]}}',
            'user_message {"text": "also"}',
            'tool_result {"toolCallId": "c1", "result": "x"}',
            'assistant_done {"text": "Both."}',
            "turn_end",
        ],
    ),
    "rollout paginated items": (
        [
            session_meta(history_mode="paginated"),
            task_started(),
            event_msg(
                "item_completed",
                thread_id=THREAD,
                turn_id="T1",
                item={
                    "type": "UserMessage",
                    "id": "i1",
                    "content": [{"type": "text", "text": "Go", "text_elements": []}],
                },
            ),
            event_msg(
                "item_completed",
                thread_id=THREAD,
                turn_id="T1",
                item={"type": "Reasoning", "id": "i2", "summary_text": ["Hm"], "raw_content": []},
            ),
            event_msg(
                "item_completed",
                thread_id=THREAD,
                turn_id="T1",
                item={
                    "type": "AgentMessage",
                    "id": "i3",
                    "content": [{"type": "Text", "text": "Done."}],
                    "phase": "final_answer",
                },
            ),
            task_complete(last="Done."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'thinking_done {"text": "Hm"}',
            'assistant_done {"text": "Done.", "phase": "final_answer"}',
            "turn_end",
        ],
    ),
    "rollout second process of the same session": (
        [
            session_meta(),
            task_started(),
            user_message("One"),
            message("assistant", "First."),
            calls("c1"),
            session_meta(),
            task_started("T2"),
            user_message("Two"),
            message("assistant", "Second."),
            task_complete("T2"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'assistant_done {"text": "First."}',
            'tool_call {"toolCallId": "c1", "toolName": "shell", "args": {"command": ["ls"]}}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_done {"text": "Second."}',
            "turn_end",
        ],
    ),
    "exec second process after a cut": (
        [
            thread_started(),
            TURN_STARTED,
            command("started", "item_0"),
            thread_started(),
            TURN_STARTED,
            command("started", "item_0"),
            command("completed", "item_0", "x", 0, "completed"),
            item("completed", "item_1", "agent_message", text="E"),
            turn_completed(),
        ],
        [
            'turn_start {"trigger": "user"}',
            'tool_call {"toolCallId": "2/0/item_0", "toolName": "shell", "args": {"command": "ls"}}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
            'turn_start {"trigger": "user"}',
            'tool_call {"toolCallId": "5/2/item_0", "toolName": "shell", "args": {"command": "ls"}}',
            'tool_result {"toolCallId": "5/2/item_0", "result": "x", "exitCode": 0}',
            'assistant_done <item_1> {"text": "E"}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "exec failed twice with the same error": (
        [
            thread_started(),
            TURN_STARTED,
            {"type": "error", "message": "quota"},
            {"type": "turn.failed", "error": {"message": "quota"}},
            thread_started(),
            TURN_STARTED,
            {"type": "error", "message": "quota"},
            {"type": "turn.failed", "error": {"message": "quota"}},
        ],
        [
            'turn_start {"trigger": "user"}',
            'error {"code": "error", "message": "quota", "details": {"type": "error", "message": "quota"}}',
            "turn_end",
            'turn_start {"trigger": "user"}',
            'error {"code": "error", "message": "quota", "details": {"type": "error", "message": "quota"}}',
            "turn_end",
        ],
    ),
    "rollout live order: answer event, then nothing for a while, call, then item late": (
        [
            session_meta(),
            task_started(),
            user_message("Go"),
            agent_message("A1"),
            calls("c1"),
            message("assistant", "A1"),
            answers("c1", "x"),
            message("assistant", "A2"),
            agent_message("A2"),
            task_complete(),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_done {"text": "A1"}',
            'tool_call {"toolCallId": "c1", "toolName": "shell", "args": {"command": ["ls"]}}',
            'tool_result {"toolCallId": "c1", "result": "x"}',
            'assistant_done {"text": "A2"}',
            "turn_end",
        ],
    ),
    "rollout twins, event first": (
        [
            session_meta(),
            task_started(),
            context(),
            message("user", "Go"),
            user_message("Go"),
            no_token_count(),
            event_msg("agent_reasoning", text="**Plan**"),
            reasoning("**Plan**"),
            agent_message("I look.", phase="commentary"),
            message("assistant", "I look.", phase="commentary"),
            calls("c1"),
            token_count(10, 5, 10, 5),
            answers("c1", "a.txt"),
            agent_message("Done.", phase="final_answer"),
            message("assistant", "Done.", phase="final_answer"),
            token_count(30, 9, 20, 4),
            task_complete(last="Done."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'thinking_done {"text": "**Plan**"}',
            'assistant_done {"text": "I look.", "phase": "commentary"}',
            'tool_call {"toolCallId": "c1", "toolName": "shell", "args": {"command": ["ls"]}}',
            'tool_result {"toolCallId": "c1", "result": "a.txt"}',
            'assistant_done {"text": "Done.", "phase": "final_answer"}',
            'turn_end {"usage": [30, 9]}',
        ],
    ),
    "rollout without tasks": (
        [
            session_meta(),
            message("user", "One"),
            user_message("One"),
            message("assistant", "First."),
            agent_message("First."),
            message("user", "Two"),
            user_message("Two"),
            agent_message("Second."),
            message("assistant", "Second."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'assistant_done {"text": "First."}',
            "turn_end",
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_done {"text": "Second."}',
            "turn_end",
        ],
    ),
    "rollout bare era": (
        [
            {"id": THREAD, "timestamp": "2025-08-01T00:00:00.000Z", "instructions": None, "git": None},
            {"record_type": "state"},
            bare(message("user", "One")),
            bare(reasoning("Hm")),
            bare(calls("c1")),
            {"record_type": "state"},
            bare(answers("c1", "x")),
            bare(message("assistant", "First.")),
            bare(message("user", "Two")),
            bare(message("assistant", "Second.")),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'thinking_done {"text": "Hm"}',
            'tool_call {"toolCallId": "c1", "toolName": "shell", "args": {"command": ["ls"]}}',
            'tool_result {"toolCallId": "c1", "result": "x"}',
            'assistant_done {"text": "First."}',
            "turn_end",
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_done {"text": "Second."}',
            "turn_end",
        ],
    ),
}

GEMINI: dict[str, Case] = {
    "gemini thought and text": (
        [
            contents("Hi"),
            candidate({"text": "Plan ", "thought": True}, usage=(10, 1)),
            candidate({"text": "it", "thought": True}, usage=(10, 1)),
            candidate({"text": "He"}, usage=(10, 2)),
            candidate({"text": "llo"}, finish="STOP", usage=(10, 5)),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'thinking_chunk <g1> {"text": "Plan "}',
            'thinking_chunk <g1> {"text": "it"}',
            'thinking_done <g1> {"text": "Plan it"}',
            'assistant_chunk <g1> {"text": "He"}',
            'assistant_chunk <g1> {"text": "llo"}',
            'assistant_done <g1> {"text": "Hello", "stopReason": "STOP"}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "gemini parallel calls without ids": (
        [
            contents("Hi"),
            candidate({"text": "Look. "}),
            candidate(
                {"functionCall": {"name": "w", "args": {"c": "A"}}},
                {"functionCall": {"name": "w", "args": {"c": "B"}}},
            ),
            candidate({"text": ""}, finish="STOP", usage=(10, 5)),
            contents(
                {"functionResponse": {"name": "w", "response": {"r": 1}}},
                {"functionResponse": {"name": "w", "response": {"r": 2}}},
            ),
            candidate({"text": "Both."}, finish="STOP", rid="g2", usage=(20, 2)),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'assistant_chunk <g1> {"text": "Look. "}',
            'assistant_done <g1> {"text": "Look. "}',
            'tool_call <g1> {"toolCallId": "3/1", "toolName": "w", "args": {"c": "A"}}',
            'tool_call <g1> {"toolCallId": "3/2", "toolName": "w", "args": {"c": "B"}}',
            'tool_result {"toolCallId": "3/1", "result": null, "structured": {"r": 1}}',
            'tool_result {"toolCallId": "3/2", "result": null, "structured": {"r": 2}}',
            'assistant_done <g2> {"text": "Both.", "stopReason": "STOP"}',
            'turn_end {"usage": [30, 7]}',
        ],
    ),
    "gemini partial arguments of two calls, no ids, no terminal part": (
        [
            contents("Hi"),
            candidate({"functionCall": {"name": "w", "willContinue": True}}),
            candidate(
                {
                    "functionCall": {
                        "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}],
                        "willContinue": True,
                    }
                }
            ),
            candidate({"functionCall": {}}),
            candidate({"functionCall": {"name": "v", "willContinue": True}}),
            candidate(
                {
                    "functionCall": {
                        "partialArgs": [{"jsonPath": "$.b.c[0]", "boolValue": True}],
                        "willContinue": True,
                    }
                }
            ),
            candidate(finish="STOP"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'tool_input_chunk <g1> {"toolCallId": "2/0", "toolName": "w", "chunk": "{\\"a\\":\\"x", "offset": 0}',
            'tool_call <g1> {"toolCallId": "2/0", "toolName": "w", "args": {"a": "x"}}',
            'tool_input_chunk <g1> {"toolCallId": "5/0", "toolName": "v", "chunk": '
            '"{\\"b\\":{\\"c\\":[true", "offset": 0}',
            'tool_call <g1> {"toolCallId": "5/0", "toolName": "v", "args": {"b": {"c": [true]}}}',
            'turn_end {"partial": true}',
        ],
    ),
    "gemini code execution without response id": (
        [
            contents("Hi"),
            candidate({"executableCode": {"language": "PYTHON", "code": "1+1"}}, rid=None),
            candidate({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}, rid=None),
            candidate({"text": "Two."}, finish="STOP", rid=None),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'tool_call {"toolCallId": "2/0", "toolName": "code_execution", "args": {"language": '
            '"PYTHON", "code": "1+1"}, "executor": "server"}',
            'tool_result {"toolCallId": "2/0", "result": "2"}',
            'assistant_chunk {"text": "Two."}',
            'assistant_done {"text": "Two.", "stopReason": "STOP"}',
            "turn_end",
        ],
    ),
    "gemini signature and malformed call": (
        [
            contents("Hi"),
            candidate({"text": "Yes."}),
            candidate({"text": "", "thoughtSignature": "s"}, finish="STOP", usage=(1, 1)),
            contents("More"),
            candidate(finish="MALFORMED_FUNCTION_CALL", rid="g2"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'assistant_chunk <g1> {"text": "Yes."}',
            'assistant_done <g1> {"text": "Yes.", "stopReason": "STOP"}',
            'turn_end {"usage": [1, 1]}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "More"}',
            'error {"code": "MALFORMED_FUNCTION_CALL", "message": "MALFORMED_FUNCTION_CALL", '
            '"details": {"index": 0, "finishReason": "MALFORMED_FUNCTION_CALL"}}',
            "turn_end",
        ],
    ),
    "gemini loop without response ids": (
        [
            contents("Hi"),
            candidate({"text": "Look. "}, rid=None),
            candidate({"functionCall": {"name": "w", "args": {}}}, rid=None, finish="STOP"),
            contents({"functionResponse": {"name": "w", "response": {"output": "x"}}}),
            candidate({"text": "Bo"}, rid=None),
            candidate({"text": "th."}, finish="STOP", rid=None),
            contents("More"),
            candidate({"text": "Y"}, rid=None),
            candidate({"text": "es."}, finish="STOP", rid=None),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Hi"}',
            'assistant_chunk {"text": "Look. "}',
            'assistant_done {"text": "Look. "}',
            'tool_call {"toolCallId": "3/1", "toolName": "w", "args": {}}',
            'tool_result {"toolCallId": "3/1", "result": "x", "structured": {"output": "x"}}',
            'assistant_chunk {"text": "Bo"}',
            'assistant_chunk {"text": "th."}',
            'assistant_done {"text": "Both.", "stopReason": "STOP"}',
            "turn_end",
            'turn_start {"trigger": "user"}',
            'user_message {"text": "More"}',
            'assistant_chunk {"text": "Y"}',
            'assistant_chunk {"text": "es."}',
            'assistant_done {"text": "Yes.", "stopReason": "STOP"}',
            "turn_end",
        ],
    ),
}

GEMINI_CLI: dict[str, Case] = {
    "gemini cli stream": (
        [
            gemini_init(),
            gemini_message("user", "Go"),
            gemini_message("assistant", "I ", delta=True),
            gemini_message("assistant", "look.", delta=True),
            gemini_call("t1", "ls", {"d": 1}),
            gemini_call("t2", "ls", {"d": 2}),
            gemini_result("t2", output="b"),
            gemini_result("t1", "error", error={"type": "E", "message": "no"}),
            gemini_message("assistant", "End.", delta=True),
            gemini_end(),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_chunk {"text": "I "}',
            'assistant_chunk {"text": "look."}',
            'assistant_done {"text": "I look."}',
            'tool_call {"toolCallId": "t1", "toolName": "ls", "args": {"d": 1}}',
            'tool_call {"toolCallId": "t2", "toolName": "ls", "args": {"d": 2}}',
            'tool_result {"toolCallId": "t2", "result": "b"}',
            'tool_result {"toolCallId": "t1", "result": "no", "error": {"code": "error", "message": "no"}}',
            'assistant_chunk {"text": "End."}',
            'assistant_done {"text": "End."}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "gemini cli stream errors, second process": (
        [
            gemini_init(),
            gemini_message("user", "Go"),
            gemini_message("assistant", "I ", delta=True),
            {"type": "error", "timestamp": TIME, "severity": "warning", "message": "Loop detected"},
            gemini_end("error", error={"type": "FatalTurnLimitedError", "message": "Too many turns"}),
            gemini_init(),
            gemini_message("user", "Again"),
            gemini_message("assistant", "Yes.", delta=True),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_chunk {"text": "I "}',
            'assistant_done {"text": "I "}',
            'error {"code": "warning", "message": "Loop detected"}',
            'error {"code": "FatalTurnLimitedError", "message": "Too many turns", "details": {"type": '
            '"FatalTurnLimitedError", "message": "Too many turns"}}',
            'turn_end {"usage": [10, 5]}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Again"}',
            'assistant_chunk {"text": "Yes."}',
            'assistant_done {"text": "Yes.", "partial": true}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
        ],
    ),
    "gemini cli session document": (
        [
            {
                "sessionId": "g-1",
                "projectHash": "h",
                "startTime": TIME,
                "lastUpdated": TIME,
                "messages": [
                    chat_record("1", "user", "One"),
                    chat_record(
                        "2",
                        "gemini",
                        "I look.",
                        thoughts=[{"subject": "S", "description": "D", "timestamp": TIME}],
                        toolCalls=[
                            {
                                "id": "t1",
                                "name": "ls",
                                "args": {"d": 1},
                                "result": [
                                    {
                                        "functionResponse": {
                                            "id": "t1",
                                            "name": "ls",
                                            "response": {"output": "a"},
                                        }
                                    }
                                ],
                                "status": "success",
                                "timestamp": TIME,
                            }
                        ],
                        tokens={"input": 10, "output": 5, "cached": 0, "thoughts": 0, "tool": 0, "total": 15},
                        model="g",
                    ),
                    chat_record(
                        "3",
                        "gemini",
                        "End.",
                        tokens={"input": 20, "output": 2, "cached": 0, "thoughts": 0, "tool": 0, "total": 22},
                    ),
                    chat_record("4", "user", "Two"),
                    chat_record(
                        "5",
                        "gemini",
                        "",
                        toolCalls=[
                            {"id": "t2", "name": "ls", "args": {}, "result": None, "status": "cancelled"}
                        ],
                    ),
                    chat_record("6", "info", "Request cancelled."),
                ],
            }
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'thinking_done <2> {"text": "**S**\\n\\nD"}',
            'assistant_done <2> {"text": "I look."}',
            'tool_call <2> {"toolCallId": "t1", "toolName": "ls", "args": {"d": 1}}',
            'tool_result {"toolCallId": "t1", "result": "a", "structured": {"output": "a"}}',
            'assistant_done <3> {"text": "End."}',
            'turn_end {"usage": [30, 7]}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'tool_call <5> {"toolCallId": "t2", "toolName": "ls", "args": {}}',
            'tool_result {"toolCallId": "t2", "result": null, "error": {"code": "error", "message": ""}}',
            'interrupt {"reason": "user_cancel"}',
            'turn_end {"partial": true}',
            'system_message {"text": "Request cancelled.", "variant": "notice"}',
        ],
    ),
    "gemini cli session lines replaced": (
        [
            {"sessionId": "g-1", "projectHash": "h", "startTime": TIME, "lastUpdated": TIME, "kind": "main"},
            chat_record("1", "user", [{"text": "One"}]),
            {"$set": {"lastUpdated": TIME}},
            chat_record("2", "gemini", "I look."),
            chat_record(
                "2",
                "gemini",
                "I look.",
                toolCalls=[
                    {
                        "id": "t1",
                        "name": "ls",
                        "args": {},
                        "status": "success",
                        "result": [
                            {"functionResponse": {"id": "t1", "name": "ls", "response": {"output": "a"}}}
                        ],
                    }
                ],
                tokens={"input": 10, "output": 5, "cached": 0, "total": 15},
            ),
            chat_record("3", "gemini", "End."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'assistant_done <2> {"text": "I look."}',
            'tool_call <2> {"toolCallId": "t1", "toolName": "ls", "args": {}}',
            'tool_result {"toolCallId": "t1", "result": "a", "structured": {"output": "a"}}',
            'assistant_done <3> {"text": "End."}',
            'turn_end {"usage": [10, 5]}',
        ],
    ),
    "gemini cli session rewound": (
        [
            {"sessionId": "g-1", "projectHash": "h", "startTime": TIME, "lastUpdated": TIME, "kind": "main"},
            chat_record("1", "user", "One"),
            chat_record("2", "gemini", "First."),
            chat_record("3", "user", "Two"),
            chat_record("4", "gemini", "Second."),
            {"$rewindTo": "3"},
            chat_record("5", "user", "Three"),
            chat_record("6", "gemini", "Third."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'assistant_done <2> {"text": "First."}',
            "turn_end",
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'assistant_done <4> {"text": "Second."}',
            "turn_end",
            'retraction {"fromMessageId": "3"}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Three"}',
            'assistant_done <6> {"text": "Third."}',
            "turn_end",
        ],
    ),
    "gemini cli chat grows line by line": (
        [
            {"sessionId": "g-1", "projectHash": "h", "startTime": TIME, "lastUpdated": TIME, "kind": "main"},
            chat_record("1", "user", "One"),
            chat_record(
                "2", "gemini", "", toolCalls=[{"id": "t1", "name": "ls", "args": {}, "status": "executing"}]
            ),
            chat_record(
                "2",
                "gemini",
                "",
                toolCalls=[
                    {
                        "id": "t1",
                        "name": "ls",
                        "args": {},
                        "status": "success",
                        "result": [
                            {"functionResponse": {"id": "t1", "name": "ls", "response": {"output": "a"}}}
                        ],
                    }
                ],
            ),
            chat_record("3", "gemini", "En"),
            chat_record("3", "gemini", "End.", tokens={"input": 10, "output": 5, "cached": 0, "total": 15}),
            chat_record("4", "user", "Two"),
            chat_record("5", "error", "Quota exceeded"),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "One"}',
            'tool_call <2> {"toolCallId": "t1", "toolName": "ls", "args": {}}',
            'tool_result {"toolCallId": "t1", "result": "a", "structured": {"output": "a"}}',
            'assistant_done <3> {"text": "En"}',
            'assistant_done <3> {"text": "End."}',
            'retraction {"eventIds": ["5/0"]}',
            'turn_end {"usage": [10, 5]}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Two"}',
            'error {"code": "error", "message": "Quota exceeded"}',
            "turn_end",
        ],
    ),
}

CURSOR: dict[str, Case] = {
    "cursor plain": (
        [
            cursor_init(),
            cursor_user("Go"),
            cursor_thinks("H"),
            cursor_thinks("m"),
            cursor_thought(),
            cursor_says("I look."),
            cursor_call("call_1\nfc_1", "shellToolCall", {"command": "ls"}),
            cursor_called(
                "call_1\nfc_1",
                "shellToolCall",
                {"command": "ls"},
                {"success": {"command": "ls", "exitCode": 0, "stdout": "a", "stderr": ""}},
            ),
            cursor_says("End."),
            cursor_result("I look.End."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'thinking_chunk {"text": "H"}',
            'thinking_chunk {"text": "m"}',
            'thinking_done {"text": "Hm"}',
            'assistant_done {"text": "I look."}',
            'tool_call <mc> {"toolCallId": "call_1\\nfc_1", "toolName": "shell", "args": {"command": "ls"}}',
            'tool_result {"toolCallId": "call_1\\nfc_1", "result": "a", "exitCode": 0, "structured": '
            '{"success": {"command": "ls", "exitCode": 0, "stdout": "a", "stderr": ""}}}',
            'assistant_done {"text": "End."}',
            "turn_end",
        ],
    ),
    "cursor parallel out of order": (
        [
            cursor_init(),
            cursor_user("Go"),
            cursor_call("a", "readToolCall", {"path": "a"}),
            cursor_call("b", "readToolCall", {"path": "b"}),
            cursor_called("b", "readToolCall", {"path": "b"}, {"success": {"content": "B"}}),
            cursor_called("a", "readToolCall", {"path": "a"}, {"error": {"errorMessage": "no file"}}),
            cursor_says("End."),
            cursor_result("End."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_call <mc> {"toolCallId": "a", "toolName": "read", "args": {"path": "a"}}',
            'tool_call <mc> {"toolCallId": "b", "toolName": "read", "args": {"path": "b"}}',
            'tool_result {"toolCallId": "b", "result": "B", "structured": {"success": {"content": "B"}}}',
            'tool_result {"toolCallId": "a", "result": "no file", "error": {"code": "error", '
            '"message": "no file"}, "structured": {"error": {"errorMessage": "no file"}}}',
            'assistant_done {"text": "End."}',
            "turn_end",
        ],
    ),
    "cursor partial output": (
        [
            cursor_init(),
            cursor_user("Go"),
            cursor_says("I ", timestamp_ms=1),
            cursor_says("look.", timestamp_ms=2),
            cursor_says("I look.", timestamp_ms=3, model_call_id="mc"),
            cursor_call("a", "lsToolCall", {"path": "."}),
            cursor_called("a", "lsToolCall", {"path": "."}, {"success": {}}),
            cursor_says("En", timestamp_ms=5),
            cursor_says("d.", timestamp_ms=6),
            cursor_says("End."),
            cursor_result("I look.End."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_chunk {"text": "I "}',
            'assistant_chunk {"text": "look."}',
            'assistant_done <mc> {"text": "I look."}',
            'tool_call <mc> {"toolCallId": "a", "toolName": "ls", "args": {"path": "."}}',
            'tool_result {"toolCallId": "a", "result": null, "structured": {"success": {}}}',
            'assistant_chunk {"text": "En"}',
            'assistant_chunk {"text": "d."}',
            'assistant_done {"text": "End."}',
            "turn_end",
        ],
    ),
    "cursor rejected, no args in completed": (
        [
            cursor_init(),
            cursor_user("Go"),
            cursor_call("a", "shellToolCall", {"command": "rm"}),
            {
                "type": "tool_call",
                "subtype": "completed",
                "call_id": "a",
                "tool_call": {"shellToolCall": {"result": {"rejected": {"command": "rm", "reason": "no"}}}},
                **CURSOR_SESSION,
            },
            cursor_says("Ok."),
            cursor_result("Ok."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_call <mc> {"toolCallId": "a", "toolName": "shell", "args": {"command": "rm"}}',
            'tool_result {"toolCallId": "a", "result": "no", "structured": {"rejected": {"command": '
            '"rm", "reason": "no"}}}',
            'assistant_done {"text": "Ok."}',
            "turn_end",
        ],
    ),
    "cursor cut, second process": (
        [
            cursor_init(),
            cursor_user("Go"),
            cursor_call("a", "shellToolCall", {"command": "ls"}),
            cursor_init(),
            cursor_user("Again"),
            cursor_says("Yes."),
            cursor_result("Yes."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'tool_call <mc> {"toolCallId": "a", "toolName": "shell", "args": {"command": "ls"}}',
            'interrupt {"reason": "error"}',
            'turn_end {"partial": true}',
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Again"}',
            'assistant_done {"text": "Yes."}',
            "turn_end",
        ],
    ),
    "cursor partial output across a tool, cumulative last text": (
        [
            cursor_init(),
            cursor_user("Go"),
            cursor_says("I look.", timestamp_ms=1),
            cursor_call("a", "lsToolCall", {"path": "."}),
            cursor_called("a", "lsToolCall", {"path": "."}, {"success": {}}),
            cursor_says("End.", timestamp_ms=5),
            cursor_says("I look.End."),
            cursor_result("I look.End."),
        ],
        [
            'turn_start {"trigger": "user"}',
            'user_message {"text": "Go"}',
            'assistant_chunk {"text": "I look."}',
            'assistant_done {"text": "I look."}',
            'tool_call <mc> {"toolCallId": "a", "toolName": "ls", "args": {"path": "."}}',
            'tool_result {"toolCallId": "a", "result": null, "structured": {"success": {}}}',
            'assistant_chunk {"text": "End."}',
            'assistant_done {"text": "End."}',
            "turn_end",
        ],
    ),
}

TABLES = {
    "openai_chat": OPENAI_CHAT,
    "openai_responses": OPENAI_RESPONSES,
    "claude": CLAUDE,
    "codex": CODEX,
    "gemini": GEMINI,
    "gemini_cli": GEMINI_CLI,
    "cursor": CURSOR,
}


def cases() -> Iterator[Any]:
    for source, table in TABLES.items():
        for name, (records, events) in table.items():
            yield pytest.param(source, records, events, id=name)


@pytest.mark.parametrize(("source", "records", "events"), cases())
def test_a_session_gives_this_log(source: str, records: list[Record], events: list[str]) -> None:
    assert list(map(told, follow(records, source, is_whole=True))) == events
