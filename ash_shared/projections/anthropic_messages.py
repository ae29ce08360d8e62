"""Convert an event log to the messages of a request to Anthropic's Messages API.

The API requires alternating user and assistant messages, the user first; the results of all `tool_use` blocks at the
beginning of the next user message; no blank text, and no trailing whitespace in a final assistant message.

Thinking is dropped even if it is signed: a signature is valid only if everything before the block is unchanged,
which a projection does not guarantee. Older models in manual thinking mode require it while an answer waits for
results; continue there with thinking switched off.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ash_shared.model.blocks import Block, text_block
from ash_shared.model.events import failure_of
from ash_shared.projections._conversation import (
    Answer,
    ConversationCall,
    ConversationFold,
    Item,
    UserMessage,
    conversation,
)
from ash_shared.projections._request_content import (
    address,
    arguments_of,
    as_text,
    inline_pdf,
    inline_picture,
    result_blocks,
    text_of,
)
from ash_shared.projections._retractions import Events

AnthropicMessage = dict[str, Any]

_NO_PROMPT = "[What the user said is not recorded.]"
"""First message of a log that begins with an answer: some streams do not contain the prompt."""


def to_anthropic_messages(events: Events, *, open_calls: bool = False) -> list[AnthropicMessage]:
    """Return the `messages` of a request that continues the conversation; the caller adds the system prompt.

    `open_calls` keeps the pending calls of the last answer. Add their results at the beginning of the next user
    message, which exists already if other calls of the answer have results.
    """
    writer = _Writer()
    writer.add(conversation(events, open_calls=open_calls))
    return writer.end()


class AnthropicFold:
    """Folds a log into `to_anthropic_messages`, part by part, as `ConversationFold` does."""

    def __init__(self) -> None:
        self._conversation = ConversationFold()
        self._writer = _Writer()
        self.add = self._conversation.add

    def size(self) -> int:
        return self._conversation.size() + self._writer.size

    def take(self, max_size: int | None = None) -> list[AnthropicMessage]:
        self._writer.add(self._conversation.take(max_size))
        return self._writer.take()

    def end(self) -> list[AnthropicMessage]:
        self._writer.add(self._conversation.end())
        return self._writer.end()


class _Writer:
    """Converts items to messages; the last message is kept, because an item may continue it."""

    def __init__(self) -> None:
        self._messages: list[AnthropicMessage] = []
        self.size = 0
        """Size of the events in the last message."""

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            count = len(self._messages)
            if isinstance(item, UserMessage):
                _add(self._messages, "user", [BLOCKS[block["type"]](block) for block in item.blocks])
            else:
                _add_answer(self._messages, item)
            self.size = item.size + (self.size if len(self._messages) == count else 0)

    def take(self) -> list[AnthropicMessage]:
        taken, self._messages = self._messages[:-1], self._messages[-1:]
        return taken

    def end(self) -> list[AnthropicMessage]:
        messages, self._messages = self._messages, []
        if messages and messages[-1]["role"] == "assistant":
            _strip_last_text(messages[-1]["content"])
        return messages


def _add(messages: list[AnthropicMessage], role: str, blocks: list[Block]) -> None:
    """Add blocks to the last message if it has the same role, or else as a new message."""
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    elif blocks:
        messages.append({"role": role, "content": blocks})


def _add_answer(messages: list[AnthropicMessage], answer: Answer) -> None:
    if not messages:
        _add(messages, "user", [text_block(_NO_PROMPT)])
    texts = [as_text(block) for block in answer.blocks]
    _add(messages, "assistant", texts + list(map(call_block, answer.calls)))
    _add(messages, "user", [result_block(call.id, call.result) for call in answer.calls if call.result])


def _strip_last_text(content: list[Block]) -> None:
    if content[-1]["type"] == "text":
        content[-1] = text_block(content[-1]["text"].rstrip())


def call_block(call: ConversationCall) -> Block:
    arguments = json.loads(arguments_of(call.args))
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def result_block(id: str, payload: Mapping[str, Any]) -> Block:
    """Return a tool result; the content of an error must be text."""
    result: Block = {"type": "tool_result", "tool_use_id": id}
    blocks = result_blocks(payload)
    is_error = failure_of(payload) is not None
    if is_error or all(block["type"] == "text" for block in blocks):
        content: str | list[Block] = text_of(blocks)
    else:
        content = [BLOCKS[block["type"]](block) for block in blocks]
    if content:
        result["content"] = content
    if is_error:
        result["is_error"] = True
    return result


def _image(block: Block) -> Block:
    picture = inline_picture(block)
    if picture is not None:
        return {"type": "image", "source": {"type": "base64", **picture._asdict()}}
    url = address(block)
    return {"type": "image", "source": {"type": "url", "url": url}} if url else as_text(block)


def _file(block: Block) -> Block:
    pdf = inline_pdf(block)
    return {"type": "document", "source": {"type": "base64", **pdf._asdict()}} if pdf else as_text(block)


BLOCKS: Mapping[str, Callable[[Block], Block]] = {"file": _file, "image": _image, "text": as_text}
