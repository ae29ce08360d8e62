"""Details of usage that each vendor states in its own way, and that decide the price."""

from collections.abc import Container
from typing import Any

from msgspec import Struct

from ash_shared.model.blocks import Block
from ash_shared.records.json_fields import count_at, first_text, items_at, text_at

MAX_NAME = 200
"""Characters of a name, such as a model; longer ones are cut off."""


class UsageDetails(Struct, frozen=True):
    """Details of usage; None where its vendor states nothing."""

    cache_write_1h_tokens: int | None = None
    web_searches: int | None = None
    service_tier: str | None = None
    speed: str | None = None
    region: str | None = None
    is_request: bool = True
    """False if the vendor called the model several times for the answer."""


_Paths = tuple[tuple[str, ...], ...]

_CACHE_WRITES_1H: _Paths = (
    ("cache_creation", "ephemeral_1h_input_tokens"),  # Anthropic
    ("input_token_details", "ephemeral_1h_input_tokens"),  # LangChain
    ("cache_write_1h_tokens",),  # Pydantic AI
)
_WEB_SEARCHES: _Paths = (
    ("server_tool_use", "web_search_requests"),  # Anthropic, OpenRouter
    ("num_search_queries",),  # Perplexity
)
_SERVICE_TIERS = ("service_tier", "serviceTier")
_KEYS = frozenset(
    {path[0] for path in (*_CACHE_WRITES_1H, *_WEB_SEARCHES)}
    | {*_SERVICE_TIERS, "cacheDetails", "speed", "inference_geo", "iterations"}
)
"""The keys of a vendor's usage that state a detail."""

_NO_DETAILS = UsageDetails()

_STANDARD_TIERS = frozenset({"auto", "default", "on_demand", "standard"})
_STANDARD_SPEEDS = frozenset({"standard"})
_STANDARD_REGIONS = frozenset({"global", "not_available"})


def details_of(usage: Block) -> UsageDetails:
    """Return the details of a `StandardTokenUsage`, which has the counts of the vendor."""
    vendor, tier = usage.get("vendor"), usage.get("service_tier")
    vendor = vendor if isinstance(vendor, dict) else {}
    if tier is None and _KEYS.isdisjoint(vendor):
        return _NO_DETAILS
    return UsageDetails(
        _cache_writes_1h(vendor),
        _first_count(vendor, _WEB_SEARCHES),
        _changing_name(tier or first_text(vendor, _SERVICE_TIERS), _STANDARD_TIERS),
        _changing_name(vendor.get("speed"), _STANDARD_SPEEDS),
        _changing_name(vendor.get("inference_geo"), _STANDARD_REGIONS),
        "iterations" not in vendor or _is_request(vendor),
    )


def counted_details_of(usage: Block) -> tuple[int, int]:
    """Return the tokens written to a cache for an hour, and the number of web searches; 0 where unknown."""
    vendor = usage.get("vendor")
    if not isinstance(vendor, dict) or _KEYS.isdisjoint(vendor):
        return 0, 0
    return _cache_writes_1h(vendor) or 0, _first_count(vendor, _WEB_SEARCHES) or 0


def _cache_writes_1h(vendor: Block) -> int | None:
    written = _first_count(vendor, _CACHE_WRITES_1H)
    return _bedrock_count(vendor) if written is None and "cacheDetails" in vendor else written


def _is_request(vendor: Block) -> bool:
    """Return True unless Anthropic called the model again, after a tool of its own or an advisor."""
    return sum(text_at(each, "type") == "message" for each in items_at(vendor, "iterations")) <= 1


def _first_count(vendor: Block, paths: _Paths) -> int | None:
    for path in paths:
        if path[0] in vendor and (count := count_at(vendor, *path)) is not None:
            return count
    return None


def _changing_name(name: Any, standard: Container[str]) -> str | None:
    """Return a name in lower case; None for a standard one, which does not change the price."""
    if not isinstance(name, str) or name == "standard":
        return None
    lower = name.lower()[:MAX_NAME]
    return None if not lower or lower in standard else lower


def _bedrock_count(vendor: Block) -> int:
    details = (each for each in items_at(vendor, "cacheDetails") if text_at(each, "ttl") == "1h")
    return sum(count_at(each, "inputTokens") or 0 for each in details)
