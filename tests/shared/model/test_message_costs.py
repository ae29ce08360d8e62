"""The costs of a message are the sum of the last statements about each of its sections."""

from typing import Any

import msgspec
import pytest

from ash_shared.model.usage.costs import MAX_SECTIONS_WITH_COSTS, Costs, MessageCosts

ONE = {"input_tokens": 1, "vendor": {"in": 1}}


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([], Costs()),
        ([(None, ONE, 0.5)], Costs(ONE, 0.5)),
        ([(None, ONE, 0.5), ("a", {"input_tokens": 7}, None)], Costs({"input_tokens": 7}, 0.5)),
        ([("a", ONE, 0.1)], Costs(ONE, 0.1)),
        (
            [("a", ONE, 0.1), ("b", {"output_tokens": 2}, 0.2)],
            Costs({"input_tokens": 1, "output_tokens": 2}, 0.3),
        ),
        (
            [("a", ONE, 0.1), ("b", ONE, 0.2), ("a", {"output_tokens": 3}, 0)],
            Costs({"output_tokens": 3, "input_tokens": 1}, 0.2),
        ),
        ([("a", ONE, 0.1), ("a", ONE, None)], Costs(ONE, 0.1)),
    ],
)
def test_total(statements: list[tuple[str | None, Any, float | None]], expected: Costs) -> None:
    costs = MessageCosts()
    for section, usage, cost in statements:
        costs.put(section, usage, cost)

    assert costs.total() == expected
    assert msgspec.json.decode(msgspec.json.encode(costs), type=MessageCosts).total() == expected


def test_many_sections_are_added_up() -> None:
    costs = MessageCosts()
    for number in range(3 * MAX_SECTIONS_WITH_COSTS):
        costs.put(f"section {number}", {"input_tokens": 2}, 0.25)
    costs.put(f"section {number}", {"input_tokens": 3}, 0.5)

    assert costs.total() == Costs({"input_tokens": 2 * number + 3}, 0.25 * number + 0.5)
    assert len(costs.sections) <= MAX_SECTIONS_WITH_COSTS
