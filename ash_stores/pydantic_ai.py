"""`ConversationStore` of pydantic-ai: a conversation is a session, and each of its entries a message.

A session has all entries of its conversation, so a fork has copies of the entries that it shares, under the same ids.
Each save also stores the `ConversationRecord`, as the last line and in the metadata of the session, in one transaction
with its entries.
"""

import dataclasses
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace
from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessagesTypeAdapter

from ash_client import ApiError, MessageToAppend
from ash_client.requests import batched
from ash_shared.model.message import LAST_SEQUENCE, Message
from ash_shared.model.session import Session
from ash_stores.connection import Address, SessionClient, SessionClients, find_session
from ash_stores.text_pages import PAGE_SIZE

SOURCE = "pydantic_ai"
RECORD = "pydantic_ai"
"""The key of the record in the metadata of a session."""

_REVISION = "revision:"
"""The beginning of the id of a message with a record."""
_MAX_RECORD_BYTES = 32_000
"""A longer record is not in the metadata: it is read from the last message of its session."""
_MAX_PLACES = 100_000
_MAX_COMPARED = 1000
_WITH_DELETED = "message,record,chunk,deleted"
_CHANGED = ("sequence_mismatch", "session_not_found")


class _Line(Struct, omit_defaults=True):
    """An entry as the text of a message."""

    id: str
    parent_id: str | None
    message: Raw
    kind: str
    copied_from: str | None = None
    """The conversation that stored the entry first."""


class _Stored(NamedTuple):
    """A conversation as it was read."""

    session: Session | None
    record: ConversationRecord | None

    @property
    def revision(self) -> str | None:
        return None if self.record is None else self.record.revision

    def tips(self) -> set[str]:
        """Return the last entries of its histories."""
        record = self.record
        return set() if record is None else {*filter(None, [record.head_id]), *record.branches}


_record_adapter = TypeAdapter(ConversationRecord)
_decode_line = msgspec.json.Decoder(_Line).decode


