"""Describe a text for storage: kind, role, block types, header, prompt, drift and digest."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain

import msgspec

from ash_shared.model.blocks import Block
from ash_shared.model.message import Description, Drift
from ash_shared.model.usage.answers import Cause
from ash_shared.parsing.parsed_text import ParsedText
from ash_shared.records.steps import Part, cause_of, is_inherited, is_person
from ash_shared.records.system_text import is_client_text, prompt_text

MAX_PROMPT = 200
"""Maximum length of a prompt in characters."""
_MAX_PROMPT_SOURCE = 50 * MAX_PROMPT
"""Characters of a text that are searched for the words of the prompt."""
_MAX_KEYS = 20
"""Keys that distinguish a block without a type."""

_encode = msgspec.json.Encoder().encode


def encode_blocks(parsed: ParsedText) -> bytes:
    """Return the blocks of a parsed text as compact JSON."""
    return _encode(parsed.content.blocks)


def describe_parsed(parsed: ParsedText, source: str | None, encoded: bytes | None = None) -> Description:
    """Return the description of a parsed text. Never raises.

    `source` is the declared format, `encoded` the result of `encode_blocks`, if known.
    """
    kind, role, blocks = parsed.content.kind, parsed.content.role, parsed.content.blocks
    types = {block["type"] for block in blocks}
    encoded = encode_blocks(parsed) if encoded is None else encoded
    may_have_prompt = kind == "record" or (kind == "message" and role == "user" and "text" in types)
    prompts = list(_prompt_parts(parsed)) if may_have_prompt else ()
    return Description(
        source=parsed.source(source),
        kind=kind,
        role=role,
        block_types=tuple(sorted(types)),
        header=parsed.header(),
        prompt=_find_prompt(prompts),
        drift=_count_drift(blocks),
        digest=blake2b(b'["%b","%b",%b]' % (kind.encode(), role.encode(), encoded), digest_size=16).digest(),
        cause=_find_cause(prompts),
    )


def _find_cause(prompts: Iterable[Part]) -> Cause | None:
    """Return what sent the first prompt: without a sender, a person, unless a tool wrote the text."""
    for part in prompts:
        if part.sender is not None:
            return cause_of(part.sender)
        if part.origin != "program" and _is_typed(part):
            return "person"
    return None


def _is_typed(part: Part) -> bool:
    is_main = not part.parent_call and all(block["type"] != "tool_result" for block in part.blocks)
    return is_main and bool(part.blocks) and not is_client_text(part.blocks)


_PROMPTS_OF_PERSONS = ("prompt", "mid_turn")
_PROMPTS_OF_ALL = (*_PROMPTS_OF_PERSONS, "program")


def _find_prompt(prompts: Iterable[Part]) -> str | None:
    """Return the first text that a person wrote, shortened to one line."""
    for part in prompts:
        for block in part.blocks if part.origin in _PROMPTS_OF_PERSONS else ():
            if block["type"] == "text" and "variant" not in block:
                name = prompt_name(block["text"], is_typed=is_person(part.sender))
                if name:
                    return name
    return None


def prompt_name(text: str, *, is_typed: bool = False) -> str:
    """Return the beginning of a prompt in one line, as a title; empty if a person wrote nothing, or only a command that
    controls the client. `is_typed`: a person certainly wrote the text, whatever it looks like."""
    typed = prompt_text(text, is_typed=is_typed)
    words = _without_markup(" ".join(typed[:_MAX_PROMPT_SOURCE].split()))
    if len(words) > MAX_PROMPT:
        return words[: MAX_PROMPT - 1] + "…"
    if not words or len(typed) <= _MAX_PROMPT_SOURCE:
        return words
    return words.rpartition(" ")[0] + "…"  # redaction would not recognise a cut secret


def _without_markup(words: str) -> str:
    """Return a text without its tags if it begins with one, as HTML and XML do."""
    return " ".join(_MARKUP.sub(" ", words).split()) if _MARKUP.match(words) else words


_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(style|script)\b.*?(?:</\1>|\Z)|<[!?/]?[a-z][^<>]*>", re.DOTALL | re.IGNORECASE
)


def _prompt_parts(parsed: ParsedText) -> Iterator[Part]:
    """Yield the prompts, except queued ones, which may wait for the next turn and get another record then."""
    for part in chain.from_iterable(each.parts() for each in parsed.elements or [parsed]):
        is_prompt = part.origin in _PROMPTS_OF_ALL and part.relation != "held_copy"
        if part.role == "user" and is_prompt and not is_inherited(part):
            yield part


def _count_drift(blocks: list[Block]) -> tuple[Drift, ...]:
    """Count the unknown and malformed blocks by reason and type, or by keys if they have no type."""
    drifted = [
        (block["reason"], block.get("rawType") or _list_keys(block.get("raw")))
        for block in blocks
        if block["type"] == "raw" and block.get("reason") in {"unknown_type", "malformed"}
    ]
    if not drifted:
        return ()
    return tuple(Drift(reason, name, count) for (reason, name), count in sorted(Counter(drifted).items()))


def _list_keys(raw: object) -> str:
    """Return `{id, name}` for an object, an empty text for other values."""
    return f"{{{', '.join(sorted(raw)[:_MAX_KEYS])}}}" if isinstance(raw, dict) and raw else ""
