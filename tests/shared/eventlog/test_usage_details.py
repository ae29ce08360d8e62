from typing import Any

import pytest

from ash_shared.eventlog.usage.details import UsageDetails, details_of

DETAILS: list[tuple[dict[str, Any], UsageDetails]] = [
    ({}, UsageDetails()),
    ({"vendor": "unknown", "service_tier": "Flex"}, UsageDetails(service_tier="flex")),
    ({"vendor": {}, "service_tier": "default"}, UsageDetails()),
    (
        {"vendor": {"service_tier": "batch", "speed": "standard", "inference_geo": "not_available"}},
        UsageDetails(service_tier="batch"),
    ),
    (
        {"vendor": {"serviceTier": "Priority", "speed": "fast", "inference_geo": "us"}},
        UsageDetails(service_tier="priority", speed="fast", region="us"),
    ),
    ({"vendor": {"speed": 5, "inference_geo": "", "service_tier": None}}, UsageDetails()),
    (
        {
            "vendor": {
                "cache_creation": {"ephemeral_1h_input_tokens": 5},
                "server_tool_use": {"web_search_requests": 2},
            }
        },
        UsageDetails(5, 2),
    ),
    ({"vendor": {"cache_creation": {"ephemeral_1h_input_tokens": -5}}}, UsageDetails()),
    ({"vendor": {"input_token_details": {"ephemeral_1h_input_tokens": 5}}}, UsageDetails(5)),
    ({"vendor": {"cache_write_1h_tokens": 5}}, UsageDetails(5)),
    (
        {"vendor": {"cacheDetails": [{"ttl": "5m", "inputTokens": 3}, {"ttl": "1h", "inputTokens": 4}, 5]}},
        UsageDetails(4),
    ),
    ({"vendor": {"num_search_queries": 2}}, UsageDetails(None, 2)),
    ({"vendor": {"iterations": [{"type": "message"}, {"type": "compaction"}, 5]}}, UsageDetails()),
    ({"vendor": {"iterations": [{"type": "message"}, {"type": "message"}]}}, UsageDetails(is_request=False)),
]


@pytest.mark.parametrize(("usage", "details"), DETAILS)
def test_details_that_decide_the_price(usage: dict[str, Any], details: UsageDetails) -> None:
    assert details_of(usage) == details
