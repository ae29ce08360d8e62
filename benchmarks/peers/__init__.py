"""The systems compared with Ash; those that are not installed are skipped."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

ASSISTANT = "assistant lines"
USER = "user lines"
BARE = "bare messages"
"""API responses without the envelope of a session line."""
CHAT = "Chat Completions answers"
RESPONSES = "Responses API answers"
GEMINI = "Gemini API answers"


class Parser(NamedTuple):
    """A message parser of another library; it decodes the text with orjson."""

    name: str
    reads: frozenset[str]
    """The supported sets of messages."""
    read: Callable[[bytes], Any]
    """Parse a message; any exception counts as rejected."""
    show: Callable[[Any], Any]
    """Convert the result to JSON values, to compare the content."""


_MODULES = ("langchain", "agent_sdk", "messages_api", "pydantic_agents", "openai_api", "gemini_api")


def installed_parsers() -> Iterator[Parser]:
    for name in _MODULES:
        try:
            module = import_module(f"{__name__}.{name}")
        except ModuleNotFoundError:
            continue
        yield from module.PARSERS
