"""The OpenAPI document: routes as the framework finds them, shapes as pydantic and msgspec write them.

The framework's own reading of the models loses discriminators, descriptions and additional properties. So it learns
their names only, and the document takes the schemas from the models themselves.
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

_REFERENCE = "#/components/schemas/"

_DESCRIPTION = """\
Ash keeps what agents and their tools wrote, and reads it as typed content.

**What is kept.** Every text that comes in (a line of a transcript, an API message, plain words) is stored verbatim \
and comes out byte for byte: in `content`, as `text/plain`, and in the export of the session. Nothing is ever \
converted.

**What `parsed` means.** On read the text is parsed into a list of typed blocks, told apart by `type`: `text`, \
`thinking`, `tool_use`, `tool_result`, `image`, `file`, and `raw` for everything that has no typed form, which then \
holds it whole and says why. Reading never fails and drops nothing: keys that Ash does not know stay in the block, \
and what does not decode comes back as text. Because it happens on read, a better parser improves what was stored \
long ago.

**Sequences and cursors.** The messages of a session are numbered 1, 2, 3 … without a gap, in the order they were \
stored. A reader goes on behind the last sequence it saw (`after`), and sees every message exactly once, however \
many are being written meanwhile. Appends may be repeated safely: give messages an `id`, or append lines that carry \
the provider's own `uuid`. An append answers 201 where it stored anything, and 200 where all was stored before; \
`created` tells which is which.

**One log of events.** What is appended also becomes events: a turn begins, the user says something, an answer grows \
and is whole, a tool is called and has answered. A session has one log of them, numbered 1, 2, 3 … of its own; \
`messageSequence` names the message an event was derived from. Writers may post events, too. The same log serves \
replay and live view: read pages behind a cursor, follow it as server-sent events or over a WebSocket, and come back \
with the last `sequence`. `caught_up` says that all that was stored has been sent. Pieces of a stream (`…_chunk`) are \
followed by the whole (`…_done`, `tool_call`, `tool_result`), and `collapse` leaves them out. At a `reset`, clear what \
you have: the session was read anew, and all of it follows. Ignore keys you do not know, and show types you do not know.

**WebSocket frames** are one JSON text each, `{"type", "data"}`: `event` with an event; `caught_up`, once; and two \
topics with standard messages, `session.<id>.stream_output` of what is new and `session.<id>.message_complete` of a \
turn that has ended. The client has nothing to say.

**Refusals** are problem details (RFC 9457) with a stable `code`. Names in a query or body that a route does not \
know are refused rather than ignored. Problems never repeat the contents of a message.
"""

_TAGS = [
    Tag(name="sessions", description="Conversations: made, found, named, exported, deleted."),
    Tag(name="messages", description="What was said in a session: stored as it came, read as typed blocks."),
    Tag(
        name="events",
        description="What happened in a session, one after the other: live and later from the same log.",
    ),
    Tag(name="search", description="Where something was said or done."),
    Tag(name="drift", description="What the formats have by now and Ash does not know yet."),
    Tag(name="parse", description="The playground: how Ash reads a text, without storing it."),
    Tag(name="health", description="For whoever runs the server."),
]


class ModelNames(OpenAPISchemaPlugin):
    """Tells the framework to refer to a model instead of reading it."""

    @staticmethod
    def is_plugin_supported_type(value: Any) -> bool:
        return isinstance(value, type) and issubclass(value, BaseModel)

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: Any) -> Any:
        schema_creator.schema_registry.get_schema_for_field_definition(field_definition)
        return schema_creator.schema_registry.get_reference_for_field_definition(field_definition)


class _Document(OpenAPI):
    def __init__(self, document: OpenAPI, models: Sequence[type]) -> None:
        super().__init__(**vars(document))
        self._models = models

    def to_schema(self) -> dict[str, Any]:
        document = super().to_schema()
        for parameter in _parameters(document):
            parameter["schema"] = _of_query(parameter["schema"])
        components = {**document["components"], "schemas": _schemas(self._models)}
        return {"openapi": document["openapi"], **document, "components": components}


class DocumentConfig(OpenAPIConfig):
    """Where the document is served, and which models it describes beside its routes."""

    def __init__(self, models: Sequence[type]) -> None:
        super().__init__(
            title="Ash",
            version=version("ash-messages"),
            summary="Agent messages, kept verbatim and read as typed content.",
            description=_DESCRIPTION,
            license=License(name="MIT", identifier="MIT"),
            tags=_TAGS,
            path="/openapi.json",
            render_plugins=[JsonRenderPlugin(path="/", media_type="application/json")],  # type: ignore[arg-type]
        )
        self._models = models

    def to_openapi_schema(self) -> OpenAPI:
        return _Document(super().to_openapi_schema(), self._models)


class _Untitled(GenerateJsonSchema):
    """Without a title on every field that only repeats its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schemas(models: Sequence[type]) -> dict[str, Any]:
    pydantic: Any = [(model, "serialization") for model in models if issubclass(model, BaseModel)]
    structs = [model for model in models if issubclass(model, msgspec.Struct)]
    _, written = models_json_schema(pydantic, ref_template=_REFERENCE + "{model}", schema_generator=_Untitled)
    _, components = msgspec.json.schema_components(structs, ref_template=_REFERENCE + "{name}")
    return dict(sorted({**written["$defs"], **components}.items()))


def _parameters(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for operations in document["paths"].values():
        for operation in operations.values():
            yield from operation.get("parameters", ())


def _of_query(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that may be left out, but of which no address can say that it is null."""
    choices = [choice for choice in schema.get("oneOf", ()) if choice != {"type": "null"}]
    merged = {**(choices[0] if choices else {}), **{key: schema[key] for key in schema if key != "oneOf"}}
    return {key: _PLAIN.get(key, lambda value: value)(value) for key, value in merged.items()}


_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "type": lambda types: "string" if "string" in types else types,
    "enum": lambda values: [value for value in values if value is not None],
    "minimum": int,
    "maximum": int,
}
