"""The OpenAPI document is current, complete and equal to the models."""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import pytest
from httpx2 import AsyncClient
from litestar.routes import HTTPRoute

from ash_server.api.http.openapi.document import EXAMPLES
from ash_server.app import create_app, openapi_json
from ash_server.settings import Settings
from ash_shared.model.content import MessageContent
from ash_shared.model.events import EVENT_TYPES, KnownEvent, read_event
from ash_shared.model.message import Message
from tests.openapi_document import DOCUMENT

FOLDER = Path(__file__).parents[4] / "openapi"
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {
    operation["operationId"]: operation
    for operations in DOCUMENT["paths"].values()
    for operation in operations.values()
}


def everything(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of the document."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from everything(child)


@pytest.mark.slow
def test_stored_document_is_current() -> None:
    """The order of sets, which follows the hash seed of the process, does not show in the document."""
    assert (FOLDER / "openapi.json").read_text() == openapi_json(), "run `make openapi`"


def test_typescript_types_are_current() -> None:
    first_line = (FOLDER / "ash.d.ts").read_text().partition("\n")[0]

    assert first_line.endswith(sha256((FOLDER / "openapi.json").read_bytes()).hexdigest()), (
        "run `make openapi`"
    )


@pytest.mark.slow
async def test_document_is_served(client: AsyncClient) -> None:
    served = await client.get("/openapi.json")

    assert (served.headers["content-type"], served.json()) == ("application/json", DOCUMENT)


@pytest.mark.slow
def test_document_is_valid() -> None:
    import schemathesis  # takes as long as many tests

    schemathesis.openapi.from_dict(DOCUMENT).validate()


def test_content_is_a_tagged_union() -> None:
    classes = get_args(get_args(MessageContent.__value__)[0])
    types = {get_args(model.model_fields["type"].annotation)[0]: model.__name__ for model in classes}

    union = SCHEMAS["MessageContent"]

    assert union["discriminator"] == {
        "propertyName": "type",
        "mapping": {type: f"#/components/schemas/{name}" for type, name in types.items()},
    }
    assert {choice["$ref"] for choice in union["oneOf"]} == set(union["discriminator"]["mapping"].values())
    for type, name in types.items():
        assert SCHEMAS[name]["properties"]["type"] == {"const": type, "type": "string"}
        assert "type" in SCHEMAS[name]["required"]
        assert SCHEMAS[name]["additionalProperties"] is True
        assert SCHEMAS[name]["description"]
        assert SCHEMAS[name]["examples"]


def test_parsed_is_a_list_of_the_content_union() -> None:
    for name in ("Message", "ParsedMessage"):
        assert SCHEMAS[name]["properties"]["parsed"]["items"] == {
            "$ref": "#/components/schemas/MessageContent"
        }


def test_standard_messages_use_the_content_union() -> None:
    content = SCHEMAS["StandardMessage"]["properties"]["content"]

    assert content["items"] == {"$ref": "#/components/schemas/MessageContent"}
    assert {"MessageError", "MessageMetadata", "StandardTokenUsage", "ExecutionResponse"} <= SCHEMAS.keys()


EVENTS = get_args(get_args(KnownEvent.__value__)[0])
EVENT_MODELS = {get_args(model.model_fields["type"].annotation)[0]: model for model in EVENTS}


def test_events_are_an_open_tagged_union() -> None:
    union, other = SCHEMAS["KnownEvent"], SCHEMAS["OtherEvent"]

    assert EVENT_MODELS.keys() == EVENT_TYPES
    assert [choice["$ref"] for choice in SCHEMAS["ChatEvent"]["anyOf"]] == [
        "#/components/schemas/KnownEvent",
        "#/components/schemas/OtherEvent",
    ]
    assert union["discriminator"] == {
        "propertyName": "type",
        "mapping": {type: f"#/components/schemas/{model.__name__}" for type, model in EVENT_MODELS.items()},
    }
    assert len(union["oneOf"]) == len(EVENTS)
    assert set(other["properties"]["type"]["not"]["enum"]) == EVENT_TYPES
    for type, model in EVENT_MODELS.items():
        schema = SCHEMAS[model.__name__]
        payload = SCHEMAS[model.model_fields["payload"].annotation.__name__]
        assert schema["properties"]["type"] == {"const": type, "type": "string"}
        assert {"id", "timestamp", "sessionId", "type", "payload", "sequence"} == set(schema["required"])
        assert schema["properties"]["payload"]["$ref"].rpartition("/")[2] in SCHEMAS
        assert schema["additionalProperties"] is payload["additionalProperties"] is True
        assert schema["description"]
        assert payload["description"]


def test_optional_fields_of_requests_have_no_default() -> None:
    """Generators make fields with a default required."""
    requests = {name: each for name, each in SCHEMAS.items() if each.get("additionalProperties") is False}
    fields = [field for request in requests.values() for field in request["properties"].values()]

    assert {"SessionToCreate", "SessionPatch", "MessageToAppend", "Commit"} <= requests.keys()
    assert [field for field in fields if "default" in field] == []


def test_metadata_is_an_open_object() -> None:
    """Generators treat an object without properties as empty."""
    closed = [
        node
        for node in everything(SCHEMAS)
        if node.get("type") == "object" and node.keys().isdisjoint({"properties", "additionalProperties"})
    ]

    assert closed == []
    assert SCHEMAS["SessionPatch"]["properties"]["metadata"]["additionalProperties"] is True


def test_bodies_of_requests_are_of_one_type() -> None:
    """Clients generated from a union of an item and a list do not compile."""
    unions = [
        (name, media_type)
        for name, operation in OPERATIONS.items()
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items()
        if {"anyOf", "oneOf"} & (content["schema"].keys() | _resolved(content["schema"]).keys())
    ]

    assert unions == []


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    items = schema.get("items", schema)
    return SCHEMAS.get(items.get("$ref", "").rpartition("/")[2], {})  # type: ignore[no-any-return]


def test_large_integers_have_64_bits() -> None:
    """Timestamps in milliseconds exceed the default integer type of Go and Java clients."""
    formats = {
        SCHEMAS[name]["properties"][field].get("format")
        for name, field in (
            ("TurnStartEvent", "timestamp"),
            ("Message", "sequence"),
            ("EventPage", "nextAfter"),
        )
    }
    limit = next(each for each in OPERATIONS["listEvents"]["parameters"] if each["name"] == "limit")

    assert formats == {"int64"}
    assert "format" not in limit["schema"]


def test_event_examples_are_valid() -> None:
    content = OPERATIONS["listEvents"]["responses"]["200"]["content"]["application/json"]
    for example in content["examples"]["page"]["value"]["events"]:
        assert read_event(example).model_dump() == example


HANDLERS = {
    handler.operation_id: handler
    for route in create_app(Settings(), database_url="postgresql://").routes
    if isinstance(route, HTTPRoute)
    for handler in route.route_handlers
    if handler.operation_id in OPERATIONS
}


def test_docstrings_of_handlers_become_descriptions() -> None:
    documented = {
        name: " ".join(f"{operation['summary']}. {operation.get('description', '')}".split())
        for name, operation in OPERATIONS.items()
    }

    assert documented == {
        name: " ".join((handler.fn.__doc__ or "").split()) for name, handler in HANDLERS.items()
    }


def test_examples_of_the_file_are_in_the_document() -> None:
    examples = json.loads(EXAMPLES.read_bytes())["operations"]
    documented = {name: dict(documented_examples(operation)) for name, operation in OPERATIONS.items()}

    assert {name: each for name, each in documented.items() if each} == {
        name: {
            part: {media: list(values) for media, values in contents.items()}
            for part, contents in each.items()
        }
        for name, each in examples.items()
    }


def documented_examples(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield the names of the examples of the body and of the answer by media type."""
    answers = [answer for status, answer in operation["responses"].items() if status < "400"]
    for part, place in (("body", operation.get("requestBody", {})), *(("answer", each) for each in answers)):
        contents = place.get("content", {})
        if names := {media: list(each["examples"]) for media, each in contents.items() if "examples" in each}:
            yield part, names


def test_docstrings_become_descriptions() -> None:
    assert SCHEMAS["Message"]["description"] == Message.__doc__
    assert SCHEMAS["Message"]["properties"]["sequence"]["description"].startswith("Position in the session")


def test_references_resolve_and_schemas_are_used() -> None:
    used = {node["$ref"] for node in everything(DOCUMENT) if "$ref" in node}

    # A result of the library that no route returns.
    assert used | {"#/components/schemas/ExecutionResponse"} == {
        f"#/components/schemas/{name}" for name in SCHEMAS
    }


def test_every_operation_is_described() -> None:
    tags = {tag["name"] for tag in DOCUMENT["tags"] if tag["description"]}
    for name, operation in OPERATIONS.items():
        assert operation["summary"], name
        assert set(operation["tags"]) <= tags, name
        for parameter in operation.get("parameters", ()):
            assert parameter["in"] == "path" or parameter["description"], name


def test_every_error_response_lists_its_codes() -> None:
    for operation in OPERATIONS.values():
        for status, response in operation["responses"].items():
            if status < "400":
                continue
            (media_type, content), *others = response["content"].items()
            assert (media_type, others) == ("application/problem+json", [])
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
            assert set(content["examples"]) == set(re.findall(r"`(\w+)`:", response["description"]))
            assert {str(example["value"]["status"]) for example in content["examples"].values()} == {status}


def test_failed_writes_say_what_was_stored() -> None:
    responses = OPERATIONS["appendMessages"]["responses"]

    assert (
        "`write_unconfirmed`: The database did not confirm the write. It may be stored; repeat it with the same ids."
        in responses["503"]["description"]
    )
    assert responses["507"]["description"] == (
        "`disk_full`: The disk of the database is full. Nothing was stored."
    )


def test_hand_read_bodies_are_documented() -> None:
    bodies = {
        name: list(operation["requestBody"]["content"])
        for name, operation in OPERATIONS.items()
        if "requestBody" in operation
    }

    assert bodies == {
        "createSession": ["application/json"],
        "updateSession": ["application/json"],
        "updateLabels": ["application/json"],
        "shareSession": ["application/json"],
        "appendMessages": ["application/json", "application/x-ndjson", "text/plain"],
        "claimTranscript": ["application/json"],
        "compareMessages": ["application/json"],
        "completeTranscript": ["application/json"],
        "appendEvents": ["application/json", "application/x-ndjson"],
        "appendChunks": ["application/x-ndjson"],
        "parse": ["application/json"],
        "setBudget": ["application/json"],
        "setColdPolicy": ["application/json"],
        "runColdPolicy": ["application/json"],
        "setRetention": ["application/json"],
        "runRetention": ["application/json"],
    }
    for name in ("MessageToAppend", "NewBudget", "SessionToCreate", "SessionPatch", "ParseRequest"):
        assert SCHEMAS[name]["additionalProperties"] is False


async def test_body_examples_are_accepted(client: AsyncClient, session: str) -> None:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
                for example in content["examples"].values():
                    value = example["value"]
                    body = json.dumps(value) if media_type == "application/json" else value
                    response = await client.request(
                        method,
                        path.replace("{session_id}", session.rpartition("/")[2]),
                        content=body,
                        headers={"Content-Type": media_type},
                    )
                    refused = response.is_error and response.json()["code"] == "share_refused"
                    assert response.is_success or refused, (path, response.text)  # refused without keys
