"""Details of usage that each vendor states in its own way, and that decide the price."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block
from ash_shared.records.json_fields import count_at, items_at, text_at

MAX_NAME = 200
"""Characters of a name, such as a model; longer ones are cut off."""


class UsageDetails(NamedTuple):
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
_SERVICE_TIERS: _Paths = (("service_tier",), ("serviceTier",))
_STANDARD_NAMES: Mapping[str, frozenset[str]] = {
    "service_tier": frozenset({"auto", "default", "on_demand", "standard"}),
    "speed": frozenset({"standard"}),
    "region": frozenset({"global", "not_available"}),
}
"""Names that do not change the price."""


def details_of(usage: Block) -> UsageDetails:
    """Return the details of a `StandardTokenUsage`, which has the counts of the vendor."""
    vendor, tier = usage.get("vendor"), usage.get("service_tier")
    if not isinstance(vendor, dict):
        return UsageDetails(service_tier=_changing_name("service_tier", tier))
    written = _first_count(vendor, _CACHE_WRITES_1H)
    return UsageDetails(
        _bedrock_count(vendor) if written is None and "cacheDetails" in vendor else written,
        _first_count(vendor, _WEB_SEARCHES),
        _changing_name("service_tier", tier or _first_text(vendor, _SERVICE_TIERS)),
        _changing_name("speed", vendor.get("speed")),
        _changing_name("region", vendor.get("inference_geo")),
        "iterations" not in vendor or _is_request(vendor),
    )


def _is_request(vendor: Block) -> bool:
    """Return True unless Anthropic called the model again, after a tool of its own or an advisor."""
    return sum(text_at(each, "type") == "message" for each in items_at(vendor, "iterations")) <= 1


def _first_count(vendor: Block, paths: _Paths) -> int | None:
    for path in paths:
        if path[0] in vendor and (count := count_at(vendor, *path)) is not None:
            return count
    return None


def _first_text(vendor: Block, paths: Iterable[tuple[str, ...]]) -> str | None:
    return next((text for path in paths if (text := text_at(vendor, *path)) is not None), None)


def _changing_name(field: str, name: Any) -> str | None:
    """Return a name in lower case; None for one that does not change the price."""
    if not isinstance(name, str) or name == "standard":
        return None
    lower = name.lower()[:MAX_NAME]
    return None if not lower or lower in _STANDARD_NAMES[field] else lower


def _bedrock_count(vendor: Block) -> int:
    details = (each for each in items_at(vendor, "cacheDetails") if text_at(each, "ttl") == "1h")
    return sum(count_at(each, "inputTokens") or 0 for each in details)
