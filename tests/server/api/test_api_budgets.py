"""Budgets over REST: scopes, tenants, bodies."""

from typing import Any

import pytest
from httpx2 import AsyncClient

from ash_server.settings import Settings
from ash_server.store import Store
from tests.server.api.conftest import SECRET, bearer, create_key


@pytest.fixture
def settings() -> Settings:
    return Settings(secret=SECRET)


async def test_set_list_and_delete(own_client: AsyncClient) -> None:
    new = {"limitUsd": 50, "period": "month", "webhookUrl": "https://hooks.example.com/ash"}
    created = (await own_client.put("/api/budgets", json=new)).json()
    listed = (await own_client.get("/api/budgets")).json()["budgets"]

    assert created.pop("webhookSecret").startswith("ash_webhook_")
    assert listed == [created]
    assert {name: created[name] for name in ("limitUsd", "period", "timezone", "hasWebhook", "spentUsd")} == {
        "limitUsd": 50.0,
        "period": "month",
        "timezone": "UTC",
        "hasWebhook": True,
        "spentUsd": 0.0,
    }
    statuses = [(await own_client.delete(f"/api/budgets/{created['id']}")).status_code for _ in range(2)]
    assert statuses == [204, 404]
    assert (await own_client.get("/api/budgets")).json() == {"budgets": []}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid_body"),
        ({"limitUsd": 0, "period": "day"}, "invalid_body"),
        ({"limitUsd": 1e-10, "period": "day"}, "invalid_body"),
        ({"limitUsd": 1e12, "period": "day"}, "invalid_body"),
        ({"limitUsd": "1", "period": "day"}, "invalid_body"),
        ({"limitUsd": 1, "period": "year"}, "invalid_body"),
        ({"limitUsd": 1, "period": "day", "project": ""}, "invalid_body"),
        ({"limitUsd": 1, "period": "day", "limit": 2}, "invalid_body"),
        ({"limitUsd": 1, "period": "day", "timezone": "Mars"}, "invalid_budget"),
        (
            {"limitUsd": 1, "period": "day", "webhookUrl": "https://u:p@hooks.example.com"},
            "invalid_budget",
        ),
        ({"limitUsd": 1, "period": "day", "project": "a\0"}, "nul_byte"),
    ],
)
async def test_refused_bodies(client: AsyncClient, body: dict[str, Any], code: str) -> None:
    answer = await client.put("/api/budgets", json=body)

    assert (answer.status_code, answer.json()["code"]) == (400 if code == "invalid_body" else 422, code)


async def test_keys(own_client: AsyncClient, store: Store) -> None:
    keys = {
        "admin": await create_key(store, "admin", "red", "read", "admin"),
        "redacts": await create_key(store, "redacts", "red", "read", "admin", redacts=True),
        "reads": await create_key(store, "reads", "red", "read"),
        "blue": await create_key(store, "blue", "blue", "read", "admin"),
    }
    headers = {name: bearer(key) for name, key in keys.items()}
    whole, project = (
        {"limitUsd": 1, "period": "day"},
        {"limitUsd": 1, "period": "day", "project": "/work/site"},
    )

    statuses = {
        (name, body.get("project")): (
            await own_client.put("/api/budgets", json=body, headers=headers[name])
        ).status_code
        for name in keys
        for body in (whole, project)
    }
    assert statuses == {
        ("admin", None): 200,
        ("admin", "/work/site"): 200,
        ("redacts", None): 200,
        ("redacts", "/work/site"): 403,
        ("reads", None): 403,
        ("reads", "/work/site"): 403,
        ("blue", None): 200,
        ("blue", "/work/site"): 200,
    }
    listed = {
        name: (await own_client.get("/api/budgets", headers=headers[name])).json()["budgets"] for name in keys
    }
    assert listed["admin"] == listed["redacts"] == listed["reads"]
    own = {budget["id"] for budget in listed["admin"]}
    assert own.isdisjoint(budget["id"] for budget in listed["blue"])
    others = await own_client.delete(f"/api/budgets/{listed['blue'][0]['id']}", headers=headers["admin"])
    assert others.status_code == 404


async def test_a_project_has_one_spelling(own_client: AsyncClient) -> None:
    for project in ("/work/site", "/work/site/", "/work/site//", "site\\"):
        body = {"limitUsd": 1, "period": "day", "project": project}
        (await own_client.put("/api/budgets", json=body)).raise_for_status()
    listed = (await own_client.get("/api/budgets")).json()["budgets"]
    assert [budget["project"] for budget in listed] == ["/work/site", "site"]
