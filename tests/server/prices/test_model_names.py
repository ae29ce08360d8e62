"""Names of models in records, and the price list that each leads to."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from genai_prices.data import providers

from ash_server.prices import Prices
from ash_server.prices.matching import find_model
from tests.shared.sample_files import CORPUS, CORPUS_NEXT

FOUND = [
    # Anthropic's own names, and what Claude Code adds.
    ("claude", "claude-opus-4-1-20250805", "anthropic", "claude-opus-4-1"),
    ("claude", "claude-opus-4-20250514", "anthropic", "claude-opus-4-0"),
    ("claude", "claude-sonnet-4-5-20250929", "anthropic", "claude-sonnet-4-5"),
    ("claude", "claude-opus-4-6[1m]", "anthropic", "claude-opus-4-6"),
    ("claude", "Claude-Opus-5 ", "anthropic", "claude-opus-5"),
    ("claude", "claude-3-7-sonnet-latest", "anthropic", "claude-3-7-sonnet-latest"),
    # Google Cloud and Amazon Bedrock.
    ("claude", "claude-sonnet-4-5@20250929", "google", "claude-sonnet-4-5"),
    ("claude", "us.anthropic.claude-opus-4-8", "aws", "regional.anthropic.claude-opus-4-8-v1:0"),
    ("claude", "global.anthropic.claude-opus-4-6-v1", "aws", "global.anthropic.claude-opus-4-6-v1:0"),
    (
        "claude",
        "arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-opus-4-5-20251101-v1:0",
        "aws",
        "regional.anthropic.claude-opus-4-5-v1:0",
    ),
    ("opencode", "amazon-bedrock/anthropic.claude-opus-5", "aws", "regional.anthropic.claude-opus-5"),
    # OpenAI.
    ("codex", "gpt-5-codex", "openai", "gpt-5"),
    ("codex", "gpt-5.1-codex-max", "openai", "gpt-5.1"),
    ("codex", "gpt-5.6-sol", "openai", "gpt-5.6-sol"),
    ("openai_responses", "gpt-5.4-2026-03-05", "openai", "gpt-5.4"),
    ("openai_responses", "gpt-5.2-20251211", "openai", "gpt-5.2"),
    ("openai_responses", "o4-mini-2025-04-16", "openai", "o4-mini"),
    # Google.
    ("gemini", "models/gemini-2.5-pro", "google", "gemini-2.5-pro"),
    ("gemini", "projects/p/locations/eu/publishers/google/models/gemini-2.5-flash", "google", "gemini-2.5-flash"),
    ("gemini_cli", "gemini-2.5-pro-preview-05-06", "google", "gemini-2.5-pro"),
    ("antigravity", "gemini-3.7-flash-high", "google", "gemini-3.7-flash"),
    ("antigravity", "Gemini 3.7 Flash (High)", "google", "gemini-3.7-flash"),
    ("antigravity", "Claude Opus 4.6 (Thinking)", "anthropic", "claude-opus-4-6"),
    # Other vendors.
    ("claude", "kimi-k2.7-code", "moonshotai", "kimi-k2.7-code"),
    ("pi", "moonshot-ai/kimi-k2.7-code", "moonshotai", "kimi-k2.7-code"),
    ("claude", "glm-4.7", "zai", "GLM-4.7"),
    ("claude", "deepseek-v4-flash", "deepseek", "deepseek-v4-flash"),
    ("claude", "minimax-m2.5", "minimax", "MiniMax-M2"),
    ("pi", "grok-code-fast-1", "x-ai", "grok-code-fast-1"),
    # OpenRouter: vendors at their own prices, and everything else.
    ("opencode", "anthropic/claude-opus-4.5", "anthropic", "claude-opus-4-5"),
    ("pi", "openai/gpt-5-mini", "openai", "gpt-5-mini"),
    ("pi", "openai/gpt-oss-20b", "openrouter", "openai/gpt-oss-20b"),
    ("pi", "qwen/qwen3-coder", "openrouter", "qwen/qwen3-coder"),
    ("pi", "deepseek/deepseek-chat", "openrouter", "deepseek/deepseek-chat"),
    # Programs that resell models.
    ("copilot_cli", "claude-opus-4.8", "github-copilot", "claude-opus-4.8"),
    ("copilot_cli", "claude-sonnet-4.5", "anthropic", "claude-sonnet-4-5"),
    ("vercel", "copilot/gpt-5", "openai", "gpt-5"),
    ("cursor", "composer-2.5-fast", "cursor", "composer-2.5-fast"),
    ("cursor", "claude-opus-5-thinking", "anthropic", "claude-opus-5"),
]  # fmt: skip

NOT_FOUND = [
    # Another model than the one its name begins with.
    "kimi-k2.5-highspeed",
    "claude-opus-4-10",
    "claude-opus-4-8-fast",
    "claude-haiku-4-5-turbo",
    "gpt-5-codex-max",
    "gemini-2.5-pro-tts-2",
    "gemini-1.5-flash-8b-tuned",
    "not-claude-3-haiku-20240307",
    # Aliases, models of a subscription only, models that anyone serves.
    "sonnet",
    "opus",
    "auto",
    "default",
    "claude-opus-latest",
    "kimi-for-coding",
    "gpt-5.3-codex-spark",
    "codex-auto-review",
    "gpt-oss-120b",
    "llama-3.3-70b-versatile",
    "qwen3-coder-plus",
    "unsloth/glm-4.7",
    "anthropic/",
    "/",
    "*",
    "",
    "ÿ\x00" * 1000,
]


@pytest.mark.parametrize(("source", "name", "provider", "model"), FOUND)
def test_a_name_leads_to_the_model_of_a_list(
    prices: Prices, source: str, name: str, provider: str, model: str
) -> None:
    found = prices.catalogue.find(source, name)

    assert found
    assert (found.provider, found.id) == (provider, model)


@pytest.mark.parametrize("name", NOT_FOUND)
def test_other_names_have_no_price(prices: Prices, name: str) -> None:
    assert prices.catalogue.find("claude", name) is None


@pytest.mark.slow
def test_all_models_of_the_lists_are_found_by_their_ids() -> None:
    """As the package finds them; a regional model of Amazon has no name of its own."""
    wrong = {
        (provider.id, model.id)
        for provider in providers
        for model in provider.models
        if find_model(provider.models, model.id.lower()) is not provider.find_model(model.id)
        and provider.find_model(model.id)
    }

    assert wrong == set()


UNPRICED = {
    # No names of a model.
    "", "<redacted>", "<synthetic>", "$runtime|openai|mock-model(openai)", "[trimmed for fixture]", "agent-loop",
    "gpt-5-2025-08-07gpt-5-2025-08-07", "gmini-pro",
    # Names of tests.
    "claude-does-not-exist", "droid-model", "m", "m-large", "m-small", "mock-model", "mock/mock-model",
    "openai/mock-model", "openclaw-large", "openclaw-small", "synthetic-active-model", "synthetic-dead-model",
    "synthetic-model", "test", "test-model", "test:test", "function::s2", "function:f:", "function:function::s2",
    "function:function:f:", "function:function:h:", "function:h:",
    # Aliases and display names: the model is unknown.
    "Auto", "Claude 4 Sonnet", "Claude 4.5 Sonnet", "OpenAI GPT-5", "cursor-auto", "fable", "haiku", "sonnet",
    "~anthropic/claude-opus-latest",
    # Models of a subscription only, or without a published price.
    "codex-auto-review", "coder-model", "coder-model(qwen-oauth)", "gpt-5.3-codex-spark", "omni-moderation-latest",
    "gemini-2.0-flash-preview-image-generation", "minimax/minimax-m2:free",
    # Open models without the host that served them.
    "cleanunicorn/qwen3-coder-30b-a3b-instruct", "gpt-oss-120b", "llama-3.3-70b-versatile",
    "mistralai/ministral-3-14b-reasoning", "qwen", "qwen-3-coder-480b", "zai-glm-5-2", "zai-org/glm-4.7-flash",
    # Behind a proxy.
    "generic-copilot/litellm/anthropic/claude-haiku-4.5",
}  # fmt: skip
"""All names in the corpora without a price."""

_FIELDS = {
    "model",
    "modelID",
    "model_id",
    "modelId",
    "modelName",
    "model_name",
    "modelVersion",
    "response_model",
}
_SOURCES = {"copilot_cli": "copilot_cli", "cursor_cli": "cursor", "antigravity_cli": "antigravity"}


def _names(value: Any) -> Iterator[str]:
    match value:
        case dict():
            yield from (each for key, each in value.items() if key in _FIELDS and isinstance(each, str))
            yield from (name for each in value.values() for name in _names(each))
        case list():
            yield from (name for each in value for name in _names(each))


def _texts(path: Path) -> Iterator[Any]:
    text = path.read_text("utf-8", errors="replace")
    for part in (text, *text.splitlines()):
        try:
            yield json.loads(part)
        except (ValueError, RecursionError):
            continue


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir() or not CORPUS_NEXT.is_dir(), reason="no transcripts in ../shared")
def test_all_models_of_the_corpora_but_those_listed_have_a_price(prices: Prices) -> None:
    folders = [folder for root in (CORPUS, CORPUS_NEXT) for folder in root.iterdir() if folder.is_dir()]
    names = {
        (_SOURCES.get(folder.name, folder.name), name)
        for folder in folders
        for path in folder.rglob("*.json*")
        for decoded in _texts(path)
        for name in _names(decoded)
        if len(name) < 100
    }

    assert {name for source, name in names if not prices.catalogue.find(source, name)} - UNPRICED == set()
    assert len(names) > 150
