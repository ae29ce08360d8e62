"""The section on prices in docs/usage.md: its example is valid, and its tables are complete."""

import re
from pathlib import Path

from ash_server.prices import Cost, Prices
from ash_shared.model.usage.reasons import REASONS
from tests.server.prices.usages import DOLLAR, MILLION, Usage, day

PAGE = (Path(__file__).parents[3] / "docs" / "usage.md").read_text("utf-8").partition("\n## Prices\n")[2]


def test_the_example_of_own_prices_is_valid(tmp_path: Path) -> None:
    [example] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "prices.json"
    path.write_text(example)
    prices = Prices.load(path)

    usage = Usage("claude-sonnet-4-5-20250929", output_tokens=MILLION)
    days = [day(text) for text in ("2025-12-31", "2026-06-30", "2026-07-01")]
    assert [prices.cost(usage._replace(quarter=at)) for at in days] == [
        Cost(15 * DOLLAR),
        Cost(12 * DOLLAR),
        Cost(10_500_000_000),
    ]


def test_all_reasons_are_listed() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(REASONS)
