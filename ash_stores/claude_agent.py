"""`SessionStore` of claude-agent-sdk: the transcripts of sessions and their subagents, one line per message.

A transcript has the name that its file has for `ash import`: `projects/PROJECT/SESSION.jsonl`, subagents
`projects/PROJECT/SESSION/SUBPATH.jsonl`. A session that is mirrored and imported is one session.
"""

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from random import uniform
from typing import Any, NamedTuple, cast
from urllib.parse import quote, unquote
from uuid import UUID, uuid4

from claude_agent_sdk import SessionKey, SessionStoreEntry, fold_session_summary
from claude_agent_sdk.types import SessionListSubkeysKey, SessionStoreListEntry, SessionSummaryEntry

from ash_client import ApiError, MessageToAppend
from ash_client.requests import batched
from ash_client.retry import Attempts, Retry
from ash_shared.model.message import RECORD_ID_PREFIX, record_message_id
from ash_shared.model.session import Session
from ash_stores.connection import (
    Address,
    SessionClient,
    SessionClients,
    delete_session,
    find_session,
    list_named,
    read_texts,
)
from ash_stores.text_pages import TextOnPage
from ash_stores.texts import read_text, to_text

SOURCE = "claude"
SUMMARY = "claude_agent_sdk"
"""The key of the summary in the metadata of a session."""

_MAX_MIRRORS = 1000
"""Transcripts with a state kept between appends; for others, it is read again."""
_SUFFIX = ".jsonl"
_CONFLICTS = Retry(seconds=30, statuses=frozenset({409}))
"""Retries after a conflict with an import, or with writers beside one. They end within the SDK's timeout of 60 s: it
repeats an append after an error, but not after a timeout."""
_LEFT_TO_NEXT_APPEND = frozenset({"sequence_mismatch", "session_not_found", "body_too_large"})

Entries = list[SessionStoreEntry]


class _Line(NamedTuple):
    """An entry of a transcript, as a message."""

    entry: SessionStoreEntry
    message: MessageToAppend


