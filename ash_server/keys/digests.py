"""The texts of keys and cookies, and their digests.

A digest is an HMAC with the secret of the server, so that a copy of the database is of no use to guess or check keys.
"""

import hmac
import os
import re
import secrets
from hashlib import sha256
from string import ascii_letters, digits
from uuid import UUID

from ash_server.errors import SecretMissing
from ash_server.settings import Settings

PREFIX = "ash_"
WEBHOOK_PREFIX = "ash_webhook_"
_LENGTH = 43
"""Characters of a random text: 256 bits."""
_SHOWN = len(PREFIX) + 6
_KEY = re.compile(f"{PREFIX}[A-Za-z0-9]{{{_LENGTH}}}")
_FILE = "secret"
_MIN_SECRET = 16


def random_text() -> str:
    return "".join(secrets.choice(ascii_letters + digits) for _ in range(_LENGTH))


def new_key_text() -> str:
    return PREFIX + random_text()


def is_key_text(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def shown_prefix(key: str) -> str:
    """Return the first characters, so that people recognise the key."""
    return key[:_SHOWN]


def digest(secret: bytes, text: str) -> bytes:
    return hmac.digest(secret, text.encode(), sha256)


def read_secret(settings: Settings) -> bytes:
    """Return ASH_SECRET, else the content of the file `secret` in ASH_HOME. Raises SecretMissing."""
    if settings.secret:
        if len(settings.secret) < _MIN_SECRET:
            raise SecretMissing(f"ASH_SECRET must have at least {_MIN_SECRET} characters.")
        return settings.secret.encode()
    try:
        return (settings.home / _FILE).read_bytes()
    except OSError as error:
        raise SecretMissing(
            f"Keys are checked with a secret: set ASH_SECRET, or copy the file {_FILE} of the ASH_HOME where they "
            "were created."
        ) from error


def read_or_create_secret(settings: Settings) -> bytes:
    """Like `read_secret`, but create the file if there is none. Of concurrent callers, one creates it."""
    path = settings.home / _FILE
    if not settings.secret and not path.exists():
        settings.home.mkdir(parents=True, exist_ok=True)
        temporary = settings.home / f".{_FILE}-{secrets.token_hex(8)}"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    return read_secret(settings)


def webhook_secret(settings: Settings, budget_id: UUID) -> str:
    """Return the secret that signs the webhook of a budget. It is derived, so that none is stored.

    Raises SecretMissing.
    """
    return WEBHOOK_PREFIX + digest(read_or_create_secret(settings), f"webhook/{budget_id}").hex()
