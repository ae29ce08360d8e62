"""Blocks of both OpenAI formats, and the standard messages they form."""

import json
from typing import Any

import pytest

from ash_shared import parse_message_content
from ash_shared.parsing.parse import parse_message
from tests.shared.transcripts import Short, short_messages

Record = dict[str, Any]


def completion(*messages: Record, usage: Any = None, **more: Any) -> Record:
    choices = [
        {"index": index, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
        for index, message in enumerate(messages)
    ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "m1",
        "choices": choices,
    } | ({"usage": usage, **more} if usage else more)


def call(id: str, name: str, arguments: str) -> Record:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def output_message(words: str, **more: Any) -> Record:
    part = {"type": "output_text", "text": words, "annotations": []}
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
        **more,
    }


def input_message(words: str) -> Record:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}


def response(*output: Record, **more: Any) -> Record:
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m1",
        "output": output,
        **more,
    }


def event(name: str, **more: Any) -> Record:
    return {"type": f"response.{name}", "sequence_number": 3, **more}


def done(item: Record) -> Record:
    return event("output_item.done", output_index=0, item=item)


FUNCTION = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "tide", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "high"}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "tide"},
}
CHAT_USAGE = {
    "prompt_tokens": 50,
    "completion_tokens": 9,
    "total_tokens": 59,
    "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 10},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
RESPONSES_USAGE = {
    "input_tokens": 50,
    "input_tokens_details": {"cached_tokens": 30},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 59,
}

BLOCKS: dict[str, tuple[Record, list[Record]]] = {
    "every key of a response, in order": (
        {
            "role": "assistant",
            "function_call": {"name": "old", "arguments": "1"},
            "tool_calls": [{"id": "c2", "type": "custom", "custom": {"name": "sh", "input": "ls"}}],
            "audio": {"id": "au_1", "data": "QUFB", "transcript": "Ahoy."},
            "refusal": "No.",
            "content": "Yes.",
            "annotations": [{"type": "url_citation"}],
            "reasoning": "Hm.",
            "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}],
        },
        [
            {
                "type": "thinking",
                "thinking": "Hm.",
                "source_type": "reasoning",
                "extra": {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
            },
            {"type": "text", "text": "Yes.", "citations": [{"type": "url_citation"}]},
            {"type": "text", "text": "No.", "variant": "refusal", "source_type": "refusal"},
            {
                "type": "file",
                "source": {"type": "base64", "data": "QUFB"},
                "mediaClass": "audio",
                "source_type": "audio",
                "extra": {"id": "au_1"},
            },
            {"type": "text", "text": "Ahoy.", "variant": "transcript", "source_type": "audio"},
            {"type": "tool_use", "id": "c2", "name": "sh", "input": "ls", "source_type": "custom"},
            {
                "type": "tool_use",
                "id": None,
                "name": "old",
                "input": 1,
                "source_type": "function_call",
                "extra": {"arguments": "1"},
            },
        ],
    ),
    "reasoning only in encrypted details": (
        {
            "role": "assistant",
            "content": None,
            "reasoning_details": [{"type": "reasoning.encrypted", "data": "gA=="}],
        },
        [
            {
                "type": "thinking",
                "thinking": "",
                "redacted": True,
                "data": "gA==",
                "source_type": "reasoning_details",
                "extra": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "gA=="}]},
            }
        ],
    ),
    "Mistral reasoning in parts": (
        {
            "role": "assistant",
            "content": [
                {
                    "type": "thinking",
                    "thinking": [{"type": "text", "text": "Low "}, {"type": "text", "text": "tide."}],
                },
                {"type": "reference", "reference_ids": [4]},
            ],
        },
        [
            {
                "type": "thinking",
                "thinking": "Low tide.",
                "source_type": "thinking",
                "extra": {"thinking": [{"type": "text", "text": "Low "}, {"type": "text", "text": "tide."}]},
            },
            {
                "type": "raw",
                "rawType": "reference",
                "reason": "control",
                "raw": {"type": "reference", "reference_ids": [4]},
            },
        ],
    ),
    "parts of a user message": (
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUFB", "detail": "low"}},
                {"type": "image_url", "image_url": "https://sea.example/a.png"},
                {"type": "input_audio", "input_audio": {"data": "QUFB", "format": "wav"}},
                {
                    "type": "file",
                    "file": {"file_data": "data:application/pdf;base64,QUFB", "filename": "a.pdf"},
                },
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "video_url", "video_url": {"url": "https://sea.example/a.mp4"}},
                {"type": "image_url"},
                {"type": "smell", "smell": "salt"},
            ],
        },
        [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "QUFB"},
                "detail": "low",
                "source_type": "image_url",
            },
            {
                "type": "image",
                "source": {"type": "url", "url": "https://sea.example/a.png"},
                "source_type": "image_url",
            },
            {
                "type": "file",
                "source": {"type": "base64", "data": "QUFB"},
                "mediaClass": "audio",
                "source_type": "input_audio",
                "extra": {"format": "wav"},
            },
            {
                "type": "file",
                "filename": "a.pdf",
                "mimeType": "application/pdf",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "QUFB"},
                "mediaClass": "document",
                "source_type": "file",
            },
            {"type": "file", "source": {"type": "file", "file_id": "file-1"}, "source_type": "file"},
            {
                "type": "file",
                "source": {"type": "url", "url": "https://sea.example/a.mp4"},
                "mediaClass": "video",
                "source_type": "video_url",
            },
            {"type": "raw", "rawType": "image_url", "reason": "malformed", "raw": {"type": "image_url"}},
            {
                "type": "raw",
                "rawType": "smell",
                "reason": "unknown_type",
                "raw": {"type": "smell", "smell": "salt"},
            },
        ],
    ),
    "a legacy function result": (
        {"role": "function", "name": "old", "content": "5"},
        [
            {
                "type": "tool_result",
                "tool_use_id": None,
                "content": "5",
                "source_type": "function",
                "extra": {"name": "old"},
            }
        ],
    ),
    "a second choice": (
        completion({"content": "A"}, {"content": "B"}),
        [{"type": "text", "text": "A"}, {"type": "text", "text": "B", "extra": {"choice_index": 1}}],
    ),
    "a transcription": (
        {"text": "Ahoy.", "language": "en", "segments": []},
        [
            {
                "type": "text",
                "text": "Ahoy.",
                "variant": "transcript",
                "source_type": "transcription",
                "extra": {"language": "en", "segments": []},
            }
        ],
    ),
    "a call and its result in one item": (
        SEARCH | {"action": {"type": "search", "query": "tide", "sources": [{"url": "https://sea.example"}]}},
        [
            {
                "type": "tool_use",
                "id": "ws_1",
                "name": "web_search",
                "input": {"type": "search", "query": "tide", "sources": [{"url": "https://sea.example"}]},
                "executor": "server",
                "status": "completed",
                "source_type": "web_search_call",
            },
            {
                "type": "tool_result",
                "tool_use_id": "ws_1",
                "structured": [{"url": "https://sea.example"}],
                "source_type": "web_search_call",
            },
        ],
    ),
    "a generated image": (
        {
            "type": "image_generation_call",
            "id": "ig_1",
            "result": "QUFB",
            "output_format": "svg",
            "size": "1x1",
        },
        [
            {
                "type": "tool_use",
                "id": "ig_1",
                "name": "image_generation",
                "input": {"size": "1x1"},
                "executor": "server",
                "source_type": "image_generation_call",
                "extra": {"output_format": "svg"},
            },
            {
                "type": "tool_result",
                "tool_use_id": "ig_1",
                "content": [
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/svg+xml", "data": "QUFB"},
                    }
                ],
                "source_type": "image_generation_call",
            },
        ],
    ),
    "a failed MCP call": (
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "port",
            "name": "berth",
            "arguments": "no json",
            "output": None,
            "error": {"type": "http_error", "code": 500},
        },
        [
            {
                "type": "tool_use",
                "id": "mcp_1",
                "name": "berth",
                "input": "no json",
                "executor": "mcp",
                "server_name": "port",
                "source_type": "mcp_call",
                "extra": {"output": None},
            },
            {
                "type": "tool_result",
                "tool_use_id": "mcp_1",
                "is_error": True,
                "structured": {"type": "http_error", "code": 500},
                "source_type": "mcp_call",
            },
        ],
    ),
    "output of commands": (
        {
            "type": "shell_call_output",
            "call_id": "call_2",
            "output": [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 2}}],
        },
        [
            {
                "type": "tool_result",
                "tool_use_id": "call_2",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                "structured": [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 2}}],
                "exit_code": 2,
                "source_type": "shell_call_output",
            }
        ],
    ),
    "reasoning with all fields": (
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "S"}],
            "content": [{"type": "reasoning_text", "text": "C"}],
            "encrypted_content": "gA==",
        },
        [
            {
                "type": "thinking",
                "thinking": "S",
                "is_summary": True,
                "data": "gA==",
                "source_type": "reasoning",
                "extra": {"id": "rs_1"},
            },
            {"type": "thinking", "thinking": "C", "source_type": "reasoning"},
        ],
    ),
    "a message with a phase and keys next to its parts": (
        output_message("Ahoy.", phase="final_answer"),
        [
            {
                "type": "text",
                "text": "Ahoy.",
                "citations": [],
                "phase": "final_answer",
                "source_type": "output_text",
                "extra": {"id": "msg_1", "role": "assistant", "status": "completed"},
            }
        ],
    ),
    "an item of an unknown type": (
        response({"type": "tide_call", "id": "t"}),
        [
            {
                "type": "raw",
                "rawType": "tide_call",
                "reason": "unknown_type",
                "raw": {"type": "tide_call", "id": "t"},
            }
        ],
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str) -> None:
    record, expected = BLOCKS[name]

    blocks = [block.model_dump(mode="json") for block in parse_message_content(json.dumps(record))]

    assert expected == blocks


