"""The OpenAPI document: routes from the framework, schemas from pydantic and msgspec, examples from a file.

The framework's schemas of models lack discriminators, descriptions and additional properties. The framework therefore
only refers to models by name, and the models themselves provide the schemas.

The docstring of a handler is the summary and description of its operation. The description of the API and the examples
are in `api/docs/`.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import GenericAlias
from typing import Any, get_args

import msgspec
from litestar import Controller
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import License, OpenAPI, Tag
from litestar.plugins import OpenAPISchemaPlugin
from litestar.typing import FieldDefinition
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from ash_server.api.http.bodies import MAX_BATCH_SIZE
from ash_server.api.http.openapi.operations import ANSWER, BODY, Content
from ash_server.api.http.redaction import PARAMETER
from ash_shared.model.event_types import CATALOGUE
from ash_shared.model.events import OtherEvent

_DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = _DOCS / "examples.json"
"""Examples of bodies and answers by operation, media type and name. `{"$ref": NAME}` stands for a shared value."""

_REFERENCE = "#/components/schemas/"
_PUBLIC_PATHS = "/health/"
_SECURITY_SCHEMES = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key printed by `ash keys create`. Not needed while the server has no keys.",
    },
    "browser": {
        "type": "apiKey",
        "in": "cookie",
        "name": "ash_session",
        "description": "The cookie set by the page `/login`. Behind TLS, it is called `__Host-ash_session`.",
    },
}

_TAGS = [
    Tag(name="sessions", description="Create, find, rename, export and delete conversations."),
    Tag(name="messages", description="The messages of a session, stored verbatim and read as typed blocks."),
    Tag(name="events", description="The event log of a session, for replay and live view."),
    Tag(name="transcripts", description="Import of transcripts from other machines, used by `ash push`."),
    Tag(name="search", description="Full-text search over all sessions."),
    Tag(name="usage", description="Tokens, costs and budgets."),
    Tag(name="retention", description="Deletion of sessions some time after their last change."),
    Tag(name="drift", description="Content that this version of Ash does not recognize."),
    Tag(name="parse", description="Playground: parse a text without storing it."),
    Tag(name="keys", description="The audit log of keys."),
    Tag(name="health", description="Health checks for operators."),
]


class ModelReferences(OpenAPISchemaPlugin):
    """Makes the framework refer to models instead of generating their schemas, and collects these models."""

    def __init__(self) -> None:
        self.models = set[type]()

    @staticmethod
    def is_plugin_supported_type(value: Any) -> bool:
        return isinstance(value, type) and issubclass(value, BaseModel)

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: Any) -> Any:
        self.models.add(field_definition.annotation)
        schema_creator.schema_registry.get_schema_for_field_definition(field_definition)
        return schema_creator.schema_registry.get_reference_for_field_definition(field_definition)


class OpenApiDocumentConfig(OpenAPIConfig):
    """Configures the address of the document, and completes the documentation of the controllers' handlers.

    `models` are additional models that no route returns.
    """

    def __init__(
        self, controllers: Iterable[type[Controller]], references: ModelReferences, *models: type
    ) -> None:
        super().__init__(
            title="Ash",
            version=version("ash-messages"),
            summary="Agent messages, stored verbatim and read as typed content.",
            description=_unwrap((_DOCS / "description.md").read_text()),
            license=License(name="MIT", identifier="MIT"),
            tags=_TAGS,
            path="/openapi.json",
            use_handler_docstrings=True,
            render_plugins=[JsonRenderPlugin(path="/", media_type="application/json")],  # type: ignore[arg-type]
        )
        self._handlers = {
            handler.operation_id: handler
            for controller in controllers
            for handler in vars(controller).values()
            if isinstance(handler, HTTPRouteHandler)
        }
        self._references = references
        self._models = models

    def to_openapi_schema(self) -> OpenAPI:
        return _OpenApiDocument(super().to_openapi_schema(), self)

    def complete(self, operation: dict[str, Any]) -> None:
        """Complete an operation from its docstring, its route options and the examples."""
        handler = self._handlers[operation["operationId"]]
        operation["summary"], operation["description"] = _split_docstring(operation["description"])
        if not operation["description"]:
            del operation["description"]
        answer = operation["responses"][str(handler.status_code)]
        answer.setdefault("content", {}).update(_contents(handler.opt.get(ANSWER, {})))
        if not answer["content"]:
            del answer["content"]
        if BODY in handler.opt:
            operation["requestBody"] = {"content": _contents(handler.opt[BODY]), "required": True}
        _add_examples(operation)
        for parameter in operation.get("parameters", ()):
            parameter["schema"] = _plain(_parameter_schema(parameter["schema"]))

    def schemas(self) -> dict[str, Any]:
        """Return the schemas of all models used by operations."""
        contents = [
            handler.opt.get(name, {}) for handler in self._handlers.values() for name in (BODY, ANSWER)
        ]
        named = {model for content in contents for value in content.values() for model in _models_of(value)}
        return _schemas(named.union(self._references.models, self._models))


class _OpenApiDocument(OpenAPI):
    def __init__(self, document: OpenAPI, config: OpenApiDocumentConfig) -> None:
        super().__init__(**vars(document))
        self._config = config

    def to_schema(self) -> dict[str, Any]:
        document = super().to_schema()
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                self._config.complete(operation)
                if path.startswith(_PUBLIC_PATHS):
                    operation["security"] = []
                if method == "get" and path.startswith(_REDACTED_PATHS):
                    operation.setdefault("parameters", []).append(_REDACT)
        components = {
            **document["components"],
            "schemas": self._config.schemas(),
            "securitySchemes": _SECURITY_SCHEMES,
        }
        security: list[dict[str, list[str]]] = [{name: []} for name in _SECURITY_SCHEMES]
        complete = {
            "openapi": document["openapi"],
            **document,
            "security": security,
            "components": components,
        }
        return _renamed(complete)  # type: ignore[no-any-return]  # a document stays one


def _split_docstring(docstring: str) -> tuple[str, str]:
    summary, _, description = docstring.partition("\n\n")
    return summary.removesuffix("."), _unwrap(description)


def _unwrap(text: str) -> str:
    """Return the text with each paragraph on one line, as viewers of API documents show line breaks."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _contents(content: Content) -> dict[str, Any]:
    return {media_type: {"schema": _schema_of(value)} for media_type, value in content.items()}


