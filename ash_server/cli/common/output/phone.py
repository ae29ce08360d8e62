"""QR codes that open a page on a phone and sign the phone in."""

import socket
import sys
from urllib.parse import quote, urlsplit

import rich_click as click

from ash_client import AshClient
from ash_client.requests import Request
from ash_server.cli.common.output.terminal import local_time, warn
from ash_server.errors import AshError
from ash_server.settings import Settings, is_loopback
from ash_shared.model.keys import OwnKey, SignInCode

_ANY_ADDRESS = ("0.0.0.0", "::")  # compared, not listened on


class NotReachable(AshError):
    status, code, title = 409, "not_reachable", "A phone cannot reach the server."


def show_code(server: AshClient, page: str) -> None:
    """Print a QR code that opens a page and, on a server with keys, signs in. Raises NotReachable, ApiError."""
    address = _address(server)
    key = server.send(Request("GET", "/api/key", OwnKey.model_validate_json))
    if key.name is None:
        _print(address + page)
        return
    request = Request("POST", "/api/sign-in-codes", SignInCode.model_validate_json, is_repeatable=False)
    code = server.send(request)
    path, _, secret = code.path.partition("#")
    _print(f"{address}{path}?next={quote(page, safe='/')}#{secret}")
    warn(
        f"valid once, until {local_time(code.expires_at)}. The phone can then read what the key {key.name} reads, for "
        "two weeks, until it signs out or the key is revoked."
    )


def _address(server: AshClient) -> str:
    """Return the address of the server for other machines. Raises NotReachable."""
    host = urlsplit(server.url).hostname or ""
    if not is_loopback(host):
        return server.url
    settings = Settings.from_environment()  # a `.env` in the folder may come from someone else
    if settings.public_url:
        return settings.public_url.rstrip("/")
    if is_loopback(settings.host):
        raise NotReachable(
            f"it listens on {settings.host}, which only this machine reaches. Set ASH_PUBLIC_URL to the address of a "
            "proxy, or ASH_HOST=0.0.0.0 to listen on all addresses, and start it again"
        )
    host = _own_address() if settings.host in _ANY_ADDRESS else settings.host
    return f"http://{f'[{host}]' if ':' in host else host}:{urlsplit(server.url).port}"


def _own_address() -> str:
    """Return the address of this machine in its network; nothing is sent. Raises NotReachable."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            raise NotReachable("this machine has no network; set ASH_PUBLIC_URL to its address") from None
        host: str = probe.getsockname()[0]
        return host


def _print(address: str) -> None:
    import segno  # the only command that needs it

    segno.make(address, error="l", micro=False).terminal(out=sys.stdout, compact=True, border=2)
    click.echo(address)
