"""Recognition by marks finds the same provider as asking all providers in order."""

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ash_shared.parsing.parsed_text import parse_raw
from ash_shared.providers import discover
from ash_shared.records.contract import Provider, Record
from ash_shared.records.fingerprints import ROW_KEYS
from ash_shared.testing import vectors
from tests.shared.sample_files import MAX_FILES, spread
from tests.shared.texts import texts_of

PROVIDERS = discover()
NAMES = sorted(
    {
        name
        for provider in PROVIDERS.values()
        if provider.marks
        for names in provider.marks
        if isinstance(names, Collection)
        for name in names
    }
)


def first_provider(record: Record) -> Provider | None:
    """Ask all providers: for records without a type, those with shared keys last."""
    is_row = record.keys() == ROW_KEYS and isinstance(record["table"], str)
    is_ordered = not is_row and not isinstance(record.get("type"), str)
    providers = sorted(PROVIDERS.values(), key=_order) if is_ordered else PROVIDERS.values()
    return next((provider for provider in providers if provider.recognize(record)), None)


def _order(provider: Provider) -> int:
    return provider.marks.order if provider.marks else 0


def marked_provider(record: Record) -> Provider | None:
    match = PROVIDERS.recognize(record)
    return match[0] if match else None


def mismatches(records: Iterator[Record]) -> list[Record]:
    return [record for record in records if marked_provider(record) is not first_provider(record)]


def variants(text: str) -> Iterator[Record]:
    """Yield the records of a text, complete and without each of their keys."""
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return
    for record in value if isinstance(value, list) else [value]:
        if isinstance(record, dict):
            yield record
            yield from ({name: record[name] for name in record if name != dropped} for dropped in record)


@pytest.mark.slow
def test_marks_agree_with_recognition_on_vectors() -> None:
    assert mismatches(record for vector in vectors() for record in variants(vector.raw)) == []


def test_marks_agree_with_recognition_on_samples(corpus_folder: Path) -> None:
    texts = spread(list(texts_of(corpus_folder)), 40 * MAX_FILES)

    assert mismatches(record for _, text in texts for record in variants(text)) == []


names = st.sampled_from([*NAMES, "response.new", "data-new", "item.completed"])
values = st.recursive(
    st.none() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.dictionaries(names | st.just("type"), values, max_size=5))
def test_marks_agree_with_recognition_on_random_records(record: Record) -> None:
    assert mismatches(iter([record])) == []


@pytest.mark.slow
def test_recognized_record_reads_the_same_if_its_source_is_declared() -> None:
    records = [record for vector in vectors() for record in variants(vector.raw) if first_provider(record)]

    parsed_records = [(parse_raw(record, None), record) for record in records]

    assert [
        record
        for parsed, record in parsed_records
        if parsed.content != parse_raw(record, parsed.source(None)).content
    ] == []


def test_every_provider_has_marks() -> None:
    assert [source for source, provider in PROVIDERS.items() if not provider.marks] == []


ERRORS = (
    {"message": "No quota.", "code": 429, "status": "RESOURCE_EXHAUSTED"},
    {"message": "No quota.", "type": "requests", "param": None, "code": None},
)
OPENCODE_MESSAGE = {"id": "msg_1", "type": "compaction", "time": {"created": 1}, "summary": "Rope sorted."}
ANTIGRAVITY_EVENT = {"event": "result", "result": {"conversation_id": "c1", "status": "ERROR"}}
SIMILAR: list[tuple[Record, str]] = [
    *(({**ANTIGRAVITY_EVENT, "error": error}, "antigravity") for error in ERRORS),
    ({**OPENCODE_MESSAGE, "content": "Rope sorted."}, "opencode"),
    ({**OPENCODE_MESSAGE, "parentId": "e1"}, "pi"),
]


@pytest.mark.parametrize(("record", "source"), SIMILAR)
def test_one_provider_recognizes_a_record_with_keys_of_two(record: Record, source: str) -> None:
    assert [provider.source for provider in PROVIDERS.values() if provider.recognize(record)] == [source]