@dataclass
class _Mirror:
    """The known state of a transcript on the server."""

    has_summary: bool
    """False for subagents, and if the metadata of the session have no space for it: the SDK then computes it."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    session_id: UUID | None = None
    sequence: int = 0
    """The last sequence when the summary was read or written."""
    summary: dict[str, Any] | None = None
    """The `data` of the summary."""
    imported: set[str] = field(default_factory=set)
    """The `uuid` of lines that an import has stored, with other ids than a mirror."""
    read: int = 0
    """`imported` is complete up to this sequence."""
    is_shared: bool = False
    """True after another writer was faster, until no one else has appended between two appends. Records are then
    appended without a condition, and at first without the summary."""
    unanswered: list[_Line] = field(default_factory=list)
    """The lines of the last append, if it failed: a repeated append has their ids."""

    def include(self, messages: list[TextOnPage], covered: int) -> None:
        """Add stored messages, and those after `covered` to the summary."""
        for message in messages:
            entry = _to_entry(message)
            if entry is None:
                continue
            if not message.id.startswith(RECORD_ID_PREFIX):
                self.imported.add(str(entry.get("uuid")))
            if message.sequence > covered:
                self.summary = _fold(self.summary, [entry])


class AshSessionStore:
    """Stores the sessions of `ClaudeAgentOptions(session_store=…)` in Ash.

    Every entry is stored verbatim as a message, so the session can be read in the viewer, searched and exported. An
    entry with a stored `uuid` is ignored; entries without one are appended each time. Needs asyncio: it does not run
    on Trio.
    """

    def __init__(self, url: Address, key: str | None = None, namespace: str = "") -> None:
        """`url` is a server's URL or an open `ash_server.Store`. Namespaces separate sessions with equal keys."""
        self._clients = SessionClients(url, key)
        self._root = f"{quote(namespace, safe='')}/projects" if namespace else "projects"
        self._mirrors: OrderedDict[str, _Mirror] = OrderedDict()

    async def close(self) -> None:
        """Close the connections to the server; a store stays open."""
        await self._clients.close()

    async def append(self, key: SessionKey, entries: Entries) -> None:
        """Store entries in order, with the summary of the session, in one transaction for each batch of 1 MiB."""
        if not entries:
            return
        mirror = self._mirror(key)
        async with mirror.lock:
            lines = _repeated(entries, mirror.unanswered) or [_to_line(each) for each in entries]
            mirror.unanswered = lines
            by_id = {line.message["id"]: line for line in lines}
            for batch in batched(line.message for line in by_id.values()):
                await self._append_batch(key, mirror, [by_id[message["id"]] for message in batch])
            mirror.unanswered = []

    async def load(self, key: SessionKey) -> Entries | None:
        """Return the entries of a session, or None if it has none."""
        client = self._clients.client
        session = await self._find(client, self._name(key))
        if session is None:
            return None
        try:
            pages = [page async for page in read_texts(client, session)]
        except ApiError as error:
            if error.code == "session_not_found":  # deleted meanwhile
                return None
            raise
        entries = map(_to_entry, chain.from_iterable(pages))
        return [entry for entry in entries if entry is not None] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the main sessions of a project with the time of their last change."""
        return [
            {"session_id": session_id, "mtime": _modified_at(session)}
            async for session_id, session in self._main_sessions(project_key)
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries that include all entries; the SDK computes the others, for example after an import."""
        return [
            {"session_id": session_id, "mtime": _modified_at(session), "data": data}
            async for session_id, session in self._main_sessions(project_key)
            for sequence, data in [_read_summary(session)]
            if data is not None and sequence >= session.message_count
        ]

    async def delete(self, key: SessionKey) -> None:
        """Delete a session with its subagents' sessions; with a subpath in the key, only that subagent's session."""
        client = self._clients.client
        if not key.get("subpath"):
            async for session in self._sessions(client, self._folder(key)):
                await delete_session(client, session.id)
        main = await find_session(client, SOURCE, self._name(key))
        if main is not None:
            await delete_session(client, main.id)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of the subagents of a session."""
        folder = self._folder(key)
        return [
            unquote(_stem(session)[len(folder) :])
            async for session in self._sessions(self._clients.client, folder)
            if session.message_count
        ]

    async def _append_batch(self, key: SessionKey, mirror: _Mirror, lines: list[_Line]) -> None:
        """Append the lines that are not stored, with the summary if no other writer is faster."""
        client = self._clients.client
        conflicts = Attempts(_CONFLICTS)
        while True:
            if mirror.session_id is None:
                await self._open(client, key, mirror)
            new = [line for line in lines if _record_id(line) not in mirror.imported]
            if not new:
                return
            append = self._append_beside_others if mirror.is_shared else self._append_with_summary
            try:
                await append(client, mirror, new)
            except ApiError as error:
                lines = await self._recover(client, mirror, new, error, conflicts)
            else:
                return

    async def _append_with_summary(self, client: SessionClient, mirror: _Mirror, new: list[_Line]) -> None:
        """Append to the session as it was read last, because a summary depends on all entries before it."""
        summary = _fold(mirror.summary, [line.entry for line in new]) if mirror.has_summary else None
        appended = await client.commit(
            str(mirror.session_id),
            [line.message for line in new],
            metadata=_to_metadata(summary, mirror.sequence + len(new)),
            expected_sequence=mirror.sequence,
        )
        created = [
            (line.entry, each.sequence) for line, each in zip(new, appended, strict=True) if each.created
        ]
        if created:
            mirror.sequence = mirror.read = created[-1][1]
        if len(created) == len(new):
            mirror.summary = summary
        elif created and mirror.has_summary:  # others of the batch were stored already
            mirror.summary = _fold(mirror.summary, [entry for entry, _ in created])
            await self._write_summary(client, mirror)

    async def _append_beside_others(self, client: SessionClient, mirror: _Mirror, new: list[_Line]) -> None:
        """Append behind the entries of other writers, and let the writer of the last entry write the summary.

        The append has waited for the others, so half of its time shows whether one of them follows.
        """
        began = time.monotonic()
        appended = await client.commit(str(mirror.session_id), [line.message for line in new])
        created = [each.sequence for each in appended if each.created]
        if not created or not mirror.has_summary:
            return
        is_alone = created[0] == mirror.sequence + 1
        await asyncio.sleep((time.monotonic() - began) / 2)
        session = await client.get_session(str(mirror.session_id))
        mirror.is_shared = not is_alone and _has_only_records(session)
        if session.message_count <= created[-1]:
            await self._read(client, mirror, session, created[-1])
            await self._write_summary(client, mirror)

    async def _write_summary(self, client: SessionClient, mirror: _Mirror) -> None:
        """Write the summary unless another writer has appended: it writes the next one."""
        metadata = _to_metadata(mirror.summary, mirror.sequence)
        try:
            await client.commit(str(mirror.session_id), metadata=metadata, expected_sequence=mirror.sequence)
        except ApiError as error:
            if error.code not in _LEFT_TO_NEXT_APPEND:
                raise

    async def _recover(
        self, client: SessionClient, mirror: _Mirror, lines: list[_Line], error: ApiError, conflicts: Attempts
    ) -> list[_Line]:
        """Return the lines to append again after an error. Raises other errors."""
        if error.code == "session_not_found":
            mirror.session_id = None
        elif error.code == "sequence_mismatch":
            session = await client.get_session(str(mirror.session_id))
            mirror.is_shared = _has_only_records(session)
            if not mirror.is_shared:
                await asyncio.sleep(uniform(0, conflicts.delay_after(error)))
                session = await client.get_session(str(mirror.session_id))
                await self._read(client, mirror, session, error.problem.get("currentSequence", 0))
        elif error.code == "id_conflict" and error.index is not None:  # its `uuid` is stored
            return [*lines[: error.index], *lines[error.index + 1 :]]
        elif error.code == "body_too_large" and mirror.has_summary:
            mirror.has_summary = False
        else:
            raise error
        return lines

    async def _open(self, client: SessionClient, key: SessionKey, mirror: _Mirror) -> None:
        """Create or find the session. The main session is the parent of a subagent's session."""
        name, main = self._name(key), self._folder(key)[:-1] + _SUFFIX
        parent = await client.create_session(source=SOURCE, external_id=main)
        session = parent
        if name != main:
            session = await client.create_session(source=SOURCE, external_id=name, parent_id=parent.id)
        mirror.session_id, mirror.imported, mirror.is_shared = session.id, set(), False
        mirror.read = session.message_count if session.file_modified_at is None else 0
        await self._read(client, mirror, session, session.message_count)

    async def _read(self, client: SessionClient, mirror: _Mirror, session: Session, last: int) -> None:
        """Read the summary, the entries after it, and the ids of the lines that an import has stored."""
        mirror.sequence = max(last, session.message_count)
        covered, mirror.summary = _read_summary(session) if mirror.has_summary else (mirror.sequence, None)
        start = min(mirror.read, covered)
        if start < mirror.sequence:
            async for page in read_texts(client, session.id, start):
                mirror.include([each for each in page if each.sequence <= mirror.sequence], covered)
        mirror.read = mirror.sequence

    async def _find(self, client: SessionClient, name: str) -> UUID | None:
        """Return the id of a session. It is derived from the name: a session that is stored again has the same one."""
        mirror = self._mirrors.get(name)
        if mirror is not None and mirror.session_id is not None:
            return mirror.session_id
        session = await find_session(client, SOURCE, name)
        return None if session is None else session.id

    def _mirror(self, key: SessionKey) -> _Mirror:
        name = self._name(key)
        mirror = self._mirrors.setdefault(name, _Mirror(has_summary=not key.get("subpath")))
        self._mirrors.move_to_end(name)
        if len(self._mirrors) > _MAX_MIRRORS:
            oldest = next(iter(self._mirrors))
            if not self._mirrors[oldest].lock.locked():
                del self._mirrors[oldest]
        return mirror

    def _folder(self, key: SessionKey | SessionListSubkeysKey) -> str:
        """Return the beginning of the names of a session's subagents."""
        return f"{self._root}/{quote(key['project_key'], safe='')}/{quote(key['session_id'], safe='')}/"

    def _name(self, key: SessionKey) -> str:
        """Return the external id of a transcript."""
        folder, subpath = self._folder(key), key.get("subpath")
        return f"{folder}{quote(subpath)}{_SUFFIX}" if subpath else folder[:-1] + _SUFFIX

    async def _main_sessions(self, project_key: str) -> AsyncIterator[tuple[str, Session]]:
        folder = f"{self._root}/{quote(project_key, safe='')}/"
        async for session in self._sessions(self._clients.client, folder):
            name = _stem(session)[len(folder) :]
            if "/" not in name and session.message_count:
                yield unquote(name), session

    async def _sessions(self, client: SessionClient, prefix: str) -> AsyncIterator[Session]:
        """Yield the sessions of the transcripts with a name that begins with `prefix`."""
        async for session in list_named(client, SOURCE, prefix):
            if (session.external_id or "").endswith(_SUFFIX):
                yield session


