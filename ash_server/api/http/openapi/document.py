"""The OpenAPI document: routes from the framework, schemas from pydantic and msgspec.

The framework's schemas of the models lack discriminators, descriptions and additional properties. So it only gets the
model names, and the document takes the schemas from the models themselves.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import License, OpenAPI, Tag
from litestar.plugins import OpenAPISchemaPlugin
from litestar.typing import FieldDefinition
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from ash_server.api.http.redaction import PARAMETER
from ash_shared.model.event_types import CATALOGUE
from ash_shared.model.events import OtherEvent

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
    """Makes the framework reference models instead of generating their schemas."""

    @staticmethod
    def is_plugin_supported_type(value: Any) -> bool:
        return isinstance(value, type) and issubclass(value, BaseModel)

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: Any) -> Any:
        schema_creator.schema_registry.get_schema_for_field_definition(field_definition)
        return schema_creator.schema_registry.get_reference_for_field_definition(field_definition)


class _OpenApiDocument(OpenAPI):
    def __init__(self, document: OpenAPI, models: Sequence[type]) -> None:
        super().__init__(**vars(document))
        self._models = models

    def to_schema(self) -> dict[str, Any]:
        document = super().to_schema()
        _document_redaction(document)
        for parameter in _iter_parameters(document):
            parameter["schema"] = _plain(_parameter_schema(parameter["schema"]))
        for operation in _iter_operations(document, _PUBLIC_PATHS):
            operation["security"] = []
        components = {
            **document["components"],
            "schemas": _schemas(self._models),
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


class OpenApiDocumentConfig(OpenAPIConfig):
    """Configures the address of the document and its models."""

    def __init__(self, models: Sequence[type]) -> None:
        super().__init__(
            title="Ash",
            version=version("ash-messages"),
            summary="Agent messages, stored verbatim and read as typed content.",
            description=_DESCRIPTION,
            license=License(name="MIT", identifier="MIT"),
            tags=_TAGS,
            path="/openapi.json",
            render_plugins=[JsonRenderPlugin(path="/", media_type="application/json")],  # type: ignore[arg-type]
        )
        self._models = models

    def to_openapi_schema(self) -> OpenAPI:
        return _OpenApiDocument(super().to_openapi_schema(), self._models)


class _UntitledSchema(GenerateJsonSchema):
    """Omits field titles, which only repeat the field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schemas(models: Sequence[type]) -> dict[str, Any]:
    pydantic: Any = [(model, "serialization") for model in models if issubclass(model, BaseModel)]
    structs = [model for model in models if issubclass(model, msgspec.Struct)]
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


def _document_redaction(document: Mapping[str, Any]) -> None:
    """Add the parameter `redact`, which every route accepts, to those that show texts of sessions."""
    for path, operations in document["paths"].items():
        if path.startswith(("/api/sessions", "/api/search")) and "get" in operations:
            operations["get"].setdefault("parameters", []).append(_REDACT)


_REDACT = {
    "name": PARAMETER,
    "in": "query",
    "description": "Replace tokens, keys and passwords of known forms, for example by `[redacted: github token]`. "
    "Searches and filters compare redacted texts; chunks of streams have no text.",
    "schema": {"type": "boolean", "default": False},
    "required": False,
}


def _iter_operations(document: Mapping[str, Any], prefix: str) -> Iterator[dict[str, Any]]:
    for path, operations in document["paths"].items():
        if path.startswith(prefix):
            yield from operations.values()


def _iter_parameters(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for operations in document["paths"].values():
        for operation in operations.values():
            yield from operation.get("parameters", ())


def _parameter_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Remove null from the schema of an optional parameter, since a query cannot express it."""
    options = [option for option in schema.get("oneOf", ()) if option != {"type": "null"}]
    merged = {**(options[0] if options else {}), **{key: schema[key] for key in schema if key != "oneOf"}}
    return {key: _SIMPLIFY.get(key, lambda value: value)(value) for key, value in merged.items()}


_SIMPLIFY: Mapping[str, Callable[[Any], Any]] = {
    "type": lambda types: "string" if "string" in types else types,
    "enum": lambda values: [value for value in values if value is not None],
    "minimum": int,
    "maximum": int,
}
