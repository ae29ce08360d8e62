"""The catalogue is complete, and the tables of handlers cover the types that it names."""

from typing import Any, cast, get_args

import pytest
from pydantic import BaseModel

from ash_shared import to_openai_messages, to_session_summary
from ash_shared.eventlog import posted_events
from ash_shared.model.event_types import CATALOGUE, CHUNKS, types_where
from ash_shared.model.events import EVENT_TYPES, KnownEvent
from ash_shared.projections import _conversation, search_text
from ash_shared.projections._retractions import standing
from ash_shared.providers import ash
from tests.shared.event_examples import EXAMPLES, example


def payload_of(name: str) -> type[BaseModel]:
    return cast("type[BaseModel]", CATALOGUE[name].model.model_fields["payload"].annotation)


def keys_of(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_a_row_for_each_member_of_the_union() -> None:
    """In the same order, under the name of its model."""
    union = get_args(get_args(KnownEvent.__value__)[0])

    assert [(name, row.model) for name, row in CATALOGUE.items()] == [
        (model.model_fields["type"].default, model) for model in union
    ]
    assert CATALOGUE.keys() == EVENT_TYPES == EXAMPLES.keys()


def test_text_is_a_field_of_the_payload() -> None:
    texts = {name: row.text for name, row in CATALOGUE.items() if row.text is not None}

    assert [name for name, text in texts.items() if text not in keys_of(payload_of(name))] == []
    assert [name for name, text in texts.items() if not isinstance(EXAMPLES[name][text], str)] == []


def test_chunks_and_complete_types_belong_together() -> None:
    assert {row.chunk_of for row in CATALOGUE.values()} - {None} == types_where(lambda row: row.chunks)
    assert {name for name in CATALOGUE if name.endswith("_chunk")} == CHUNKS


def test_chunks_and_complete_types_have_the_fields_of_their_group() -> None:
    fields = {
        name: set(chunks.fields)
        for name, row in CATALOGUE.items()
        if (chunks := CATALOGUE[row.chunk_of or name].chunks) is not None
    }

    assert {
        name: group - keys_of(CATALOGUE[name].model) - keys_of(payload_of(name))
        for name, group in fields.items()
    } == {name: set() for name in fields}


def test_chunks_repeat_nothing() -> None:
    """Chunks are not searched, projected, sent in topics or stored in messages; the complete event is."""
    assert (
        CHUNKS
        & types_where(
            lambda row: row.weight or row.in_conversation or row.is_topic or row.message_role or row.issue
        )
        == frozenset()
    )


def test_triggers_are_those_of_turns() -> None:
    triggers = get_args(payload_of("turn_start").model_fields["trigger"].annotation)

    assert {row.trigger for row in CATALOGUE.values()} - {None} == set(triggers)


@pytest.mark.parametrize(
    ("handled", "types"),
    [
        (search_text._SPECIAL_EXTRACTORS, types_where(lambda row: row.weight)),
        (_conversation._SPECIAL_HANDLERS, types_where(lambda row: row.in_conversation)),
        (ash._PAYLOAD_TRANSLATIONS, types_where(lambda row: row.message_role)),
    ],
    ids=["search", "conversation", "provider"],
)
def test_handlers_cover_the_types(handled: dict[str, Any], types: frozenset[str]) -> None:
    """Types without a handler have a text, which the default handles."""
    assert handled.keys() - types == set()
    assert {name for name in types - handled.keys() if CATALOGUE[name].text is None} == set()


def test_noted_types_have_an_observer() -> None:
    assert posted_events._OBSERVERS.keys() == types_where(lambda row: row.is_noted)


def test_examples_are_searched_by_weight() -> None:
    """Every searched type has its text under its weight."""
    found = {name: search_text.passages(example(name)) for name in CATALOGUE}

    assert {name: {each.weight for each in passages} for name, passages in found.items()} == {
        name: {row.weight} - {None} for name, row in CATALOGUE.items()
    }
    assert [
        name
        for name, row in CATALOGUE.items()
        if row.weight
        and row.text
        and EXAMPLES[name][row.text] not in "\n".join(each.text for each in found[name])
    ] == []


BASE = [
    example("user_message", "b1", turnId="t"),
    example("assistant_done", "b2", turnId="t", responseId="r"),
    example("tool_call", "b3", turnId="t", responseId="r"),
]


@pytest.mark.parametrize("name", sorted(EVENT_TYPES - types_where(lambda row: row.in_conversation)))
def test_types_outside_the_conversation_do_not_change_it(name: str) -> None:
    log = [*BASE, example(name, turnId="t"), example("tool_result", "b4", turnId="t")]

    expected = [] if name == "reset" else standing(log)
    assert to_openai_messages(log) == to_openai_messages([each for each in expected if each["type"] != name])


@pytest.mark.parametrize("name", sorted(types_where(lambda row: row.is_hidden)))
def test_payloads_of_hidden_types_are_not_read(name: str) -> None:
    log = [*BASE, example(name, turnId="t")]
    reduced = [*BASE, {**log[-1], "payload": {}}]

    assert to_openai_messages(log) == to_openai_messages(reduced)
    assert to_session_summary(log) == to_session_summary(reduced)
