"""Labels: changes, limits, what keeps them and what deletes them, and the filters of lists."""

from typing import Any
from uuid import uuid4

import pytest

from ash_server import Store
from ash_server.errors import AshError, InvalidParameter, InvalidUtf8, NulByte, SessionNotFound
from ash_server.store.labels import MAX_NOTE_BYTES, MAX_TAG, MAX_TAGS
from ash_shared.model.base import ABSENT

NONE = {"starred": False, "archived": False, "tags": [], "note": ""}
TOKEN = "xoxb-" + "2718281828-31415926535897932384626433"
"""A token in the format of Slack."""


async def labels_of(store: Store, id: Any) -> Any:
    labels = (await store.sessions.get(id)).labels
    return ABSENT if labels is ABSENT else labels and labels.model_dump()


async def names(store: Store, **filters: Any) -> list[str]:
    page = await store.sessions.list_sessions(**filters)
    return sorted(str(session.external_id) for session in page.sessions)


async def test_absent_labels_stay_as_they_are(store: Store) -> None:
    session = await store.sessions.create()
    steps: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
        ({}, None),
        ({"starred": True}, {**NONE, "starred": True}),
        (
            {"add_tags": [" flaky ", "ui", "flaky"]},
            {**NONE, "starred": True, "tags": ["flaky", "ui"]},
        ),
        (
            {"add_tags": ["ci"], "remove_tags": ["flaky", "unknown"]},
            {**NONE, "starred": True, "tags": ["ui", "ci"]},
        ),
        ({"starred": False, "note": "**why**\n"}, {**NONE, "tags": ["ui", "ci"], "note": "**why**\n"}),
        (
            {"tags": ["old", "new"], "remove_tags": ["old"], "archived": True},
            {**NONE, "archived": True, "tags": ["new"], "note": "**why**\n"},
        ),
        ({"tags": [], "archived": False}, {**NONE, "note": "**why**\n"}),
        ({"note": ""}, None),
    ]
    shown = []
    for changes, _ in steps:
        changed = await store.sessions.update_labels(session.id, **changes)
        assert changed == await store.sessions.get(session.id)
        shown.append(changed.labels and changed.labels.model_dump())

    assert shown == [labels for _, labels in steps]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"add_tags": [" "]}, InvalidParameter),
        ({"tags": ["two\nlines"]}, InvalidParameter),
        ({"tags": ["a\u2028b"]}, InvalidParameter),
        ({"tags": ["x" * (MAX_TAG + 1)]}, InvalidParameter),
        ({"tags": list(map(str, range(MAX_TAGS + 1)))}, InvalidParameter),
        ({"note": "x" * (MAX_NOTE_BYTES + 1)}, InvalidParameter),
        ({"note": "\0"}, NulByte),
        ({"tags": ["\ud800"]}, InvalidUtf8),
    ],
)
async def test_invalid_labels_change_nothing(
    store: Store, changes: dict[str, Any], error: type[AshError]
) -> None:
    session = await store.sessions.create()
    await store.sessions.update_labels(session.id, tags=["kept"])
    with pytest.raises(error):
        await store.sessions.update_labels(session.id, **{"starred": True, **changes})

    assert await labels_of(store, session.id) == {**NONE, "tags": ["kept"]}


async def test_limits_are_accepted(store: Store) -> None:
    session = await store.sessions.create()
    tags = [f"{number:0>{MAX_TAG}}" for number in range(MAX_TAGS)]
    changed = await store.sessions.update_labels(session.id, tags=tags, note="x" * MAX_NOTE_BYTES)

    assert changed.labels is not None
    assert (changed.labels.tags, len(changed.labels.note)) == (tags, MAX_NOTE_BYTES)


async def test_an_unknown_session_has_no_labels(store: Store) -> None:
    with pytest.raises(SessionNotFound):
        await store.sessions.update_labels(uuid4(), starred=True)


async def test_only_a_change_is_a_change_of_the_session(store: Store) -> None:
    session = await store.sessions.create()
    starred = await store.sessions.update_labels(session.id, starred=True)
    again = await store.sessions.update_labels(session.id, starred=True)

    assert session.updated_at < starred.updated_at == again.updated_at


