"""The keys of servers, saved by `ash hooks install` in a file of ASH_HOME that only its owner can read."""

import json
from pathlib import Path

from ash_server.cli.common.private_files import write_file
from ash_server.errors import AshError

_NAME = "server-keys.json"


class ServerKeysInvalid(AshError):
    status, code, title = 409, "server_keys_invalid", "The file of the saved keys is not as expected."


def saved_key(home: Path, url: str) -> str | None:
    """Return the saved key for a server. A key is never sent to another server. Raises ServerKeysInvalid."""
    key = _read(home / _NAME).get(_normalized(url))
    return key if isinstance(key, str) else None


def save_key(home: Path, url: str, key: str) -> Path:
    path = home / _NAME
    home.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps({**_read(path), _normalized(url): key}, indent=2) + "\n")
    return path


def _read(path: Path) -> dict[str, object]:
    try:
        keys = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ServerKeysInvalid(f"{path} is not JSON ({error}): correct or delete it") from error
    return keys if isinstance(keys, dict) else {}


def _normalized(url: str) -> str:
    return url.rstrip("/")
