"""Prices that vendors document and the price data lacks.

- Data residency: inference in the US costs 1.1 times as much, for tokens of all kinds.
  https://platform.claude.com/docs/en/manage-claude/data-residency
- Fast mode of Claude Opus 4.6 (until June 2026) and 4.7 (until 24 July 2026): $30 and $150 instead of $5 and $25, with
  the multipliers of caches on top. https://code.claude.com/docs/en/fast-mode
- Message Batches: half the price of tokens. The data has these rates for active models, since 14 October 2026.
  https://platform.claude.com/docs/en/build-with-claude/batch-processing
- Caches of one hour: writing costs twice as much as input, also on Amazon Bedrock and Google Cloud.
  https://platform.claude.com/docs/en/build-with-claude/prompt-caching
- Prompts of Claude Sonnet 4 with more than 200,000 tokens: input costs twice as much, output 1.5 times as much, like
  Sonnet 4.5. https://claude.com/blog/1m-context
- Web searches: $10 per 1,000. https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

CLAUDE = re.compile(r"(?:^|[./])claude-")
"""Matches the ids of Claude models in all price lists."""

CACHE_WRITE_1H = Fraction(2)
"""Times the price of input, for Claude models without a price for caches of one hour."""
WEB_SEARCH = Fraction(10, 1000)
"""Dollars for a search of a Claude model without a price for searches."""


class LongContext(NamedTuple):
    """Prices of requests above a number of input tokens, as multiples of the standard ones."""

    threshold: int
    input: Decimal
    """Also of caches."""
    output: Decimal


LONG_CONTEXT = {("anthropic", "claude-sonnet-4-0"): LongContext(200_000, Decimal(2), Decimal("1.5"))}
"""By price list and model."""


class Rule(NamedTuple):
    condition: tuple[str, str]
    models: re.Pattern[str]
    """Matches the ids of Anthropic's models."""
    factor: Fraction
    """Applies to the standard prices of tokens."""


RULES = (
    Rule(("region", "us"), re.compile("claude-"), Fraction(11, 10)),
    Rule(("speed", "fast"), re.compile(r"claude-opus-4-[67]$"), Fraction(6)),
    Rule(("processing", "batch"), re.compile("claude-"), Fraction(1, 2)),
)

_STANDARD = frozenset({"", "standard", "default", "on_demand", "standard_only", "global", "not_available"})
"""Service tiers, speeds and regions without an influence on the price."""

ASSUMED = frozenset({"auto"})
"""Service tiers that were requested; the record does not say which one was used."""


def conditions_of(service_tier: str | None, speed: str | None, region: str | None) -> Mapping[str, str]:
    """Return what makes a price differ from the standard one, in the terms of genai-prices."""
    terms = {"service_tier": service_tier, "speed": speed, "region": region}
    conditions = {name: value for name, value in terms.items() if value and value not in _STANDARD | ASSUMED}
    if conditions.get("service_tier") == "batch":
        del conditions["service_tier"]
        conditions["processing"] = "batch"
    return conditions


def factor_of(provider: str, model: str, condition: tuple[str, str]) -> Fraction | None:
    """Return the factor for the tokens of a model of a price list; None without a rule."""
    return next((rule.factor for rule in _rules_for(provider, model) if rule.condition == condition), None)


def conditions_for(provider: str, model: str) -> list[tuple[str, str]]:
    """Return the conditions with a rule for a model of a price list."""
    return [rule.condition for rule in _rules_for(provider, model)]


def _rules_for(provider: str, model: str) -> list[Rule]:
    return [rule for rule in RULES if provider == "anthropic" and rule.models.match(model)]
