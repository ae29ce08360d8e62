"""Labels over REST: changes, problems, filters, what keys see, and the feed of sessions."""

from typing import Any
from uuid import uuid4

import pytest
from httpx2 import AsyncClient

from ash_server.app import create_app
from ash_server.settings import Settings
from ash_server.store import Store
from tests.server.api.conftest import SECRET, bearer, create_key
from tests.server.app_client import app_client

NONE = {"starred": False, "archived": False, "tags": [], "note": ""}
TOKEN = "xoxb-" + "2718281828-31415926535897932384626433"
"""A token in the format of Slack."""


async def create(client: AsyncClient, **fields: Any) -> str:
    return str((await client.post("/api/sessions", json=fields)).json()["id"])


async def test_labels_are_changed_shown_and_counted(own_client: AsyncClient) -> None:
    client = own_client
    id = await create(client)
    path = f"/api/sessions/{id}"
    body = {"starred": True, "addTags": ["ui", "flaky"], "note": "**why**"}
    changed = (await client.patch(f"{path}/labels", json=body)).json()
    again = (await client.patch(f"{path}/labels", json={"removeTags": ["ui"]})).json()
    shown = (await client.get(path)).json()
    [listed] = (await client.get("/api/sessions")).json()["sessions"]
    tags = (await client.get("/api/tags")).json()
    await client.patch(f"{path}/labels", json={"starred": False, "tags": [], "note": ""})

    assert changed["labels"] == {**NONE, "starred": True, "tags": ["ui", "flaky"], "note": "**why**"}
    assert again["labels"] == {**changed["labels"], "tags": ["flaky"]}
    assert shown == listed == again
    assert tags == {"tags": [{"name": "flaky", "sessions": 1}]}
    assert "labels" not in (await client.get(path)).json()


async def test_lists_leave_out_archived_sessions(own_client: AsyncClient) -> None:
    client = own_client
    kept = await create(client, externalId="kept")
    archived = await create(client, externalId="gone", parentId=kept)
    await client.patch(f"/api/sessions/{archived}/labels", json={"archived": True, "tags": ["old"]})
    await client.patch(f"/api/sessions/{kept}/labels", json={"starred": True})
    listed = {
        query: [each["id"] for each in (await client.get(f"/api/sessions?{query}")).json()["sessions"]]
        for query in (
            "",
            "archived=exclude",
            "archived=only",
            "archived=include",
            "tag=old",
            "tag=old&archived=include",
            "starred=true",
            "starred=false",
            "externalId=gone",
            f"parentId={kept}",
            f"reference={archived}",
        )
    }

    assert listed == {
        "": [kept],
        "archived=exclude": [kept],
        "archived=only": [archived],
        "archived=include": [kept, archived],
        "tag=old": [],
        "tag=old&archived=include": [archived],
        "starred=true": [kept],
        "starred=false": [],
        "externalId=gone": [archived],
        f"parentId={kept}": [archived],
        f"reference={archived}": [archived],
    }
    assert (await client.get(f"/api/sessions/{archived}")).status_code == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"starred": None}, "invalid_body"),
        ({"stars": 1}, "invalid_body"),
        ({"tags": ["x" * 101]}, "invalid_body"),
        ({"tags": ["a"] * 51}, "invalid_body"),
        ({"addTags": ["a\nb"]}, "invalid_body"),
        ({"addTags": [" "]}, "invalid_body"),
        ({"note": "x" * 65_537}, "invalid_body"),
        ({"note": "é" * 65_536}, "invalid_parameter"),
        ({"note": "\0"}, "nul_byte"),
        ({"note": "x" * 600_000}, "body_too_large"),
    ],
)
async def test_invalid_labels(client: AsyncClient, body: dict[str, Any], code: str) -> None:
    id = await create(client)
    answer = await client.patch(f"/api/sessions/{id}/labels", json=body)

    assert answer.json()["code"] == code


async def test_the_longest_note_fits_however_it_is_escaped(client: AsyncClient) -> None:
    id = await create(client)
    body = b'{"note": "' + b"\\u0001" * 65_536 + b'"}'
    answer = await client.patch(
        f"/api/sessions/{id}/labels", content=body, headers={"Content-Type": "application/json"}
    )

    assert answer.json()["labels"]["note"] == "\x01" * 65_536


async def test_unknown_session(client: AsyncClient) -> None:
    answer = await client.patch(f"/api/sessions/{uuid4()}/labels", json={"starred": True})

    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")


async def test_keys_and_tenants(store: Store) -> None:
    """A key that may only write sees no labels, and another tenant neither changes nor counts them."""
    keys = {
        "write": await create_key(store, "write", "red", "write"),
        "read": await create_key(store, "read", "red", "read"),
        "redacts": await create_key(store, "redacts", "red", "read", redacts=True),
        "blue": await create_key(store, "all", "blue", "read", "write"),
    }
    sessions = store.for_tenant(await store.get_tenant("red")).sessions
    id = (await sessions.create()).id
    await sessions.update_labels(id, add_tags=[TOKEN])
    body = {"note": "a plan", "addTags": ["new"]}
    async with app_client(create_app(Settings(secret=SECRET), database_url=store.url)) as client:
        answers = {
            name: await client.patch(f"/api/sessions/{id}/labels", json=body, headers=bearer(key))
            for name, key in keys.items()
        }
        tags = {
            name: (await client.get("/api/tags", headers=bearer(key))).json()
            for name, key in keys.items()
            if name != "write"
        }
    new = {"name": "new", "sessions": 1}

    assert {name: each.status_code for name, each in answers.items()} == {
        "write": 200,
        "read": 403,
        "redacts": 403,
        "blue": 404,
    }
    assert "labels" not in answers["write"].json()
    assert tags == {
        "read": {"tags": [new, {"name": TOKEN, "sessions": 1}]},
        "redacts": {"tags": [new, {"name": "[redacted: slack token]", "sessions": 1}]},
        "blue": {"tags": []},
    }
