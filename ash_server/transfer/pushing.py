"""Import of transcript files into the sessions of a server, over its REST API.

A push has the same steps and the same comparison (`FileImport`) as an import into a store. Lines that the server has
are compared by their digests, and only the other lines are sent, so an interrupted push continues where it stopped.
"""

import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, get_args
from uuid import UUID

from ash_client import ApiError, AsyncAshClient, MessageToAppend
from ash_client.requests import append, batched, claim_transcript, compare_messages, complete_transcript
from ash_server.errors import AshError, IdConflict, ScopeMissing, SequenceMismatch
from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.store.prepare import line_id
from ash_server.store.transcripts import Claim
from ash_server.transfer.importing.file_import import (
    ByteProgress,
    FileImport,
    ImportedFile,
    TranscriptFile,
    result_without_lines,
    skip_prompts,
    state_of,
)
from ash_server.transfer.importing.identity import TextDiffers
from ash_server.transfer.importing.lines import FileLine, LineStart
from ash_server.transfer.importing.parents import Parent, TranscriptHead, find_parent, line_bytes, read_head
from ash_server.transfer.importing.stored.file_state import repeat_if_changed
from ash_server.transfer.importing.transcript import embedded_transcripts, open_transcript
from ash_server.transfer.importing.transcript_files import (
    Home,
    declared_at,
    external_id,
)
from ash_server.transfer.titles import name_of
from ash_shared.model.message import Message, StoredKind
from ash_shared.model.pages import AppendedMessage
from ash_shared.model.session import Session

_CHUNK_BYTES = 1024 * 1024
_NO_SESSION = UUID(int=0)
_UNREADABLE = "\0"
"""A placeholder for stored text that the key may not read: it differs from every text and is a prefix of none."""


class Pushed(NamedTuple):
    """The part of a file that the server has: a file that grows is not compared again."""

    session_id: UUID
    message_count: int
    end: LineStart
    digest: bytes
    """The digest of the bytes before the end."""
    is_rewritten: bool = False
    """True if the file lacks lines that the server has."""


class PushedFile(NamedTuple):
    imported: ImportedFile
    pushed: Pushed | None
    """None if the file has to be compared again."""
    session: Session | None = None


def _ignore(_: int) -> None:
    pass


async def push_file(  # noqa: PLR0913  # one argument per option
    server: AsyncAshClient,
    path: Path,
    homes: Iterable[Home],
    *,
    source: str | None = None,
    pushed: Pushed | None = None,
    access: FileAccess = ANY_FILE,
    advance: Callable[[int], None] = _ignore,
) -> PushedFile:
    """Push a transcript, with the subagents that it contains, into its sessions on the server; see
    `file_import.import_file`. Raises OSError, ApiError.

    `pushed` is the result of an earlier push of the same file.
    """
    progress = ByteProgress(advance)
    push = partial(_push_file, server, path, homes, progress, source=source, pushed=pushed, access=access)
    return await repeat_if_changed(push, progress.restart)


async def _push_file(  # noqa: PLR0913  # as push_file
    server: AsyncAshClient,
    path: Path,
    homes: Iterable[Home],
    progress: ByteProgress,
    *,
    source: str | None,
    pushed: Pushed | None,
    access: FileAccess,
) -> PushedFile:
    """Raises also FileChanged."""
    transcript = open_transcript(path, access)
    state = state_of(path, transcript, access)
    declared = declared_at(path, homes, source)
    source = declared.source or transcript.source
    head = read_head(map(line_bytes, transcript.lines()), source)
    name = _name(path, head, homes)
    modified_at = transcript.modified_at()
    file = TranscriptFile(path, name, transcript, source, modified_at, progress, access, state)
    if head.names is None and (nothing := result_without_lines(path, transcript.lines())):
        return PushedFile(ImportedFile(_NO_SESSION, name, head, nothing, has_session=False), None)
    agent = declared.agent_with(head.agent)
    whole = await _FilePush(server, file, head, pushed, agent).run(find_parent(path, head, homes))
    embedded: dict[str, ImportedFile] = {}
    for each in embedded_transcripts(transcript, head.source):
        above = whole.imported if each.parent is None else embedded[each.parent]
        own_head = read_head([each.text], head.source)
        push = _FilePush(server, file.part(each), own_head, None, agent)
        embedded[each.name] = (await push.run(Parent(above.session_id, above.name))).imported
    return whole._replace(imported=whole.imported._replace(embedded=tuple(embedded.values())))


