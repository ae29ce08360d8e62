"""Text that PostgreSQL can store: anything but NUL characters and lone surrogates."""

from ash_server.errors import InvalidUtf8, NulByte


def check_text(text: str, what: str, index: int | None = None) -> None:
    """Raises NulByte or InvalidUtf8, whose detail names `what` was checked and never quotes it."""
    if "\0" in text:
        raise NulByte(f"{what} holds a NUL character, which PostgreSQL cannot store", index=index)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidUtf8(f"{what} holds a lone surrogate, which UTF-8 cannot encode", index=index) from None


def storable(text: str) -> str:
    """Return a derived text without what PostgreSQL would refuse."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
