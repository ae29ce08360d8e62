"""Reports of usage as tables that fit 80 columns."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple
from zoneinfo import ZoneInfo

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from ash_server.cli.common.output.terminal import counted, visible
from ash_server.cli.usage.figures import (
    add_counts,
    all_tokens,
    format_bar,
    format_cost,
    format_cost_of,
    format_count,
)
from ash_shared.model.usage.report import (
    UNKNOWN,
    CostMode,
    DifferenceReason,
    UnpricedModel,
    UsageBlock,
    UsageBurn,
    UsageCounts,
    UsageReport,
    UsageRow,
)
from ash_shared.projections.stated_costs import CENT

WIDTH = 80

_MAX_LABEL = 36  # the id of a key
_MAX_TITLE = 40
_MIN_BAR, _MAX_BAR = 4, 14
_MAX_MODELS = 3
_MAX_STATED = 3
_INDENT = "  "
_ID_LENGTH = 8
_SEPARATOR = "  "
_GAP = len(_SEPARATOR)

_MODES: Mapping[CostMode, str] = {
    "auto": "costs at API prices, or as agents report them",
    "computed": "costs at API prices",
    "reported": "costs as agents report them",
}


class _Line(NamedTuple):
    label: str
    counts: UsageCounts | None
    """None for a line without figures."""
    style: str = ""
    has_bar: bool = True


class _Column(NamedTuple):
    header: str
    cell: Callable[[UsageCounts], str]


def print_report(console: Console, report: UsageReport) -> None:
    """Print the totals, then the rows, then what the figures leave out."""
    is_of_sessions = list(report.by) == ["session"]
    lines = [_Line("total", report.totals, "bold", has_bar=False), *_lines(report)]
    columns = _session_columns(report) if is_of_sessions else _TOKEN_COLUMNS
    max_label = _MAX_TITLE if is_of_sessions else _MAX_LABEL
    for line in _table(" / ".join(report.by), lines, columns, max_label):
        console.print(line, soft_wrap=True)
    console.print()
    for note in _notes(report):
        console.print(Text(note, "dim"), soft_wrap=True)


def _table(name: str, lines: Sequence[_Line], columns: Sequence[_Column], max_label: int) -> Iterator[Text]:
    """Yield the header and the lines, with a bar for each cost where it fits."""
    cells = [_aligned(column, lines) for column in columns]
    room = WIDTH - sum(len(column[0]) + _GAP for column in cells)
    label = min(max(cell_len(name), *(cell_len(line.label) for line in lines)), max_label, room)
    bar = min(room - label - _GAP, _MAX_BAR)
    largest = max((_size(line) for line in lines if line.has_bar), default=0.0)
    for upper, title in ((True, ""), (False, name)):
        headers = [
            _header(column.header, upper).rjust(len(cell[0]))
            for column, cell in zip(columns, cells, strict=True)
        ]
        if any(header.strip() for header in headers):
            yield Text(_SEPARATOR.join((set_cell_size(title, label), *headers)), "dim")
    for line, row in zip(lines, zip(*cells, strict=True), strict=True):
        text = Text(_SEPARATOR.join((set_cell_size(_fitting(line.label, label), label), *row)), line.style)
        if line.has_bar and bar >= _MIN_BAR:
            text.append(_SEPARATOR + format_bar(_size(line), largest, bar), "cyan")
        yield text


def _header(header: str, upper: bool) -> str:
    first, _, second = header.rpartition("\n")
    return first if upper else second


def _aligned(column: _Column, lines: Sequence[_Line]) -> list[str]:
    """Return the cells of a column in the width of the longest one."""
    cells = ["" if line.counts is None else column.cell(line.counts) for line in lines]
    if all(cell.endswith(" ") or not cell for cell in cells):
        cells = [cell.rstrip() for cell in cells]
    width = max(map(len, (*column.header.split("\n"), *cells)))
    return [cell.rjust(width) for cell in cells]


def _size(line: _Line) -> float:
    return (line.counts and line.counts.cost_usd) or 0.0


_TOKEN_COLUMNS = (
    _Column("input", lambda counts: format_count(counts.input_tokens)),
    _Column("output", lambda counts: format_count(counts.output_tokens)),
    _Column("cache\nread", lambda counts: format_count(counts.cache_read_input_tokens)),
    _Column("cache\nwrite", lambda counts: format_count(counts.cache_creation_input_tokens)),
    _Column("cost", format_cost_of),
)


def _session_columns(report: UsageReport) -> list[_Column]:
    """Return the columns of sessions; those without any figure are left out."""
    columns = [
        _Column("tokens", lambda counts: format_count(all_tokens(counts))),
        _Column("cost", format_cost_of),
    ]
    if report.totals.reported_cost_usd is not None:
        columns += [_OTHER_COST["reported" if report.cost == "computed" else "computed"], _DIFFERENCE]
    if any(row.with_subagents is not None for row in report.rows):
        columns.append(_Column("+subagents", _cost_with_subagents))
    return columns


def _difference(counts: UsageCounts) -> str:
    """Return by how much the reported cost is above or below the computed one."""
    difference = counts.difference_usd if isinstance(counts, UsageRow) else None
    if difference is None or not counts.computed_cost_usd:
        return ""
    return f"{round(difference / counts.computed_cost_usd, 3) + 0.0:+.1%}"


_OTHER_COST = {
    "reported": _Column("reported", lambda counts: format_cost(counts.reported_cost_usd)),
    "computed": _Column("computed", lambda counts: format_cost(counts.computed_cost_usd)),
}
_DIFFERENCE = _Column("differs", _difference)


def _cost_with_subagents(counts: UsageCounts) -> str:
    total = counts.with_subagents if isinstance(counts, UsageRow) else None
    return "" if total is None else format_cost_of(total)


def _lines(report: UsageReport) -> Iterator[_Line]:
    label = _Labels(report)
    if len(report.by) < 2:
        for row in report.rows:
            yield from label.gap(row)
            yield _Line(label.first(row), row)
        return
    for name, group in groupby(report.rows, label.first):
        rows = list(group)
        yield from label.gap(rows[0])
        yield _Line(name, add_counts(rows))
        for row in rows:
            yield _Line(_INDENT + label.second(row), row, "dim", has_bar=False)


class _Labels:
    """The names of rows."""

    def __init__(self, report: UsageReport) -> None:
        self._by = report.by
        self._zone = ZoneInfo(report.timezone)
        self._last: UsageBlock | None = None
        hours = Counter(row.hour[:13] for row in report.rows if row.hour is not None)
        is_split = len(self._by) > 1
        self._repeated = {hour for hour, count in hours.items() if count > 1 or is_split}

    def first(self, row: UsageRow) -> str:
        return self._of(self._by[0], row)

    def second(self, row: UsageRow) -> str:
        return self._of(self._by[1], row)

    def gap(self, row: UsageRow) -> Iterator[_Line]:
        """Yield a line for the time without usage before a block."""
        last, self._last = self._last, row.window
        if self._by[0] != "block" or last is None or row.window is None:
            return
        if row.window.start > last.end:
            yield _Line(f"{_INDENT}{_duration(row.window.start - last.end)} without usage", None, "dim")

    def _of(self, name: str, row: UsageRow) -> str:
        if name == "session" and row.session is not None:
            return f"{str(row.session.id)[:_ID_LENGTH]}  {_one_line(row.session.title or '')}"
        if name == "block" and row.window is not None:
            return self._block(row.window)
        value = getattr(row, name) or UNKNOWN
        return self._hour(value) if name == "hour" else _one_line(value)

    def _block(self, window: UsageBlock) -> str:
        start, end = (moment.astimezone(self._zone) for moment in (window.start, window.end))
        return f"{start:%Y-%m-%d %H:%M}-{end:%H:%M}" + " active" * window.is_active

    def _hour(self, value: str) -> str:
        if value == UNKNOWN:
            return value
        moment = datetime.fromisoformat(value)
        offset = f" {value[13:]}" if value[:13] in self._repeated else ""
        return f"{moment:%Y-%m-%d %H:00}{offset}"


def _duration(time: timedelta) -> str:
    hours = round(time / timedelta(hours=1))
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def _fitting(label: str, width: int) -> str:
    """Return the label in this width: the end of a path, the beginning of other labels."""
    if cell_len(label) <= width:
        return label
    if "/" not in label.split(" ")[0]:
        return set_cell_size(label, width - 1) + "…"
    while cell_len(label) > width - 1:
        label = label[1:]
    return f"…{label}"


def _notes(report: UsageReport) -> Iterator[str]:
    totals = report.totals
    yield f"{_MODES[report.cost]} · {report.timezone} · prices {report.prices}"
    reported = totals.reported_cost_usd
    if report.cost == "auto" and reported is not None and totals.cost_usd is not None:
        yield (
            f"{format_cost(reported)} as reported for {totals.reported_answers:,} of "
            f"{counted(totals.answers, 'answer')}, {format_cost(totals.cost_usd - reported)} at API prices"
        )
    if report.unpriced:
        yield f"+ without the cost of {_models(report.unpriced)}"
    if report.estimated:
        yield f"estimated for {_models(report.estimated)}"
    for row in report.rows if len(report.by) == 1 else ():
        if row.burn is not None and row.window is not None:
            yield _burn(row.burn, row.window.end.astimezone(ZoneInfo(report.timezone)))
    yield from _stated_costs(report.rows)
    if report.omitted_rows:
        yield f"{counted(report.omitted_rows, 'more row')}: --limit {len(report.rows) + report.omitted_rows}"


def _stated_costs(rows: Sequence[UsageRow]) -> Iterator[str]:
    """Yield the costs that agents state for whole sessions, where they differ by more than a cent."""
    differing = [row for row in rows if _differs_from_stated(row)]
    for row in differing[:_MAX_STATED]:
        session = str(row.session.id)[:_ID_LENGTH] if row.session is not None else UNKNOWN
        yield f"{session}: the agent states {format_cost(row.stated_cost_usd)}{_stated_difference(row)}"
    if (others := len(differing) - _MAX_STATED) > 0:
        yield f"{counted(others, 'more session')} with a different stated cost: --json"


def _differs_from_stated(row: UsageRow) -> bool:
    return row.difference_reason is not None or abs(row.stated_difference_usd or 0) > CENT


def _stated_difference(row: UsageRow) -> str:
    """Return by how much the stated cost is above or below the cost of the answers, and why."""
    difference = row.stated_difference_usd
    side = "above" if (difference or 0) > 0 else "below"
    amount = "" if difference is None else f", {format_cost(abs(difference))} {side} its answers"
    return amount + (f": {_DIFFERENCE_REASONS[row.difference_reason]}" if row.difference_reason else "")


_DIFFERENCE_REASONS: Mapping[DifferenceReason, str] = {
    "resumed_runs": "earlier runs",
    "unpriced": "answers without a price",
    "calls_outside": "other requests",
}


def _models(models: Sequence[UnpricedModel]) -> str:
    """Return the models with the reasons for their missing or estimated costs."""
    shown = [
        f"{_one_line(each.model)} ({each.source}, {format_count(all_tokens(each))} tokens: "
        f"{each.explanation or 'no price'})"
        for each in models[:_MAX_MODELS]
    ]
    others = len(models) - len(shown)
    return ", ".join(shown) + (f" and {counted(others, 'other')}" if others else "")


def _one_line(text: str) -> str:
    return " ".join(visible(text).split())


def _burn(burn: UsageBurn, end: datetime) -> str:
    per_hour = None if burn.cost_usd_per_minute is None else burn.cost_usd_per_minute * 60
    return (
        f"active block: {format_count(burn.tokens_per_minute)} tokens per minute, {format_cost(per_hour)} per hour; "
        f"if this continues, {format_count(burn.projected_tokens)} tokens and {format_cost(burn.projected_cost_usd)} "
        f"at {end:%H:%M}"
    )
