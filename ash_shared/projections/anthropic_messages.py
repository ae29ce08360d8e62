"""A log of events as the messages of a request to Anthropic's Messages API.

The API wants user and assistant in turn, the user first; the results of all `tool_use` blocks at the beginning of the
next user message; no blank text, and none that ends in blanks where the last message is the assistant's.

Thinking is left out, also where it is signed: a signature holds only while all that came before the block is what the
model saw, and a projection is not that. Where an answer waits for results, older models in manual thinking mode ask
for it; continue there with thinking switched off.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import Block, text_block
from ash_shared.projections._conversation import Answer, Call, Said, conversation
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
"""Stands where a log begins with an answer: some streams do not hold the prompt."""


def to_anthropic_messages(events: Events, *, open_calls: bool = False) -> list[AnthropicMessage]:
    """The `messages` of a request that goes on with the conversation; the system prompt is the caller's.

    `open_calls` keeps the calls that the last answer waits for. Their results belong at the beginning of the next user
    message, which is there already where other calls of the answer have theirs.
    """
    messages: list[AnthropicMessage] = []
    for item in conversation(events, open_calls=open_calls):
        if isinstance(item, Said):
            _add(messages, "user", [_BLOCKS[block["type"]](block) for block in item.blocks])
        else:
            _add_answer(messages, item)
    if messages and messages[-1]["role"] == "assistant":
        _end(messages[-1]["content"])
    return messages


def _add(messages: list[AnthropicMessage], role: str, blocks: list[Block]) -> None:
    """What one side says one after the other is one message."""
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    elif blocks:
        messages.append({"role": role, "content": blocks})


def _add_answer(messages: list[AnthropicMessage], answer: Answer) -> None:
    if not messages:
        _add(messages, "user", [text_block(_NO_PROMPT)])
    said = [as_text(block) for block in answer.blocks]
    _add(messages, "assistant", said + list(map(_tool_use, answer.calls)))
    _add(messages, "user", [_tool_result(call.id, call.result) for call in answer.calls if call.result])


def _end(content: list[Block]) -> None:
    if content[-1]["type"] == "text":
        content[-1] = text_block(content[-1]["text"].rstrip())


def _tool_use(call: Call) -> Block:
    return {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": json.loads(arguments_of(call.args)),
    }


def _tool_result(id: str, payload: Mapping[str, Any]) -> Block:
    """An error takes text alone."""
    result: Block = {"type": "tool_result", "tool_use_id": id}
    blocks = result_blocks(payload)
    is_error = payload.get("error") is not None
    if is_error or all(block["type"] == "text" for block in blocks):
        content: str | list[Block] = text_of(blocks)
    else:
        content = [_BLOCKS[block["type"]](block) for block in blocks]
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


_BLOCKS: Mapping[str, Callable[[Block], Block]] = {"file": _file, "image": _image, "text": as_text}
