"""Read a stored text with the provider that recognises it.

Reading never raises and never drops or adds data: a record that no provider recognises, or that does not match its
type, becomes one `raw` block with the unchanged record.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from ash_shared.model.blocks import (
    MAX_BLOCKS,
    Block,
    LimitExceeded,
    are_valid,
    raw_block,
    text_block,
    wire_name,
)
from ash_shared.model.message import Facts, Identity, Kind, Role, merge_facts
from ash_shared.providers import Providers, discover
from ash_shared.records.contract import (
    FastPath,
    Part,
    Provider,
    Record,
    RecordReading,
    WireType,
    single_message_part,
    speaker_of_role,
)
from ash_shared.records.json_text import (
    RawMessage,
    decode_json,
    has_too_many_values,
    looks_like_json,
    message_text,
    shown_text,
    split_values,
)
from ash_shared.records.steps import Emit, RecordStart, Scope, Step, TurnEnd, is_valid_step

_NATIVE_SOURCE = "claude"
"""The source whose provider reads values that no provider recognises, as blocks: its blocks are native."""


@cache
def _load_providers() -> Providers:
    """Return the providers. They are loaded on first use, to keep the import of the library fast."""
    return discover()


class _FastPaths(dict[str | None, Sequence[FastPath]]):
    """The fast paths to try by declared source, filled on first use."""

    def __missing__(self, source: str | None) -> Sequence[FastPath]:
        providers = [provider for provider in _load_providers().values() if source in (None, provider.source)]
        paths = [provider.fast_path for provider in providers if provider.fast_path]
        if providers:  # a source without a provider is not kept: there is no limit to their number
            self[source] = paths
        return paths


_FAST_PATHS = _FastPaths()


def fast_paths(text: str | bytes, source: str | None) -> Sequence[FastPath]:
    """Return the fast paths to try for a text of a declared source, none for a text with too many values."""
    return () if has_too_many_values(text) else _FAST_PATHS[source]


class Read(Struct, frozen=True):
    """The reading of one text, with its decoded record, provider and wire type, if any."""

    reading: RecordReading
    provider: Provider | None = None
    record: Record | None = None
    wire_type: WireType | None = None
    elements: Sequence["Read"] = ()
    """The readings of the elements of a top-level list, or of several values on one line."""
    is_glued: bool = False
    """True if one line contains several values, each a separate record."""

    def source(self, declared: str | None) -> str:
        """Return the declared source, or else the recognised one."""
        return declared or (self.provider.source if self.provider else "unknown")

    def facts(self) -> Facts:
        """Return the metadata of the record. Never raises.

        For a list: the metadata of its first element without the `uuid`, and the time of its last element. For several
        records on one line: the merged metadata, without the `uuid`.
        """
        if self.is_glued:
            return merge_facts([element.facts() for element in self.elements])
        if self.elements:
            last = self.elements[-1].facts()
            return (
                self.elements[0]
                .facts()
                ._replace(uuid=None, last_timestamp=last.last_timestamp or last.timestamp)
            )
        return self.provider.facts(self.record) if self.provider and self.record is not None else Facts()

    def identity(self) -> Identity:
        """Return what identifies the record and its transcript in another file. Never raises."""
        if self.is_glued:
            return self.elements[0].identity()
        return Identity() if self.record is None else _identify(self.provider, self.record)

    def parts(self) -> list[Part]:
        """Return the parts that the text adds to the standard messages of its session. Never raises."""
        if self.wire_type is None or self.record is None:
            return single_message_part({}, self.reading)
        try:
            return self.wire_type.parts(self.record, self.reading)
        except (AttributeError, LookupError, TypeError, ValueError):
            return single_message_part(self.record, self.reading)

    def steps(self, declared: str | None = None, role: Role | None = None) -> list[Step]:
        """Return the steps that the text adds to the event log. Never raises.

        `declared` and `role` are the source and the role that the sender declared, if any.
        """
        if self.elements:
            return [
                step
                for element in self.elements
                for step in _element_steps(element, declared, is_record=self.is_glued)
            ]
        if self.record is None and self.reading.kind == "message" and role is None:
            return _plain_text_steps(self.reading.blocks[0]["text"], declared)
        steps = self._provider_steps()
        if steps is not None:
            return steps
        parts = self.parts()
        if role is not None and self.provider is None and parts:
            parts = [Part(role=speaker_of_role(role), blocks=self.reading.blocks)]
        if parts or self.reading.kind != "record":
            return [*parts]
        # No standard message contains this record, but the event log does.
        return [Part(role="system", blocks=self.reading.blocks)]

    def _provider_steps(self) -> list[Step] | None:
        """Return the provider's steps, if any. Invalid steps, and a malformed stream chunk, become a `raw` block."""
        if self.wire_type is None or self.record is None:
            return None
        try:
            steps = self.wire_type.steps(self.record, self.reading)
            if steps is None or all(map(is_valid_step, steps)):
                return steps
        except (AttributeError, LookupError, TypeError, ValueError):
            if self.reading.kind != "chunk":
                return None
        malformed = raw_block("malformed", self.record, wire_name(self.record))
        return [Part(role="system", blocks=[malformed])]


