"""Compare the provider tables with the vendors' own packages, so that a new vendor type fails here first.

The packages are installed only in the development group. Their unions are read when the test runs, so updating
a package updates the test.
"""

import importlib
import inspect
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest

from ash_shared import RawContent, parse_message_content
from tests.shared.records import claude
from tools.wire.comparison import is_unknown
from tools.wire.literals import cases
from tools.wire.sources import claude_python_record, copilot_event

ANTHROPIC = ("ContentBlock", "ContentBlockParam")
ANTHROPIC_BETA = ("BetaContentBlock", "BetaContentBlockParam")
RESPONSES = ("ResponseOutputItem", "ResponseInputItem")


def members(union: Any) -> list[Any]:
    """Return the members of a union, however nested or annotated."""
    union = getattr(union, "__value__", union)
    if get_origin(union) is Annotated:
        return members(get_args(union)[0])
    if get_origin(union) in (dict, list, Literal) or not get_args(union):
        return [union]
    return [member for each in get_args(union) for member in members(each)]


def literals(model: Any, key: str) -> set[str]:
    """Return the values that a class or a typed dict allows for this key."""
    fields = getattr(model, "model_fields", None)
    if not fields and not hasattr(model, "__annotations__"):
        return set()
    hints = {name: field.annotation for name, field in fields.items()} if fields else get_type_hints(model)
    return {
        value
        for hint in members(hints.get(key))
        if get_origin(hint) is Literal
        for value in get_args(hint)
        if value
    }


def names(module: str, *unions: str, key: str = "type") -> list[str]:
    types = importlib.import_module(module)
    return sorted(
        {
            name
            for union in unions
            for model in members(getattr(types, union))
            for name in literals(model, key)
        }
    )


def claude_sdk_names() -> list[str]:
    """Return the message types of its parser, because its classes have no discriminators."""
    parser = importlib.import_module("claude_agent_sdk._internal.message_parser")
    return sorted({literal.name for literal in cases(Path(inspect.getfile(parser)))})


def in_message(block: dict[str, Any]) -> dict[str, Any]:
    return claude.line("assistant", [block])


def gemini_parts() -> list[str]:
    """Return each key in both spellings."""
    keys = importlib.import_module("google.genai.types").Part.model_fields
    return sorted({*keys, *(re.sub("_(.)", lambda match: match[1].upper(), key) for key in keys)})


def pydantic_ai_kinds(key: str, *unions: str) -> list[str]:
    """Return the values of a key of its data classes; their annotations cannot be evaluated."""
    messages = importlib.import_module("pydantic_ai.messages")
    models = [model for union in unions for model in members(getattr(messages, union))]
    return sorted({getattr(model, key) for model in models if hasattr(model, key)})


def copilot_events() -> list[str]:
    """Return the events of the log and of the stream."""
    types = pytest.importorskip("copilot.generated.session_events", reason="`make env` installs it")
    return sorted(each.value for each in types.SessionEventType if each.value != "unknown")


RecordMaker = Callable[[str], dict[str, Any]]

CASES: list[tuple[str, Callable[[], list[str]], RecordMaker]] = [
    ("claude", partial(names, "anthropic.types", *ANTHROPIC), lambda name: in_message({"type": name})),
    (
        "claude",
        partial(names, "anthropic.types.beta", *ANTHROPIC_BETA),
        lambda name: in_message({"type": name}),
    ),
    (
        "claude",
        partial(names, "anthropic.types.beta", "BetaRawMessageStreamEvent"),
        lambda name: {"type": name},
    ),
    ("claude", claude_sdk_names, claude_python_record),
    ("openai_responses", partial(names, "openai.types.responses", *RESPONSES), lambda name: {"type": name}),
    (
        "openai_responses",
        partial(names, "openai.types.responses", "ResponseStreamEvent"),
        lambda name: {"type": name},
    ),
    (
        "openai_responses",
        partial(names, "openai.types.responses", "ResponseInputContent"),
        lambda name: {"type": "message", "role": "user", "content": [{"type": name}]},
    ),
    (
        "openai_chat",
        partial(names, "openai.types.chat", "ChatCompletionContentPartParam"),
        lambda name: {"role": "user", "content": [{"type": name}]},
    ),
    (
        "openai_chat",
        partial(names, "openai.types.chat", "ChatCompletionMessageParam", key="role"),
        lambda name: {"role": name, "content": "text", "name": "n", "tool_call_id": "c"},
    ),
    (
        "openai_chat",
        partial(names, "openai.types.chat", "ChatCompletionMessageToolCallUnion"),
        lambda name: {"role": "assistant", "tool_calls": [{"type": name}]},
    ),
    ("gemini", gemini_parts, lambda name: {"role": "model", "parts": [{name: {}}]}),
    (
        "pydantic_ai",
        partial(pydantic_ai_kinds, "part_kind", "ModelRequestPart", "ModelResponsePart"),
        lambda name: {"kind": "request", "parts": [{"part_kind": name}]},
    ),
    ("copilot_cli", copilot_events, copilot_event),
    (
        "pydantic_ai",
        partial(pydantic_ai_kinds, "kind", "UserContent"),
        lambda name: {
            "kind": "request",
            "parts": [{"part_kind": "user-prompt", "content": [{"kind": name}]}],
        },
    ),
]
"""Source, a function that lists the type names of a vendor's union, and a function that makes a record of a type.

Listing imports the vendor's package, which is slow, so it happens only in the tests.
"""


@pytest.mark.slow
@pytest.mark.parametrize(("source", "list_names", "make_record"), CASES)
def test_every_vendor_type_is_known(
    source: str, list_names: Callable[[], list[str]], make_record: RecordMaker
) -> None:
    vendor_names = list_names()
    unknown = [name for name in vendor_names if is_unknown(make_record(name), source)]

    assert unknown == []
    assert len(vendor_names) > 1


@pytest.mark.parametrize(
    ("source", "make_record"), [(source, make_record) for source, _, make_record in CASES]
)
def test_unknown_type_is_detected(source: str, make_record: RecordMaker) -> None:
    """Ensure that the test above can fail."""
    (block,) = parse_message_content(json.dumps(make_record("hologram")), source)

    assert isinstance(block, RawContent)
    assert block.reason in ("unknown_type", "malformed")
