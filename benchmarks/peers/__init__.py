"""The systems that are measured beside Ash; each is left out where it is not installed."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

ASSISTANT = "assistant lines"
USER = "user lines"
BARE = "bare messages"
"""Answers of the API without a session's envelope."""
CHAT = "Chat Completions answers"
RESPONSES = "Responses API answers"
GEMINI = "Gemini API answers"


class Parser(NamedTuple):
    """What reads messages in another library, from their text on, which it decodes with orjson."""

    name: str
    reads: frozenset[str]
    """Which of the sets of messages it is made for."""
    read: Callable[[bytes], Any]
    """May refuse a message by raising anything."""
    show: Callable[[Any], Any]
    """What it read, as JSON values, to see what was kept."""


_MODULES = ("langchain", "agent_sdk", "messages_api", "pydantic_agents", "openai_api", "gemini_api")


def installed_parsers() -> Iterator[Parser]:
    for name in _MODULES:
        try:
            module = import_module(f"{__name__}.{name}")
        except ModuleNotFoundError:
            continue
        yield from module.PARSERS
