"""The store: what its methods accept, return and refuse."""

import asyncio
import inspect
import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import AsyncConnection

from ash_server import NewMessage, Store
from ash_server.errors import (
    AshError,
    CursorAhead,
    DatabaseUnavailable,
    InvalidBody,
    InvalidId,
    InvalidParameter,
    InvalidUtf8,
    MessageNotFound,
    NulByte,
    SchemaMismatch,
    SessionNotFound,
)
from ash_server.store import message_pages, session_rows, sessions
from ash_server.store.borrowed import translate_errors
from ash_server.store.connections.pool import StatementOptions, direct_url
from ash_server.store.messages import MessageStore
from ash_server.store.schema.migrations import upgrade
from ash_server.store.sessions import AmbiguousSession, SessionStore, session_id_for
from ash_shared.model.events import ChatEvent, read_event
from ash_shared.model.message import Message
from tests.server.live.test_hub import has_listener, wait_for_listener
from tests.shared.records.events import wire_event
from tests.waiting import TIMEOUT

PROMPT = '{"type": "user", "uuid": "u1", "message": {"role": "user", "content": "hi"}}'
ANSWER = (
    '{"type": "assistant", "uuid": "u2", "message": {"role": "assistant", "content": '
    '[{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]}}'
)
TYPES = ["turn_start", "user_message", "tool_call"]
"""The types of the events of PROMPT and ANSWER."""

REFERENCE = Path(__file__).parents[3] / "docs" / "store.md"


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with Store.open(database_url) as store:
        yield store


@pytest.fixture
async def session(store: Store) -> UUID:
    return (await store.sessions.create()).id


def blocks_of(message: Message) -> list[str]:
    assert isinstance(message.parsed, list)
    return [block.type for block in message.parsed]


async def next_events(subscription: AsyncGenerator[ChatEvent, None], count: int) -> list[str]:
    return [(await anext(subscription)).type for _ in range(count)]


async def rest_of(subscription: AsyncGenerator[ChatEvent, None]) -> list[ChatEvent]:
    async with asyncio.timeout(TIMEOUT):
        return [each async for each in subscription]


# --- Opening


@pytest.mark.slow
async def test_opens_the_embedded_server(tmp_path: Path) -> None:
    for _ in range(2):  # created, then opened again
        async with Store.open(home=tmp_path) as store:
            session = await store.sessions.create(external_id="a")
    assert session.id == session_id_for("unknown", "a")


async def test_rejects_a_database_without_the_schema(bare_database_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="ash db upgrade"):
        async with Store.open(bare_database_url):
            pass
    async with Store.connect(bare_database_url) as store:
        with pytest.raises(SchemaMismatch):
            await store.check_schema()
        with pytest.raises(SchemaMismatch):
            await store.sessions.create()
        upgrade(bare_database_url)
        await store.check_schema()


async def test_reports_a_database_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        async with Store.open(f"postgresql://postgres@/ash?host={tmp_path}"):
            pass


def test_logs_the_first_line_of_an_error_of_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    reason = "server closed the connection unexpectedly"
    with pytest.raises(DatabaseUnavailable), translate_errors():
        raise psycopg.OperationalError(f"{reason}\n\tThis probably means the server terminated abnormally")
    assert caplog.messages == [f"the database does not answer: OperationalError: {reason}"]


class ErrorOfWorker(psycopg.errors.InternalError_):
    diag = SimpleNamespace(context="while executing command on worker:5432")  # type: ignore[assignment]


@pytest.mark.parametrize(
    "error",
    [ErrorOfWorker, psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.IdleInTransactionSessionTimeout],
)
def test_temporary_internal_errors_mean_that_the_database_does_not_answer(error: type[psycopg.Error]) -> None:
    with pytest.raises(DatabaseUnavailable), translate_errors():
        raise error
    with pytest.raises(psycopg.errors.DataCorrupted), translate_errors():
        raise psycopg.errors.DataCorrupted


@pytest.mark.slow
async def test_statement_timeout(database_url: str) -> None:
    statements = StatementOptions(timeout=1)
    with psycopg.connect(database_url) as other:
        other.execute("LOCK TABLE sessions")
        async with Store.connect(database_url, None, statements=statements) as store:
            with pytest.raises(DatabaseUnavailable, match="longer than ASH_STATEMENT_TIMEOUT allows"):
                await store.sessions.create()


