"""`AshConversationStore` compared with `InMemoryConversationStore`, and the contents of its sessions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from random import Random
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("pydantic_ai.conversation_store", reason="needs pydantic-ai-slim 2.68")

from pydantic_ai import Agent, Conversation, DeferredToolRequests
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from ash_client import ApiError
from ash_server.store import Store
from ash_server.store.prepare import NewMessage
from ash_shared import RawContent
from ash_shared.model.session import Session
from ash_stores import AshConversationStore
from ash_stores.connection import Address
from ash_stores.in_process import StoreClient
from tests.marking import slow_after, slow_unless
from tests.server.api.conftest import create_key


def ask(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def answer(text: str) -> ModelResponse:
    usage = RequestUsage(input_tokens=10, output_tokens=2)
    return ModelResponse(parts=[TextPart(text)], usage=usage, model_name="m1")


IMAGE = BinaryContent(b"\xfb\xff\xfe" * 3, media_type="image/png")
MESSAGES: list[ModelMessage] = [
    ModelRequest(
        parts=[SystemPromptPart("Be brief."), UserPromptPart(["Look:", IMAGE, ImageUrl("https://a/b.png")])]
    ),
    ask("\x00 \u2028 é"),
    answer("Done."),
    ModelResponse(
        parts=[
            ThinkingPart("Hm.", signature="s", provider_name="anthropic"),
            ToolCallPart("tide", '{"day": 3}', tool_call_id="c1"),
            ToolCallPart("tide", {"day": 4.0, "deep": [None, {"n": 10**20}]}, tool_call_id="c2"),
            FilePart(IMAGE),
        ],
        provider_details={"finish_reason": "tool_use"},
        finish_reason="tool_call",
        metadata={"mine": [1]},
    ),
    ModelRequest(
        parts=[
            ToolReturnPart("tide", {"at": "09:10"}, tool_call_id="c1"),
            ToolReturnPart("tide", ["a picture", IMAGE], tool_call_id="c2", outcome="failed"),
            RetryFeedbackPart("Use the tool.", retry=RetryInfo("no_output")),
        ],
        instructions="Answer in one word.",
    ),
]


def plain(value: Any) -> Any:
    """Return results of stores in a form that is equal for equal texts; some parts differ after a round trip."""
    if isinstance(value, ConversationEntry):
        return value.id, value.parent_id, value.kind, ModelMessagesTypeAdapter.dump_json([value.message])
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


class Compared(ConversationStore):
    """Calls the primitives of two stores and compares their results and errors."""

    def __init__(self, store: ConversationStore) -> None:
        self.store = store
        self.oracle = InMemoryConversationStore()

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        expected = await outcome(getattr(self.oracle, name)(*arguments, **options))
        result = await outcome(getattr(self.store, name)(*arguments, **options))
        if isinstance(expected, Exception) or isinstance(result, Exception):
            assert type(result) is type(expected), (name, arguments, result, expected)
            raise expected
        assert plain(result) == plain(expected), (name, arguments)
        return result

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        return await self._call("read_record", conversation_id)  # type: ignore[no-any-return]

    async def read_records(self, **options: Any) -> list[ConversationRecord]:
        return await self._call("read_records", **options)  # type: ignore[no-any-return]

    async def write_record(self, record: ConversationRecord, **options: Any) -> None:
        await self._call("write_record", record, **options)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        await self._call("delete_record", conversation_id, expected_revision=expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        return await self._call("read_entry", entry_id)  # type: ignore[no-any-return]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        return await self._call("read_history", head_id, limit=limit)  # type: ignore[no-any-return]


async def outcome(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except (LookupError, UserError) as error:
        return error


@pytest.fixture
async def conversations(address: tuple[Address, str | None]) -> AsyncIterator[AshConversationStore]:
    store = AshConversationStore(*address)
    yield store
    await store.close()


class Users:
    """Random operations of programs that keep conversations in memory, which others may have saved since."""

    def __init__(self, random: Random, store: ConversationStore) -> None:
        self.random = random
        self.store = store
        self.loaded: dict[str, Conversation] = {}

    def conversation(self, id: str) -> Conversation:
        return self.loaded.setdefault(id, Conversation(conversation_id=id))

    def scope(self) -> str | None:
        return self.random.choice([None, None, "red", "blue"])

    async def load(self, id: str) -> None:
        conversation = await self.store.load(id, limit=self.random.choice([None, 1, 3]), scope=self.scope())
        self.loaded[id] = conversation or Conversation(conversation_id=id)

    async def save(self, id: str) -> None:
        conversation = self.conversation(id)
        conversation.messages.extend(self.random.choices(MESSAGES, k=self.random.randrange(4)))
        await self.store.save(conversation, scope=self.scope())

    async def rewrite(self, id: str) -> None:
        messages = self.conversation(id).messages
        del messages[self.random.randrange(len(messages) + 1) :]
        await self.save(id)

    async def branch(self, id: str) -> None:
        revision = self.conversation(id).revision
        self.loaded[id] = await self.store.branch(id, at=self.random.randrange(4), expected_revision=revision)

    async def switch(self, id: str) -> None:
        record = await self.store.read_record(id)
        tips = [] if record is None else record.branches
        history = await self.store.read_history(self.random.choice(tips)) if tips else []
        entry = self.random.choice(history).id if history else "unknown"
        revision = self.conversation(id).revision
        self.loaded[id] = await self.store.branch(id, from_entry=entry, expected_revision=revision)

    async def fork(self, id: str) -> None:
        new, at = self.random.choice([None, *NAMES]), self.random.choice([None, 1, 2])
        fork = await self.store.fork(id, at=at, new_conversation_id=new, scope=self.scope())
        self.loaded[fork.conversation_id] = fork

    async def read(self, id: str) -> None:
        for entry in await self.store.load_entries(id, limit=self.random.choice([None, 0, 2])) or []:
            await self.store.read_entry(entry.id)

    async def delete(self, id: str) -> None:
        await self.store.delete(id, scope=self.scope())

    async def list(self, id: str) -> None:
        await self.store.list_conversations(scope=self.scope(), limit=self.random.choice([None, 0, 2]))


NAMES = ("a", "b", "c")
OPERATIONS = [
    *(Users.load, Users.save, Users.save, Users.save, Users.rewrite, Users.branch, Users.switch, Users.fork),
    *(Users.load, Users.save, Users.fork, Users.read, Users.list, Users.delete),
]


@pytest.mark.parametrize("seed", slow_after(1, range(2)))
async def test_equals_memory_after_random_operations(conversations: AshConversationStore, seed: int) -> None:
    random, both = Random(seed), Compared(conversations)
    users, errors = Users(random, both), 0
    for _ in range(50):
        operation, id = random.choice(OPERATIONS), random.choice([*NAMES, *users.loaded])
        try:
            await operation(users, id)
        except UserError:
            errors += 1
            users.loaded.pop(id, None)
    for record in await both.list_conversations():
        for tip in [record.head_id, *record.branches]:
            for entry in await both.read_history(tip):
                await both.read_entry(entry.id)
    assert 0 < errors < 25


async def test_session_reads_as_conversation(conversations: AshConversationStore, store: Store) -> None:
    agent = Agent(TestModel(custom_output_text="Two."), instructions="Be brief.")

    @agent.tool_plain
    def count_tests(suite: str) -> int:
        return 2

    conversation = Conversation(conversation_id="chat-7")
    for prompt in ("Which tests fail?", "Why?"):
        result = await agent.run(prompt, conversation=conversation)
        await conversations.save(result)
        conversation = result.conversation
    session = await store.sessions.find_one("chat-7")
    page = await store.conversation.get_page(session.id)
    messages = [(each.role, [block.type for block in each.content]) for each in page.messages]

    assert (session.source, session.title) == ("pydantic_ai", "Which tests fail?")
    assert messages == [
        ("user", ["text"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["text"]),
        ("user", ["text"]),
        ("assistant", ["text"]),
    ]
    assert [each.metadata.model for each in page.messages if each.role == "assistant"] == ["test"] * 3
    assert all(each.usage for each in page.messages if each.role == "assistant")


async def test_all_messages_are_typed(conversations: AshConversationStore, store: Store) -> None:
    await conversations.save(Conversation(conversation_id="chat", messages=MESSAGES))
    session = await store.sessions.find_one("chat")
    blocks = [
        block
        for message in await store.messages.list_messages_parsed(session.id)
        for block in message.parsed or ()
        if isinstance(block, RawContent)
    ]

    assert [(block.raw_type, block.reason) for block in blocks] == [("conversation", "control")]


async def test_texts_are_those_of_the_adapter(conversations: AshConversationStore, store: Store) -> None:
    [entry, *_] = await conversations.save(Conversation(conversation_id="chat", messages=MESSAGES[:1]))
    session = await store.sessions.find_one("chat")
    text = (await store.messages.get_contents(session.id, [entry.id]))[entry.id]
    message = ModelMessagesTypeAdapter.dump_json(MESSAGES[:1]).decode()[1:-1]

    assert text == f'{{"id":"{entry.id}","parent_id":null,"message":{message},"kind":"message"}}'


# --- Forks and branches


async def test_fork_copies_entries_and_counts_usage_once(store: Store) -> None:
    conversations = AshConversationStore(store)
    await conversations.save(Conversation(conversation_id="one", messages=[ask("a"), answer("b"), ask("c")]))
    fork = await conversations.fork("one", at=2, new_conversation_id="two")
    fork.messages += [ask("d"), answer("e")]
    await conversations.save(fork)
    copy = await store.sessions.find_one("two")
    page = await store.conversation.get_page(copy.id)
    said = [(each.role, each.content[0].text, bool(each.usage)) for each in page.messages]  # type: ignore[union-attr]
    forked_again = await conversations.fork("two", new_conversation_id="three")

    assert said == [
        ("user", "a", False),
        ("assistant", "b", False),
        ("user", "d", False),
        ("assistant", "e", True),
    ]
    await conversations.delete("one")
    assert len((await loaded(conversations, "two")).messages) == 4
    assert [each.parts for each in forked_again.messages] == [each.parts for each in fork.messages]
    lines = await store.messages.list_messages((await store.sessions.find_one("three")).id)
    assert ['"copied_from":"one"' in each.content for each in lines] == [True, True, False, False, False]


async def loaded(conversations: AshConversationStore, id: str) -> Conversation:
    conversation = await conversations.load(id)
    assert conversation is not None
    return conversation


async def test_page_retracts_the_turn_that_was_written_again(store: Store) -> None:
    conversations = AshConversationStore(store)
    first = Conversation(conversation_id="chat", messages=[ask("a"), answer("b"), ask("c"), answer("d")])
    await conversations.save(first)
    edited = await conversations.branch("chat", at=2, expected_revision=first.revision)
    edited.messages += [ask("C"), answer("D")]
    await conversations.save(edited)
    again = await conversations.branch("chat", at=3, expected_revision=edited.revision)
    again.messages += [answer("DD")]
    await conversations.save(again)
    session = await store.sessions.find_one("chat")
    page = await store.conversation.get_page(session.id)
    said = [(each.content[0].text, bool(each.metadata.retracted)) for each in page.messages]  # type: ignore[union-attr]

    assert [text for text, is_retracted in said if not is_retracted] == ["a", "b", "C", "DD"]
    assert [text for text, is_retracted in said if is_retracted] == ["c", "d", "D"]


async def test_write_to_entry_of_deleted_conversation_is_conflict(store: Store) -> None:
    conversations = AshConversationStore(store)
    [entry] = await conversations.save(Conversation(conversation_id="one", messages=[ask("a")]))
    await conversations.delete("one")

    with pytest.raises(ConversationConflict):
        await conversations.write_record(
            ConversationRecord(conversation_id="two", head_id=entry.id), expected_revision=None
        )
    assert (await store.sessions.list_sessions()).sessions == []


# --- Limits, scopes and other readers


async def test_new_store_reads_entries_of_others(address: tuple[Address, str | None], store: Store) -> None:
    entries = await AshConversationStore(store).save(Conversation(messages=[*MESSAGES]))
    conversations = AshConversationStore(*address)
    history = await conversations.read_history(entries[-1].id, limit=2)
    entry = await AshConversationStore(store).read_entry(entries[0].id)
    with pytest.raises(KeyError):
        await conversations.read_entry(str(uuid4()))
    await conversations.close()

    assert plain(history) == plain(entries[-2:])
    assert plain(entry) == plain(entries[0])


@pytest.mark.parametrize("mode", slow_unless("store".__eq__, ["server", "store"]))
async def test_stores_large_messages_and_records(mode: str, server: str, store: Store) -> None:
    conversations = AshConversationStore(server if mode == "server" else store)
    image = BinaryContent(bytes(1_500_000), media_type="image/png")
    messages: list[ModelMessage] = [
        ask("a"),
        ModelRequest(parts=[UserPromptPart([image])]),
        *[ask("b") for _ in range(1100)],
    ]
    calls = [ToolCallPart("delete", {"path": "x" * 70_000}, tool_call_id="c1")]
    requests = DeferredToolRequests(approvals=calls)
    await conversations.save(
        Conversation(conversation_id="large", messages=messages, deferred_tool_requests=requests)
    )
    [record] = await conversations.list_conversations()
    read = await loaded(conversations, "large")
    await conversations.close()

    assert ModelMessagesTypeAdapter.dump_json(read.messages) == ModelMessagesTypeAdapter.dump_json(messages)
    assert read.deferred_tool_requests == record.deferred_tool_requests == requests


async def test_archived_conversations_are_listed_and_found(store: Store) -> None:
    """Labels are for people: a program finds its sessions whatever their labels."""
    [entry] = await AshConversationStore(store).save(Conversation(conversation_id="a", messages=[ask("a")]))
    [session] = [each async for each in store.sessions.list_all()]
    await store.sessions.update_labels(session.id, archived=True)
    reader = AshConversationStore(store)

    assert [each.conversation_id for each in await reader.list_conversations()] == ["a"]
    assert plain(await reader.read_entry(entry.id)) == plain(entry)


async def test_scope_of_the_store(store: Store) -> None:
    everyone = AshConversationStore(store)
    ada, bob = AshConversationStore(store, scope="ada"), AshConversationStore(store, scope="bob")
    await ada.save(Conversation(conversation_id="a", messages=[ask("a")]))
    await everyone.save(Conversation(conversation_id="b", messages=[ask("b")]), scope="bob")

    assert [
        [each.conversation_id for each in await reader.list_conversations(scope=scope)]
        for reader, scope in [(everyone, None), (ada, None), (bob, None), (ada, "bob"), (everyone, "bob")]
    ] == [["b", "a"], ["a"], ["b"], [], ["b"]]
    assert [await bob.load("a"), await everyone.load("a", scope="bob")] == [None, None]
    with pytest.raises(ConversationConflict):
        await bob.save(Conversation(conversation_id="a"))
    with pytest.raises(UserError, match="of the scope 'ada' only"):
        await ada.save(Conversation(conversation_id="c"), scope="bob")


async def test_history_leaves_out_deleted_messages(store: Store) -> None:
    conversations = AshConversationStore(store)
    conversation = Conversation(
        conversation_id="chat", messages=[ask("a"), answer("b"), ask("c"), answer("d")]
    )
    await conversations.save(conversation)
    session = await store.sessions.find_one("chat")
    for sequence in (2, 4):
        await store.messages.delete(session.id, sequence)

    assert (await loaded(conversations, "chat")).messages == [
        conversation.messages[0],
        conversation.messages[2],
    ]


async def test_record_is_read_from_messages_without_metadata(store: Store) -> None:
    conversations = AshConversationStore(store)
    conversation = Conversation(conversation_id="chat", messages=[ask("a")])
    await conversations.save(conversation)
    session = await store.sessions.find_one("chat")
    await store.sessions.update(session.id, metadata={"team": "platform"})

    assert (await loaded(conversations, "chat")).revision == conversation.revision


async def test_save_continues_one_that_was_interrupted(store: Store) -> None:
    conversations, entry = AshConversationStore(store), ConversationEntry(parent_id=None, message=ask("a"))
    record = ConversationRecord(conversation_id="chat", head_id=entry.id)
    await conversations.write_record(record, new_entries=[entry], expected_revision=None)
    session = await store.sessions.find_one("chat")
    [line, _] = await store.messages.list_messages(session.id)
    await conversations.delete("chat")
    await store.sessions.create(source="pydantic_ai", external_id="chat")
    await store.messages.append(
        session.id, [NewMessage(content=line.content, id=line.id, source="pydantic_ai")]
    )
    await conversations.write_record(record, new_entries=[entry], expected_revision=None)

    assert (await loaded(conversations, "chat")).revision == record.revision
    assert [each.id for each in await store.messages.list_messages(session.id)] == [
        entry.id,
        f"revision:{record.revision}",
    ]
    assert (await store.sessions.get(session.id)).metadata != {}


async def test_sessions_without_a_record_are_no_conversations(store: Store) -> None:
    conversations = AshConversationStore(store)
    await store.sessions.create(source="pydantic_ai", external_id="chat")

    assert [await conversations.load("chat"), await conversations.list_conversations()] == [None, []]
    await conversations.save(Conversation(conversation_id="chat", messages=[ask("a")]))
    assert len((await loaded(conversations, "chat")).messages) == 1


# --- Writers


@pytest.mark.parametrize("mode", slow_unless("store".__eq__, ["server", "store"]))
async def test_ten_writers_lose_nothing(mode: str, server: str, store: Store) -> None:
    stores = [AshConversationStore(server if mode == "server" else store) for _ in range(10)]

    async def write(writer: int, conversations: AshConversationStore) -> None:
        while True:
            conversation = await conversations.load("chat") or Conversation(conversation_id="chat")
            conversation.messages += [ask(str(writer)), answer(str(writer))]
            try:
                await conversations.save(conversation)
                return
            except ConversationConflict:
                continue

    await asyncio.gather(*(write(number, each) for number, each in enumerate(stores)))
    messages = (await loaded(stores[0], "chat")).messages
    session = await store.sessions.find_one("chat")
    for each in stores:
        await each.close()

    said: list[Any] = [each.parts[0].content for each in messages]  # type: ignore[union-attr]
    assert sorted(said[::2]) == [*"0123456789"]
    assert said[::2] == said[1::2]
    assert session.message_count == 10 * 3


async def test_first_save_does_not_replace_another(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program saves the conversation after this one has not found it."""
    others = Conversation(conversation_id="chat", messages=[ask("a")])
    create = StoreClient.create_session

    async def create_later(client: StoreClient, **fields: Any) -> Session:
        monkeypatch.undo()
        await AshConversationStore(store).save(others)
        return await create(client, **fields)

    monkeypatch.setattr(StoreClient, "create_session", create_later)
    conversations = AshConversationStore(store)
    with pytest.raises(ConversationConflict):
        await conversations.save(Conversation(conversation_id="chat", messages=[ask("b")]))
    assert (await loaded(conversations, "chat")).messages == others.messages


