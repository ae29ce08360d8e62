"""`ash prices update`: fetch the newest price data, check it, and replace the stored one."""

import json
import os
import ssl
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx2
from genai_prices.update_prices import DEFAULT_UPDATE_URL

from ash_server.prices.catalogue import PACKAGE
from ash_server.prices.errors import PricesError
from ash_server.prices.price_data import MAX_BYTES, decode, read_price_lists

URL = DEFAULT_UPDATE_URL
_PREVIOUS = ".previous"
_TIMEOUT_SECONDS = 30
_HINT = "the prices are unchanged"


class UpdateResult(NamedTuple):
    path: Path
    models: int
    previous: Path | None
    """The former file, if there was one."""


def update_prices(path: Path, url: str = URL, *, tls: ssl.SSLContext | bool = True) -> UpdateResult:
    """Replace the file. Raises PricesError, and then leaves it unchanged."""
    content = _fetch(url, tls)
    try:
        lists = read_price_lists(decode(content))
    except PricesError as error:
        raise PricesError(f"the data from {url} is refused: {error.detail}; {_HINT}") from error
    head = {
        "package": version(PACKAGE),
        "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
        "url": url,
    }
    text = json.dumps(head, indent=1).encode()[:-2] + b',\n "providers": ' + content.strip() + b"\n}\n"
    return UpdateResult(path, sum(map(len, lists.values())), _replace(path, text))


def _fetch(url: str, tls: ssl.SSLContext | bool) -> bytes:
    address = urlsplit(url)
    if address.scheme != "https" or not address.hostname or address.username:
        raise PricesError(f"{url} is not an https address without a password")
    try:
        with (
            httpx2.Client(verify=tls, follow_redirects=False, timeout=_TIMEOUT_SECONDS) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response,
        ):
            return _read(response)
    except httpx2.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise PricesError(f"{address.hostname} cannot be reached ({reason}); {_HINT}") from error


def _read(response: httpx2.Response) -> bytes:
    if response.is_redirect:
        raise PricesError(f"{response.url} redirects to another address, which is not followed; {_HINT}")
    if response.status_code != httpx2.codes.OK:
        raise PricesError(f"{response.url} answers with status {response.status_code}; {_HINT}")
    content = bytearray()
    for chunk in response.iter_raw():
        content += chunk
        if len(content) > MAX_BYTES:
            raise PricesError(f"the data from {response.url} exceeds {MAX_BYTES // 2**20} MiB; {_HINT}")
    return bytes(content)


def _replace(path: Path, text: bytes) -> Path | None:
    """Write the file at once, and keep the former one beside it."""
    previous = path.with_name(path.name + _PREVIOUS)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            kept = previous if path.exists() else None
            if kept:
                previous.write_bytes(path.read_bytes())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise PricesError(f"{path} cannot be written: {error.strerror}") from error
    return kept
