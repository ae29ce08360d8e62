"""Generated requests (schemathesis) get documented responses and no server error."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis.internal.cache import LRUCache
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.generation.meta import CoveragePhaseData, CoverageScenario
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.transport.requests import ManagedCookiesSession

from ash_server.app import create_app
from ash_server.errors import InvalidParameter
from ash_server.store.labels import TAG
from ash_server.store.search.tokens import read_query
from tests.openapi_document import DOCUMENT
from tests.server.api.conftest import SHARED, Access, served
from tests.waiting import TIMEOUT

pytestmark = [
    pytest.mark.slow,
    # The pool draws random delays in the background, which hypothesis takes for a fault of the strategies.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module"),
]

CALLS = int(os.environ.get("ASH_TEST_CALLS", "10"))
"""Calls of each operation, besides those with the limits of each value."""

NAMED = {"source": "schemathesis", "externalId": "a session with some messages"}

IS_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

# A schema cannot forbid duplicate ids in a list (422), but it can limit the length of a list (413).
OPTIONS: dict[str, Any] = {
    "request-timeout": TIMEOUT,
    "checks": {
        "positive_data_acceptance": {"expected-statuses": ["2xx", 401, 403, 404, 409, 422]},
        "negative_data_rejection": {"expected-statuses": [400, 403, 404, 405, 409, 413, 415, 422]},
    },
}


ANY_TAG = TAG.replace(r"(?=.*\S)", "")
"""The pattern of tags, which may be blank: drawing the longest texts that are not takes a minute."""


SCHEMA = schemathesis.openapi.from_dict(
    json.loads(json.dumps(DOCUMENT).replace(json.dumps(TAG), json.dumps(ANY_TAG))),
    config=schemathesis.Config.from_dict(OPTIONS),
)


@pytest.fixture(scope="module", autouse=True)
def constants_of_hypothesis() -> Iterator[None]:
    """Draw no literals of our modules: looking for those that each schema allows takes long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(providers, "_get_local_constants", Constants)
        patch.setattr(providers, "CONSTANTS_CACHE", LRUCache(1024))
        yield


ADDRESS = {
    ParameterLocation.PATH: "path_parameters",
    ParameterLocation.QUERY: "query",
    ParameterLocation.HEADER: "headers",
}
"""The places of parameters, by the attribute of a call."""


@schemathesis.serializer("application/x-ndjson")
def serialize_verbatim(ctx: schemathesis.SerializationContext, value: Any) -> bytes:
    assume(isinstance(value, str))  # only text can be sent as lines
    return str(value).encode()


class Server(NamedTuple):
    url: str
    headers: dict[str, str]
    session_id: str
    session: ManagedCookiesSession


@pytest.fixture(scope=SHARED)
def server(keyed_access: Access) -> Iterator[Server]:
    access = keyed_access
    with (
        served(create_app(access.settings, database_url=access.database_url)) as address,
        httpx2.Client(base_url=f"{address}/api", headers=access.headers) as client,
        ManagedCookiesSession() as session,
    ):
        session.trust_env = False
        session_id = client.post("/sessions", json=NAMED).json()["id"]
        lines = [{"content": text} for text in ("plain", "[1]", '{"type":"user","message":{"content":"a"}}')]
        client.post(f"/sessions/{session_id}/messages", json=lines).raise_for_status()
        yield Server(address, access.headers, session_id, session)


def calls(number: int) -> settings:
    return settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


