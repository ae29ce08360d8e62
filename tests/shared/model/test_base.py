"""Optional fields, names and defaults of constructors, and the JSON of models."""

import copy
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from ash_shared import (
    ExecutionResponse,
    FileContent,
    ImageContent,
    Message,
    MessageContent,
    MessageError,
    MessageMetadata,
    ParsedMessage,
    RawContent,
    SessionSummary,
    StandardMessage,
    StandardTokenUsage,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
    parse_message_content,
    parse_message_content_json,
    read_event,
)
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.events import TurnEnded, TurnEndEvent
from tests.shared.records import claude

METADATA: dict[str, Any] = {"source": "claude"}
STANDARD: dict[str, Any] = {
    "id": "m1",
    "role": "assistant",
    "content": [{"type": "tool_result", "tool_use_id": None, "content": "ok"}, {"type": "text", "text": "a"}],
    "metadata": METADATA,
    "_original": [{"a": None}],
}
MESSAGE: dict[str, Any] = {
    "id": "1",
    "sessionId": "s",
    "role": "user",
    "kind": "message",
    "source": "claude",
    "content": "hi",
    "sequence": 1,
    "createdAt": "2026-01-01T00:00:00Z",
    "parsed": [{"type": "file", "mimeType": None, "mime_type_": 1}, {"type": "raw", "raw": {"type": "raw"}}],
}
WIRE: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "text": (TextContent, {"type": "text", "text": "a", "citations": None, "cache_control": {"a": None}}),
    "text alone": (TextContent, {"type": "text", "text": "a"}),
    "result": (ToolResultContent, {"type": "tool_result", "content": None, "is_error": False}),
    "result alone": (ToolResultContent, {"type": "tool_result"}),
    "image": (ImageContent, {"type": "image", "source": {"type": "url", "url": "u", "data": None}}),
    "file": (FileContent, {"type": "file", "mimeType": "a/b", "storagePath": None, "source": {"type": "x"}}),
    "raw": (RawContent, {"type": "raw", "raw": None}),
    "raw with a null reason": (RawContent, {"type": "raw", "reason": None, "raw": 1}),
    "message": (Message, MESSAGE),
    "message without content": (Message, {key: MESSAGE[key] for key in MESSAGE if key not in ("content", "parsed")}),
    "parsed message": (
        ParsedMessage,
        {"source": "claude", "kind": "message", "role": "user", "parsed": MESSAGE["parsed"]},
    ),
    "standard": (StandardMessage, STANDARD),
    "usage": (
        StandardTokenUsage,
        {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "vendor": None, "iterations": None},
    ),
    "metadata": (MessageMetadata, {"source": "claude", "sessionId": "s", "toolUseResult": None, "new": None}),
    "error": (MessageError, {"code": "c", "message": "m", "details": None}),
    "response": (ExecutionResponse[str], {"data": None, "messages": [STANDARD], "status": "success"}),
}  # fmt: skip


@pytest.mark.parametrize("name", WIRE)
def test_json_keeps_absent_keys_absent_and_nulls_null(name: str) -> None:
    model, wire = WIRE[name]
    adapter: TypeAdapter[Any] = TypeAdapter(model)

    value = model.model_validate(wire)

    dumps = [
        value.model_dump(mode="json"),
        json.loads(value.model_dump_json()),
        adapter.dump_python(value, mode="json"),
        json.loads(adapter.dump_json(value)),
        json.loads(TypeAdapter(list[Any]).dump_json([value]))[0],
        TypeAdapter(dict[str, model]).dump_python({"a": value}, mode="json")["a"],  # type: ignore[valid-type]
        json.loads(value.model_copy(deep=True).model_dump_json()),
        json.loads(pickle.loads(pickle.dumps(value)).model_dump_json()),
        json.loads(copy.deepcopy(value).model_dump_json()),
    ]
    assert dumps == [wire] * len(dumps)


