"""What PostgreSQL keeps as text: anything but NUL characters and halves of surrogate pairs."""

from ash_server.errors import InvalidUtf8, NulByte


def check_text(text: str, what: str, index: int | None = None) -> None:
    """Raises NulByte or InvalidUtf8, which tell `what` it was and never the text."""
    if "\0" in text:
        raise NulByte(f"{what} holds a NUL character, which PostgreSQL cannot keep", index=index)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidUtf8(
            f"{what} holds half a surrogate pair, which UTF-8 cannot say", index=index
        ) from None


def storable(text: str) -> str:
    """A text that was derived from a message, without what PostgreSQL would refuse in it."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