def _element_steps(element: Read, declared: str | None, *, is_record: bool) -> list[Step]:
    """Return the steps of one element. A scope ends with its element."""
    steps = element.steps(declared)
    ended = [*steps, Scope()] if steps and steps[0].__class__ is Scope else steps
    return [RecordStart(element.facts()), *ended] if is_record else ended


def _plain_text_steps(text: str, declared: str | None) -> list[Step]:
    """Return the steps of a text that is not a record.

    Lines of a server-sent event stream are recognised: a `data:` line contains a record or the final `[DONE]`, and
    the other lines have no steps.
    """
    line = text.strip()
    data = line.removeprefix("data:").lstrip()
    if data == "[DONE]":
        return [TurnEnd(mode="if_over")]
    if line.startswith("data:") and data.startswith("{"):
        steps = _data_line_steps(data, declared)
        if steps is not None:
            return steps
    is_stream_line = _SSE_LINE.match(line) if declared is not None else _API_EVENT_LINE.fullmatch(line)
    if is_stream_line:
        return []
    if declared is None:
        return [Part(role="user", blocks=[text_block(text)], relation="plain_text")]
    return [Emit("raw", {"source": declared, "raw": text})] if line else []


def _data_line_steps(data: str, declared: str | None) -> list[Step] | None:
    """Return the steps of the record in a `data:` line; None if no provider recognises it."""
    try:
        read = _read_value(decode_json(data), declared)
    except (ValueError, RecursionError):
        return None
    return None if read.provider is None else read.steps(declared)


_SSE_LINE = re.compile(r":|(?:event|id|retry):")
"""The start of an SSE line other than `data:`; a leading colon marks a comment."""
_API_EVENT_LINE = re.compile(
    r"event: ?(?:error|ping|(?:content_block|message)_(?:delta|start|stop)|(?:interaction|response|step)\.[a-z_.]+)"
)
"""An `event:` line of a known API. Other lines are SSE only with a declared source: a prompt may begin like them."""


def read_raw(message: RawMessage, source: str | None) -> Read:
    """Read one message; `source` is its declared format, if known. Never raises on texts."""
    return read_text(message_text(message), source)


def read_text(raw: str | bytes, source: str | None) -> Read:
    """Same as `read_raw`, for a text."""
    try:
        return _read_value(decode_json(raw), source)
    except (ValueError, RecursionError) as error:
        text = shown_text(raw)
        return _read_partly(raw, source) or _read_glued(text, source, error) or _read_undecodable(text, error)


def _read_partly(raw: str | bytes, source: str | None) -> Read | None:
    """Read a record whose content a fast path can decode, although the text as a whole cannot be decoded."""
    if has_too_many_values(raw):
        return None
    for provider in _load_providers().values():
        if provider.fast_path is None or source not in (None, provider.source):
            continue
        record = provider.fast_path.decode_partly(raw)
        if record is not None:
            try:
                return _read_with(provider, provider.wire_type(record), record)
            except (ValueError, RecursionError):
                return None
    return None


def _read_glued(text: str, source: str | None, error: Exception) -> Read | None:
    """Read several values that a program wrote on one line after an unterminated line.

    Text after the last complete value is malformed.
    """
    if isinstance(error, LimitExceeded | RecursionError) or not looks_like_json(text):
        return None
    values = split_values(text)
    elements = [_read_part(value, source) for value in values]
    if not _has_records(elements, source):
        return None
    try:
        return _read_elements(elements, is_glued=True)
    except LimitExceeded:
        return None


def _has_records(elements: Sequence[Read], source: str | None) -> bool:
    """True if the values belong to a known format. Otherwise, they may be text that a person typed."""
    is_declared = source in _load_providers()
    return bool(elements) and (is_declared or any(element.provider for element in elements))


def _read_part(value: str, source: str | None) -> Read:
    try:
        return _read_value(decode_json(value), source)
    except (LimitExceeded, RecursionError):
        return _non_message_read(raw_block("limit", value))
    except ValueError:
        return _non_message_read(raw_block("malformed", value, "invalid_json"))