async def test_delete_of_older_revision_is_conflict(store: Store) -> None:
    conversations = AshConversationStore(store)
    conversation = Conversation(conversation_id="chat", messages=[ask("a")])
    await conversations.save(conversation)
    older = conversation.revision or ""
    await conversations.save(conversation)

    with pytest.raises(ConversationConflict):
        await conversations.delete_record("chat", expected_revision=older)
    assert (await loaded(conversations, "chat")).revision == conversation.revision
    await conversations.delete_record("chat", expected_revision=conversation.revision or "")
    with pytest.raises(ConversationConflict):
        await conversations.save(conversation)


async def test_save_and_delete_at_once_have_one_winner(store: Store) -> None:
    """A conversation that was saved is not deleted by a caller that has not read it since."""
    conversations = AshConversationStore(store)
    for _ in range(10):
        conversation = Conversation(conversation_id="chat", messages=[ask("a")])
        await conversations.save(conversation)
        revision = conversation.revision or ""
        results = await asyncio.gather(
            conversations.save(conversation),
            conversations.delete_record("chat", expected_revision=revision),
            return_exceptions=True,
        )
        exists = await conversations.load("chat") is not None

        assert [isinstance(each, ConversationConflict) for each in results] == [not exists, exists]
        await conversations.delete("chat")


async def test_key_without_write_may_read(server: str, store: Store) -> None:
    await AshConversationStore(store).save(Conversation(conversation_id="chat", messages=[ask("a")]))
    reader = AshConversationStore(server, await create_key(store, "reader", "default", "read"))

    conversation = await loaded(reader, "chat")
    assert conversation.messages == [*conversation.messages[:1]] != []
    with pytest.raises(ApiError, match="no scope `write`"):
        await reader.save(conversation)
    with pytest.raises(ApiError, match="no scope `delete`"):
        await reader.delete("chat")
    await reader.close()
