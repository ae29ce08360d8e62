"""The cost of usage: the rates of the data, the rules beside it, and usage without a price."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import pairwise, product
from zoneinfo import ZoneInfo

import pytest
from genai_prices import Usage as PackageUsage
from genai_prices.data import providers
from genai_prices.types import ModelInfo, ModelPrice, Provider, TimeOfDateConstraint

from ash_server.prices import BANDS, Cost, Prices, band_of
from ash_server.prices.catalogue import Catalogue
from ash_server.prices.own_prices import OwnPrices
from ash_server.prices.price_data import PriceLists
from ash_server.prices.rates import PricedModel
from ash_shared.model.usage.reasons import REASONS, CostReason
from tests.server.prices.usages import DOLLAR, MILLION, Usage, day

LISTS = (
    "anthropic",
    "aws",
    "deepseek",
    "github-copilot",
    "google",
    "mistral",
    "moonshotai",
    "openai",
    "x-ai",
    "zai",
)
"""The price lists that agents use."""

INPUTS = (1, 100_000, 100_001, 200_000, 200_001, 272_000, 272_001, 600_000)
TIMES = tuple(
    day(text) for text in ("2025-09-01T20:00", "2026-03-12T23:45", "2026-08-25T07:15", "2026-11-20T23:45")
)
CONTEXTS: tuple[dict[str, str], ...] = (
    {},
    {"processing": "batch"},
    {"service_tier": "flex"},
    {"service_tier": "priority"},
    {"service_tier": "fast"},
    {"speed": "fast"},
)


def fields_of(context: dict[str, str]) -> dict[str, str]:
    return {("service_tier" if name == "processing" else name): value for name, value in context.items()}


def listed(model: ModelInfo, context: dict[str, str], at: datetime) -> bool:
    variants = [each for each in model.price_variants or () if each.when == context]
    return not context or any(each.constraint is None or each.constraint.active(at) for each in variants)


def split(whole: int, model: ModelInfo, at: datetime) -> dict[str, int]:
    """Counts that add up to an input; of what only a rule of Ash prices, none."""
    stated = model.get_prices(at)
    read, write = whole // 2, whole // 8
    hour = 0 if "claude" in model.id and stated.cache_write_1h_mtok is None else whole // 16
    return {
        "input_tokens": whole - read - write - hour,
        "cache_read_tokens": read,
        "cache_write_5m_tokens": write,
        "cache_write_1h_tokens": hour,
        "output_tokens": 777,
        "reasoning_tokens": 100,
        "web_searches": 0 if stated.web_searches_kcount is None else 3,
    }


def package_usage(counts: dict[str, int]) -> PackageUsage:
    write, hour = counts["cache_write_5m_tokens"], counts["cache_write_1h_tokens"]
    read = counts["cache_read_tokens"]
    return PackageUsage(
        input_tokens=counts["input_tokens"] + read + write + hour,
        cache_read_tokens=read,
        cache_write_tokens=write + hour,
        cache_write_5m_tokens=write,
        cache_write_1h_tokens=hour,
        output_tokens=counts["output_tokens"],
        output_reasoning_tokens=counts["reasoning_tokens"],
        web_searches=counts["web_searches"],
    )


def prices_of(provider: Provider, model: ModelInfo) -> Prices:
    """Prices with this model only, under a name that leads to its list."""

    class OneModel(Catalogue):
        def find(self, source: str, name: str) -> PricedModel:
            return PricedModel(provider.id, model)

    return Prices(OneModel(PriceLists(), OwnPrices({}), "test"))


def cases() -> Iterator[tuple[Provider, ModelInfo]]:
    yield from ((each, model) for each in providers if each.id in LISTS for model in each.models)


@pytest.mark.slow
def test_a_request_costs_what_the_package_calculates() -> None:
    """Over all models of the lists, their tiers, bands and times; the same for a sum of three such requests."""
    different, compared = [], 0
    for provider, model in cases():
        one = prices_of(provider, model)
        for at, context, whole in product(TIMES, CONTEXTS, INPUTS):
            if not listed(model, context, at):
                continue
            counts = split(whole, model, at)
            usage = Usage("x", quarter=at, band=band_of(whole), **fields_of(context), **counts)  # type: ignore[arg-type]
            cost = one.cost(usage)
            tripled = {name: 3 * count for name, count in counts.items()}
            three = one.cost(usage._replace(answers=3, **tripled))  # type: ignore[arg-type]
            if cost.reason == "no_price":
                continue
            package = model.calc_price(
                package_usage(counts), provider, genai_request_timestamp=at, price_context=context
            ).total_price
            compared += 1
            if (cost, three) != (Cost(round(package * DOLLAR)), Cost(round(3 * package * DOLLAR))):
                different.append((provider.id, model.id, at, context, whole, cost, three, package))

    assert different[:5] == []
    assert compared > 10_000


SONNET_4_5 = {"model": "claude-sonnet-4-5-20250929", "input_tokens": MILLION}


@pytest.mark.parametrize(
    ("usage", "dollars", "reason"),
    [
        # Parts of a cost.
        ({"input_tokens": MILLION}, 2, None),
        ({"cache_read_tokens": MILLION}, 0.2, None),
        ({"cache_write_5m_tokens": MILLION}, 2.5, None),
        ({"cache_write_1h_tokens": MILLION}, 4, None),
        ({"output_tokens": MILLION, "reasoning_tokens": MILLION}, 10, None),
        ({"web_searches": 1000}, 10, None),
        ({"input_tokens": -MILLION}, -2, None),
        # Tiers, speeds and regions that change nothing.
        ({"input_tokens": MILLION, "service_tier": "standard", "region": "not_available"}, 2, None),
        ({"input_tokens": MILLION, "service_tier": "default", "speed": "standard", "region": "global"}, 2, None),
        ({"input_tokens": MILLION, "service_tier": "auto"}, 2, "assumed_rate"),
        # Rules for Claude.
        ({"input_tokens": MILLION, "web_searches": 1000, "region": "us"}, 12.2, None),
        ({"model": "claude-opus-4-7", "output_tokens": MILLION, "speed": "fast"}, 150, None),
        ({"model": "claude-opus-4-7", "cache_read_tokens": MILLION, "speed": "fast"}, 3, None),
        ({"model": "claude-opus-5", "output_tokens": MILLION, "speed": "fast"}, 50, None),
        ({"model": "claude-opus-5", "output_tokens": MILLION, "speed": "fast", "region": "us"}, 55, None),
        ({"input_tokens": MILLION, "service_tier": "batch"}, 1, None),
        ({"input_tokens": MILLION, "service_tier": "batch", "quarter": day("2026-08-01")}, 1, None),
        ({"model": "claude-3-opus-20240229", "output_tokens": MILLION, "service_tier": "batch"}, 37.5, None),
        ({"model": "claude-opus-4.8", "source": "copilot_cli", "cache_write_1h_tokens": MILLION}, 10, None),
        ({"model": "us.anthropic.claude-opus-4-1-20250805-v1:0", "cache_write_1h_tokens": MILLION}, 30, None),
        ({"model": "claude-3-haiku-20240307", "web_searches": 100}, 1, None),
        # Without a published rate.
        ({"input_tokens": MILLION, "service_tier": "priority"}, None, "unknown_rate"),
        ({"input_tokens": MILLION, "speed": "fast"}, None, "unknown_rate"),
        ({"input_tokens": MILLION, "region": "eu"}, None, "unknown_rate"),
        ({"model": "gpt-5.6-sol", "input_tokens": 1000, "region": "us"}, None, "unknown_rate"),
        ({"model": "gpt-5-nano", "input_tokens": 1000, "service_tier": "priority"}, None, "unknown_rate"),
        # Tiers of OpenAI, before the day since which the data has their rates.
        ({"model": "gpt-5.6-luna", "output_tokens": MILLION, "service_tier": "priority"}, 2.4, None),
        (
            {
                "model": "gpt-5.6-luna",
                "output_tokens": MILLION,
                "service_tier": "priority",
                "quarter": day("2026-07-20"),
            },
            12,
            "later_rate",
        ),
        # Without a model or a price.
        ({"model": None, "input_tokens": 1}, None, "no_model"),
        ({"model": "", "input_tokens": 1}, None, "no_model"),
        ({"model": None}, 0, None),
        ({"model": "<synthetic>", "input_tokens": 1}, 0, None),
        ({"model": "claude-does-not-exist", "input_tokens": 1}, None, "unknown_model"),
        ({"model": "gpt-4.1", "source": "copilot_cli", "input_tokens": 1}, None, "no_price"),
        ({"model": "text-embedding-3-small", "output_tokens": 1}, None, "no_price"),
        ({"model": "gpt-4o-mini", "input_tokens": MILLION, "web_searches": 0}, 0.15, None),
        ({"model": "deepseek-v4-pro", "output_tokens": MILLION, "web_searches": 5}, 1.98 * 2, "no_search_price"),
        # The time.
        ({"model": "o3", "input_tokens": MILLION, "quarter": day("2025-06-09T23:45")}, 10, None),
        ({"model": "o3", "input_tokens": MILLION, "quarter": day("2025-06-10")}, 2, None),
        ({"model": "o3", "input_tokens": MILLION, "quarter": None}, None, "unknown_time"),
        ({"model": "deepseek-chat", "input_tokens": MILLION, "quarter": None}, None, "unknown_time"),
        ({"model": "claude-opus-5", "input_tokens": MILLION, "quarter": None}, 5, None),
        ({"model": "gemini-3-flash-preview", "input_tokens": MILLION, "quarter": None}, 0.5, None),
        ({"model": "gemini-3-flash-preview", "web_searches": 1, "quarter": None}, None, "unknown_time"),
        ({"model": "claude-sonnet-4-6", "input_tokens": 1000, "quarter": None}, 0.003, None),
        # Thresholds.
        ({**SONNET_4_5, "answers": 10, "band": BANDS.index(200_000)}, 3, None),
        ({**SONNET_4_5, "answers": 4, "band": BANDS.index(200_000) + 1}, 6, None),
        ({**SONNET_4_5, "answers": 1}, 6, None),
        ({"model": "claude-sonnet-4-20250514", "input_tokens": 200_000, "output_tokens": 1000}, 0.615, None),
        ({"model": "claude-sonnet-4-20250514", "input_tokens": 200_001, "output_tokens": 1000}, 1.222506, None),
        ({"model": "claude-sonnet-4-20250514", "cache_write_1h_tokens": MILLION}, 12, None),
        ({**SONNET_4_5, "answers": 2, "is_request": False}, 3, "several_requests"),
        ({**SONNET_4_5, "input_tokens": 200_000, "is_request": False}, 0.6, None),
        ({"model": "claude-opus-4-6", "input_tokens": MILLION, "is_request": False}, 5, None),
        (
            {"model": "claude-opus-4-6", "input_tokens": MILLION, "is_request": False, "quarter": day("2026-03-12")},
            5,
            "several_requests",
        ),
    ],
)  # fmt: skip
def test_cost(
    prices: Prices, usage: dict[str, object], dollars: float | None, reason: CostReason | None
) -> None:
    nano_dollars = None if dollars is None else round(dollars * DOLLAR)

    assert prices.cost(Usage(**usage)) == Cost(nano_dollars, reason)  # type: ignore[arg-type]
    assert reason is None or reason in REASONS


def test_sums_are_exact(prices: Prices) -> None:
    """A million answers cost a million times as much as one, although one token costs 2.8 nano-dollars."""
    one = Usage("deepseek-v4-flash", cache_read_tokens=1, quarter=day("2026-06-01T12:00"))
    many = one._replace(cache_read_tokens=10**15, answers=10**15)

    assert prices.cost(one) == Cost(3)  # 2.8, rounded
    assert prices.cost(many) == Cost(28 * 10**14)


@pytest.mark.parametrize("zone", [timezone(timedelta(hours=2)), ZoneInfo("Asia/Kolkata")])
def test_times_have_any_zone(prices: Prices, zone: timezone | ZoneInfo) -> None:
    for model in ("deepseek-v4-flash", "o3"):
        usages = [Usage(model, input_tokens=MILLION, quarter=each) for each in TIMES]
        moved = [each._replace(quarter=each.quarter.astimezone(zone)) for each in usages if each.quarter]

        assert [prices.cost(each) for each in moved] == [prices.cost(each) for each in usages]


def test_a_band_is_the_number_of_thresholds_exceeded() -> None:
    assert [band_of(size) for size in (-1, 0, 32_000, 32_001, 200_000, 200_001, 10**9)] == [
        0,
        0,
        0,
        1,
        4,
        5,
        9,
    ]


def test_all_thresholds_of_the_data_are_bands(prices: Prices) -> None:
    """And all times of day are at quarters of an hour, because usage is summed by them."""
    models = [(each, model) for each in providers for model in each.models]
    odd = {
        (each.id, model.id): set(PricedModel(each.id, model).thresholds) - set(BANDS)
        for each, model in models
    }
    windows = [
        at
        for _, model in models
        if not isinstance(model.prices, ModelPrice)
        for price in model.prices
        if isinstance(price.constraint, TimeOfDateConstraint)
        for at in (price.constraint.start_time, price.constraint.end_time)
    ]

    assert {name: thresholds for name, thresholds in odd.items() if thresholds} == {}
    assert [at for at in windows if (at.minute % 15, at.second) != (0, 0)] == []


def test_a_new_threshold_leaves_sums_undecided(monkeypatch: pytest.MonkeyPatch, prices: Prices) -> None:
    """Single requests are priced; sums only if their band is above or below both neighbours."""
    monkeypatch.setattr("ash_server.prices.prices.BANDS", (32_000, 256_000))
    usage = Usage("claude-sonnet-4-5", input_tokens=MILLION, answers=8)
    fresh = Prices(prices.catalogue)

    assert [fresh.cost(usage._replace(band=band)) for band in range(3)] == [
        Cost(3 * DOLLAR),
        Cost(None, "unknown_threshold"),
        Cost(6 * DOLLAR),
    ]
    assert fresh.cost(usage._replace(answers=1, band=1, input_tokens=200_001)) == Cost(200_001 * 6000)


def test_changes_separate_sums_with_different_prices(prices: Prices) -> None:
    models = [("codex", "o3"), ("pi", "deepseek-chat"), ("claude", None), ("claude", "claude-fable-5")]

    assert prices.changes(models[:1], day("2025-01-01"), day("2027-01-01")) == [
        day("2025-06-10"),
        day("2026-10-12"),
        day("2026-10-14"),
    ]
    assert prices.changes(models, day("2025-06-09T12:00"), day("2025-06-10T12:00")) == [
        day("2025-06-09T16:30"),
        day("2025-06-10"),
        day("2025-06-10T00:30"),
    ]
    assert prices.changes(models[2:], day("2020-01-01"), day("2030-01-01")) == [day("2026-10-14")]


@pytest.mark.parametrize("model", ["o3", "deepseek-v4-flash", "gpt-5.6-sol", "claude-opus-4-6"])
def test_prices_are_the_same_between_changes(prices: Prices, model: str) -> None:
    since, until = day("2026-08-01"), day("2026-09-20")
    times = [since, *prices.changes([("claude", model)], since, until), until]
    tiers = (None, "batch", "priority")

    for start, end in pairwise(times):
        for tier in tiers:
            usage = Usage(model, input_tokens=MILLION, service_tier=tier, quarter=start)
            last = usage._replace(quarter=end - timedelta(minutes=15))
            assert prices.cost(last) == prices.cost(usage)


@pytest.mark.slow
def test_the_package_is_loaded_on_use() -> None:
    """A command or a server that shows no cost does not import genai-prices."""
    code = """
import sys
import ash_server.app, ash_server.cli.main, ash_server.prices, ash_server.cli.prices
print([name for name in sys.modules if name.startswith("genai_prices")])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"
