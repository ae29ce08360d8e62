"""google-genai: an API response as a validated `GenerateContentResponse`."""

import warnings
from base64 import b64encode
from typing import Any

from google.genai.types import GenerateContentResponse

from benchmarks.peers import GEMINI, Parser

warnings.filterwarnings("ignore", module=r"google\.genai")  # it warns about every unknown value


def _contents(response: GenerateContentResponse) -> Any:
    contents = [candidate.content for candidate in response.candidates or [] if candidate.content]
    return [_as_sent(content.model_dump(by_alias=True)) for content in contents]


def _as_sent(value: Any) -> Any:
    """Encode bytes in the API's base64 alphabet; the class uses the URL-safe one."""
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