ROLES: dict[str, tuple[Record, tuple[str, str, str]]] = {
    "a tool result": (
        {"role": "tool", "tool_call_id": "c1", "content": "high"},
        ("openai_chat", "message", "tool"),
    ),
    "a developer": ({"role": "developer", "content": "Metric."}, ("openai_chat", "message", "system")),
    "an error": (
        {"error": {"message": "Slow down.", "code": 429}},
        ("openai_chat", "record", "system"),
    ),
    "a chunk": (
        {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "A"}}]},
        ("openai_chat", "chunk", "assistant"),
    ),
    "Azure's first chunk": (
        {"id": "", "object": "", "model": "", "choices": [], "prompt_filter_results": []},
        ("openai_chat", "chunk", "assistant"),
    ),
    "a request with a Claude model through a gateway": (
        {"model": "anthropic/claude-9", "messages": [{"role": "user", "content": "Q"}]},
        ("openai_chat", "message", "user"),
    ),
    "a request to Anthropic": (
        {"model": "claude-9", "max_tokens": 9, "messages": [{"role": "user", "content": "Q"}]},
        ("claude", "message", "user"),
    ),
    "a plain message": ({"role": "user", "content": "Q"}, ("claude", "message", "user")),
    "an item": (output_message("A"), ("openai_responses", "message", "assistant")),
    "a completed item": (done(output_message("A")), ("openai_responses", "message", "assistant")),
    "a result from the client": (OUTPUT, ("openai_responses", "message", "tool")),
    "an item that is not a message": (
        {"type": "mcp_list_tools", "id": "l", "server_label": "port", "tools": []},
        ("openai_responses", "record", "system"),
    ),
    "an event": (event("output_text.delta", delta="A"), ("openai_responses", "chunk", "assistant")),
    "an unknown event": (event("tide.delta"), ("openai_responses", "chunk", "assistant")),
    "an input": ({"model": "m1", "input": "Q"}, ("openai_responses", "message", "user")),
}