@pytest.mark.slow
async def test_only_reads_have_a_default_timeout(database_url: str) -> None:
    statements = StatementOptions(read_timeout=1)
    async with Store.connect(database_url, None, statements=statements) as store:
        with psycopg.connect(database_url) as other:
            other.execute("LOCK TABLE sessions")
            with pytest.raises(DatabaseUnavailable, match="Narrow the request"):
                await store.sessions.list_sessions()
            writing = asyncio.create_task(store.sessions.create())
            with pytest.raises(DatabaseUnavailable):
                await store.sessions.list_sessions()
            assert not writing.done()
        created = await writing
        assert [each.id for each in (await store.sessions.list_sessions()).sessions] == [created.id]


@pytest.mark.slow
def test_import_is_cheap() -> None:
    """`import ash_server` loads no module, and the store neither the web framework nor the command line."""
    script = """
import sys
import ash_server
assert "psycopg" not in sys.modules and "pydantic" not in sys.modules
from ash_server import NewMessage, Store
search = "ash_server.store.search.tokens"
loaded = {"litestar", "click", "rich_click", "rich", "uvicorn", "sqlalchemy", "alembic", search} & sys.modules.keys()
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_unknown_names_are_attribute_errors() -> None:
    import ash_server

    with pytest.raises(AttributeError, match="no attribute 'Shop'"):
        ash_server.Shop  # noqa: B018


# --- Messages


async def test_appends_and_reads_messages(store: Store, session: UUID) -> None:
    appended = await store.messages.append(session, [PROMPT, ANSWER])
    parsed = await store.messages.list_messages_parsed(session, after=0, limit=100)
    raw = await store.messages.list_messages(session, kinds=("message",), role=None, type="tool_use")

    assert [(each.sequence, each.created) for each in appended] == [(1, True), (2, True)]
    assert [(each.content, blocks_of(each)) for each in parsed] == [
        (PROMPT, ["text"]),
        (ANSWER, ["tool_use"]),
    ]
    assert [each.content for each in raw] == [ANSWER]
    assert await store.messages.list_messages(session, kinds=()) == []
    assert await store.messages.get_message(session, 2) == raw[0]
    assert await store.messages.get_message_parsed(session, 2) == parsed[1]
    assert [each async for each in store.messages.stream_messages(session, after=1)] == raw


ACCEPTED: dict[str, tuple[str | bytes | NewMessage, dict[str, Any]]] = {
    "text": ("hello", {"content": "hello", "source": "unknown", "role": "user"}),
    "bytes": ("né".encode(), {"content": "né"}),
    "a Claude line": (PROMPT, {"content": PROMPT, "source": "claude", "role": "user", "kind": "message"}),
    "its own id": (NewMessage("hello", id="run-7/1"), {"id": "run-7/1"}),
    "its own role": (NewMessage("hello", role="assistant"), {"role": "assistant"}),
    "its own source": (NewMessage("{}", source="house"), {"source": "house", "content": "{}"}),
    "an empty text": ("", {"content": ""}),
}


@pytest.mark.parametrize("name", ACCEPTED)
async def test_accepts_texts_and_new_messages(store: Store, session: UUID, name: str) -> None:
    new, fields = ACCEPTED[name]

    [appended] = await store.messages.append(session, [new])
    stored = await store.messages.get_message(session, appended.sequence)

    assert stored.id == appended.id
    assert {field: getattr(stored, field) for field in fields} == fields


REFUSED: dict[str, tuple[bytes | str | NewMessage, type[AshError]]] = {
    "bytes that are not UTF-8": (b"\xff", InvalidUtf8),
    "a lone surrogate": ("\udc00", InvalidUtf8),
    "a NUL in the source": (NewMessage("a", source="\0"), NulByte),
    "no id": (NewMessage("a", id=""), InvalidId),
    "a long id": (NewMessage("a", id="é" * 256), InvalidId),
}
"""Messages that the API refuses before they reach the store."""


@pytest.mark.parametrize("name", REFUSED)
async def test_rejects_invalid_messages(store: Store, session: UUID, name: str) -> None:
    new, refusal = REFUSED[name]
    with pytest.raises(refusal) as caught:
        await store.messages.append(session, ["a", new])

    assert caught.value.index == 1
    assert (await store.sessions.get(session)).message_count == 0


@pytest.mark.parametrize("new", [PROMPT, b"a", [{"type": "user"}], [None], [1]])
async def test_rejects_other_types(store: Store, session: UUID, new: Any) -> None:
    with pytest.raises(TypeError, match="not"):
        await store.messages.append(session, new)


async def test_rejects_unknown_options(store: Store, session: UUID) -> None:
    """A misspelled condition or filter must not be ignored."""
    misspelled: Any = {"expected_sequenc": 7}
    calls: dict[str, Callable[..., Any]] = {
        "append": partial(store.messages.append, session, ["a"]),
        "list_messages": partial(store.messages.list_messages, session),
        "create_session": store.sessions.create,
        "update_session": partial(store.sessions.update, session),
        "list_sessions": store.sessions.list_sessions,
        "get_events": partial(store.events.get_events, session),
        "search": partial(store.search.search, "a"),
        "find_in_session": partial(store.search.find_in_session, session, "a"),
    }
    for name, call in calls.items():
        with pytest.raises(
            TypeError, match=re.escape(f"{name}() got an unexpected keyword argument 'expected_sequenc'")
        ):
            await call(**misspelled)

    assert await store.messages.list_messages(session) == []
    assert len((await store.sessions.list_sessions()).sessions) == 1


async def test_append_can_end_the_session(store: Store, session: UUID) -> None:
    await store.messages.append(session, [PROMPT, ANSWER], end=True)

    assert [event.type for event in await store.events.get_events(session)] == [*TYPES, "turn_end"]
    assert await store.messages.append(session, [], end=True) == []
    assert await store.events.end(session) == 0
    assert len(await store.events.get_events(session)) == len(TYPES) + 1


async def test_rejects_unknown_ids(store: Store, session: UUID) -> None:
    missing = uuid4()
    for call in (
        store.sessions.get(missing),
        store.sessions.update(missing, title="a"),
        store.sessions.delete(missing),
        store.sessions.recreate(missing, source="a", external_id="b"),
        store.messages.append(missing, ["a"]),
        store.messages.list_messages(missing),
        store.messages.get_message(missing, 1),
        store.messages.reindex(missing),
        store.messages.delete(missing, 1),
        store.messages.pop(missing),
        store.events.append(missing, wire_event("summary", text="a")),
        store.events.get_events(missing),
        store.events.check_cursor(missing, 0),
        store.events.get_open_turn(missing),
        store.events.get_running_turn(missing),
        store.events.end(missing),
        store.events.rebuild(missing),
        store.conversation.get_page(missing),
        store.conversation.read_events(missing),
        store.conversation.read_summary(missing),
        store.search.search("a", session_id=missing),
        anext(store.events.subscribe(missing)),
    ):
        with pytest.raises(SessionNotFound):
            await call
    for sequence in (0, 1, 2**53):
        for operation in (store.messages.get_message, store.messages.delete):
            with pytest.raises(MessageNotFound):
                await operation(session, sequence)
    assert await store.messages.pop(session) is None
    assert await store.messages.get_contents(session, ["a"]) == {}
    assert await store.sessions.existing_ids([missing, session]) == {session}
    assert [each.id for each in await store.sessions.get_many([missing, session])] == [session]


OUT_OF_RANGE: list[dict[str, Any]] = [
    *({"after": value} for value in (-1, 2**53, 10**30)),
    *({"before": value} for value in (0, 2**53)),
    *({"limit": value} for value in (0, 1001)),
]


async def test_rejects_invalid_limits_and_cursors(store: Store, session: UUID) -> None:
    for call in (
        *(store.messages.list_messages(session, **page) for page in OUT_OF_RANGE),
        *(store.events.get_events(session, **page) for page in (*OUT_OF_RANGE, {"at": 0})),
        store.messages.list_messages_parsed(session, limit=1001),
        *(store.sessions.list_sessions(limit=limit) for limit in (0, 1001)),
        store.sessions.list_sessions(after="?"),
        store.drift.report(limit=0),
        store.search.find("a", limit=0),
    ):
        with pytest.raises(InvalidParameter):
            await call
    for text, refusal in (("\0", NulByte), ("\ud800", InvalidUtf8)):
        with pytest.raises(refusal):
            await store.messages.list_messages(session, type=text)


# --- Sessions


async def test_creates_a_session_once(store: Store) -> None:
    first = await store.sessions.get_or_create(source="claude", external_id="run-7", title="One")
    again = await store.sessions.get_or_create(source="claude", external_id="run-7", title="Two")

    assert (first.created, again.created, again.session) == (True, False, first.session)
    assert await store.sessions.create(source="claude", external_id="run-7") == first.session
    assert (await store.sessions.create()).id != (await store.sessions.create()).id


async def test_finds_and_lists_sessions(store: Store) -> None:
    ids = [
        (await store.sessions.create(source=source, external_id=name)).id
        for source, name in (("claude", "a"), ("codex", "a"), ("codex", "b"))
    ]

    assert (await store.sessions.find_one("b")).id == ids[2]
    assert (await store.sessions.find_one(str(ids[0]))).id == ids[0]
    with pytest.raises(AmbiguousSession):
        await store.sessions.find_one("a")
    with pytest.raises(SessionNotFound):
        await store.sessions.find_one("c")
    page = await store.sessions.list_sessions(source="codex", limit=1)
    rest = await store.sessions.list_sessions(source="codex", limit=1, after=str(page.next_after))
    assert [each.id for each in (*page.sessions, *rest.sessions)] == [ids[2], ids[1]]
    assert [each.id async for each in store.sessions.list_all()] == ids[::-1]
    assert [each async for each in store.sessions.list_ids()] == sorted(ids)
    assert (await store.sessions.list_changed()).keys() == set(ids)


async def test_lists_the_ids_of_all_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_rows, "_IDS_PAGE_SIZE", 3)
    ids = [(await store.sessions.create()).id for _ in range(7)]

    assert [each async for each in store.sessions.list_ids()] == sorted(ids)


async def test_changes_and_deletes_a_session(store: Store) -> None:
    parent = await store.sessions.create()
    session = await store.sessions.create(external_id="a", metadata={"team": "x"})
    await store.messages.append(session.id, [PROMPT])
    await store.sessions.set_parent(session.id, parent.id)
    await store.sessions.set_lacks_final_newline(session.id, True)

    changed = await store.sessions.update(session.id, title="Named")
    assert (changed.title, changed.metadata, changed.parent_id) == ("Named", {"team": "x"}, parent.id)
    assert await store.sessions.lacks_final_newline(session.id)

    empty = await store.sessions.recreate(session.id, source="unknown", external_id="a")
    assert (empty.id, empty.title, empty.message_count) == (session.id, "Named", 0)

    await store.sessions.delete(session.id)
    with pytest.raises(SessionNotFound):
        await store.sessions.get(session.id)


# --- Events


async def test_appends_and_reads_events(store: Store, session: UUID) -> None:
    typed = read_event(wire_event("summary", text="a", id="e1", timestamp=5, sessionId=""))
    first = await store.events.append(session, typed)
    rest = await store.events.append_batch(
        session,
        [
            wire_event("house", n=1),
            wire_event("error", code="a", message="b", id="e3"),
        ],
    )
    events = await store.events.get_events(session)

    assert (first.id, [each.sequence for each in rest]) == ("e1", [2, 3])
    assert [(each.id, each.type, each.sequence) for each in events] == [
        ("e1", "summary", 1),
        (rest[0].id, "house", 2),
        ("e3", "error", 3),
    ]
    assert {each.session_id for each in events} == {str(session)}
    assert await store.events.get_events_since(session, 1, limit=1) == [events[1]]
    assert await store.events.get_events_since(session, 3) == []
    stored = await store.events.get_stored_events(session, types=["error"])
    assert [read_event(json.loads(each.wire())) for each in stored] == [events[2]]
    assert [each.sequence async for each in store.events.stream_stored_events(session)] == [1, 2, 3]
    assert await store.events.append(session, typed) == first._replace(created=False)


BAD_EVENTS: dict[str, tuple[Any, str]] = {
    "no object": ([1], "$"),
    "not a number": (
        wire_event("user_audio", transcription="", durationMs=float("nan")),
        "$",
    ),
    "no JSON": (wire_event("house", at={1, 2}), "$"),
    "another session": (wire_event("house", sessionId=5), "$.sessionId"),
    "no type": ({"payload": {}}, "$.type"),
    "a payload of another type": (wire_event("summary", text=1), "$.payload.text"),
}


@pytest.mark.parametrize("name", BAD_EVENTS)
async def test_rejects_invalid_events(store: Store, session: UUID, name: str) -> None:
    event, path = BAD_EVENTS[name]
    with pytest.raises(InvalidBody) as caught:
        await store.events.append_batch(session, [wire_event("house"), event])

    assert (caught.value.index, caught.value.extra["errors"][0]["path"]) == (1, path)
    assert await store.events.get_events(session) == []


async def test_stores_what_a_reader_of_json_would_see(store: Store, session: UUID) -> None:
    payload = {"pair": (1, 2), 3: "number", "whole": 10**30}
    await store.events.append(session, {"type": "house", "payload": payload})

    [event] = await store.events.get_events(session)
    assert event.payload == {"pair": [1, 2], "3": "number", "whole": 10**30}


async def test_reads_after_the_id_of_an_event(store: Store, session: UUID) -> None:
    await store.messages.append(session, [PROMPT, ANSWER])
    await store.events.append(session, wire_event("house", id="12"))
    events = await store.events.get_events(session)

    for place, event in enumerate(events[:-1], start=1):
        assert await store.events.get_events_since(session, event.id) == events[place:]
        assert await anext(store.events.subscribe(session, event.id)) == events[place]
    assert await store.events.get_events_since(session, "12") == []
    for unknown in ("e0", events[0].id[:-1], "%", ""):
        with pytest.raises(InvalidParameter):
            await store.events.get_events_since(session, unknown)


async def test_rebuilds_the_log(store: Store, session: UUID) -> None:
    await store.messages.append(session, [PROMPT, ANSWER])
    rebuilt = await store.events.rebuild(session)

    assert (rebuilt.messages, rebuilt.events) == (2, 4)
    assert [each.type for each in await store.events.get_events(session)] == ["reset", *TYPES]
    assert await store.events.list_outdated() == []


# --- Subscriptions


async def test_subscribers_get_stored_events_then_new_ones(store: Store, session: UUID) -> None:
    await store.messages.append(session, [PROMPT])
    async with aclosing(store.events.subscribe(session, after=1)) as subscription:
        assert await next_events(subscription, 1) == ["user_message"]
        await store.messages.append(session, [ANSWER])
        assert await next_events(subscription, 1) == ["tool_call"]
        await store.events.end(session)
        assert await next_events(subscription, 1) == ["turn_end"]


async def test_closing_a_store_sends_pending_notifications(
    store: Store, session: UUID, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ash_server.store.log.subscriptions.POLL_SECONDS", 3600)
    async with aclosing(store.events.subscribe(session)) as subscription:
        async with Store.open(database_url) as other:
            await other.messages.append(session, [PROMPT])
        assert await next_events(subscription, 2) == TYPES[:2]
        async with Store.open(database_url) as other:
            await other.messages.append(session, [ANSWER])
        assert await next_events(subscription, 1) == TYPES[2:]


async def test_first_subscriber_starts_listening(
    store: Store, session: UUID, connection: AsyncConnection
) -> None:
    await store.messages.append(session, [PROMPT])
    assert not await has_listener(connection)
    async with aclosing(store.events.subscribe(session)) as subscription:
        await next_events(subscription, 2)
        await wait_for_listener(connection)


@pytest.mark.slow
async def test_subscriptions_end_with_the_session_and_the_store(database_url: str) -> None:
    async with Store.open(database_url) as store:
        deleted, kept = [(await store.sessions.create()).id for _ in range(2)]
        subscriptions = [store.events.subscribe(each) for each in (deleted, kept)]
        for session_id, subscription in zip((deleted, kept), subscriptions, strict=True):
            await store.messages.append(session_id, [PROMPT])
            await next_events(subscription, 2)
        await store.sessions.delete(deleted)
        assert await rest_of(subscriptions[0]) == []
    assert await rest_of(subscriptions[1]) == []


async def test_rejects_a_cursor_past_the_end(store: Store, session: UUID) -> None:
    await store.messages.append(session, [PROMPT])
    assert [await store.events.check_cursor(session, after) for after in (0, 2)] == [0, 2]
    for call in (store.events.check_cursor(session, 3), anext(store.events.subscribe(session, after=3))):
        with pytest.raises(CursorAhead) as caught:
            await call
        assert caught.value.extra == {"currentSequence": 2}


async def test_locked_session_does_not_exhaust_the_pool(
    store: Store, session: UUID, connection: AsyncConnection
) -> None:
    """With twice as many writers waiting for one session as the pool has connections."""
    other = (await store.sessions.create()).id
    async with asyncio.TaskGroup() as tasks, connection.transaction():
        await connection.execute("SELECT FROM session_counters WHERE session_id = %s FOR UPDATE", [session])
        waiting = [tasks.create_task(store.messages.append(session, [PROMPT])) for _ in range(20)]
        await store.messages.append(other, [PROMPT])
        assert not any(task.done() for task in waiting)
    assert [task.result()[0].sequence for task in waiting] == [1] * 20


# --- Documentation


@pytest.mark.slow
def test_reference_example_prints_the_documented_output(database_url: str) -> None:
    program, output = re.findall(r"```(?:python)?\n(.*?)```", REFERENCE.read_text(), re.DOTALL)[:2]
    done = subprocess.run(
        [sys.executable, "-c", program, direct_url(database_url)], capture_output=True, text=True, check=True
    )

    assert done.stdout == output


def test_reference_documents_every_method(store: Store) -> None:
    resources = {name: value for name, value in vars(store).items() if name in Store.__annotations__}
    methods = [
        method for each in resources.values() for method in vars(type(each)) if not method.startswith("_")
    ]

    text = REFERENCE.read_text()
    assert resources.keys() == Store.__annotations__.keys()
    assert [method for method in methods if not re.search(rf"[`.]{method}\(", text)] == []


# --- Declared methods


def test_declared_methods_have_the_signatures_and_docstrings_of_functions() -> None:
    pairs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (MessageStore.get_message, message_pages.get_message),
        (MessageStore.list_messages, message_pages.list_messages),
        (MessageStore.stream_messages, message_pages.stream_messages),
        (SessionStore.update, sessions.update_session),
        (SessionStore.recreate, sessions.recreate_session),
    ]
    for method, function in pairs:
        of_method, of_function = inspect.signature(method), inspect.signature(function)
        assert [*of_method.parameters] == ["self", *list(of_function.parameters)[1:]]
        assert of_method.return_annotation == of_function.return_annotation
        assert method.__doc__ == function.__doc__ is not None


def test_type_checker_knows_the_parameters_of_declared_methods(store: Store, session: UUID) -> None:
    """mypy reports each `ignore` that has no error to ignore."""
    calls = (
        store.sessions.list_sessions(limt=3),  # type: ignore[call-arg]
        store.sessions.update(session, titel="a"),  # type: ignore[call-arg]
        store.messages.append_prepared(session, [], ends=True),  # type: ignore[call-arg]
        store.messages.get_message(session, "1"),  # type: ignore[arg-type]
    )
    for call in calls:
        call.close()


# --- Search, conversation and drift


async def test_finds_messages_just_stored(store: Store, session: UUID) -> None:
    await store.messages.append(session, [PROMPT])

    assert (await store.search.find("hi")).results == []
    assert await store.search.count_pending() == 2
    [result] = (await store.search.search("hi")).results
    assert (result.session_id, result.event_sequence, result.type) == (session, 2, "user_message")
    assert await store.search.index_pending()
    await store.search.reindex(session)
    assert len((await store.search.find("hi", session_id=session)).results) == 1


async def test_reads_the_conversation(store: Store, session: UUID) -> None:
    await store.messages.append(session, [PROMPT, ANSWER])
    page = await store.conversation.get_page(session)
    summary = await store.conversation.read_summary(session)

    assert [message.role for message in page.messages] == ["user", "assistant"]
    assert page.next_after is None
    assert [page async for page in store.conversation.stream_pages(session)] == [page.messages]
    assert (summary.turns, summary.tool_calls) == (1, {"Bash": 1})
    assert [event["type"] for event in await store.conversation.read_events(session)] == TYPES


async def test_reports_drift_and_reparses(store: Store, session: UUID) -> None:
    strange = '{"type":"assistant","message":{"role":"assistant","content":[{"type":"holo_frame"}]}}'
    await store.messages.append(session, [strange])

    [group] = (await store.drift.report(source="claude")).drift
    assert (group.raw_type, group.count) == ("holo_frame", 1)
    [[message]] = [page async for page in store.messages.reread(session)]
    assert message.is_current()
    assert await store.messages.reindex(session) == (1, 0)
