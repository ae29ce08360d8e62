"""OpenAPI details that the framework cannot derive: bodies read by the route, responses in several media types."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from litestar.openapi.spec import Example, OpenAPIMediaType, Operation, Reference, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType

from ash_server.api.http.bodies import MAX_BATCH_SIZE

Content = Mapping[str, OpenAPIMediaType]

ONE_LINE = r"^(?![\s\S]*[\x00\r\n])[\s\S]"
WITHOUT_NUL = {"pattern": r"^[^\x00]*$"}
"""Schema of stored texts. A NUL is rejected with the error `nul_byte`."""


def operation(
    *, body: Content | None = None, responses: Mapping[int, Content] | None = None
) -> type[Operation]:
    """Return an operation class that documents this body and these response contents."""

    @dataclass
    class DocumentedOperation(Operation):
        has_body: ClassVar[bool] = body is not None

        def __post_init__(self) -> None:
            if body is not None:
                self.request_body = RequestBody(content=dict(body), required=True)
            for status, content in (responses or {}).items():
                self._add_content(str(status), content)

        def _add_content(self, status: str, content: Content) -> None:
            response = (self.responses or {})[status]
            response.content = {**(response.content or {}), **content}  # type: ignore[union-attr]

    return DocumentedOperation


def json_of(model: type, **examples: Any) -> OpenAPIMediaType:
    return OpenAPIMediaType(schema=reference(model), examples=_examples(examples))


def json_of_any(*models: type, **examples: Any) -> OpenAPIMediaType:
    return OpenAPIMediaType(schema=Schema(any_of=list(map(reference, models))), examples=_examples(examples))


def json_batch_of(model: Any, **examples: Any) -> OpenAPIMediaType:
    """Return the content for a list of items.

    A single item is also accepted but not documented, because clients generated from a union do not compile.
    """
    items = Schema(type=OpenAPIType.ARRAY, items=reference(model), min_items=1, max_items=MAX_BATCH_SIZE)
    return OpenAPIMediaType(schema=items, examples=_examples(examples))


def text(description: str, pattern: str | None = None, **examples: str) -> OpenAPIMediaType:
    schema = Schema(type=OpenAPIType.STRING, description=description, pattern=pattern)
    return OpenAPIMediaType(schema=schema, examples=_examples(examples))


def reference(model: Any) -> Reference:
    return Reference(ref=f"#/components/schemas/{model.__name__}")


def _examples(values: Mapping[str, Any]) -> dict[str, Example | Reference] | None:
    return {name: Example(value=value) for name, value in values.items()} or None
