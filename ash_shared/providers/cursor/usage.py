"""The usage that Cursor's command line and SDK report."""

from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.records.json_fields import count_at, token_usage


def standard_usage(usage: Any) -> Block | None:
    """Return the usage. Cursor's input count excludes cached tokens."""
    return token_usage(
        usage,
        input=count_at(usage, "inputTokens"),
        output=count_at(usage, "outputTokens"),
        cache_read=count_at(usage, "cacheReadTokens"),
        cache_creation=count_at(usage, "cacheWriteTokens"),
    )