def test_blocks_in_a_union_keep_absent_keys_absent() -> None:
    adapter: TypeAdapter[list[MessageContent]] = TypeAdapter(list[MessageContent])

    assert adapter.dump_json(adapter.validate_python(STANDARD["content"])) == (
        b'[{"type":"tool_result","tool_use_id":null,"content":"ok"},{"type":"text","text":"a"}]'
    )


@pytest.mark.parametrize("name", WIRE)
def test_absent_fields_read_as_none(name: str) -> None:
    model, wire = WIRE[name]

    value = model.model_validate(wire)

    absent = {
        field
        for field, info in model.model_fields.items()
        if (info.alias or field) not in wire and not info.is_required()
    }
    assert {getattr(value, field) for field in absent} <= {None}
    assert {getattr(value, field) for field in absent} == {item for key, item in value if key in absent}
    assert absent.isdisjoint(value.model_fields_set)
    assert {name for name, _ in value.__repr_args__()}.isdisjoint(absent)
    assert "MISSING" not in repr(value)


def test_absent_and_null_differ_in_equality_as_in_json() -> None:
    assert ToolResultContent() == ToolResultContent.model_validate({"type": "tool_result"})
    assert ToolResultContent() != ToolResultContent(content=None)


BUILT: dict[str, tuple[AshModel, dict[str, Any]]] = {
    "text": (TextContent(text="hi"), {"type": "text", "text": "hi"}),
    "thinking": (ThinkingContent(thinking=""), {"type": "thinking", "thinking": ""}),
    "tool use": (ToolUseContent(name="n", input={}), {"type": "tool_use", "name": "n", "input": {}}),
    "raw": (RawContent(raw={"a": 1}), {"type": "raw", "raw": {"a": 1}}),
    "snake_case": (FileContent(mime_type="a/b"), {"type": "file", "mimeType": "a/b"}),
    "camelCase": (FileContent(mimeType="a/b"), {"type": "file", "mimeType": "a/b"}),
    "wire keys of an open model": (
        TextContent(text="a", cache_control=1), {"type": "text", "text": "a", "cache_control": 1}
    ),
    "null is kept": (TextContent(text="a", citations=None), {"type": "text", "text": "a", "citations": None}),
    "None leaves the field absent": (
        MessageMetadata(source="s", model=None, session_id=None, cost_usd=0.5), {"source": "s", "costUsd": 0.5}
    ),
    "standard message": (
        StandardMessage(
            id="1", role="user", content=[], metadata=MessageMetadata(source="s"), usage=None, error=None, original=[]
        ),
        {"id": "1", "role": "user", "content": [], "metadata": {"source": "s"}, "_original": []},
    ),
    "event payload": (TurnEnded(cost_usd=None, partial=True), {"partial": True}),
    "event": (
        TurnEndEvent(id="e", timestamp=1, session_id="s", payload=TurnEnded()),
        {"id": "e", "timestamp": 1, "sessionId": "s", "type": "turn_end", "payload": {}},
    ),
    "without validation": (TextContent.model_construct(text="a"), {"type": "text", "text": "a"}),
    "copy without a value": (
        MessageMetadata(source="s", model="m").model_copy(update={"model": None}), {"source": "s"}
    ),
    "copy with a null": (TextContent(text="a").model_copy(update={"citations": None}),
                         {"type": "text", "text": "a", "citations": None}),
}  # fmt: skip


@pytest.mark.parametrize("name", BUILT)
def test_models_built_in_python(name: str) -> None:
    value, expected = BUILT[name]

    dumped = json.loads(value.model_dump_json())

    assert (dumped, list(dumped)) == (expected, list(expected))


ERROR: dict[str, Any] = {"code": "c", "message": "m"}
REJECTED: dict[str, tuple[type[BaseModel], dict[str, Any], tuple[str, str]]] = {
    "unknown keyword": (MessageError, {**ERROR, "mesage": "x"}, ("mesage", "extra_forbidden")),
    "both names": (FileContent, {"mimeType": "a", "mime_type": "a"}, ("mimeType", "given_twice")),
    "both names of a closed model": (Message, {**MESSAGE, "session_id": "s"}, ("sessionId", "given_twice")),
    "both names, one None": (MessageMetadata, {"source": "s", "costUsd": None, "cost_usd": 1.0},
                             ("costUsd", "given_twice")),
    "wrong type": (TextContent, {"text": 5}, ("text", "string_type")),
    "required field": (TextContent, {}, ("text", "missing")),
    "null in a payload": (TurnEndEvent, {"id": "e", "timestamp": 1, "sessionId": "s", "type": "turn_end",
                                              "payload": {"usage": None}}, ("payload", "model_type")),
}  # fmt: skip


