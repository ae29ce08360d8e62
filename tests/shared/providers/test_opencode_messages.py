"""Blocks of OpenCode's events and documents, and the standard messages they form."""

import json
from typing import Any

import pytest

from ash_shared import parse_message, transform_messages
from ash_shared.model.message import RecordHeader
from ash_shared.providers import discover
from ash_shared.providers.opencode import PROVIDER
from tests.shared.records.opencode import TOKENS, info, part
from tests.shared.transcripts import short_messages

Doc = dict[str, Any]


def event(kind: str, **part: Any) -> Doc:
    return {"type": kind, "timestamp": 1_770_000_000_000, "sessionID": "ses_1", "part": part}


SESSION = {
    "id": "ses_1",
    "version": "1.2.0",
    "projectID": "prj_1",
    "directory": "/srv",
    "parentID": "ses_0",
    "title": "Build",
    "time": {"created": 1_769_000_000_000},
}
FAILED = {
    "type": "error",
    "timestamp": 1_770_000_000_000,
    "sessionID": "ses_1",
    "error": {"name": "APIError", "data": {"message": "Too many requests", "statusCode": 429}},
}
DONE = {
    "status": "completed",
    "input": {"command": "make"},
    "output": "ok\n",
    "title": "Builds",
    "metadata": {"exit": 0},
    "time": {"start": 1, "end": 2},
}


