"""The OpenAPI document in other programs: validators, and a client that is generated from it."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
DOCUMENT = ROOT / "openapi" / "openapi.json"
JSON = "application/json"
LINE = '{"type":"user","message":{"role":"user","content":"Which tests fail?"}}'
STREAMS = {"followAgUiRun", "followEvents", "followEventsOverWebSocket", "followSessions", "followUiMessage"}
"""Not answered with JSON, but generated, too."""


@pytest.mark.skipif(shutil.which("npx") is None, reason="node is not installed")
def test_validators_find_no_error() -> None:
    checked = subprocess.run(
        ["sh", ROOT / "tools" / "check-openapi.sh"], capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the generated package."""
    pytest.importorskip("openapi_python_client")
    folder = tmp_path_factory.mktemp("generated")
    config = folder / "config.json"
    config.write_text(json.dumps({"post_hooks": []}))
    output = folder / "ash_generated_client"
    command = ["generate", "--path", DOCUMENT, "--meta", "none", "--output-path", output, "--config", config]
    subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *map(str, command)], capture_output=True, check=True
    )
    sys.path.insert(0, str(folder))
    yield output.name
    sys.path.remove(str(folder))


def json_routes() -> dict[str, str]:
    """The tag of each operation that takes nothing but JSON, or no body, by its id."""
    document = json.loads(DOCUMENT.read_text())
    return {
        operation["operationId"]: operation["tags"][0]
        for operations in document["paths"].values()
        for operation in operations.values()
        if JSON in operation.get("requestBody", {"content": {JSON: {}}})["content"]
    }


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


@pytest.fixture
def generated_client(package: str, shared_server: str) -> Iterator[Any]:
    with import_module(package).Client(base_url=shared_server, raise_on_unexpected_status=True) as client:
        yield client


def call_usage(call: Callable[..., Any], build: Callable[..., Any], session: Any) -> None:
    assert call("getUsage").totals.answers == call("getUsageStatus").today.answers
    assert call("listAnswers", session).answers == []
    budget = call("setBudget", body=build("NewBudget", limitUsd=50, period="month"))
    assert budget.id in [each.id for each in call("listBudgets").budgets]
    call("deleteBudget", budget.id)
    policy = call("setRetention", body=build("NewRetention", age="2y", keep=["starred"]))
    assert (policy.age, call("getRetention").scheduled) == ("2y", 0)
    assert call("runRetention", body=build("NewRetentionRun", dryRun=True)).scheduled == 0
    call("endRetention")
    assert call("setColdPolicy", body=build("NewColdPolicy", age="180d")).age == call("getColdPolicy").age
    assert call("runColdPolicy", body=build("NewColdRun", dryRun=True)).archived == 0
    call("endColdPolicy")


NEEDS_KEY = {"shareSession", "revokeShare", "createSignInCode"}
"""Refused while there is no key."""


def call_facts(call: Any, build: Any, session: UUID) -> None:
    assert call("getChanges", session).files_changed == 0
    assert call("getFacts", session).files == []
    assert call("compareSessions", a=session, b=session).files == []
    assert call("listFindings", session).findings == []
    assert "claude" in [each.value for each in call("countSessions").sources]
    labels = call("updateLabels", session, body=build("LabelPatch", starred=True, addTags=["ui"])).labels
    assert (labels.starred, labels.tags) == (True, ["ui"])
    assert "ui" in [each.name for each in call("listTags").tags]
    assert call("listProjects").projects == []
    assert call("listUnstoredTranscripts").agents == []
    assert call("listShares", session).shares == []
    assert None not in (call("getResume", session), call("getKey"))
    assert isinstance(call("listAudit").audit, list)


def test_generated_client_calls_every_json_route(package: str, generated_client: Any) -> None:
    models = import_module(f"{package}.models")
    routes = json_routes()
    called = set[str]()

    def call(operation: str, *path: Any, **arguments: Any) -> Any:
        called.add(operation)
        module = import_module(f"{package}.api.{routes[operation]}.{snake(operation)}")
        response = module.sync_detailed(*path, client=generated_client, **arguments)
        assert response.status_code < 300, (operation, response)
        return response.parsed

    def build(model: str, **fields: Any) -> Any:
        return getattr(models, model).from_dict(fields)

    session: UUID = call("createSession", body=build("SessionToCreate", source="claude", title="A test")).id
    appended = call("appendMessages", session, body=build("Commit", messages=[{"content": LINE, "id": "m1"}]))
    event = build("EventToAppend", type="turn_start", payload={"trigger": "user"})
    posted = call("appendEvents", session, body=[event])
    results: dict[str, Callable[[], Any]] = {
        "listSessions": lambda: [each.id for each in call("listSessions", q=str(session)).sessions],
        "getSession": lambda: call("getSession", session).title,
        "updateSession": lambda: call("updateSession", session, body=build("SessionPatch", title="B")).title,
        "listMessages": lambda: [
            each.content for each in call("listMessages", session, parsed=True).messages
        ],
        "getMessage": lambda: call("getMessage", session, 1).parsed[0].text,
        "listStandardMessages": lambda: [
            each.content[0].text for each in call("listStandardMessages", session).messages
        ],
        "listEvents": lambda: [each.type_ for each in call("listEvents", session, after="0").events],
        "projectSession": lambda: call(
            "projectSession",
            session,
            models.ProjectSessionName("openai-messages"),
        ).messages[0]["content"],
        "search": lambda: [
            each.session_id for each in call("search", q="tests fail", session_id=session).results
        ],
        "endSession": lambda: call("endSession", session) is not None,
        "listDrift": lambda: isinstance(call("listDrift").drift, list),
        "parse": lambda: call("parse", body=build("ParseRequest", content=LINE)).parsed[0].text,
        "live": lambda: call("live").status,
        "ready": lambda: call("ready").status,
    }
    answers = {name: answer() for name, answer in results.items()}

    assert (appended.messages[0].id, posted.events[0].created) == ("m1", True)
    assert answers == {
        "listSessions": [session],
        "getSession": "A test",
        "updateSession": "B",
        "listMessages": [LINE],
        "getMessage": "Which tests fail?",
        "listStandardMessages": ["Which tests fail?"],
        "listEvents": ["turn_start", "user_message", "turn_start"],
        "projectSession": "Which tests fail?",
        "search": [session],
        "endSession": True,
        "listDrift": True,
        "parse": "Which tests fail?",
        "live": "ok",
        "ready": "ok",
    }
    digest = {"id": "m1", "sha256": hashlib.sha256(LINE.encode()).hexdigest()}
    assert call("compareMessages", session, body=[build("MessageDigest", **digest)]).equal == ["m1"]
    assert call("appendMessages", session, body=build("Commit", metadata={"n": 1})).messages == []
    transcript = {"source": "claude", "path": "generated/1.jsonl"}
    claimed = call("claimTranscript", body=build("TranscriptFields", **transcript)).session_id
    completed = {**transcript, "modifiedAt": "2026-11-02T09:31:55Z", "hasGrown": False}
    assert call("completeTranscript", claimed, body=build("CompletedTranscript", **completed)).id == claimed
    assert None not in (call("searchSession", session, q="tests"), call("countItems", session))
    call_facts(call, build, session)
    assert call("popMessage", session).sequence == 1
    call_usage(call, build, session)
    assert (call("deleteMessage", session, 1), call("deleteSession", session)) == (None, None)
    assert routes.keys() - called == STREAMS | {"exportSession", "metrics"} | NEEDS_KEY