@pytest.mark.parametrize("name", REJECTED)
def test_constructors_reject_invalid_fields(name: str) -> None:
    model, fields, (key, problem) = REJECTED[name]

    with pytest.raises(ValidationError) as caught:
        model(**fields)

    assert [(error["loc"][0], error["type"]) for error in caught.value.errors()][:1] == [(key, problem)]


def test_validated_dicts_may_have_unknown_keys() -> None:
    assert MessageError.model_validate({**ERROR, "since": "next version"}).model_dump() == ERROR


def test_rejects_null_in_an_omittable_field() -> None:
    event = {"id": "e", "timestamp": 1, "sessionId": "s", "turnId": None, "type": "turn_end", "payload": {}}

    with pytest.raises(ValidationError):
        read_event(event)


RAW: dict[str, tuple[Any, Any]] = {
    "as documented": ({"type": "raw", "raw": {"type": "new", "a": [None]}}, {"type": "new", "a": [None]}),
    "not an object": ({"type": "raw", "raw": [1]}, [1]),
    "with a reason": ({"type": "raw", "reason": "opaque", "raw": "x"}, "x"),
}


@pytest.mark.parametrize("name", RAW)
def test_raw_block_reads_as_itself(name: str) -> None:
    block, raw = RAW[name]
    line = claude.line("user", [block])

    (content,) = parse_message_content(line)

    assert isinstance(content, RawContent)
    assert content.raw == raw
    assert json.loads(content.model_dump_json()) == block
    assert json.loads(parse_message_content_json(line)) == [block]


SNAKE_CASE = """
import sys
from ash_shared import FileContent, parse_message_content

for step in sys.argv[1:]:
    if step == "construct":
        FileContent(mime_type="a/b")
    else:
        (content,) = parse_message_content([{"type": "file", "mime_type": "a/b", "storage_path": 5}])
        print(content.mime_type, content.model_extra)
"""


@pytest.mark.parametrize("steps", [("parse",), ("construct", "parse"), ("parse", "construct", "parse")])
def test_snake_case_keys_of_a_wire_block_are_unknown_data(steps: tuple[str, ...]) -> None:
    """Also if a program has created such a block before."""
    done = subprocess.run(
        [sys.executable, "-c", SNAKE_CASE, *steps], capture_output=True, text=True, check=False
    )

    expected = "None {'mime_type': 'a/b', 'storage_path': 5}\n" * steps.count("parse")
    assert (done.stdout, done.stderr) == (expected, "")


def test_snake_case_keys_of_a_wire_block_come_back_equal() -> None:
    block = {"type": "file", "mime_type": "a/b", "storage_path": 5}

    (content,) = parse_message_content([block])

    assert isinstance(content, FileContent)
    assert content.model_dump(mode="json") == block


class Note(TextContent):
    """A model of another application."""

    author: Omittable[str] = ABSENT
    page: int | None = ABSENT


def test_subclasses_may_have_optional_fields() -> None:
    note = Note(text="a", page=None)

    assert (note.author, note.page, note.citations) == (None, None, None)
    assert note.model_dump() == {"type": "text", "text": "a", "page": None}


def test_schema_requires_type_and_excludes_null_in_omittable_fields() -> None:
    text, metadata = TextContent.model_json_schema(), MessageMetadata.model_json_schema()

    assert text["required"] == ["type", "text"]
    assert "default" not in str(text["properties"])
    assert metadata["properties"]["sessionId"]["type"] == "string"
    assert metadata["required"] == ["source"]
    assert SessionSummary.model_json_schema()["properties"]["turns"]["default"] == 0
