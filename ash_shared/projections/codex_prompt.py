"""A log of events as one prompt for Codex: Markdown, each message in a fence below the name of who said it."""

import re
from collections.abc import Iterator

from ash_shared.projections._conversation import Item, Said, conversation
from ash_shared.projections._request_content import arguments_of, result_blocks, text_of
from ash_shared.projections._retractions import Events

_INTRODUCTION = "This is our conversation so far, each message in a code fence. Go on from where it ends."


def to_codex_prompt(events: Events) -> str:
    """The conversation, to be handed over with `codex exec`; empty where nothing was said.

    The texts stand as they are, each in a fence that is longer than any in it.
    """
    messages = [message for item in conversation(events) for message in _messages(item)]
    return "\n\n".join((_INTRODUCTION, *messages)) + "\n" if messages else ""


def _messages(item: Item) -> Iterator[str]:
    if isinstance(item, Said):
        yield _fenced("User", text_of(item.blocks))
        return
    if item.blocks:
        yield _fenced("Assistant", text_of(item.blocks))
    for call in item.calls:
        if call.result is not None:
            failed = " (failed)" if call.result.get("error") is not None else ""
            yield _fenced(f"Tool call: {call.name}", arguments_of(call.args))
            yield _fenced(f"Tool result{failed}", text_of(result_blocks(call.result)))


def _fenced(heading: str, text: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"## {heading}\n\n{fence}\n{text}\n{fence}"
