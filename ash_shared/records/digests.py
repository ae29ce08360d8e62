"""Digests of texts, for state that must stay small."""

from hashlib import blake2b
from typing import Any


def text_digest(text: str) -> str:
    return bytes_digest(text.encode("utf-8", "replace"))


def bytes_digest(text: bytes) -> str:
    return blake2b(text, digest_size=8).hexdigest()


def evict_oldest(entries: dict[str, Any], maximum: int) -> None:
    """Remove the oldest entry of more than `maximum`."""
    if len(entries) > maximum:
        del entries[next(iter(entries))]
