"""Retention over REST: scopes, tenants, bodies."""

from typing import Any

import pytest
from httpx2 import AsyncClient

from ash_server.settings import Settings
from ash_server.store import Store
from tests.server.api.conftest import SECRET, bearer, create_key


@pytest.fixture
def settings() -> Settings:
    return Settings(secret=SECRET)


async def test_set_run_and_end(own_client: AsyncClient) -> None:
    off = {"keep": [], "scheduled": 0, "sessions": [], "waiting": 0}
    assert (await own_client.get("/api/retention")).json() == off
    missing = [
        await own_client.post("/api/retention/runs", json={}),
        await own_client.delete("/api/retention"),
    ]
    assert [(each.status_code, each.json()["code"]) for each in missing] == [(404, "no_retention")] * 2

    created = (await own_client.put("/api/retention", json={"age": "2y", "keep": ["starred"]})).json()
    assert created.pop("setAt")
    assert created == {**off, "age": "2y", "keep": ["starred"]}
    run = (await own_client.post("/api/retention/runs", json={"dryRun": True})).json()
    assert run.pop("total") >= 0
    assert run == {"isDryRun": True, "scheduled": 0, "unscheduled": 0, "deleted": 0, "sessions": []}
    assert (await own_client.post("/api/retention/runs", json={})).json()["isDryRun"] is False
    assert (await own_client.get("/api/retention")).json()["checkedAt"]

    assert (await own_client.delete("/api/retention")).status_code == 204
    assert (await own_client.get("/api/retention")).json() == off


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid_body"),
        ({"age": 730}, "invalid_body"),
        ({"age": "2y", "keep": ["noted"]}, "invalid_body"),
        ({"age": "2y", "limit": 2}, "invalid_body"),
        ({"age": "2"}, "invalid_retention"),
        ({"age": "12h"}, "invalid_retention"),
    ],
)
async def test_refused_policies(own_client: AsyncClient, body: dict[str, Any], code: str) -> None:
    answer = await own_client.put("/api/retention", json=body)

    assert (answer.status_code, answer.json()["code"]) == (400 if code == "invalid_body" else 422, code)
    assert "age" not in (await own_client.get("/api/retention")).json()


@pytest.mark.slow
async def test_policies_of_tenants(own_client: AsyncClient, store: Store) -> None:
    red = bearer(await create_key(store, "admin", "red", "read", "admin"))
    blue = bearer(await create_key(store, "admin", "blue", "read", "admin"))
    await own_client.put("/api/retention", json={"age": "2y"}, headers=red)
    await own_client.post("/api/retention/runs", json={}, headers=red)

    ages = [(await own_client.get("/api/retention", headers=each)).json().get("age") for each in (red, blue)]
    assert ages == ["2y", None]
    audit = (await own_client.get("/api/audit", headers=red)).json()["audit"]
    assert [(each["action"], each["key"], each.get("target")) for each in audit[:2]] == [
        ("retention.run", "admin", None),
        ("retention.set", "admin", "2y"),
    ]
