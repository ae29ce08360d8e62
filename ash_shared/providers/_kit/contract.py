"""The interface of a provider, and the readings that providers build."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block, raw_block, wire_name
from ash_shared.model.content import RawReason
from ash_shared.model.message import Facts, Kind, Role
from ash_shared.providers._kit.steps import Part as Part
from ash_shared.providers._kit.steps import Speaker as Speaker
from ash_shared.providers._kit.steps import Step

Record = dict[str, Any]
"""The decoded JSON object of one stored text."""


class RecordReading(NamedTuple):
    """What a provider reads in one record."""

    kind: Kind
    role: Role
    blocks: list[Block]


def control_reading(record: Any, name: str | None = "") -> RecordReading:
    """A record that is known, and is no part of the conversation; `name` where it is not called by its `wire_name`."""
    return _whole("control", record, name)


def unknown_reading(record: Any, name: str | None = "") -> RecordReading:
    """A record of a type that no table has."""
    return _whole("unknown_type", record, name)


def _whole(reason: RawReason, record: Any, name: str | None) -> RecordReading:
    return RecordReading("record", "system", [raw_block(reason, record, _name(record, name))])


def chunk_reading(record: Any, name: str | None = "") -> RecordReading:
    """A piece of a stream."""
    return RecordReading("chunk", "assistant", [raw_block("stream_fragment", record, _name(record, name))])


def _name(record: Any, name: str | None) -> str | None:
    return wire_name(record) if name == "" else name


def speaker_of_role(role: Role) -> Speaker:
    """Whose a message of this role is: results of tools are the user's."""
    return "user" if role == "tool" else role


def single_message_part(record: Record, reading: RecordReading) -> list[Part]:
    """A record that is one message, and says nothing more of it."""
    if reading.kind != "message":
        return []
    return [Part(role=speaker_of_role(reading.role), blocks=reading.blocks)]


@dataclass(frozen=True, slots=True)
class FastPath:
    """Shortcuts for the most frequent texts of a format, tried before the text is decoded and recognised.

    Each returns None for any other text, never raises, and otherwise gives the same result as full reading.
    """

    parse: Callable[[str | bytes], list[Any] | None]
    """Return the content objects of a text."""
    parse_json: Callable[[str | bytes], bytes | None]
    """Return the blocks of a text as a JSON array."""
    decode_partly: Callable[[str | bytes], Record | None]
    """Return what `read` needs of a record that cannot be decoded as a whole."""


@dataclass(frozen=True, slots=True)
class Provider:
    """All that Ash knows of one wire format."""

    source: str
    """The name that sessions and messages carry as their `source`."""
    recognizes: Callable[[Record], bool]
    """Whether a record is of this format, judged by the record alone."""
    read: Callable[[Record], RecordReading]
    """Reads a record, recognised or declared to be of this format. Raises AttributeError, KeyError or TypeError where
    the record is not what its type promises, and the whole record becomes one `raw` block; LimitExceeded where it is
    too large."""
    read_block: Callable[[Any], Block]
    """Reads one bare content block. Raises LimitExceeded alone, for a list inside it that is too long."""
    marks: Collection[str] | None = None
    """Names of which every record that it recognises has one, as a key or as its `type`, where only what stands before
    the first dot counts. It is not asked about other records; one that names none is asked about all."""
    recognizes_list: Callable[[list[Any]], bool] = lambda values: False
    """Whether a top-level list is, as a whole, one record of this format: it is then read as `{"list": [...]}`. Of any
    other list, each element is a record of its own."""
    facts: Callable[[Record], Facts] = lambda record: Facts()
    """What the record says beside its content. Never raises."""
    parts: Callable[[Record, RecordReading], list[Part]] = single_message_part
    """What the record, read so, adds to the standard messages of its session. Raises AttributeError, KeyError or
    TypeError where the record is not what its type promises, and then counts as what was read alone."""
    steps: Callable[[Record, RecordReading], list[Step] | None] = lambda record, reading: None
    """What the record, read so, adds to the log of events: for fragments of streams, and for what begins and ends a
    turn. None, or one of the same exceptions, where its parts say it all."""
    fast_path: FastPath | None = None