def _name(path: Path, head: TranscriptHead, homes: Iterable[Home]) -> str:
    """Return the external id of a new session.

    A path in the folder of a CLI contains ids. Any other path is unique only on its machine, and may be the only name
    of a transcript.
    """
    name = external_id(path, homes)
    return f"{socket.gethostname()}:{name}" if head.names is None and Path(name).is_absolute() else name


class _FilePush:
    """The push of a file."""

    def __init__(
        self,
        server: AsyncAshClient,
        file: TranscriptFile,
        head: TranscriptHead,
        pushed: Pushed | None,
        agent: str | None,
    ) -> None:
        self._server = server
        self._file = file
        self._head = head
        self._pushed = pushed
        self._agent = {} if agent is None else {"agent": agent}
        self._rejected: list[UUID] = []

    async def run(self, parent: Parent | None) -> PushedFile:
        while True:
            claim = await self._claim()
            if claim is None:
                return self._skip()
            target = _RemoteSession(self._server, claim.session_id, self._file)
            file_import = FileImport(target, self._file, claim if self._head.names else None)
            try:
                result = await file_import.run(
                    is_new=not claim.message_count,
                    start=self._known_start(claim),
                    is_rewritten=self._pushed is not None and self._pushed.is_rewritten,
                )
            except TextDiffers:
                self._rejected.append(claim.session_id)
                self._file.advance.restart()
            else:
                break
        is_first = claim.path is None or not claim.has_names
        completed = {
            **self._identity(),
            **self._agent,
            "modifiedAt": self._file.modified_at.isoformat(),
            "hasGrown": bool(result.counts["new"]),
            "isFirst": is_first,
            "lastLine": target.last_line,
            "parent": parent.external_id if parent else None,
            **_tool_title(self._file),
        }
        session = await self._server.send(complete_transcript(claim.session_id, completed))
        name = claim.external_id or self._file.name
        stored_bytes = self._file.stored_bytes(result)
        imported = ImportedFile(claim.session_id, name, self._head, result, stored_bytes=stored_bytes)
        return PushedFile(imported, self._remember(claim, file_import, result.counts["new"]), session)

    def _skip(self) -> PushedFile:
        result = skip_prompts(self._file)
        return PushedFile(
            ImportedFile(_NO_SESSION, self._file.name, self._head, result, has_session=False), None
        )

    async def _claim(self) -> Claim | None:
        """Return the session of the file; None for prompts with a stored transcript."""
        rejected = [str(id) for id in self._rejected]
        claim = await self._server.send(claim_transcript({**self._identity(), "rejected": rejected}))
        if claim.replaced_by is not None:
            return None
        return Claim(
            claim.session_id,
            claim.external_id,
            claim.has_names,
            claim.path,
            claim.message_count,
            claim.is_mirror,
        )

    def _identity(self) -> dict[str, Any]:
        names = self._head.names
        return {
            "source": self._head.source,
            "path": self._file.name,
            "names": None if names is None else names._asdict(),
        }

    def _known_start(self, claim: Claim) -> LineStart | None:
        """Return the place after the lines that an earlier push has compared, if neither side has changed since."""
        known = self._pushed
        if known is None or (claim.session_id, claim.message_count) != known[:2]:
            return None
        return known.end if _digest(self._file, known.end.offset) == known.digest else None

    def _remember(self, claim: Claim, file_import: FileImport, new: int) -> Pushed | None:
        end, state = file_import.end, self._file.state
        if end is None or state is None:
            return None
        digest = _digest(self._file, end.offset)
        if digest is None or not state.is_current():
            return None  # the digest may be of a text that replaced the one that was compared
        return Pushed(claim.session_id, claim.message_count + new, end, digest, file_import.is_rewritten)