class AshConversationStore(ConversationStore):
    """Stores the conversations of `Agent.run(…, conversation=…)` in Ash."""

    def __init__(self, url: Address, key: str | None = None, scope: str | None = None) -> None:
        """`url` is a server's URL or an open `ash_server.Store`.

        `scope` limits the store to the conversations of a scope, and applies to conversations saved without one.
        """
        self._conversations = _Conversations(url, key)
        self._scope = scope

    async def close(self) -> None:
        """Close the connections to the server; a store stays open."""
        await self._conversations.clients.close()

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; None if there is none in the scope of the store."""
        record = (await self._conversations.read(conversation_id)).record
        return record if record is not None and self._scope in (None, record.scope) else None

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records, the last changed ones first."""
        conversations = self._conversations
        scopes = {each for each in (scope, self._scope) if each is not None}
        records = [
            record
            async for session in conversations.client.sessions(source=SOURCE, archived="include", limit=1000)
            if (record := await conversations.read_session(session)) is not None and scopes <= {record.scope}
        ]
        return sorted(records, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store entries and then the record, in one transaction for each batch of 1 MiB.

        Raises ConversationConflict.
        """
        record, lines = self._in_scope(record), [*_to_lines(new_entries)]
        stored = await self._conversations.read(record.conversation_id)
        while stored.revision == expected_revision:
            try:
                return await self._conversations.write(stored, record, lines)
            except ApiError as error:
                if error.code not in _CHANGED:
                    raise
            stored = await self._conversations.read(record.conversation_id)
        raise ConversationConflict(record.conversation_id)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete the session with all its entries; forks have copies of shared entries.

        Raises ConversationConflict.
        """
        client = self._conversations.client
        while True:
            session, record = await self._conversations.read(conversation_id)
            if session is None or record is None or record.revision != expected_revision:
                raise ConversationConflict(conversation_id)
            try:
                return await client.delete_session(session.id, expected_sequence=session.message_count)
            except ApiError as error:
                if error.code not in _CHANGED:
                    raise

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry; one that this store has not read before is searched in all conversations."""
        _, line = await self._conversations.find(entry_id)
        return _to_entries([line])[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to `head_id`, or the last `limit`, with one request per 1,000 messages."""
        if head_id is None or limit == 0:
            return []
        return _to_entries(await self._conversations.read_history(head_id, limit))

    def _in_scope(self, record: ConversationRecord) -> ConversationRecord:
        if self._scope is None or record.scope == self._scope:
            return record
        if record.scope is not None:
            raise UserError(f"This store has the conversations of the scope {self._scope!r} only.")
        return dataclasses.replace(record, scope=self._scope)  # noqa: TID251  # no Struct


class _Conversations:
    """The sessions of conversations."""

    def __init__(self, url: Address, key: str | None) -> None:
        self.clients = SessionClients(url, key)
        self._places: OrderedDict[str, UUID] = OrderedDict()
        """Sessions of entries that were read or written, by the id of the entry."""

    @property
    def client(self) -> SessionClient:
        return self.clients.client

    async def read(self, conversation_id: str) -> _Stored:
        session = await find_session(self.client, SOURCE, conversation_id)
        if session is None:
            return _Stored(None, None)
        return _Stored(session, await self.read_session(session))

    async def read_session(self, session: Session) -> ConversationRecord | None:
        """Return the record of a session; None if no save was completed."""
        text = session.metadata.get(RECORD)
        if not isinstance(text, str):
            text = await _read_last_record(self.client, session)
        if text is None:
            return None
        record = _record_adapter.validate_json(text)
        self._remember(_Stored(session, record).tips(), session.id)
        return record

    async def write(self, stored: _Stored, record: ConversationRecord, lines: list[_Line]) -> None:
        copies = await self._copy_missing(stored, record, lines)
        name = record.conversation_id
        session = stored.session or await self.client.create_session(source=SOURCE, external_id=name)
        text = _record_adapter.dump_json(record).decode()
        messages = [*map(_to_message, [*copies, *lines]), _message(_REVISION + record.revision, text)]
        *others, last = batched(messages)
        sequence = 0 if stored.session is None else session.message_count
        for batch in others:
            appended = await self.client.commit(session.id, batch, expected_sequence=sequence)
            sequence = max(sequence, *(each.sequence for each in appended))
        metadata = {RECORD: text if len(text.encode()) <= _MAX_RECORD_BYTES else None}
        appended = await self.client.commit(session.id, last, metadata=metadata, expected_sequence=sequence)
        if appended[-1].created and not all(each.created for each in appended):
            # An interrupted save has stored some of the entries; such a commit leaves the metadata as it is.
            sequence = appended[-1].sequence
            await self.client.commit(session.id, metadata=metadata, expected_sequence=sequence)
        self._remember((line.id for line in lines), session.id)

    async def _copy_missing(
        self, stored: _Stored, record: ConversationRecord, lines: list[_Line]
    ) -> list[_Line]:
        """Return copies of the entries that the record or a new entry follows and that the session does not have.

        Raises ConversationConflict if the last entry of the record is not stored.
        """
        present = stored.tips() | {line.id for line in lines}
        tips = [*(line.parent_id for line in lines), record.head_id, *record.branches]
        copies: dict[str, _Line] = {}
        for tip in dict.fromkeys(filter(None, tips)):
            if tip in present or tip in copies or await _has_entry(self.client, stored.session, tip):
                continue
            try:
                chain = await self.read_history(tip)
            except LookupError as error:
                if tip == record.head_id:
                    raise ConversationConflict(record.conversation_id) from error
                continue
            origin = await self.client.get_session(self._places[tip])
            for line in await _without_stored(self.client, stored.session, chain):
                copied_from = line.copied_from or origin.external_id
                copies[line.id] = replace(line, copied_from=copied_from)
        return [*copies.values()]

    async def read_history(self, head_id: str, limit: int | None = None) -> list[_Line]:
        """Return the entries up to `head_id` in order, or the last `limit`. Raises KeyError."""
        session = self._places.get(head_id)
        lines = [] if session is None else await self._read_chain(session, head_id, limit)
        if not lines:
            session, _ = await self.find(head_id)
            lines = await self._read_chain(session, head_id, limit)
        return lines

    async def _read_chain(self, session: UUID, head_id: str, limit: int | None) -> list[_Line]:
        """Return an entry and those before it, in order; none if the session does not have it.

        A deleted entry is left out: the history continues with the one stored before it. Raises KeyError.
        """
        chain: list[_Line] = []
        wanted: str | None = head_id
        is_any_wanted = False
        async for message in _read_backwards(self.client, session, limit):
            is_entry = not message.id.startswith(_REVISION)
            if not is_entry or not (is_any_wanted or message.id == wanted):
                continue
            is_any_wanted = message.kind == "deleted"
            if is_any_wanted:
                continue
            chain.append(_decode_line(message.content or ""))
            wanted = chain[-1].parent_id
            if wanted is None or len(chain) == limit:
                break
        else:
            if wanted is not None and wanted != head_id and not is_any_wanted:
                raise KeyError(wanted)
        chain.reverse()
        self._remember((line.id for line in chain), session)
        return chain

    async def find(self, entry_id: str) -> tuple[UUID, _Line]:
        """Return an entry and a session that has it. Raises KeyError."""
        known = self._places.get(entry_id)
        line = None if known is None else await _read_line(self.client, known, entry_id)
        if known is not None and line is not None:
            return known, line
        async for session in self.client.sessions(source=SOURCE, archived="include", limit=1000):
            line = await _read_line(self.client, session.id, entry_id)
            if line is not None:
                self._remember([entry_id], session.id)
                return session.id, line
        raise KeyError(entry_id)

    def _remember(self, entry_ids: Iterable[str], session: UUID) -> None:
        for entry_id in entry_ids:
            self._places[entry_id] = session
            self._places.move_to_end(entry_id)
        while len(self._places) > _MAX_PLACES:
            self._places.popitem(last=False)


def _to_lines(entries: Sequence[ConversationEntry]) -> Iterator[_Line]:
    texts = ModelMessagesTypeAdapter.dump_json([entry.message for entry in entries])
    for entry, message in zip(entries, msgspec.json.decode(texts, type=list[Raw]), strict=True):
        yield _Line(entry.id, entry.parent_id, message.copy(), entry.kind)


def _to_entries(lines: list[_Line]) -> list[ConversationEntry]:
    messages = ModelMessagesTypeAdapter.validate_json(msgspec.json.encode([line.message for line in lines]))
    return [
        ConversationEntry(id=line.id, parent_id=line.parent_id, message=message)
        for line, message in zip(lines, messages, strict=True)
    ]


def _to_message(line: _Line) -> MessageToAppend:
    return _message(line.id, msgspec.json.encode(line).decode())


def _message(id: str, text: str) -> MessageToAppend:
    return {"id": id, "content": text, "source": SOURCE}


async def _read_last_record(client: SessionClient, session: Session) -> str | None:
    async for message in _read_backwards(client, session.id, 1):
        if message.id.startswith(_REVISION) and message.content is not None:
            return message.content
    return None


async def _read_backwards(client: SessionClient, session: UUID, limit: int | None) -> AsyncIterator[Message]:
    """Yield the messages of a session, the last one first; none if it does not exist.

    The first page has the entries up to a limit, and the records between them.
    """
    before: int | None = LAST_SEQUENCE
    size = PAGE_SIZE if limit is None else min(2 * limit, PAGE_SIZE)
    while before is not None:
        try:
            page = await client.list_messages(
                session, before=before, limit=size, parsed=False, kind=_WITH_DELETED
            )
        except ApiError as error:
            if error.code == "session_not_found":
                return
            raise
        for message in reversed(page.messages):
            yield message
        before, size = page.prev_before, PAGE_SIZE


async def _has_entry(client: SessionClient, session: Session | None, entry_id: str) -> bool:
    return session is not None and await _read_line(client, session.id, entry_id) is not None


async def _without_stored(client: SessionClient, session: Session | None, chain: list[_Line]) -> list[_Line]:
    """Return the end of a chain that a session does not have."""
    if session is None:
        return chain
    for end in range(len(chain), 0, -_MAX_COMPARED):
        ids = [line.id for line in chain[max(0, end - _MAX_COMPARED) : end]]
        last = await _find_text(client, session.id, ids[::-1])
        if last is not None:
            return chain[[line.id for line in chain].index(last[0]) + 1 :]
    return chain


async def _read_line(client: SessionClient, session: UUID, entry_id: str) -> _Line | None:
    stored = await _find_text(client, session, [entry_id])
    return None if stored is None else _decode_line(stored[1])


async def _find_text(client: SessionClient, session: UUID, ids: Sequence[str]) -> tuple[str, str] | None:
    """Return the first message that a session has, with its text: the first that differs from an empty one."""
    try:
        compared = await client.compare_messages(session, dict.fromkeys(ids, b""))
    except ApiError as error:
        if error.code == "session_not_found":
            return None
        raise
    different = compared.different
    return None if different is None or different.content is None else (different.id, different.content)