def _schema_of(value: Any) -> dict[str, Any]:
    """Return the schema of a body or response.

    A list also accepts a single item, which is not documented: clients generated from a union do not compile.
    """
    if isinstance(value, Mapping):
        return dict(value)
    models = _models_of(value)
    references = [{"$ref": _REFERENCE + model.__name__} for model in models]
    if isinstance(value, GenericAlias):
        return {"type": "array", "items": references[0], "minItems": 1, "maxItems": MAX_BATCH_SIZE}
    return references[0] if len(references) == 1 else {"anyOf": references}


def _models_of(value: Any) -> tuple[type, ...]:
    return () if isinstance(value, Mapping) else get_args(value) or (value,)


def _add_examples(operation: dict[str, Any]) -> None:
    examples = _examples().get(operation["operationId"], {})
    bodies = [operation["requestBody"]] if BODY in examples else []
    answers = [answer for status, answer in operation["responses"].items() if status < "400"]
    for name, targets in ((BODY, bodies), (ANSWER, answers)):
        for media_type, values in examples.get(name, {}).items():
            for content in (each["content"] for each in targets if "content" in each):
                content[media_type]["examples"] = {name: {"value": value} for name, value in values.items()}


@cache
def _examples() -> Mapping[str, Any]:
    file = json.loads(EXAMPLES.read_bytes())

    def resolve(node: dict[str, Any]) -> Any:
        return file["shared"][node["$ref"]] if "$ref" in node else node

    operations: Mapping[str, Any] = json.loads(json.dumps(file["operations"]), object_hook=resolve)
    return operations


