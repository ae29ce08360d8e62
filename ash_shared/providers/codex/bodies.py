"""Rows of the items and events that are inside the lines of Codex, or are whole lines."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ash_shared.records.contract import Part, Record, RecordReading, WireType, chunk_reading, control_reading
from ash_shared.records.steps import Step

Steps = list[Step] | None
"""Steps of an item or event; None if the events are derived from its parts."""
EventSteps = Callable[[Record, RecordReading], Steps]
BodyReader = Callable[[Record, Record, str], RecordReading]
"""Reader of an item or event; its further arguments are the record, and the name of a raw block of the record."""


class BodyType(NamedTuple):
    """A row like `WireType`, for the items or events of one type."""

    read: BodyReader
    parts: Callable[[Record, RecordReading], list[Part]] = lambda body, reading: []
    steps: EventSteps = lambda body, reading: None


def read_control(body: Record, record: Record, name: str) -> RecordReading:
    return control_reading(record, name)


def read_fragment(body: Record, record: Record, name: str) -> RecordReading:
    return chunk_reading(record, name)


def rows_under(key: str, prefix: str, types: Mapping[str, BodyType]) -> dict[str, WireType]:
    """Return the rows of records with such an item or event under a key."""
    return {name: _row_under(key, f"{prefix}/{name}", body_type) for name, body_type in types.items()}


def _row_under(key: str, name: str, body_type: BodyType) -> WireType:
    return WireType(
        lambda record: body_type.read(record[key], record, name),
        lambda record, reading: body_type.parts(record[key], reading),
        lambda record, reading: body_type.steps(record[key], reading),
    )
