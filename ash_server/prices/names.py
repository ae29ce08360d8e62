"""Names of models in records, and the price lists that may contain them."""

import re
from collections.abc import Iterator

_DECORATION = re.compile(
    r"^~|^(?:projects/[^/]+/locations/[^/]+/)?(?:publishers/[^/]+/)?models/|^arn:aws[^/]*/|\[1m\]$"
)
"""Around the name of the same model: aliases, resource names of Google and AWS, the context of Claude Code."""

_EFFORT = re.compile(r"-(?:minimal|low|medium|high|xhigh|thinking)$")
"""Added to names by Antigravity and Cursor; the price does not depend on it."""
_SOURCES_WITH_EFFORT = frozenset({"antigravity", "cursor"})

_LABEL_OF_EFFORT = re.compile(r" \((?:minimal|low|medium|high|thinking)\)$")
"""Antigravity records what its menu shows: `Gemini 3.7 Flash (High)`."""
_SOURCES_WITH_LABELS = frozenset({"antigravity"})

_LISTS_OF_SOURCES = {"copilot_cli": "github-copilot", "cursor": "cursor"}
"""Programs that resell models at prices of their own."""

_BEDROCK = re.compile(
    r"(?:[a-z]{2,6}(?:-gov)?\.)?(?:amazon|anthropic|deepseek|meta|mistral|moonshotai|openai|qwen)\."
)
_VERTEX = re.compile(r"claude-[^/]+@")

_VENDORS = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"(?:gpt(?!-oss)|chatgpt|codex|computer-use|text-embedding)-|o[134](?:-|$)"), "openai"),
    (re.compile(r"gemini-"), "google"),
    (re.compile(r"grok-"), "x-ai"),
    (re.compile(r"(?:kimi|moonshot)-"), "moonshotai"),
    (re.compile(r"glm-"), "zai"),
    (re.compile(r"deepseek-"), "deepseek"),
    (re.compile(r"minimax-|m2-her"), "minimax"),
    (re.compile(r"(?:mistral|codestral|devstral|ministral|magistral|pixtral|voxtral)-"), "mistral"),
    (re.compile(r"command-"), "cohere"),
    (re.compile(r"composer-"), "cursor"),
)
"""The vendor of a name without a provider. Models that anyone may serve, such as Llama and gpt-oss, have none."""

_PREFIXES = {
    "amazon-bedrock": "aws",
    "anthropic": "anthropic",
    "azure": "azure",
    "bedrock": "aws",
    "cerebras": "cerebras",
    "copilot": "github-copilot",
    "cursor": "cursor",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "fireworks-ai": "fireworks",
    "gemini": "google",
    "github-copilot": "github-copilot",
    "google": "google",
    "google-vertex": "google",
    "groq": "groq",
    "minimax": "minimax",
    "mistral": "mistral",
    "mistralai": "mistral",
    "moonshot": "moonshotai",
    "moonshot-ai": "moonshotai",
    "moonshotai": "moonshotai",
    "openai": "openai",
    "openrouter": "openrouter",
    "together": "together",
    "togetherai": "together",
    "vertex_ai": "google",
    "x-ai": "x-ai",
    "xai": "x-ai",
    "z-ai": "zai",
    "zai": "zai",
}
"""The price list of `prefix/name`."""

_RESELLERS = frozenset({"cursor", "github-copilot"})
"""Their lists lack older models, which cost as much as at the vendor."""

_SAME_PRICE = frozenset({"anthropic", "google", "openai", "x-ai"})
"""OpenRouter sells their models at the vendor's prices, which the vendor's list has with their history."""


def normalize(model: str) -> str:
    """Return the name in lower case, without what does not change the model."""
    name, before = model.strip().lower(), ""
    while name != before:
        name, before = _DECORATION.sub("", name), name
    return name


def places(source: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the price lists to look in, each with the name that the model has there."""
    if source in _SOURCES_WITH_LABELS:
        name = _LABEL_OF_EFFORT.sub("", name).replace(" ", "-")
    if source in _SOURCES_WITH_EFFORT:
        name = _EFFORT.sub("", name)
    if listed := _LISTS_OF_SOURCES.get(source):
        yield listed, name
    if "/" in name:
        yield from _places_of_prefix(name)
    elif _BEDROCK.match(name):
        yield "aws", name
    elif _VERTEX.match(name):
        yield "google", name
    elif vendor := _vendor_of(name):
        yield vendor, name


def _vendor_of(name: str) -> str | None:
    return next((vendor for pattern, vendor in _VENDORS if pattern.match(name)), None)


def _places_of_prefix(name: str) -> Iterator[tuple[str, str]]:
    """`vendor/name` is how OpenRouter and its users spell models."""
    prefix, _, rest = name.partition("/")
    listed, vendor = _PREFIXES.get(prefix), _vendor_of(rest)
    if listed in _SAME_PRICE and listed == vendor:
        yield vendor, rest
    yield "openrouter", name
    if listed and listed not in _SAME_PRICE:
        yield listed, rest
    if listed in _RESELLERS and vendor:
        yield vendor, rest
