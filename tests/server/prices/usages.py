"""Usage to price."""

from datetime import UTC, datetime
from typing import NamedTuple


class Usage(NamedTuple):
    model: str | None = "claude-sonnet-5"
    source: str = "claude"
    service_tier: str | None = None
    speed: str | None = None
    region: str | None = None
    quarter: datetime | None = datetime(2026, 11, 20, 9, tzinfo=UTC)
    band: int = 0
    is_request: bool = True
    answers: int = 1
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    web_searches: int = 0


MILLION = 10**6
DOLLAR = 10**9
"""Nano-dollars."""


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
