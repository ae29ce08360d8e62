"""Codes for phones: each signs one browser in, once, to read with the key that created it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import NamedTuple

import pytest
from httpx2 import AsyncClient, Response
from litestar import Litestar

from ash_server.api.http.guards.rate_limit import RateLimit
from ash_server.api.pages import login
from ash_server.app import create_app
from ash_server.keys import ring
from ash_server.settings import Settings
from ash_server.store import Store
from tests.server.api.conftest import SECRET, bearer, create_key
from tests.server.app_client import BASE, app_client


class Phone(NamedTuple):
    """A server with a key of the tenant red."""

    app: Litestar
    client: AsyncClient
    key: str
    store: Store

    async def code(self) -> str:
        created = await self.client.post("/api/sign-in-codes", headers=bearer(self.key))
        assert created.status_code == 201
        return str(created.json()["path"])

    async def exchange(self, path: str, origin: str = BASE) -> Response:
        address, _, secret = path.partition("#")
        return await self.client.post(address, json={"secret": secret}, headers={"Origin": origin})

    async def scopes(self) -> list[str] | None:
        """Return the scopes of the cookie; None without a valid one."""
        found = await self.client.get("/api/key")
        return found.json()["scopes"] if found.status_code == 200 else None


@pytest.fixture
async def phone(store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Phone]:
    monkeypatch.setattr(ring, "_REMEMBERED_SECONDS", 0.0)
    key = await create_key(store, "laptop", "red", "read", "write", "share", "admin")
    app = create_app(Settings(secret=SECRET), database_url=store.url)
    async with app_client(app) as client:
        app.state.code_limit = RateLimit(10_000)
        yield Phone(app, client, key, store)


async def test_code_signs_in_once_to_read(phone: Phone) -> None:
    path = await phone.code()
    page = await phone.client.get(path)
    refused = await phone.exchange(path, origin="http://evil.example")
    first, second = await phone.exchange(path), await phone.exchange(path)
    created = await phone.client.post("/api/sessions", json={}, headers={"Origin": BASE})
    another = await phone.client.post("/api/sign-in-codes", headers={"Origin": BASE})
    entries = (await phone.client.get("/api/audit", headers=bearer(phone.key))).json()["audit"]

    assert (page.status_code, refused.status_code) == (200, 403)
    assert (first.status_code, second.status_code) == (204, 404)
    assert second.json()["code"] == "code_invalid"
    assert await phone.scopes() == ["read"]
    assert [each.json()["code"] for each in (created, another)] == ["scope_missing", "code_refused"]
    assert [each["action"] for each in entries] == ["sign_in", "sign_in.code", "key.create"]


async def test_of_two_browsers_one_is_signed_in(phone: Phone) -> None:
    path = await phone.code()
    answers = await asyncio.gather(*(phone.exchange(path) for _ in range(5)))

    assert sorted(each.status_code for each in answers) == [204, 404, 404, 404, 404]


async def test_expired_and_replaced_codes_are_refused(phone: Phone, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = await phone.code()
    valid = await phone.code()
    monkeypatch.setattr(login, "_CODE_VALID", timedelta(seconds=-1))

    assert (await phone.exchange(replaced)).status_code == 404
    assert (await phone.exchange(valid)).status_code == 204
    assert (await phone.exchange(await phone.code())).status_code == 404


@pytest.mark.slow
async def test_code_and_sign_in_end_with_the_key(phone: Phone) -> None:
    await phone.exchange(await phone.code())
    unused = await phone.code()
    signed_in = await phone.scopes()
    [key] = await phone.store.keys.list_keys()
    await phone.store.keys.revoke(key)

    assert (signed_in, await phone.scopes()) == (["read"], None)
    assert (await phone.exchange(unused)).status_code == 404


async def test_attempts_are_limited_and_counted(phone: Phone, store: Store) -> None:
    phone.app.state.code_limit = RateLimit(login.CODE_RATE)
    answers = [await phone.exchange(f"/login/code#{'x' * 43}") for _ in range(11)]
    page = await store.keys.list_audit(None)
    refused = [each.count for each in page.audit if each.action == "sign_in.refused"]

    assert [each.status_code for each in answers] == [404] * 10 + [429]
    assert sum(count or 0 for count in refused) == 10


@pytest.mark.slow
async def test_server_without_keys_needs_no_code(store: Store) -> None:
    async with app_client(create_app(Settings(), database_url=store.url)) as client:
        answer = await client.post("/api/sign-in-codes")

    assert (answer.status_code, answer.json()["code"]) == (409, "code_refused")