async def test_a_recreated_session_keeps_labels_and_a_deleted_one_loses_them(store: Store) -> None:
    session = await store.sessions.create(source="claude", external_id="a")
    await store.messages.append(session.id, ["one"])
    labelled = await store.sessions.update_labels(session.id, starred=True, tags=["kept"], note="why")
    recreated = await store.sessions.recreate(session.id, source="claude", external_id="a")
    await store.sessions.delete(session.id)
    new = await store.sessions.create(source="claude", external_id="a")

    assert (recreated.labels, recreated.message_count) == (labelled.labels, 0)
    assert (new.id, new.labels) == (session.id, None)


async def test_archiving_includes_the_sessions_of_subagents(store: Store) -> None:
    parent = await store.sessions.create(external_id="parent")
    child = await store.sessions.create(external_id="child", parent_id=parent.id)
    await store.sessions.create(external_id="grandchild", parent_id=child.id)
    await store.sessions.update_labels(child.id, starred=True)
    await store.sessions.update_labels(parent.id, archived=True)
    hidden = await names(store)
    await store.sessions.update_labels(child.id, archived=False)

    assert hidden == []
    assert await names(store) == ["child", "grandchild"]
    assert await labels_of(store, child.id) == {**NONE, "starred": True}


async def test_filters_of_lists(store: Store) -> None:
    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "starred": {"starred": True, "tags": ["red", "blue"]},
        "noted": {"note": "Broken by the **Upgrade**", "tags": ["red"]},
        "archived": {"archived": True, "tags": ["red", "old"]},
    }
    parent = await store.sessions.create(external_id="parent")
    for name, each in changes.items():
        session = await store.sessions.create(external_id=name, parent_id=parent.id)
        await store.sessions.update_labels(session.id, **each)
    everything = ["archived", "noted", "parent", "plain", "starred"]
    found: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["noted", "parent", "plain", "starred"]),
        ({"archived": "include"}, everything),
        ({"archived": "only"}, ["archived"]),
        ({"tag": "red"}, ["noted", "starred"]),
        ({"tag": ["red"], "archived": "include"}, ["archived", "noted", "starred"]),
        ({"tag": ["blue", "red"]}, ["starred"]),
        ({"tag": "re"}, []),
        ({"tag": []}, ["noted", "parent", "plain", "starred"]),
        ({"starred": True}, ["starred"]),
        ({"starred": False}, ["noted", "parent", "plain"]),
        ({"q": "upgrade"}, ["noted"]),
        ({"q": "BLUE"}, ["starred"]),
        ({"external_id": "archived"}, ["archived"]),
        ({"external_id_prefix": "arch"}, ["archived"]),
        ({"parent_id": parent.id}, ["archived", "noted", "plain", "starred"]),
        ({"reference": "archived"}, ["archived"]),
        ({"reference": "archived", "archived": "exclude"}, []),
    ]

    assert [(filters, await names(store, **filters)) for filters, _ in found] == found
    assert sorted([str(each.external_id) async for each in store.sessions.list_all()]) == everything
    with pytest.raises(InvalidParameter):
        await store.sessions.list_sessions(archived="all")  # type: ignore[arg-type]  # not one of the values


async def test_tags_are_counted_without_archived_sessions(store: Store) -> None:
    for number, tags in enumerate((["b", "a"], ["a"], ["c"])):
        session = await store.sessions.create()
        await store.sessions.update_labels(session.id, tags=tags, archived=number == 2)

    assert (await store.sessions.list_tags()).model_dump() == {
        "tags": [{"name": "a", "sessions": 2}, {"name": "b", "sessions": 1}]
    }


async def test_secrets_in_labels_are_neither_found_nor_counted_apart(store: Store) -> None:
    for name, secret in (("first", TOKEN), ("second", TOKEN.replace("2", "5"))):
        session = await store.sessions.create(external_id=name)
        await store.sessions.update_labels(session.id, add_tags=[secret], note=f"key: {secret}")
    found = {
        q: [await names(store, q=q, redact=redact) for redact in (False, True)] for q in ("xoxb-27", "key:")
    }

    assert found == {"xoxb-27": [["first"], []], "key:": [["first", "second"], ["first", "second"]]}
    assert (await store.sessions.list_tags(redact=True)).model_dump() == {
        "tags": [{"name": "[redacted: slack token]", "sessions": 2}]
    }
