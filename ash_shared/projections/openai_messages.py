"""A log of events as the messages of a Chat Completions request.

The API wants each assistant message with `tool_calls` followed by one tool message for each of them, nothing between;
arguments as the text of a JSON object; and no empty assistant message.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ash_shared.model.blocks import Block
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

OpenAiMessage = dict[str, Any]


def to_openai_messages(events: Events, *, open_calls: bool = False) -> list[OpenAiMessage]:
    """The `messages` of a request that goes on with the conversation; instructions of the system are the caller's.

    `open_calls` keeps the calls that the last answer waits for: append their results, then send.
    """
    return [
        message
        for item in conversation(events, open_calls=open_calls)
        for message in (_from_user(item) if isinstance(item, Said) else _from_assistant(item))
    ]


def _from_user(said: Said) -> Iterator[OpenAiMessage]:
    parts = [_PARTS[block["type"]](block) for block in said.blocks]
    is_text = all(part["type"] == "text" for part in parts)
    yield {"role": "user", "content": text_of(said.blocks) if is_text else parts}


def _from_assistant(answer: Answer) -> Iterator[OpenAiMessage]:
    message: OpenAiMessage = {"role": "assistant", "content": text_of(answer.blocks) or None}
    if answer.calls:
        message["tool_calls"] = list(map(_call, answer.calls))
    yield message
    for call in answer.calls:
        if call.result is not None:
            yield {"role": "tool", "tool_call_id": call.id, "content": text_of(result_blocks(call.result))}


def _call(call: Call) -> Block:
    function = {"name": call.name, "arguments": arguments_of(call.args)}
    return {"id": call.id, "type": "function", "function": function}


def _image(block: Block) -> Block:
    picture = inline_picture(block)
    url = f"data:{picture.media_type};base64,{picture.data}" if picture else address(block)
    return {"type": "image_url", "image_url": {"url": url}} if url else as_text(block)


def _file(block: Block) -> Block:
    pdf = inline_pdf(block)
    if pdf is None:
        return as_text(block)
    name = block.get("filename") or "document.pdf"
    return {
        "type": "file",
        "file": {"filename": name, "file_data": f"data:{pdf.media_type};base64,{pdf.data}"},
    }


_PARTS: Mapping[str, Callable[[Block], Block]] = {"file": _file, "image": _image, "text": as_text}
