"""The file that ASH_PRICES names."""

import asyncio
import os
from pathlib import Path

import pytest

from ash_server.prices import Cost, PriceFiles, Prices
from ash_server.prices.errors import PricesError
from ash_server.settings import Settings
from tests.server.prices.usages import DOLLAR, MILLION, Usage, day

OWN = """{
    "My-Model": {"input": 0.5, "output": 2},
    "claude-*": {"input": 1, "cache_read": 0.1, "cache_write": 2, "cache_write_1h": 3, "output": 4, "web_search": 5},
    "claude-opus-5": [
        {"since": "2026-01-01", "input": 3, "output": 9},
        {"since": "2026-07-01", "input": 2.5, "output": 8.125}
    ]
}"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "own.json"
    path.write_text(OWN)
    return path


def test_own_prices_come_first(path: Path) -> None:
    prices = Prices.load(path)
    other_rates = {"service_tier": "batch", "speed": "fast", "region": "us", "band": 9}
    usages = [
        Usage("my-model", input_tokens=MILLION, cache_read_tokens=MILLION, cache_write_1h_tokens=MILLION),
        Usage("my-model", output_tokens=MILLION, web_searches=1),
        Usage("claude-unknown", input_tokens=MILLION, **other_rates),  # type: ignore[arg-type]
        Usage("claude-sonnet-5[1m]", cache_read_tokens=MILLION, cache_write_5m_tokens=MILLION),
        Usage("claude-sonnet-5", cache_write_1h_tokens=MILLION, output_tokens=MILLION, web_searches=1000),
        Usage("claude-opus-5", cache_write_1h_tokens=MILLION),
        Usage("claude-opus-5", output_tokens=MILLION),
        Usage("claude-opus-5", output_tokens=MILLION, quarter=day("2026-06-30T23:45")),
        Usage("claude-opus-5", output_tokens=MILLION, quarter=day("2025-12-31T23:45")),
        Usage("claude-opus-5", output_tokens=MILLION, quarter=None),
        Usage("gpt-5", output_tokens=MILLION),
    ]

    assert [prices.cost(each) for each in usages] == [
        Cost(DOLLAR * 3 // 2),
        Cost(2 * DOLLAR, "no_search_price"),
        Cost(1 * DOLLAR),
        Cost(DOLLAR * 21 // 10),
        Cost(12 * DOLLAR),
        Cost(2_500_000_000),
        Cost(8_125_000_000),
        Cost(9 * DOLLAR),
        Cost(25 * DOLLAR),
        Cost(None, "unknown_time"),
        Cost(10 * DOLLAR),
    ]
    assert prices.changes([("claude", "claude-opus-5")], day("2025-06-01"), day("2026-08-01")) == [
        day("2026-01-01"),
        day("2026-07-01"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: Expecting value"),
        ('{\n"a": {"input": 1,}}', "line 2: "),
        ("[]", "the file is one JSON object"),
        (
            '{"a": {"input": 1, "output": 1}, "a": {"input": 2, "output": 1}}',
            '"a" occurs twice; remove one of them',
        ),
        ('{"a": 1}', '"a" is an object, such as {"input": 1, "output": 4}'),
        ('{"a": []}', '"a" has no prices; remove it'),
        ('{"a": {"input": 1}}', '"a" needs "output", in dollars per million tokens'),
        ('{"a": {"input": 1, "ouput": 2}}', '"a": "ouput" is not a price; the fields are since, input'),
        ('{"a": {"input": -1, "output": 2}}', '"a", "input" is a number from 0 to 10,000, in dollars'),
        ('{"a": {"input": 10000.01, "output": 2}}', '"a", "input" is a number'),
        ('{"a": {"input": NaN, "output": 2}}', '"a", "input" is a number'),
        ('{"a": {"input": true, "output": 2}}', '"a", "input" is a number'),
        ('{"a": {"input": "1", "output": 2}}', '"a", "input" is a number'),
        (
            '{"a": [{"input": 1, "output": 2}, {"input": 1, "output": 2}]}',
            'later "since" than the one before it',
        ),
        (
            '{"a": [{"since": "2026-02-01", "input": 1, "output": 2}, '
            '{"since": "2026-01-01", "input": 1, "output": 2}]}',
            'later "since" than the one before it',
        ),
        (
            '{"a": [{"input": 1, "output": 2}, {"since": "May", "input": 1, "output": 2}]}',
            '"a", entry 2, "since" is a day such as "2026-07-01", in UTC',
        ),
        (
            '{"*": {"input": 1, "output": 2}}',
            '"*" is the name of a model, or its beginning with * at the end',
        ),
        ('{"a*b": {"input": 1, "output": 2}}', '"a*b" is the name of a model'),
        ("[" * 100_000, ": "),
        (" " * 1024 * 1024 + "{}", "is larger than 1024 KiB"),
    ],
)
def test_an_invalid_file_is_refused_with_its_place(path: Path, text: str, message: str) -> None:
    path.write_text(text)

    with pytest.raises(PricesError) as error:
        Prices.load(path)

    assert str(path) in error.value.detail
    assert message in error.value.detail


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    files = PriceFiles(Settings(home=tmp_path, prices=tmp_path / "absent.json"))

    with pytest.raises(PricesError, match=r"ASH_PRICES=.*absent\.json cannot be read: No such file"):
        files.load()


def test_a_changed_file_is_read_again(path: Path, tmp_path: Path) -> None:
    files = PriceFiles(Settings(home=tmp_path, prices=path))
    before, same = (asyncio.run(files.get()) for _ in range(2))
    path.write_text('{"my-model": {"input": 7, "output": 7}}')
    os.utime(path, ns=(1, 1))
    after = files.load()

    assert same is before
    assert before.revision.startswith("genai-prices ")
    assert before.revision != after.revision
    assert [each.cost(Usage("my-model", input_tokens=MILLION)) for each in (before, after)] == [
        Cost(DOLLAR // 2),
        Cost(7 * DOLLAR),
    ]
