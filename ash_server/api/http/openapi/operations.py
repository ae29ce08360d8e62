"""Route options for documentation that the framework cannot derive from a handler's signature."""

from collections.abc import Mapping
from typing import Any

Content = Mapping[str, Any]
"""A schema by media type: a model, a list or a union of models, or a JSON schema."""

BODY, ANSWER = "body", "answer"

WITHOUT_NUL = {"pattern": r"^[^\x00]*$"}
"""Schema of stored texts. A NUL is rejected with the error `nul_byte`."""


def documents(*, body: Content | None = None, answer: Content | None = None) -> dict[str, Content]:
    """Return the options of a route that reads its own body, or has responses of several media types."""
    contents = {BODY: body, ANSWER: answer}
    return {name: content for name, content in contents.items() if content is not None}


def text(description: str, pattern: str | None = None) -> dict[str, Any]:
    schema = {"type": "string", "description": description}
    return schema if pattern is None else {**schema, "pattern": pattern}
