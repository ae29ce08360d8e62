"""Sending of webhooks: signed, to public addresses only, without following redirects."""

import asyncio
import hmac
import socket
from collections.abc import Collection
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

import httpx2

from ash_server.errors import AshError, InvalidBudget

TIMEOUT_SECONDS = 10.0

_MAX_URL = 2000
_NAT64 = b"\x00\x64\xff\x9b" + bytes(8)
"""Beginning of IPv6 addresses that a gateway translates to the IPv4 address at their end."""

IpAddress: TypeAlias = IPv4Address | IPv6Address


class WebhookFailed(AshError):
    status, code, title = 502, "webhook_failed", "The webhook was not delivered."


class Delivery(NamedTuple):
    """A request to a webhook."""

    id: UUID
    """The same for each attempt, so that the receiver recognises a repetition."""
    url: str
    secret: str
    body: bytes


def check_webhook_url(url: str) -> str:
    """Return the URL if webhooks may be sent to it: https, or http to this machine. Raises InvalidBudget."""
    try:
        parts, _ = urlsplit(url), urlsplit(url).port
    except ValueError as error:
        raise InvalidBudget(f"the address of the webhook is not a URL: {error}") from None
    if len(url) > _MAX_URL or not url.isascii() or not url.isprintable() or not parts.hostname:
        raise InvalidBudget(f"the address of the webhook is a URL of at most {_MAX_URL} ASCII characters")
    if parts.username is not None or parts.password is not None:
        raise InvalidBudget("the address of the webhook must not contain a user name or password")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_this_machine(parts)):
        raise InvalidBudget("the address of the webhook begins with https://, or is on this machine")
    return url


def signature(secret: str, body: bytes, timestamp: int) -> str:
    """Return the header `Ash-Signature`: the time in seconds since 1970, and the HMAC-SHA256 of time, `.` and body."""
    digest = hmac.digest(secret.encode(), f"{timestamp}.".encode() + body, sha256)
    return f"t={timestamp},v1={digest.hex()}"


async def deliver(delivery: Delivery, timestamp: int, allowed_hosts: Collection[str] = ()) -> None:
    """Send a webhook once. `allowed_hosts` may have private addresses. Raises WebhookFailed.

    The name is resolved once, and the connection uses the checked address: a name that changes its address in between
    cannot lead elsewhere.
    """
    parts = urlsplit(delivery.url)
    host = parts.hostname or ""
    address = await _resolve(parts, is_private_allowed=host in allowed_hosts or _is_this_machine(parts))
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "User-Agent": "ash-webhook",
        "Ash-Delivery": str(delivery.id),
        "Ash-Signature": signature(delivery.secret, delivery.body, timestamp),
    }
    port = "" if parts.port is None else f":{parts.port}"
    literal = f"[{address}]" if address.version == 6 else str(address)
    url = parts._replace(netloc=literal + port, fragment="").geturl()
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS), httpx2.AsyncClient(trust_env=False) as client:
            request = client.build_request(
                "POST", url, content=delivery.body, headers=headers, extensions={"sni_hostname": host}
            )
            answer = await client.send(request, stream=True)  # its body is not read
            await answer.aclose()
    except TimeoutError:
        raise WebhookFailed(f"no answer within {TIMEOUT_SECONDS:g} seconds") from None
    except httpx2.HTTPError as error:
        raise WebhookFailed(str(error) or type(error).__name__) from None
    if not answer.is_success:
        raise WebhookFailed(f"the receiver answered {answer.status_code}")


async def _resolve(parts: SplitResult, *, is_private_allowed: bool) -> IpAddress:
    """Return the address of a host. Raises WebhookFailed, also if one of its addresses is private."""
    host = parts.hostname or ""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            results = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError) as error:
        raise WebhookFailed(f"the address of {host} is unknown: {error}") from None
    addresses = [ip_address(str(result[4][0]).partition("%")[0]) for result in results]
    private = [address for address in addresses if not _is_public(address)]
    if private and not is_private_allowed:
        raise WebhookFailed(
            f"{host} has the private address {private[0]}: allow it with ASH_WEBHOOK_HOSTS={host}, if it is yours"
        )
    return addresses[0]


def _is_public(address: IpAddress) -> bool:
    if isinstance(address, IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour
        if address.packed.startswith(_NAT64):
            embedded = IPv4Address(address.packed[-4:])
        if embedded is not None:
            return _is_public(embedded)
    return address.is_global and not address.is_multicast


def _is_this_machine(parts: SplitResult) -> bool:
    """True for `localhost` and loopback addresses, not for names that resolve to one."""
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"
