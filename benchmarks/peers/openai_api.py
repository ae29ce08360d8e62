"""openai: a response of either API as its class, validated, and unvalidated like its client does."""

from collections.abc import Callable
from typing import Any

import orjson
from openai._models import construct_type
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from benchmarks.peers import CHAT, RESPONSES, Parser


def _construct(model: type) -> Callable[[bytes], Any]:
    return lambda raw: construct_type(type_=model, value=orjson.loads(raw))


def _messages(completion: ChatCompletion) -> Any:
    return [choice.message.model_dump(mode="json", warnings=False) for choice in completion.choices]


def _items(response: Response) -> Any:
    return [item.model_dump(mode="json", warnings=False) for item in response.output]


_CHAT = frozenset({CHAT})
_RESPONSES = frozenset({RESPONSES})

PARSERS = [
    Parser("openai ChatCompletion.model_validate_json", _CHAT, ChatCompletion.model_validate_json, _messages),
    Parser("openai construct_type(ChatCompletion)", _CHAT, _construct(ChatCompletion), _messages),
    Parser("openai Response.model_validate_json", _RESPONSES, Response.model_validate_json, _items),
    Parser("openai construct_type(Response)", _RESPONSES, _construct(Response), _items),
]
