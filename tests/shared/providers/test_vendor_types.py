"""The tables of the providers against the vendors' own packages: a type that a vendor adds fails here first.

The packages are in the development group alone. Their unions are read when the test runs, so a newer package is a
newer test.
"""

import importlib
import inspect
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest

from ash_shared import RawContent, parse_message_content

ANTHROPIC = ("ContentBlock", "ContentBlockParam")
ANTHROPIC_BETA = ("BetaContentBlock", "BetaContentBlockParam")
RESPONSES = ("ResponseOutputItem", "ResponseInputItem")


def members(union: Any) -> list[Any]:
    """The members of a union, however it is nested and annotated."""
    union = getattr(union, "__value__", union)
    if get_origin(union) is Annotated:
        return members(get_args(union)[0])
    if get_origin(union) in (dict, list, Literal) or not get_args(union):
        return [union]
    return [member for each in get_args(union) for member in members(each)]


def literals(model: Any, key: str) -> set[str]:
    """The values that a class, or a typed dict, allows for this key."""
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
    """What its parser of messages knows: its classes have no discriminators."""
    parser = importlib.import_module("claude_agent_sdk._internal.message_parser")
    found = set(re.findall(r'case "(\w+)"', inspect.getsource(parser)))
    return sorted(found)


def in_message(block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "content": [block]}}


def of_claude_sdk(name: str) -> dict[str, Any]:
    return {"type": "system", "subtype": name} if name in SUBTYPES else {"type": name}


def gemini_parts() -> list[str]:
    """Each key in both spellings."""
    keys = importlib.import_module("google.genai.types").Part.model_fields
    return sorted({*keys, *(re.sub("_(.)", lambda match: match[1].upper(), key) for key in keys)})


SUBTYPES = frozenset({"mirror_error", "task_notification", "task_progress", "task_started", "task_updated"})


Place = Callable[[str], dict[str, Any]]

CASES: list[tuple[str, Callable[[], list[str]], Place]] = [
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
    ("claude", claude_sdk_names, of_claude_sdk),
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
]
"""The source, a function that lists the names of a vendor's union, and a record with such a name in its place.

The functions import the vendors' packages, which is slow: only the tests call them.
"""


@pytest.mark.parametrize(("source", "list_names", "place"), CASES)
def test_every_type_of_the_vendor_is_in_a_table(
    source: str, list_names: Callable[[], list[str]], place: Place
) -> None:
    names_of_the_vendor = list_names()
    unknown = [name for name in names_of_the_vendor if is_unknown(place(name), source)]

    assert unknown == []
    assert len(names_of_the_vendor) > 1


def is_unknown(record: dict[str, Any], source: str) -> bool:
    blocks = parse_message_content(json.dumps(record), source)
    return any(isinstance(block, RawContent) and block.reason == "unknown_type" for block in blocks)


@pytest.mark.parametrize(("source", "place"), [(source, place) for source, _, place in CASES])
def test_a_type_that_no_table_lists_is_seen(source: str, place: Place) -> None:
    """The test above can fail."""
    (block,) = parse_message_content(json.dumps(place("hologram")), source)

    assert isinstance(block, RawContent)
    assert block.reason in ("unknown_type", "malformed")
