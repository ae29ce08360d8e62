"""Convert an event log to one prompt for Codex: Markdown with each message in a code fence."""

import re
from collections.abc import Iterator

from ash_shared.model.events import failure_of
from ash_shared.projections._conversation import Item, UserMessage, conversation
from ash_shared.projections._request_content import arguments_of, result_blocks, text_of
from ash_shared.projections._retractions import Events

_INTRODUCTION = "This is our conversation so far, each message in a code fence. Go on from where it ends."


def to_codex_prompt(events: Events) -> str:
    """Return the conversation as a prompt for `codex exec`; empty if there are no messages.

    Texts are not escaped; each is in a fence longer than any fence in it.
    """
    messages = [message for item in conversation(events) for message in _messages(item)]
    return "\n\n".join((_INTRODUCTION, *messages)) + "\n" if messages else ""


def _messages(item: Item) -> Iterator[str]:
    if isinstance(item, UserMessage):
        yield _fenced("User", text_of(item.blocks))
        return
    if item.blocks:
        yield _fenced("Assistant", text_of(item.blocks))
    for call in item.calls:
        if call.result is not None:
            failed = " (failed)" if failure_of(call.result) else ""
            yield _fenced(f"Tool call: {call.name}", arguments_of(call.args))
            yield _fenced(f"Tool result{failed}", text_of(result_blocks(call.result)))


def _fenced(heading: str, text: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"## {heading}\n\n{fence}\n{text}\n{fence}"