class _RemoteSession:
    """A session on a server, as the target of a `FileImport`."""

    def __init__(self, server: AsyncAshClient, session_id: UUID, file: TranscriptFile) -> None:
        self.last_line: Mapping[str, Any] | None = None
        self._server = server
        self._session_id = session_id
        self._source = file.source
        self._modified_at = file.modified_at

    async def get_stored(self, lines: Sequence[FileLine]) -> Mapping[str, str | None]:
        """Return the stored texts; those that are equal are not transferred."""
        by_id = {line_id(self._session_id, line.name): line for line in lines if line.data is not None}
        stored: dict[str, str | None] = {}
        remaining = {id: line.data or b"" for id, line in by_id.items()}
        while remaining:
            compared = await self._server.send(compare_messages(self._session_id, remaining))
            stored |= {by_id[id].name: remaining[id].decode() for id in compared.equal}
            stored |= dict.fromkeys(by_id[id].name for id in compared.deleted or ())
            different = compared.different
            if different is None:
                break
            content = different.content
            stored[by_id[different.id].name] = _UNREADABLE if content is None else content
            ids = list(remaining)
            remaining = {id: remaining[id] for id in ids[ids.index(different.id) + 1 :]}
        return stored

    async def has_any(self, names: Iterable[str]) -> bool:
        ids = {line_id(self._session_id, name): b"" for name in names}
        compared = await self._server.send(compare_messages(self._session_id, ids))
        return bool(compared.equal or compared.deleted or compared.different)

    def prepare(self, name: str, text: str, id: str | None = None) -> MessageToAppend:
        message: MessageToAppend = {"id": id or line_id(self._session_id, name), "content": text}
        return {**message, "source": self._source} if self._source else message

    async def stream_stored(self) -> AsyncGenerator[Message, None]:
        kinds = ",".join(get_args(StoredKind))
        messages = self._server.messages(self._session_id, limit=1000, parsed=False, kind=kinds)
        with _raising(ScopeMissing):
            async for message in messages:
                yield message

    async def append_after(self, sequence: int, prepared: list[MessageToAppend]) -> Sequence[AppendedMessage]:
        appended: list[AppendedMessage] = []
        for batch in batched(prepared):
            with _raising(SequenceMismatch), _raising(IdConflict):
                appended += await self._server.commit(self._session_id, batch, expected_sequence=sequence)
            sequence = max(sequence, *(each.sequence for each in appended))
        return appended

    async def append(self, prepared: list[MessageToAppend]) -> Iterable[bool]:
        created: list[bool] = []
        for request in append(self._session_id, prepared, written_at=self._modified_at):
            with _raising(IdConflict):
                created += [each.created for each in await self._server.send(request)]
        return created

    async def set_file_time(self, *, has_grown: bool) -> None:
        """Nothing to do: the time is sent when the push is complete."""

    async def set_last_newline(self, last: str, *, is_missing: bool) -> None:
        self.last_line = {"name": last, "terminated": not is_missing}


@contextmanager
def _raising(kind: type[AshError]) -> Iterator[None]:
    """Raise this error for an ApiError with its code."""
    try:
        yield
    except ApiError as error:
        if error.code == kind.code:
            raise kind from error
        raise


def _tool_title(file: TranscriptFile) -> dict[str, Any]:
    name = name_of(file.path, file.access)
    return {} if name is None else {"toolTitle": name.text, "isTitleOfPerson": name.is_typed}


def _digest(transcript: TranscriptFile, size: int) -> bytes | None:
    """Return a digest of the first bytes of a file; None if it has fewer."""
    digest = blake2b(digest_size=16)
    with transcript.access.open(transcript.path) as file:
        while size > 0 and (chunk := file.read(min(size, _CHUNK_BYTES))):
            digest.update(chunk)
            size -= len(chunk)
    return digest.digest() if size == 0 else None
