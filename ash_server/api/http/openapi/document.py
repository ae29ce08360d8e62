"""The OpenAPI document: routes from the framework, schemas from pydantic and msgspec, examples from a file.

The framework's schemas of models lack discriminators, descriptions and additional properties. The framework therefore
only refers to models by name, and the models themselves provide the schemas.

The docstring of a handler is the summary and description of its operation. Examples are in `api/docs/examples.json`.
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

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples.json"
"""Examples of bodies and answers by operation, media type and name. `{"$ref": NAME}` stands for a shared value."""

_REFERENCE = "#/components/schemas/"
_PUBLIC_PATHS = "/health/"
_SECURITY_SCHEMES = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key that `ash keys create` printed. A server without keys needs none.",
    },
    "browser": {
        "type": "apiKey",
        "in": "cookie",
        "name": "ash_session",
        "description": "The cookie that the page `/login` sets; behind TLS its name is `__Host-ash_session`.",
    },
}

_DESCRIPTION = """\
Ash stores the messages of agents and their tools verbatim and reads them as typed content.

**Storage.** Every message (a line of a transcript, an API message, plain text) is stored verbatim and returned byte \
for byte: in `content`, as `text/plain`, and in the export of the session. Nothing is ever converted.

**Parsing.** On read a message is parsed into a list of typed blocks, discriminated by `type`: `text`, `thinking`, \
`tool_use`, `tool_result`, `image`, `file`, and `raw` for content without a typed form, with the content and the \
reason. Parsing never fails and drops nothing: unknown keys stay in the block, and text that is not JSON becomes a \
`text` block. Because messages are parsed on read, a better parser also improves the messages stored long ago.

**Sequences and cursors.** The messages of a session are numbered 1, 2, 3 … without gaps, in the order they were \
stored. A reader continues after the last sequence it received (`after`) and gets every message exactly once, even \
during concurrent writes. Appends can be retried safely: set the `id` of messages, or append lines with the \
provider's own `uuid`. An append returns 201 if it stored anything, 200 if everything was already stored; `created` \
reports it for each message.

**Event log.** Appended messages are also normalized to events: a turn starts, the user writes a message, an answer \
is streamed and completed, a tool is called and returns its result. Each session has one event log with its own \
sequences 1, 2, 3 …; `messageSequence` is the message an event was derived from. Clients can post events, too. Replay \
and live view use the same log: read pages after a cursor, subscribe with server-sent events or a WebSocket, and \
reconnect with the last `sequence`. `caught_up` means that all stored events have been sent. Stream chunks \
(`…_chunk`) are followed by the complete content (`…_done`, `tool_call`, `tool_result`); `collapse` omits the chunks. \
On `reset`, discard the events received so far: the session was parsed again, and all its events follow. Ignore \
unknown keys, and display unknown types.

**WebSocket frames** are JSON texts `{"type", "data"}`: `event` with an event; `caught_up`, once; and two topics with \
standard messages, `session.<id>.stream_output` for new events and `session.<id>.message_complete` for a completed \
turn. Clients send nothing.

**Times** are texts in RFC 3339, in UTC (`2026-11-02T09:14:07.130Z`). Only the `timestamp` of events and of standard \
messages is a number, milliseconds since 1970, because the formats of both specify it.

**Lists** stand under their own name (`sessions`, `messages`, `events`, `results`, `drift`), beside the cursor of the \
next page, `nextAfter`.

**Keys.** Requests carry a key, `Authorization: Bearer ash_…`, unless the server has none yet: it then answers \
everyone on its own machine. A key belongs to a tenant, and sees the sessions of this tenant only: those of others do \
not exist for it (404). Its scopes are `read` for GET and for parsing, `write` for storing, `delete` for deleting, and \
`admin` for the audit log and metrics. Streams end within 5 seconds after their key is revoked or expires.

**Errors** are problem details (RFC 9457) with a stable `code`. Unknown query parameters and body fields are rejected, \
not ignored. Problems never contain message contents.
"""

_TAGS = [
    Tag(name="sessions", description="Create, find, rename, export and delete conversations."),
    Tag(name="messages", description="The messages of a session: stored verbatim, read as typed blocks."),
    Tag(
        name="events",
        description="The event log of a session, for replay and live view.",
    ),
    Tag(name="transcripts", description="Transcripts of other machines: `ash push`."),
    Tag(name="search", description="Full-text search over all sessions."),
    Tag(name="drift", description="Content that Ash does not recognize yet."),
    Tag(name="parse", description="Playground: parse a text without storing it."),
    Tag(name="keys", description="What was done with keys."),
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
    """Configures the address of the document, and documents the handlers of these controllers.

    `models` are described although no route returns them.
    """

    def __init__(
        self, controllers: Iterable[type[Controller]], references: ModelReferences, *models: type
    ) -> None:
        super().__init__(
            title="Ash",
            version=version("ash-messages"),
            summary="Agent messages, stored verbatim and read as typed content.",
            description=_DESCRIPTION,
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
        """Add to an operation what its docstring, its route options and the examples say about it."""
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
        """Return the schemas of all models that the documented operations refer to."""
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
    """Return the first line without its period, and the other paragraphs with each on one line."""
    summary, *paragraphs = docstring.split("\n\n")
    return summary.removesuffix("."), "\n\n".join(" ".join(each.split()) for each in paragraphs)


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
    return {name: _plain(_with_sequence(name, schemas[name])) for name in sorted(schemas)}


def _without_defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a request without defaults: generators make fields with a default required."""
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
    """Describe a tuple of items of one type as a list of fixed length."""
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
    "description": "Replace tokens, keys and passwords of known forms, for example by `[redacted: github token]`. "
    "Searches and filters compare redacted texts; chunks of streams have no text.",
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
