"""Text that PostgreSQL can store: anything but NUL characters and lone surrogates."""

from ash_server.errors import InvalidUtf8, NulByte

ONE_LINE = r"^(?![\s\S]*[\x00\r\n])[\s\S]"
"""Pattern of names, such as ids and sources."""


def check_text(text: str, name: str, index: int | None = None) -> None:
    """Raises NulByte or InvalidUtf8. Their detail contains `name`, the name of the text, and never the text itself."""
    if "\0" in text:
        raise NulByte(f"{name} contains a NUL character, which PostgreSQL cannot store", index=index)
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidUtf8(
            f"{name} contains a lone surrogate, which UTF-8 cannot encode", index=index
        ) from None


def storable(text: str) -> str:
    """Return a derived text without the characters that PostgreSQL cannot store."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "").encode("utf-8", "replace").decode()