def _read_undecodable(text: str, error: Exception) -> Read:
    if isinstance(error, LimitExceeded | RecursionError):
        return _non_message_read(raw_block("limit", text))
    if looks_like_json(text):
        return _non_message_read(raw_block("invalid_json", text))
    return _user_message_read(text)


def _non_message_read(block: Block) -> Read:
    return Read(RecordReading("record", "system", [block]))


def _user_message_read(text: str) -> Read:
    return Read(RecordReading("message", "user", [text_block(text)]))


def _read_value(value: Any, source: str | None) -> Read:
    if value.__class__ is dict:
        return _read_record(value, source)
    if value.__class__ is list:
        return _read_list(value, source)
    if value.__class__ is str:
        return _user_message_read(value)
    return _non_message_read(raw_block("unknown_type", value))


def _read_list(values: list[Any], source: str | None) -> Read:
    """Read a top-level list as one record if a provider recognises it, else each element as a record or block."""
    if len(values) > MAX_BLOCKS:
        raise LimitExceeded
    providers = _load_providers()
    list_provider = providers.recognize_list(values)
    declared_provider = providers.get(source or "", list_provider)
    if list_provider is not None and declared_provider is list_provider:
        record = {"list": values}
        return _read_with(list_provider, list_provider.wire_type(record), record)
    elements = [
        _read_bare_block(value) if isinstance(value, list) else _read_value(value, source) for value in values
    ]
    return _read_elements(elements)


def _read_elements(elements: Sequence[Read], *, is_glued: bool = False) -> Read:
    """Combine the readings of several values. Raises LimitExceeded."""
    blocks = [block for element in elements for block in element.reading.blocks]
    if len(blocks) > MAX_BLOCKS:
        raise LimitExceeded
    readings = [element.reading for element in elements]
    first_roles: Mapping[Kind, Role] = {reading.kind: reading.role for reading in reversed(readings)}
    kind: Kind = next((kind for kind in _KINDS_BY_PRIORITY if kind in first_roles), "record")
    first_provider = next((element.provider for element in elements if element.provider), None)
    reading = RecordReading(kind, first_roles.get(kind, "system"), blocks)
    return Read(reading, first_provider, elements=elements, is_glued=is_glued)


_KINDS_BY_PRIORITY: tuple[Kind, ...] = ("message", "chunk", "record")
"""The kind of a list is the first of these that an element has; its role is that of the first such element."""


def _read_bare_block(value: Any) -> Read:
    return _non_message_read(_load_providers()[_NATIVE_SOURCE].read_block(value))


def identify(raw: str, source: str | None) -> Identity:
    """Return `Read.identity` of a text, without reading its content. Never raises."""
    try:
        value = decode_json(raw)
    except (LimitExceeded, RecursionError):
        return Identity()
    except ValueError:
        values = split_values(raw)
        return identify(values[0], source) if values else Identity()
    if not isinstance(value, dict):
        return Identity()
    record = _open_envelope(value)
    row = _find_row(record, source)
    return _identify(row[0] if row else None, record)


def _identify(provider: Provider | None, record: Record) -> Identity:
    if provider is None:
        return Identity()
    identity = provider.identify(record)
    return identity._replace(session=identity.session or provider.facts(record).session_id)


def _read_record(record: Record, source: str | None) -> Read:
    if "ev" in record:
        record = _open_envelope(record)
    row = _find_row(record, source)
    return _read_bare_block(record) if row is None else _read_with(*row, record)


def _open_envelope(record: Record) -> Record:
    """Return the record in an envelope of the form `{"ev": "message", "data": …}`, or else the record itself."""
    while record.get("ev") == "message" and record.get("data").__class__ is dict:
        record = record["data"]
    return record


def _find_row(record: Record, source: str | None) -> tuple[Provider, WireType] | None:
    """Return the declared provider, or else the one that recognises the record, with the record's row."""
    providers = _load_providers()
    declared = providers.get(source or "")
    return providers.recognize(record) if declared is None else (declared, declared.wire_type(record))


def _read_with(provider: Provider, wire_type: WireType, record: Record) -> Read:
    """Read a record with its provider; a record that does not match its type becomes one `malformed` block."""
    try:
        reading = wire_type.read(record)
        if reading.is_checked or are_valid(reading.blocks):
            return Read(reading, provider, record, wire_type)
    except (AttributeError, LookupError, TypeError):
        pass
    malformed = raw_block("malformed", record, wire_name(record))
    return Read(RecordReading("record", "system", [malformed]), provider, record, wire_type)
