"""google-genai: an answer of the API as its `GenerateContentResponse`, checked."""

import warnings
from base64 import b64encode
from typing import Any

from google.genai.types import GenerateContentResponse

from benchmarks.peers import GEMINI, Parser

warnings.filterwarnings("ignore", module=r"google\.genai")  # which tells of each value that it does not know


def _contents(response: GenerateContentResponse) -> Any:
    contents = [candidate.content for candidate in response.candidates or [] if candidate.content]
    return [_as_sent(content.model_dump(by_alias=True)) for content in contents]


def _as_sent(value: Any) -> Any:
    """With bytes as the API spells them, which the class writes in another alphabet."""
    if isinstance(value, dict):
        return {key: _as_sent(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_sent(item) for item in value]
    return b64encode(value).decode() if isinstance(value, bytes) else value


PARSERS = [
    Parser(
        "google-genai GenerateContentResponse.model_validate_json",
        frozenset({GEMINI}),
        GenerateContentResponse.model_validate_json,
        _contents,
    )
]