@pytest.mark.parametrize(
    ("record", "sources"),
    [
        (event("step_start", type="step-start"), ["opencode"]),
        (event("text", type="text", text="Built."), ["opencode"]),
        (FAILED, ["opencode"]),
        ({"type": "error", "error": {"type": "api_error", "message": "Down"}}, ["claude"]),
        (SESSION, ["opencode"]),
        (info("msg_1", "user"), ["opencode"]),
        (part("text", text="Built."), ["opencode"]),
        ({"type": "text", "text": "Built."}, ["claude"]),
        ({"path": "storage/part/msg_1/prt_1.json", "json": {"id": "prt_1", "type": "text"}}, ["opencode"]),
        ({"path": "notes/a.json", "json": {"id": "prt_1"}}, []),
        ({"info": info("msg_1", "user"), "parts": []}, ["opencode"]),
        ({"info": SESSION, "messages": [{"info": info("msg_1", "user"), "parts": []}]}, ["opencode"]),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_exactly_one_provider_recognizes_record(record: Doc, sources: list[str]) -> None:
    assert [name for name, provider in discover().items() if provider.recognize(record)] == sources


PART_KEYS = {"id": "prt_tool", "sessionID": "ses_1", "messageID": "msg_2"}
CALL = {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "make"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1"}
IMAGE_PART = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA", "filename": "a.png"}
IMAGE_BLOCK = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
    "source_type": "file",
    "extra": {"filename": "a.png"},
}


@pytest.mark.parametrize(
    ("document", "blocks"),
    [
        (part("text", text="Built."), [part("text", text="Built.")]),
        (
            part("reasoning", text="Hm", time={"start": 1}),
            [
                {
                    "type": "thinking",
                    "thinking": "Hm",
                    "source_type": "reasoning",
                    "extra": {**PART_KEYS, "id": "prt_reasoning", "time": {"start": 1}},
                }
            ],
        ),
        (
            part("tool", callID="c1", tool="bash", state=DONE),
            [
                {
                    **CALL,
                    "status": "completed",
                    "source_type": "tool",
                    "extra": {**PART_KEYS, "state": {"title": "Builds", "time": {"start": 1, "end": 2}}},
                },
                {
                    **RESULT,
                    "content": "ok\n",
                    "is_error": False,
                    "structured": {"exit": 0},
                    "exit_code": 0,
                    "source_type": "tool",
                },
            ],
        ),
        (
            part("tool", callID="c1", tool="bash", state={**DONE, "attachments": [IMAGE_PART]}),
            [
                {
                    **CALL,
                    "status": "completed",
                    "source_type": "tool",
                    "extra": {**PART_KEYS, "state": {"title": "Builds", "time": {"start": 1, "end": 2}}},
                },
                {
                    **RESULT,
                    "content": [{"type": "text", "text": "ok\n"}, IMAGE_BLOCK],
                    "is_error": False,
                    "structured": {"exit": 0},
                    "exit_code": 0,
                    "source_type": "tool",
                },
            ],
        ),
        (
            part(
                "tool", callID="c1", tool="bash", state={"status": "error", "input": {}, "error": "no shell"}
            ),
            [
                {**CALL, "input": {}, "status": "error", "source_type": "tool", "extra": PART_KEYS},
                {**RESULT, "content": "no shell", "is_error": True, "source_type": "tool"},
            ],
        ),
        (
            part(
                "tool",
                callID="c1",
                tool="bash",
                state={"status": "running", "input": {}, "metadata": {"n": 1}},
            ),
            [
                {
                    **CALL,
                    "input": {},
                    "status": "running",
                    "source_type": "tool",
                    "extra": {**PART_KEYS, "state": {"metadata": {"n": 1}}},
                }
            ],
        ),
        (
            {"messageID": "msg_1", "id": "prt_1", **IMAGE_PART},
            [{**IMAGE_BLOCK, "extra": {"messageID": "msg_1", "id": "prt_1", "filename": "a.png"}}],
        ),
        ({"a": 1}, [{"type": "raw", "reason": "unknown_type", "raw": {"a": 1}}]),
        (
            part("file", mime="text/plain", url="file:///a.txt", filename="a.txt", source="paste"),
            [
                {
                    "type": "file",
                    "filename": "a.txt",
                    "mimeType": "text/plain",
                    "source": {"type": "url", "url": "file:///a.txt"},
                    "mediaClass": "document",
                    "source_type": "file",
                    "extra": {**PART_KEYS, "id": "prt_file", "source": "paste"},
                }
            ],
        ),
        (
            part("patch", hash="f00"),
            [{"type": "raw", "rawType": "patch", "reason": "control", "raw": part("patch", hash="f00")}],
        ),
        (
            part("hologram"),
            [{"type": "raw", "rawType": "hologram", "reason": "unknown_type", "raw": part("hologram")}],
        ),
        (
            part("tool", tool="bash"),
            [{"type": "raw", "rawType": "tool", "reason": "malformed", "raw": part("tool", tool="bash")}],
        ),
        (
            FAILED,
            [
                {
                    "type": "text",
                    "text": "Too many requests",
                    "variant": "error",
                    "source_type": "error",
                    "extra": {key: value for key, value in FAILED.items() if key != "type"},
                }
            ],
        ),
    ],
    ids=lambda value: json.dumps(value)[:70],
)
def test_reads_document(document: Doc, blocks: list[Doc]) -> None:
    message = parse_message(json.dumps(document), "opencode")

    assert [block.model_dump(mode="json", by_alias=True) for block in message.parsed] == blocks


RESPONSE_INFO = info("msg_2", "assistant", modelID="m1", finish="stop", cost=0.5, tokens=TOKENS)
RESPONSE_FIELDS = {
    "model": "m1",
    "messageId": "msg_2",
    "stop_reason": "stop",
    "costUsd": 0.5,
    "usage": (50, 7, 40, 3),
}


@pytest.mark.parametrize(
    ("documents", "messages"),
    [
        pytest.param(
            [
                event("step_start", **part("step-start")),
                event("tool_use", **part("tool", callID="c1", tool="bash", state=DONE)),
                event("text", **part("text", text="Built.", time={"start": 1, "end": 2})),
                event("step_finish", **part("step-finish", reason="stop", cost=0.5, tokens=TOKENS)),
                FAILED,
            ],
            [
                (
                    "assistant",
                    [("tool_use", "bash"), ("text", "Built.")],
                    {key: value for key, value in RESPONSE_FIELDS.items() if key != "model"},
                ),
                ("user", [("tool_result", "ok\n")]),
                ("system", [("text", "Too many requests")], {"error": "APIError"}),
            ],
            id="a run",
        ),
        pytest.param(
            [
                SESSION,
                info("msg_1", "user"),
                RESPONSE_INFO,
                info("msg_3", "user"),
                part("text", "msg_1", text="Build it.", time={"start": 1}),
                part("reasoning", text="Hm"),
                part("text", text="Built."),
                part("step-finish", reason="stop", cost=0.5, tokens=TOKENS),
                {"path": "part/msg_3/prt_9.json", "json": {"id": "prt_9", "type": "text", "text": "Thanks."}},
                part("snapshot", snapshot="f00"),
            ],
            [
                ("user", [("text", "Build it.")], {"messageId": "msg_1"}),
                ("assistant", [("thinking", "Hm"), ("text", "Built.")], RESPONSE_FIELDS),
                ("user", [("text", "Thanks.")], {"messageId": "msg_3"}),
            ],
            id="storage documents: the message sets the role of its parts",
        ),
        pytest.param(
            [
                {
                    "info": SESSION,
                    "messages": [
                        {
                            "info": info("msg_1", "user"),
                            "parts": [{"type": "text", "text": "Go on.", "synthetic": True}],
                        },
                        {
                            "info": RESPONSE_INFO,
                            "parts": [part("tool", callID="c1", tool="bash", state=DONE)],
                        },
                        {
                            "info": info("msg_3", "assistant", error={"name": "Aborted", "data": {}}),
                            "parts": [],
                        },
                    ],
                }
            ],
            [
                ("user", [("text", "Go on.")], {"messageId": "msg_1", "synthetic": True}),
                ("assistant", [("tool_use", "bash")], RESPONSE_FIELDS),
                ("user", [("tool_result", "ok\n")]),
                ("assistant", [], {"messageId": "msg_3", "error": "Aborted"}),
            ],
            id="an export",
        ),
    ],
)
def test_documents_form_messages(documents: list[Doc], messages: list[Any]) -> None:
    assert short_messages(*documents) == messages


@pytest.mark.parametrize(
    ("tokens", "usage"),
    [
        (TOKENS, (50, 7, 40, 3)),
        ({**TOKENS, "total": 97}, (50, 7, 40, 3)),
        ({**TOKENS, "total": 100}, (50, 10, 40, 3)),
        ({"input": 5, "output": 2}, (5, 2, None, None)),
    ],
    ids=["no total", "reasoning in the output", "reasoning next to the output", "few counts"],
)
def test_output_count_includes_reasoning(tokens: Doc, usage: tuple[int | None, ...]) -> None:
    [message] = short_messages(info("msg_2", "assistant", tokens=tokens))

    assert message[2]["usage"] == usage


def test_document_facts() -> None:
    document_facts = [
        PROVIDER.header(document)
        for document in (
            SESSION,
            RESPONSE_INFO,
            event("text", **part("text")),
            {"path": "session/a", "json": SESSION},
        )
    ]

    began, done = 1_769_000_000_000, 1_770_000_000_000
    session = RecordHeader(
        uuid="ses_1",
        timestamp=began,
        session_id="ses_1",
        client_version="1.2.0",
        title="Build",
        parent="ses_0",
        agent="ses_1",
        last_timestamp=began,
        folder="/srv",
    )
    assert document_facts == [
        session,
        RecordHeader(uuid="msg_2", timestamp=done, session_id="ses_1", model="m1", last_timestamp=done),
        RecordHeader(uuid="prt_text", timestamp=done, session_id="ses_1"),
        session,
    ]


WITHOUT_MESSAGE_ID = {"id": "prt_1", "sessionID": "ses_1", "type": "text", "text": "Built."}


@pytest.mark.parametrize(
    ("record", "id"),
    [
        (WITHOUT_MESSAGE_ID, "prt_1"),
        ({"path": "part/msg_2/prt_1.json", "json": WITHOUT_MESSAGE_ID}, "msg_2"),
        ({"info": info("msg_2", "assistant"), "parts": [WITHOUT_MESSAGE_ID]}, "msg_2"),
    ],
    ids=["part", "part at its path", "part of a message"],
)
def test_part_without_message_id_stays_as_it_is(record: Doc, id: str) -> None:
    messages = [message for message in transform_messages([record], "opencode") if message.content]

    assert [(message.id, message.content[0].model_dump()) for message in messages] == [
        (id, WITHOUT_MESSAGE_ID)
    ]
