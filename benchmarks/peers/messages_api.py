"""anthropic: an API response as a `Message`, validated, and unvalidated like its client does."""

from typing import Any

import orjson
from anthropic._models import construct_type
from anthropic.types import Message

from benchmarks.peers import BARE, Parser


def _construct(raw: bytes) -> Any:
    return construct_type(type_=Message, value=orjson.loads(raw))


def _show(message: Message) -> Any:
    return [block.model_dump(mode="json", warnings=False) for block in message.content]


PARSERS = [
    Parser("anthropic Message.model_validate_json", frozenset({BARE}), Message.model_validate_json, _show),
    Parser("anthropic construct_type(Message)", frozenset({BARE}), _construct, _show),
]