def _to_line(entry: SessionStoreEntry) -> _Line:
    """Return an entry with its text as the CLI writes it, and with its `uuid` as the id, or else a random one."""
    message: MessageToAppend = {"id": _message_id(entry), "content": to_text(entry), "source": SOURCE}
    return _Line(entry, message)


def _message_id(entry: SessionStoreEntry) -> str:
    uuid = cast("dict[str, Any]", entry).get("uuid")
    return record_message_id(uuid) or f"{RECORD_ID_PREFIX}{uuid4()}"


def _record_id(line: _Line) -> str:
    return line.message["id"].removeprefix(RECORD_ID_PREFIX)


def _has_only_records(session: Session) -> bool:
    """True if no file is imported into the session. An import that follows stores records with the same ids."""
    return session.file_modified_at is None and session.message_count > 0


def _repeated(entries: Sequence[SessionStoreEntry], unanswered: list[_Line]) -> list[_Line]:
    """Return the lines of a failed append of the same entries: it may have stored them."""
    return unanswered if [line.entry for line in unanswered] == list(entries) else []


def _fold(data: dict[str, Any] | None, entries: Entries) -> dict[str, Any]:
    previous: SessionSummaryEntry | None = None
    if data is not None:
        previous = {"session_id": "", "mtime": 0, "data": data}
    return fold_session_summary(previous, {"project_key": "", "session_id": ""}, entries)["data"]


def _to_metadata(summary: dict[str, Any] | None, sequence: int) -> dict[str, Any] | None:
    """Return the metadata with a summary, which is JSON as text: it may be anything, such as a lone surrogate."""
    return None if summary is None else {SUMMARY: {"summary": json.dumps(summary), "sequence": sequence}}


def _read_summary(session: Session) -> tuple[int, dict[str, Any] | None]:
    """Return the summary of a session and the sequence of the last message in it."""
    match session.metadata.get(SUMMARY):
        case {"summary": str(text), "sequence": int(sequence)}:
            return sequence, json.loads(text)
    return 0, None


def _modified_at(session: Session) -> int:
    return int(session.updated_at.timestamp() * 1000)


def _stem(session: Session) -> str:
    return (session.external_id or "").removesuffix(_SUFFIX)


def _to_entry(message: TextOnPage) -> SessionStoreEntry | None:
    """Return a message as an entry; None for a line that is no object, which an import may have stored."""
    try:
        value = read_text(message.content)
    except ValueError:
        return None
    return cast(SessionStoreEntry, value) if isinstance(value, dict) else None
