"""Rows of the items and events that are inside the lines of Codex, or are whole lines."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ash_shared.records.contract import ParsedRecord, Part, Record, WireType, chunk_record, control_record
from ash_shared.records.steps import Step

Steps = list[Step] | None
"""Steps of an item or event; None if the events are derived from its parts."""
EventSteps = Callable[[Record, ParsedRecord], Steps]
BodyParser = Callable[[Record, Record, str], ParsedRecord]
"""Reader of an item or event; its further arguments are the record, and the name of a raw block of the record."""


class BodyType(NamedTuple):
    """A row like `WireType`, for the items or events of one type."""

    parse: BodyParser
    parts: Callable[[Record, ParsedRecord], list[Part]] = lambda body, parsed: []
    steps: EventSteps = lambda body, parsed: None


def parse_control(body: Record, record: Record, name: str) -> ParsedRecord:
    return control_record(record, name)


def parse_fragment(body: Record, record: Record, name: str) -> ParsedRecord:
    return chunk_record(record, name)


def rows_under(key: str, prefix: str, types: Mapping[str, BodyType]) -> dict[str, WireType]:
    """Return the rows of records with such an item or event under a key."""
    return {name: _row_under(key, f"{prefix}/{name}", body_type) for name, body_type in types.items()}


def _row_under(key: str, name: str, body_type: BodyType) -> WireType:
    return WireType(
        lambda record: body_type.parse(record[key], record, name),
        lambda record, parsed: body_type.parts(record[key], parsed),
        lambda record, parsed: body_type.steps(record[key], parsed),
    )