@pytest.mark.parametrize("name", ROLES)
def test_recognizes_source_kind_and_role(name: str) -> None:
    record, expected = ROLES[name]

    message = parse_message(json.dumps(record))

    assert expected == (message.source, message.kind, message.role)


TRANSCRIPTS: dict[str, tuple[list[Record], list[Short]]] = {
    "one message per message of a chat request": (
        [
            {
                "model": "m1",
                "messages": [
                    {"role": "developer", "content": "Metric."},
                    {"role": "user", "content": "Tide?"},
                    {"role": "assistant", "content": None, "tool_calls": [call("call_1", "tide", "{}")]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "high"},
                ],
            }
        ],
        [
            ("system", [("text", "Metric.")]),
            ("user", [("text", "Tide?")]),
            ("assistant", [("tool_use", "tide")], {"model": "m1"}),
            ("user", [("tool_result", "high")]),
        ],
    ),
    "a completion: usage without cached tokens, cost": (
        [completion({"content": "A"}, {"content": "B"}, usage={**CHAT_USAGE, "cost": 0.5})],
        [
            (
                "assistant",
                [("text", "A")],
                {
                    "model": "m1",
                    "messageId": "chatcmpl-1",
                    "stop_reason": "stop",
                    "costUsd": 0.5,
                    "usage": (20, 9, 20, 4),
                },
            )
        ],
    ),
    "reasoning counted only in the total": (
        [
            completion(
                {"content": "A"}, usage={"prompt_tokens": 35, "completion_tokens": 12, "total_tokens": 109}
            )
        ],
        [
            (
                "assistant",
                [("text", "A")],
                {
                    "model": "m1",
                    "messageId": "chatcmpl-1",
                    "stop_reason": "stop",
                    "usage": (35, 74, None, None),
                },
            )
        ],
    ),
    "a refusal": (
        [completion({"content": None, "refusal": "No."})],
        [
            (
                "assistant",
                [("text", "No.")],
                {"model": "m1", "messageId": "chatcmpl-1", "stop_reason": "refusal"},
            )
        ],
    ),
    "an error instead of a response": (
        [
            {"role": "developer", "content": "Metric."},
            {"error": {"message": "Slow down.", "code": 429, "metadata": {}}},
            {
                "error": {
                    "message": "No such model.",
                    "type": "invalid_request_error",
                    "param": None,
                    "code": None,
                }
            },
        ],
        [
            ("system", [("text", "Metric.")]),
            ("assistant", [], {"error": "429"}),
            ("assistant", [], {"error": "invalid_request_error"}),
        ],
    ),
    "a Responses request: instructions first, response items together": (
        [
            {
                "model": "m1",
                "instructions": "Metric.",
                "input": [
                    {"role": "user", "content": "Hello"},
                    {"role": "user", "content": "Tide?"},
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "S"}]},
                    FUNCTION,
                    OUTPUT,
                    {**OUTPUT, "output": "low"},
                ],
            }
        ],
        [
            ("system", [("text", "Metric.")]),
            ("user", [("text", "Hello")]),
            ("user", [("text", "Tide?")]),
            ("assistant", [("thinking", "S"), ("tool_use", "tide")], {"model": "m1"}),
            ("user", [("tool_result", "high"), ("tool_result", "low")]),
        ],
    ),
    "a response is one message": (
        [response(SEARCH, output_message("A"), usage=RESPONSES_USAGE)],
        [
            (
                "assistant",
                [("tool_use", "web_search"), ("text", "A")],
                {"model": "m1", "messageId": "resp_1", "stop_reason": "completed", "usage": (20, 9, 30, 4)},
            )
        ],
    ),
    "stop reasons of responses": (
        [
            response(
                output_message("A"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}
            ),
            response(id="resp_2", status="failed", error={"code": "server_error", "message": "Sank."}),
        ],
        [
            (
                "assistant",
                [("text", "A")],
                {"model": "m1", "messageId": "resp_1", "stop_reason": "max_output_tokens"},
            ),
            (
                "assistant",
                [],
                {"model": "m1", "messageId": "resp_2", "stop_reason": "failed", "error": "server_error"},
            ),
        ],
    ),
    "streams: following items and usage belong to the response": (
        [
            event("created", response=response(status="in_progress")),
            event("output_item.added", output_index=0, item=SEARCH),
            done(SEARCH),
            done({"type": "shell_call_output", "call_id": "c", "output": []}),
            done(output_message("A")),
            event("completed", response=response(output_message("A"), usage=RESPONSES_USAGE)),
            event("created", response=response(id="resp_2", status="in_progress")),
            done(output_message("B")),
            event(
                "failed",
                response=response(id="resp_2", status="failed", error={"code": "x", "message": "Sank."}),
            ),
        ],
        [
            (
                "assistant",
                [("tool_use", "web_search"), ("tool_result", []), ("text", "A")],
                {"model": "m1", "messageId": "resp_1", "stop_reason": "completed", "usage": (20, 9, 30, 4)},
            ),
            (
                "assistant",
                [("text", "B")],
                {"model": "m1", "messageId": "resp_2", "stop_reason": "failed", "error": "x"},
            ),
        ],
    ),
    "a stream that failed before its first item": (
        [
            event("created", response=response(status="in_progress")),
            done(output_message("A")),
            event("completed", response=response(output_message("A"), usage=RESPONSES_USAGE)),
            event("created", response=response(id="resp_2", status="in_progress")),
            event(
                "failed",
                response=response(id="resp_2", status="failed", error={"code": "x", "message": "Sank."}),
            ),
        ],
        [
            (
                "assistant",
                [("text", "A")],
                {"model": "m1", "messageId": "resp_1", "stop_reason": "completed", "usage": (20, 9, 30, 4)},
            ),
            (
                "assistant",
                [],
                {"model": "m1", "messageId": "resp_2", "stop_reason": "failed", "error": "x"},
            ),
        ],
    ),
    "a refusal in a response": (
        [response(output_message("", content=[{"type": "refusal", "refusal": "No."}]))],
        [("assistant", [("text", "No.")], {"model": "m1", "messageId": "resp_1", "stop_reason": "refusal"})],
    ),
    "results of vendor programs are part of the response": (
        [
            {"type": "program", "id": "p", "call_id": "call_3", "code": "1+1", "fingerprint": "f"},
            {"type": "program_output", "id": "o", "call_id": "call_3", "result": "2", "status": "completed"},
        ],
        [("assistant", [("tool_use", "program"), ("tool_result", "2")])],
    ),
    "bare items: text injected by a client is synthetic": (
        [
            input_message("<environment_context>\n<cwd>/sea</cwd>\n</environment_context>"),
            input_message("Tide?"),
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA=="},
            FUNCTION,
            OUTPUT,
            output_message("High."),
        ],
        [
            (
                "user",
                [("text", "<environment_context>\n<cwd>/sea</cwd>\n</environment_context>")],
                {"synthetic": True},
            ),
            ("user", [("text", "Tide?")]),
            ("assistant", [("thinking", ""), ("tool_use", "tide")]),
            ("user", [("tool_result", "high")]),
            ("assistant", [("text", "High.")]),
        ],
    ),
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_standard_messages(name: str) -> None:
    records, expected = TRANSCRIPTS[name]

    assert expected == short_messages(*records)
