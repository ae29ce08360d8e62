"""Clients of requests, found by key or cookie and remembered for a few seconds."""

import time
from collections import OrderedDict
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from ash_server.errors import DatabaseUnavailable, KeyInvalid, KeyRequired, SchemaMismatch
from ash_server.keys.digests import digest, is_key_text, read_secret
from ash_server.settings import Settings
from ash_server.store.access.keys import SCOPES, Key, KeyScope, KeyStore
from ash_server.store.connections.tenants import DEFAULT, Tenant
from ash_server.tasks import SharedCalls

_REMEMBERED_SECONDS = 2.5
"""Time before the validity of a key is checked again. Together with the interval of streams (`IDLE_SECONDS`), it is
less than the five seconds after which a revoked key must be refused everywhere."""
_RECALLED_SECONDS = 3600.0
"""How long a key can still be recalled while the database is unavailable."""
_MAX_REMEMBERED = 1000
_MAX_REFUSED_ADDRESSES = 100
"""Addresses per minute with their own entry in the audit log. The limit keeps clients without a key from filling it."""
_OTHER_ADDRESSES = "other addresses"


class Client(NamedTuple):
    """The sender of a request."""

    tenant: Tenant
    scopes: frozenset[KeyScope]
    key: Key | None = None
    """None: anyone, because there are no keys."""
    digest: bytes = b""
    """The digest of the key or cookie."""
    is_browser: bool = False
    """Identified by a cookie, which browsers also send with requests of other pages."""


ANYONE = Client(DEFAULT, frozenset(SCOPES))


class KeyRing:
    """The keys of a server."""

    def __init__(self, keys: KeyStore, settings: Settings) -> None:
        self._keys = keys
        self._settings = settings
        self._secret: bytes | None = None
        self._remembered: OrderedDict[tuple[bytes, bool], tuple[Key, float]] = OrderedDict()
        self._no_keys_until = 0.0
        self._has_keys = False
        self._lookups = SharedCalls()
        """Shares a lookup between concurrent streams with the same key."""
        self._minute = 0
        self._refused: set[str] = set()
        """The addresses of refused sign-ins in this minute."""

    async def identify(self, key: str | None, cookie: str | None) -> Client:
        """Return the client with this key, else with this cookie. Raises KeyRequired, KeyInvalid."""
        if await self.is_open():
            return ANYONE
        if key is None and not cookie:
            raise KeyRequired
        if key is not None and not is_key_text(key):
            raise KeyInvalid
        return await self._find(self.digest(key or cookie or ""), is_browser=key is None)

    def recall(self, key: str | None, cookie: str | None) -> Client | None:
        """Return the client with this key, or cookie, as of its last check; None after an hour.

        For routes without content, while the database is unavailable: nobody can revoke a key then.
        """
        if not self._is_closed():
            return ANYONE if self._no_keys_until else None
        place = (self.digest(key or cookie or ""), key is None)
        remembered, end = self._remembered.get(place, (None, 0.0))
        if remembered is None or time.monotonic() >= end + _RECALLED_SECONDS or _has_expired(remembered):
            return None
        return Client(remembered.tenant, remembered.scopes, remembered, *place)

    def _is_closed(self) -> bool:
        return self._has_keys or (self._settings.is_exposed and not self._settings.allow_unauthenticated)

    async def is_open(self) -> bool:
        """True if no key was ever created and only this machine reaches the server: it then serves everyone."""
        if self._is_closed():
            return False
        if time.monotonic() >= self._no_keys_until:
            self._has_keys = await self._lookups.run("has_keys", self._keys.has_keys)
            self._no_keys_until = time.monotonic() + _REMEMBERED_SECONDS
        return not self._has_keys

    async def find_refusal(self, client: Client) -> KeyRequired | KeyInvalid | None:
        """Return the error that ends a stream if its client may no longer read, otherwise None.

        A first key, a revocation or an expiry is noticed within a few seconds, or when the database is available again.
        """
        try:
            if client.key is None:
                return None if await self.is_open() else KeyRequired()
            await self._find(client.digest, is_browser=client.is_browser)
        except KeyInvalid as error:
            return error
        except (DatabaseUnavailable, SchemaMismatch):  # streams survive that, and read nothing meanwhile
            return KeyInvalid() if client.key is not None and _has_expired(client.key) else None
        return None

    def digest(self, text: str) -> bytes:
        return digest(self._read_secret(), text)

    def forget(self, client: Client) -> None:
        """Ask the database the next time."""
        self._remembered.pop((client.digest, client.is_browser), None)

    async def record_refused_sign_in(self, address: str) -> None:
        """Count a refused sign-in in the audit log, without recording the key."""
        minute = _current_minute()
        if minute != self._minute:
            self._minute, self._refused = minute, set()
        if address not in self._refused and len(self._refused) >= _MAX_REFUSED_ADDRESSES:
            address = _OTHER_ADDRESSES
        self._refused.add(address)
        await self._keys.record_refused_sign_in(address, minute)

    async def _find(self, key_digest: bytes, *, is_browser: bool) -> Client:
        place = (key_digest, is_browser)
        key, end = self._remembered.get(place, (None, 0.0))
        if key is None or time.monotonic() >= end:
            find = partial(self._keys.find, key_digest, is_cookie=is_browser)
            key = await self._lookups.run(place, find)
            self._remembered.pop(place, None)  # so that the oldest check stays first
            if key is None:
                raise KeyInvalid
            self._remembered[place] = key, time.monotonic() + _REMEMBERED_SECONDS
            if len(self._remembered) > _MAX_REMEMBERED:
                self._remembered.popitem(last=False)
        if _has_expired(key):
            raise KeyInvalid
        return Client(key.tenant, key.scopes, key, key_digest, is_browser)

    def _read_secret(self) -> bytes:
        if self._secret is None:
            self._secret = read_secret(self._settings)
        return self._secret


def _current_minute() -> int:
    return int(time.time() // 60)


def _has_expired(key: Key) -> bool:
    return key.expires_at is not None and key.expires_at <= datetime.now(UTC)