class _UntitledSchema(GenerateJsonSchema):
    """Omits field titles, which only repeat the field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schemas(models: Iterable[type]) -> dict[str, Any]:
    ordered = sorted(models, key=lambda model: model.__name__)
    pydantic: Any = [(model, "serialization") for model in ordered if issubclass(model, BaseModel)]
    structs = [model for model in ordered if issubclass(model, msgspec.Struct)]
    _, definitions = models_json_schema(
        pydantic, ref_template=_REFERENCE + "{model}", schema_generator=_UntitledSchema
    )
    _, components = msgspec.json.schema_components(structs, ref_template=_REFERENCE + "{name}")
    requests = {name: _without_defaults(schema) for name, schema in components.items()}
    schemas = {**definitions["$defs"], **requests}
    return {
        name: _plain(_with_sequence(name, schemas[name]) | _MORE_KEYWORDS.get(name, {}))
        for name in sorted(schemas)
    }


_MORE_KEYWORDS = {"Commit": {"minProperties": 1}}
"""Keywords for a whole struct, which msgspec cannot declare."""


def _without_defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Remove defaults from the schema of a request: client generators make fields with a default required."""
    properties = {
        name: {key: value for key, value in field.items() if key != "default"}
        for name, field in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties}


def _with_sequence(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Require the sequence of an event, which is optional in the library until the event is stored."""
    return {**schema, "required": [*schema["required"], "sequence"]} if name in _EVENTS else schema


_EVENTS = {row.model.__name__ for row in CATALOGUE.values()} | {OtherEvent.__name__}


_MAX_INT32, _MAX_INT64 = 2**31 - 1, 2**63 - 1


def _plain(schema: Any) -> Any:
    """Return an equivalent schema that uses only keywords that all tools support."""
    if isinstance(schema, list):
        return list(map(_plain, schema))
    if not isinstance(schema, dict):
        return schema
    plain = {name: _plain(value) for name, value in schema.items()}
    if plain.get("anyOf") == [{}, {"type": "null"}]:
        del plain["anyOf"]  # allows any value
    if plain.get("type") == "integer" and plain.get("maximum", _MAX_INT64) > _MAX_INT32:
        return {**plain, "format": "int64"}
    if plain.get("type") == "object":
        is_open = plain.keys().isdisjoint({"properties", "additionalProperties"})
        return {**plain, "additionalProperties": True} if is_open else plain
    first, *others = plain.get("prefixItems") or [None]
    is_uniform = first is not None and all(other == first for other in others)
    return _with_items(plain, first) if is_uniform else plain


def _with_items(schema: Mapping[str, Any], item: Any) -> dict[str, Any]:
    """Describe a tuple with equal item types as a list of fixed length."""
    return {name: value for name, value in schema.items() if name != "prefixItems"} | {"items": item}


_NAMES = {"NewEvent": "EventToAppend", "NewMessage": "MessageToAppend", "NewSession": "SessionToCreate"}
"""Schema names that differ from the model, because `NewSession` is the constructor of `Session` in Go."""
_NEW_REFERENCES = {_REFERENCE + model: _REFERENCE + name for model, name in _NAMES.items()}


def _renamed(node: Any, key: str = "") -> Any:
    """Rename the schemas in `_NAMES` within a part of the document."""
    if isinstance(node, list):
        return [_renamed(each) for each in node]
    if isinstance(node, dict):
        names = _NAMES if key == "schemas" else {}
        return {names.get(name, name): _renamed(value, name) for name, value in node.items()}
    if key == "title":
        return _NAMES.get(node, node)
    return _NEW_REFERENCES.get(node, node) if key == "$ref" else node


_REDACTED_PATHS = ("/api/sessions", "/api/search")
"""Paths of texts of sessions. All routes accept the parameter, and these document it."""
_REDACT = {
    "name": PARAMETER,
    "in": "query",
    "description": "Replace tokens, keys and passwords with known forms, for example by `[redacted: github token]`. "
    "Searches and filters then compare redacted texts, and stream chunks have no text.",
    "schema": {"type": "boolean", "default": False},
    "required": False,
}


def _parameter_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null, which a query cannot express, and with whole limits."""
    plain = {**schema.get("oneOf", [{}])[0], **schema}
    plain.pop("oneOf", None)
    if "enum" in plain:
        plain |= {"type": "string", "enum": [value for value in plain["enum"] if value is not None]}
    return plain | {limit: int(plain[limit]) for limit in ("minimum", "maximum") if limit in plain}
