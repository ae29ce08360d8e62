"""Numbers as people read them."""

from collections.abc import Iterable

from ash_shared.model.usage.report import UsageCounts

_UNITS = ((1e9, "B"), (1e6, "M"), (1e3, "k"))
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def format_count(count: float) -> str:
    """Return a count with three digits, `1.23M`, or in whole billions: `9,007B`."""
    for unit, suffix in _UNITS:
        if abs(count) >= unit * 0.9995:
            is_beyond_units = abs(count) >= unit * 999.5
            return f"{count / unit:{',.0f' if is_beyond_units else '#.3g'}}".rstrip(".") + suffix
    return str(round(count))


def format_cost(cost: float | None) -> str:
    """Return a cost in dollars and cents; a dash if there is none."""
    if cost is None:
        return "-"
    sign = "-" if cost < 0 else ""
    is_tiny = 0 < abs(cost) < 0.005
    return f"{sign}<$0.01" if is_tiny else f"{sign}${abs(cost):,.2f}"


def format_cost_of(counts: UsageCounts) -> str:
    """Return the cost; with a plus sign if some answers have none, and `unpriced` if no answer has one.

    A blank stands for the sign, so that digits are aligned.
    """
    if counts.cost_usd is None:
        return "unpriced " if counts.unpriced_answers else "- "
    return format_cost(counts.cost_usd) + ("+" if counts.unpriced_answers else " ")


def format_bar(value: float, largest: float, width: int) -> str:
    """Return a bar; the largest value fills the width, and every other value above 0 is visible."""
    if value <= 0 or largest <= 0:
        return ""
    whole, eighths = divmod(max(1, round(value / largest * width * 8)), 8)
    return _EIGHTHS[8] * whole + _EIGHTHS[eighths].strip()


def all_tokens(counts: UsageCounts) -> int:
    """Return the tokens of all kinds."""
    return counts.total_tokens + counts.cache_read_input_tokens + counts.cache_creation_input_tokens


def add_counts(rows: Iterable[UsageCounts]) -> UsageCounts:
    """Return the sum of rows; a cost is absent if no row has it."""
    fields: dict[str, float] = {}
    for row in rows:
        for name in UsageCounts.model_fields:
            if (value := getattr(row, name)) is not None:
                fields[name] = fields.get(name, 0) + value
    return UsageCounts(**fields)
