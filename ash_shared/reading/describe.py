"""Describe a text for storage: kind, role, block types, facts, prompt, drift and digest."""

from collections import Counter
from hashlib import blake2b

import msgspec

from ash_shared.model.blocks import Block
from ash_shared.model.message import Description, Drift
from ash_shared.reading.read import Read
from ash_shared.reading.system_text import is_system_message, visible_text

MAX_PROMPT = 200
"""Maximum length of a prompt in characters."""
_MAX_PROMPT_SOURCE = 50 * MAX_PROMPT
"""Characters at the start of a text block that are searched for the prompt."""
_MULTI_MESSAGE_KEYS = frozenset({"contents", "history", "input", "messages"})
"""Keys that contain the messages of a request body; the first one may be a system prompt."""
_MAX_KEYS = 20
"""Keys that distinguish a block without a type."""
_DRIFT_REASONS = frozenset({"unknown_type", "malformed"})

_encode = msgspec.json.Encoder().encode


def describe_read(read: Read, source: str | None) -> Description:
    """Return the description of a text from its reading; `source` is the declared format. Never raises."""
    kind, role, blocks = read.reading
    return Description(
        source=read.source(source),
        kind=kind,
        role=role,
        block_types=tuple(sorted({block["type"] for block in blocks})),
        facts=read.facts(),
        prompt=_find_prompt(read) if (kind, role) == ("message", "user") else None,
        drift=_count_drift(blocks),
        digest=blake2b(_encode((kind, role, blocks)), digest_size=16).digest(),
    )


def _find_prompt(read: Read) -> str | None:
    """Return the first text that a person wrote, shortened to one line."""
    for block in _user_blocks(read):
        if block["type"] == "text" and not is_system_message(block["text"]):
            words = " ".join(visible_text(block["text"][:_MAX_PROMPT_SOURCE]).split())
            return words if len(words) <= MAX_PROMPT else words[: MAX_PROMPT - 1] + "…"
    return None


def _user_blocks(read: Read) -> list[Block]:
    if read.record is None or _MULTI_MESSAGE_KEYS.isdisjoint(read.record):
        return read.reading.blocks
    parts = [part for part in read.parts() if part.role == "user" and not part.metadata.get("synthetic")]
    return [block for part in parts for block in part.blocks]


def _count_drift(blocks: list[Block]) -> tuple[Drift, ...]:
    """Count the unknown and malformed blocks by reason and type, or by keys if they have no type."""
    drifted = [
        (block["reason"], block.get("rawType") or _list_keys(block.get("raw")))
        for block in blocks
        if block["type"] == "raw" and block.get("reason") in _DRIFT_REASONS
    ]
    if not drifted:
        return ()
    return tuple(Drift(reason, name, count) for (reason, name), count in sorted(Counter(drifted).items()))


def _list_keys(raw: object) -> str:
    """Return `{id, name}` for an object, an empty text for other values."""
    return f"{{{', '.join(sorted(raw)[:_MAX_KEYS])}}}" if isinstance(raw, dict) and raw else ""
