"""Import transcripts from other machines: find the session of a file, and store its names and times.

A client claims a session, compares its lines with the stored lines (`…/messages/compare`), appends new lines with ids
derived from line numbers (`…/messages`), and completes the import. If the file and the session differ, the client
rejects the session and claims another. An import on the server (`file_import`) takes the same steps.
"""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Controller, Request, get, post
from litestar.datastructures import State
from litestar.params import FromPath
from msgspec import Meta, Struct

from ash_server.api.http.bodies import BODY_ERRORS, JSON, decode_body, read_body
from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import client_of, record
from ash_server.api.http.openapi.operations import WITHOUT_NUL, documents
from ash_server.api.http.problems import READ_ERRORS, WRITE_ERRORS, error_responses
from ash_server.api.sessions.sessions import Machine, creator_of, without_content
from ash_server.errors import NulByte, SessionNotFound
from ash_server.live.transcript_check import TranscriptCheck
from ash_server.store.prepare import Source, line_id
from ash_server.store.sessions import session_id_for
from ash_server.store.text import check_text
from ash_server.store.transcripts import TranscriptNames
from ash_server.transfer.discovered import WARN_AGE
from ash_server.transfer.importing.copies import mark_copies
from ash_server.transfer.importing.file_import import find_session, open_session
from ash_server.transfer.importing.identity import SessionSearch
from ash_server.transfer.importing.parents import uuid_in
from ash_shared.model.pages import TranscriptClaim
from ash_shared.model.reports.unstored import UnstoredTranscripts
from ash_shared.model.session import Session

_Path = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=4096,
        description="Its path: relative to the folder of its CLI, else absolute.",
        extra_json_schema=WITHOUT_NUL,
        examples=["projects/-home-ada-site/3f0c.jsonl"],
    ),
]
_Digest = Annotated[str, Meta(pattern="^(transcript|session|record):[0-9a-f]{32}$")]


class TranscriptNamesBody(Struct, forbid_unknown_fields=True):
    """The names in a transcript."""

    session: Annotated[str, Meta(max_length=1000, description="The provider's id of the session.")]
    key: _Digest
    lineage: Annotated[list[_Digest], Meta(max_length=1000)]


class TranscriptFields(Struct, forbid_unknown_fields=True):
    """A transcript of another machine."""

    source: Source
    path: _Path
    names: TranscriptNamesBody | None = None
    """Null if the provider does not name the session: then the path does."""
    rejected: Annotated[list[UUID], Meta(max_length=1000, description="Sessions with another text.")] = []


class LastLine(Struct, forbid_unknown_fields=True):
    """The last line of a file."""

    name: Annotated[str, Meta(max_length=4096, description="Its number.")]
    terminated: Annotated[bool, Meta(description="True if a newline follows.")]


_Title = Annotated[str, Meta(max_length=100_000)]


class CompletedTranscript(Struct, forbid_unknown_fields=True, rename="camel"):
    """The facts of a transcript that are stored besides its lines."""

    source: Source
    path: _Path
    modified_at: Annotated[datetime, Meta(tz=True, description="The modification time of the file.")]
    has_grown: Annotated[bool, Meta(description="True if lines were added.")]
    is_first: Annotated[bool, Meta(description="True if the claimed session had no path or no names.")] = (
        False
    )
    names: TranscriptNamesBody | None = None
    last_line: LastLine | None = None
    parent: Annotated[
        _Path | None,
        Meta(
            description="The path of the transcript that started it, or the id of the session that it continues."
        ),
    ] = None
    agent: Annotated[
        Source | None, Meta(description="The agent that wrote it, if the source does not name it.")
    ] = None
    tool_title: Annotated[
        _Title | None, Meta(description="The session's name in a database of its agent.")
    ] = None
    is_title_of_person: Annotated[bool, Meta(description="True if a person typed that name.")] = False


_transcript_decoder = msgspec.json.Decoder(TranscriptFields)
_completed_decoder = msgspec.json.Decoder(CompletedTranscript)


