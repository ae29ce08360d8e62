"""Convert an event log to one prompt for Claude Code, with each message in XML tags."""

import re
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from ash_shared.model.events import failure_of
from ash_shared.projections._conversation import Item, UserMessage, conversation
from ash_shared.projections._request_content import arguments_of, result_blocks, text_of
from ash_shared.projections._retractions import Events

_INTRODUCTION = "This is our conversation so far. Go on from where it ends."
_OURS = re.compile(r"</?(?:conversation|user|assistant|tool_call|tool_result)(?:-(\d{1,9}))?(?![\w-])")


class _Element(NamedTuple):
    tag: str
    attributes: str
    text: str


def to_claude_prompt(events: Events) -> str:
    """Return the conversation as a prompt for `claude -p`; empty if there are no messages.

    Texts are not escaped. If a text contains such a tag, all tags get a number that no text contains (`<user-2>`), so
    that no text can imitate another message.
    """
    elements = [element for item in conversation(events) for element in _elements(item)]
    if not elements:
        return ""
    mark = _mark([element.text for element in elements])
    texts = (f"<{tag}{mark}{attributes}>\n{text}\n</{tag}{mark}>" for tag, attributes, text in elements)
    inside = "\n".join(texts)
    return f"{_INTRODUCTION}\n\n<conversation{mark}>\n{inside}\n</conversation{mark}>\n"


def _elements(item: Item) -> Iterator[_Element]:
    if isinstance(item, UserMessage):
        yield _Element("user", "", text_of(item.blocks))
        return
    if item.blocks:
        yield _Element("assistant", "", text_of(item.blocks))
    for call in item.calls:
        if call.result is not None:
            failed = ' error="true"' if failure_of(call.result) else ""
            yield _Element("tool_call", f' name="{call.name}"', arguments_of(call.args))
            yield _Element("tool_result", failed, text_of(result_blocks(call.result)))


def _mark(texts: list[str]) -> str:
    """Return the suffix of the tags: empty, or the first number that no tag in these texts has."""
    used = {int(number or 1) for text in texts for number in _OURS.findall(text)}
    free = next(number for number in count(1) if number not in used)
    return "" if free == 1 else f"-{free}"