POST_EVENTS = "POST /api/sessions/{session_id}/events"
"""Generating one of its bodies takes as long as 10 calls of another operation."""
# Endless streams have separate tests.
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, operations in DOCUMENT["paths"].items()
    for method in operations
    if not path.endswith(("/ag-ui", "/stream", "/ui-stream", "/ws"))
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation(operation: str, server: Server) -> None:
    """Generate calls of an operation and check them.

    With `schema.parametrize`, each process would generate the calls of all operations when it collects tests.
    """
    [generated] = get_all_tests(
        schema=SCHEMA.include(name=operation),
        test_func=check_call,
        settings=calls(CALLS // 3 if operation == POST_EVENTS else CALLS),
        given_kwargs=None,
    )
    assert isinstance(generated, Ok), generated.err()
    check_calls: Any = generated.ok()[1]
    check_calls.hypothesis_explicit_examples = without_repeated_types(
        check_calls.hypothesis_explicit_examples
    )
    check_calls(server=server)


def without_repeated_types(examples: Sequence[Any]) -> list[Any]:
    """Return calls with at most one text and one list of a wrong type for each parameter.

    In an address, numbers, booleans and null are texts, too. In a body, each is a type of its own.
    """
    left, places = list[Any](), set[tuple[Any, ...]]()
    for example in examples:
        case = example.kwargs["case"]
        data = case.meta.phase.data
        is_wrong_type = (
            isinstance(data, CoveragePhaseData) and data.scenario is CoverageScenario.INCORRECT_TYPE
        )
        if is_wrong_type and data.parameter_location in ADDRESS:
            values = getattr(case, ADDRESS[data.parameter_location]) or {}
            place = (data.parameter_location, data.parameter, type(values.get(data.parameter)))
            if place in places:
                continue
            places.add(place)
        left.append(example)
    return left


def check_call(case: schemathesis.Case[Any], server: Server) -> None:
    drawn = (case.path_parameters or {}).get("session_id", "")
    assume(drawn != "stream")  # another route
    # Half of the requested sessions exist.
    if case.method != "DELETE" and IS_UUID.fullmatch(str(drawn)) and int(UUID(drawn)) % 2:
        case.path_parameters["session_id"] = server.session_id
    # A schema cannot express which cursors are valid.
    query = case.query or {}
    is_event_id = case.path.endswith("/events") and not re.fullmatch(
        "[0-9]{1,18}", str(query.get("after", 0))
    )
    if case.path in ("/api/sessions", "/api/projects", "/api/search") or is_event_id:
        query.pop("after", None)
    # A schema cannot express whether a query contains a word.
    if case.path.endswith("/search"):
        assume(not is_line((case.query or {}).get("q")) or contains_a_word(case.query["q"]))
    # A schema cannot express that some cursors exclude each other.
    if case.path.endswith("/events"):
        if "at" in query:
            query.pop("message", None)
        if {"at", "message"} & query.keys():
            query.pop("after", None)
            query.pop("before", None)
    # A schema cannot express that empty bodies need `end`, nor which lines are valid events.
    assume(not case.path.endswith("/chunks") or not isinstance(case.body, str) or case.body.strip())
    assume(not case.path.endswith("/events") or case.media_type != "application/x-ndjson")
    assume(not case.path.endswith("/labels") or not has_blank_tag(case.body))
    restrict_append(case)
    if case.path.endswith(("/events", "/messages")):
        case.body = in_digits(case.body)
    case.call_and_validate(base_url=server.url, session=server.session, headers=server.headers)


def restrict_append(case: schemathesis.Case[Any]) -> None:
    """Leave out what a schema cannot express: parameters for text only, and a sequence given twice."""
    if not case.path.endswith("/messages") or case.method != "POST":
        return
    if case.media_type != "text/plain":
        for name in ("id", "fallbackId", "source", "role", "expectedSequence"):
            (case.query or {}).pop(name, None)


def has_blank_tag(body: Any) -> bool:
    values = body.values() if isinstance(body, dict) else ()
    return any(
        isinstance(tag, str) and tag.isspace() for tags in values if isinstance(tags, list) for tag in tags
    )


def is_line(q: Any) -> bool:
    return isinstance(q, str) and 0 < len(q) <= 1000 and not {"\0", "\r", "\n"} & set(q)


def contains_a_word(q: str) -> bool:
    try:
        return bool(read_query(q))
    except InvalidParameter:
        return False


def in_digits(value: Any) -> Any:
    """Return 1.0 as 1: both are integers in a schema, but Ash accepts only digits."""
    if isinstance(value, dict):
        return {name: in_digits(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(in_digits, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value