class TranscriptController(Controller):
    path = "/api/transcripts"
    tags = ("transcripts",)

    @post(
        opt=documents(body={JSON: TranscriptFields}),
        operation_id="claimTranscript",
        response_description="The session.",
        status_code=200,
        responses=error_responses(*WRITE_ERRORS, *BODY_ERRORS, NulByte),
    )
    async def claim(
        self, request: Request[Any, Any, Any], store: InjectedStore, ash_machine: Machine = None
    ) -> TranscriptClaim:
        """Find or create the session of a transcript.

        Used by `ash push`. Returns a session with the names of the transcript, except sessions in `rejected`;
        if there is none, a new session. The client then compares the session's text with the file. The id of
        a line is a version 5 UUID: the line number in the namespace of the session id.
        """
        transcript = decode_body((await read_body(request, JSON)).text, _transcript_decoder)
        source, path = transcript.source, transcript.path
        check_text(path, "the path")
        names, creator = _read_names(transcript.names), creator_of(request, ash_machine)
        if names is None:
            if (stored := await store.transcripts.find_transcript(source, path)) is not None:
                return TranscriptClaim(session_id=stored, has_names=True, message_count=0, replaced_by=stored)
            known = await find_session(store, source, path)
            session = await open_session(store, known, source, path, creator=creator)
            if not session.message_count:
                await record(request, "session.create", session.id)
            return TranscriptClaim(
                session_id=session.id, external_id=path, has_names=True, message_count=session.message_count
            )
        search = SessionSearch(store, names, source, path, transcript.rejected, creator=creator)
        claim = await search.claim()
        if claim.path is None and not claim.message_count:
            await record(request, "session.create", claim.session_id)
        return TranscriptClaim(
            session_id=claim.session_id,
            external_id=claim.external_id,
            has_names=claim.has_names,
            path=claim.path,
            message_count=claim.message_count,
            is_mirror=claim.is_mirror,
        )

    @get(
        "/unstored",
        operation_id="listUnstoredTranscripts",
        response_description="The agents.",
        responses=error_responses(*READ_ERRORS),
    )
    async def list_unstored(self, request: Request[Any, Any, Any], state: State) -> UnstoredTranscripts:
        """List transcripts that are not stored.

        Counts the transcripts on the server's machine that an agent deletes within 7 days and that are not stored, and
        the sessions with deleted transcripts and prompts that are not stored. `ash import --all` stores both. The
        files are checked every 10 minutes. Only a server of one user, which no other machine reaches, looks for them;
        with keys, the list is empty without the scope `admin`.
        """
        check: TranscriptCheck | None = state.get("transcript_check")
        client = client_of(request.scope)
        is_owner = client.key is None or "admin" in client.scopes
        agents = check.agents if check is not None and is_owner else []
        return UnstoredTranscripts(days=WARN_AGE.days, agents=agents)

    @post(
        "/{session_id:uuid}/complete",
        opt=documents(body={JSON: CompletedTranscript}),
        operation_id="completeTranscript",
        response_description="The session.",
        status_code=200,
        responses=error_responses(*WRITE_ERRORS, *BODY_ERRORS, SessionNotFound, NulByte),
    )
    async def complete(
        self, request: Request[Any, Any, Any], store: InjectedStore, session_id: FromPath[UUID]
    ) -> Session:
        """Complete the transfer of a transcript.

        Used by `ash push` after all lines are sent. Stores the file's names, path, agent and modification time, links
        the session to its parent, and marks copies of other sessions.
        """
        completed = decode_body((await read_body(request, JSON)).text, _completed_decoder)
        for path in (completed.path, completed.parent or ""):
            check_text(path, "the path")
        await store.sessions.get(session_id)
        sessions = store.sessions
        await sessions.set_file_time(session_id, completed.modified_at, has_grown=False)
        if completed.has_grown:
            await sessions.set_file_time(session_id, completed.modified_at, has_grown=True)
        if completed.last_line is not None:
            last = line_id(session_id, completed.last_line.name)
            is_missing = not completed.last_line.terminated
            await sessions.set_lacks_final_newline(session_id, is_missing, last_message=last)
        if completed.agent is not None:
            await sessions.set_agent(session_id, completed.agent)
        if completed.tool_title is not None:
            await sessions.set_tool_title(
                session_id, completed.tool_title, is_typed=completed.is_title_of_person
            )
        await _complete(store, session_id, completed)
        if completed.parent is not None:
            origin = uuid_in(completed.parent)
            parent_id = origin or session_id_for(completed.source, completed.parent, store.tenant)
            await sessions.set_parent(session_id, parent_id, completed.parent)
        return without_content(request, await sessions.get(session_id))


async def _complete(store: InjectedStore, session_id: UUID, completed: CompletedTranscript) -> None:
    names = _read_names(completed.names)
    if names is None:
        await store.transcripts.set_names(session_id, completed.path)
        return
    search = SessionSearch(store, names, completed.source, completed.path)
    if completed.has_grown or completed.is_first:
        await mark_copies(store, session_id)
    await search.save_names(session_id)


def _read_names(names: TranscriptNamesBody | None) -> TranscriptNames | None:
    return None if names is None else TranscriptNames(names.session, names.key, tuple(names.lineage))
