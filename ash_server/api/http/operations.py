"""What the framework cannot say of a route by itself: bodies that are read by hand, answers in several forms."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from litestar.openapi.spec import Example, OpenAPIMediaType, Operation, Reference, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType

Content = Mapping[str, OpenAPIMediaType]

MOST_IN_BATCH = 1000

ONE_LINE = r"^(?![\s\S]*[\x00\r\n])[\s\S]"
WITHOUT_NUL = {"pattern": r"^[^\x00]*$"}
"""Of texts that the database keeps: said in the document; the refusal has a code of its own."""


def operation(
    *, body: Content | None = None, answers: Mapping[int, Content] | None = None
) -> type[Operation]:
    """An operation that reads this body, and whose answers also have these forms."""

    @dataclass
    class Documented(Operation):
        def __post_init__(self) -> None:
            if body is not None:
                self.request_body = RequestBody(content=dict(body), required=True)
            for status, content in (answers or {}).items():
                self._extend(str(status), content)

        def _extend(self, status: str, content: Content) -> None:
            response = (self.responses or {})[status]
            response.content = {**(response.content or {}), **content}  # type: ignore[union-attr]

    return Documented


def json_of(model: type, **examples: Any) -> OpenAPIMediaType:
    return OpenAPIMediaType(schema=reference(model), examples=_examples(examples))


def json_of_any(*models: type, **examples: Any) -> OpenAPIMediaType:
    return OpenAPIMediaType(schema=Schema(any_of=list(map(reference, models))), examples=_examples(examples))


def json_list_of(model: Any, **examples: Any) -> OpenAPIMediaType:
    """One, or a list of them."""
    several = Schema(type=OpenAPIType.ARRAY, items=reference(model), min_items=1, max_items=MOST_IN_BATCH)
    return OpenAPIMediaType(schema=Schema(one_of=[reference(model), several]), examples=_examples(examples))


def text(description: str, pattern: str | None = None, **examples: str) -> OpenAPIMediaType:
    schema = Schema(type=OpenAPIType.STRING, description=description, pattern=pattern)
    return OpenAPIMediaType(schema=schema, examples=_examples(examples))


def reference(model: Any) -> Reference:
    return Reference(ref=f"#/components/schemas/{model.__name__}")


def _examples(values: Mapping[str, Any]) -> dict[str, Example | Reference] | None:
    return {name: Example(value=value) for name, value in values.items()} or None
