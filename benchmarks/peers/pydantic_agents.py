"""pydantic-ai: an API response as a `ModelResponse`."""

from dataclasses import asdict
from typing import Any

import orjson
from anthropic._models import construct_type
from anthropic.types.beta import BetaMessage
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from benchmarks.peers import BARE, Parser

# The client requires a key and never sends a request.
_MODEL: Any = AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(api_key="unused"))


def _read(raw: bytes) -> Any:
    message = construct_type(type_=BetaMessage, value=orjson.loads(raw))
    return _MODEL._process_response(message, ModelRequestParameters(), {})


def _show(response: Any) -> Any:
    return [asdict(part) for part in response.parts]


PARSERS = [Parser("pydantic-ai AnthropicModel", frozenset({BARE}), _read, _show)]
