"""Create, list, update and delete sessions."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Controller, Request, Response, delete, get, patch, post
from litestar.datastructures import State
from litestar.di import Provide
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, HeaderParameter, QueryParameter
from msgspec import UNSET, Meta, Struct, UnsetType

from ash_server.api.http.bodies import BODY_ERRORS, JSON, decode_body, read_body
from ash_server.api.http.dependencies import InjectedReader, InjectedStore
from ash_server.api.http.guards.access import client_of, may_read, needs, record
from ash_server.api.http.openapi.operations import WITHOUT_NUL, documents
from ash_server.api.http.parameters import ExpectedSequence, PageCursor
from ash_server.api.http.problems import READ_ERRORS, WRITE_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.api.http.session_filters import InjectedFilters
from ash_server.api.sessions.list_filters import (
    InjectedListFilters,
    Since,
    Until,
    WithArchived,
    provide_list_filters,
)
from ash_server.errors import NulByte, SequenceMismatch, SessionNotFound, TooDeep
from ash_server.redaction import redact
from ash_server.store.lists.session_lists import SessionSort
from ash_server.store.prepare import Source
from ash_server.store.sessions import ChangedFields, Creator
from ash_server.store.text import ONE_LINE
from ash_shared.model.base import ABSENT
from ash_shared.model.blocks import MAX_DEPTH, nests_deeper
from ash_shared.model.reports.session_counts import SessionCounts
from ash_shared.model.session import MAX_MACHINE, Session, SessionPage, SessionResume

_MAX_BODY_BYTES = 64 * 1024

Title = Annotated[
    str, Meta(max_length=1000, examples=["Fix the path test on Windows"], extra_json_schema=WITHOUT_NUL)
]
Metadata = Annotated[
    dict[str, Any],
    Meta(
        description="Arbitrary metadata, up to 64 KiB.",
        examples=[{"team": "platform"}],
    ),
]

Machine = Annotated[
    str | None,
    HeaderParameter(
        name="Ash-Machine",
        pattern=ONE_LINE,
        max_length=MAX_MACHINE,
        description="The host name of the client, which reports of usage show. A session keeps the one of the request "
        "that creates it.",
    ),
]
Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="Maximum number of sessions.")]
Sort = Annotated[
    SessionSort,
    QueryParameter(
        description="The order: by last `activity`, `start`, `duration`, `cost` or number of `errors`, the largest or "
        "latest first."
    ),
]
WithUsage = Annotated[
    bool,
    QueryParameter(description="Include `usage` and `totalUsage`, the tokens and costs of each session."),
]
WithActivity = Annotated[
    bool,
    QueryParameter(
        description="Include `activity`, the current activity of sessions that changed within 10 minutes."
    ),
]


class NewSession(Struct, forbid_unknown_fields=True, rename="camel"):
    """A session to create. All fields are optional."""

    source: Source | UnsetType = UNSET
    external_id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=1000,
                description="The id of the session in the system where it originated. The session id is derived from "
                "`source` and `externalId`, so repeated requests return the same session.",
                examples=["projects/-home-ada-site/3f0c.jsonl"],
                extra_json_schema=WITHOUT_NUL,
            ),
        ]
        | None
    ) = None
    parent_id: (
        Annotated[
            UUID,
            Meta(
                description="The session that started this one, or the origin of a fork. Shown as "
                "`parentExternalId` until the parent is stored."
            ),
        ]
        | None
    ) = None
    title: Title | None = None
    metadata: Metadata | None = None


class SessionPatch(Struct, forbid_unknown_fields=True):
    """Changes to a session. Omitted fields stay unchanged."""

    title: Title | None | UnsetType = UNSET
    metadata: Annotated[dict[str, Any], Meta(description="Replaces all metadata.")] | UnsetType = UNSET


_decode_new = msgspec.json.Decoder(NewSession)
_decode_patch = msgspec.json.Decoder(SessionPatch)


def creator_of(request: Request[Any, Any, Any], machine: str | None) -> Creator:
    """Return the client that creates a session."""
    key = client_of(request.scope).key
    return Creator(machine, None if key is None else key.id)


class SessionController(Controller):
    path = "/api/sessions"
    tags = ("sessions",)
    request_max_body_size = _MAX_BODY_BYTES

    @post(
        opt=documents(body={JSON: NewSession}),
        operation_id="createSession",
        response_description="Created.",
        responses={
            200: ResponseSpec(Session, description="The session already exists.", generate_examples=False),
            **error_responses(*WRITE_ERRORS, *BODY_ERRORS, NulByte),
        },
    )
    async def create(
        self, request: Request[Any, Any, Any], store: InjectedStore, ash_machine: Machine = None
    ) -> Response[Session]:
        """Get or create a session.

        With an `externalId`, the session id is derived from `source` and `externalId`: the first request
        creates the session (201), and later requests return it unchanged (200). Without an `externalId`,
        every request creates a new session.
        """
        new = decode_body((await read_body(request, JSON)).text, _decode_new)
        check_metadata_depth(new.metadata)
        creator = creator_of(request, ash_machine)
        session, created = await store.sessions.get_or_create(
            source="unknown" if new.source is UNSET else new.source,
            external_id=new.external_id,
            parent_id=new.parent_id,
            title=new.title,
            metadata=new.metadata,
            machine=creator.machine,
            key_id=creator.key_id,
        )
        if created:
            await record(request, "session.create", session.id)
        return Response(without_content(request, session), status_code=201 if created else 200)

    @get(
        operation_id="listSessions",
        dependencies={"list_filters": Provide(provide_list_filters, sync_to_thread=False)},
        response_description="A page of sessions.",
        responses=error_responses(*READ_ERRORS, NulByte),
    )
    async def list(  # noqa: PLR0913  # one argument per parameter
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        filters: InjectedFilters,
        list_filters: InjectedListFilters,
        state: State,
        *,
        after: PageCursor = None,
        limit: Limit = 100,
        sort: Sort = "activity",
        usage: WithUsage = False,
        activity: WithActivity = False,
    ) -> SessionPage:
        """List sessions.

        Filters with several values, such as `source=claude&source=codex`, match sessions with one of them; `tag`
        requires all. By default, sessions are sorted by most recent activity: by `lastAt`, the latest timestamp of a
        message. If no message has a timestamp, the modification time of the imported file (`fileModifiedAt`) is used,
        or the time when the last message was stored. Archived sessions are left out by default.

        To get the next page, pass `nextAfter` as `after`, with the same `sort`. The cursor is opaque, and absent on the
        last page. With `q`, or several filters besides `project`, `since` and `until`, a page reads at most 2,000
        sessions: it may be short or even empty, and still have a `nextAfter`. A session that does not change while
        pages are read is returned exactly once, except by cost while `costsOutdated`: the server computes costs, and
        sessions move.
        """
        prices = await state.prices.get() if sort == "cost" else None
        page = await reader(
            lambda store: store.sessions.list_sessions(
                **filters,
                **list_filters,
                prices=prices,
                after=after,
                limit=limit,
                sort=sort,
                redact=is_redacted(request.scope),
            )
        )
        if activity:
            sessions = await reader(lambda store: store.sessions.with_activity(page.sessions))
            page = page.model_copy(update={"sessions": sessions})
        if not usage:
            return page
        return await reader(lambda store: store.usage.add_to(page, files=state.prices))

    @get(
        "/counts",
        operation_id="countSessions",
        response_description="The counts.",
        responses=error_responses(*READ_ERRORS, NulByte),
    )
    async def count(
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        filters: InjectedFilters,
        *,
        archived: WithArchived = None,
        since: Since = None,
        until: Until = None,
    ) -> SessionCounts:
        """Count sessions by the values of filters.

        The filters are the same as in `GET /api/sessions`. A filter does not narrow its own counts: with
        `project=site`, `models` counts the sessions of this project, and `projects` the sessions of all projects.
        Only the latest 2,000 sessions are counted, and each list has at most 100 values.
        """
        scope = request.scope
        return await reader(
            lambda store: store.sessions.count_sessions(
                **filters,
                archived=archived,
                since=since,
                until=until,
                redact=is_redacted(scope),
            )
        )

    @get(
        "/{session_id:uuid}/resume",
        operation_id="getResume",
        response_description="The command, or the reason why there is none.",
        responses=error_responses(*READ_ERRORS, SessionNotFound),
    )
    async def get_resume(
        self, request: Request[Any, Any, Any], reader: InjectedReader, session_id: FromPath[UUID]
    ) -> SessionResume:
        """Get the command that continues a session.

        The command continues the session in its folder, with the agent that wrote it. The server does not
        run it and does not check the folder, which is on the `machine` that stored the session.
        """
        resume = await reader(lambda store: store.sessions.get_resume(session_id), session_id)
        return _without_secret(resume) if is_redacted(request.scope) else resume

    @get(
        "/{session_id:uuid}",
        operation_id="getSession",
        response_description="The session.",
        responses=error_responses(*READ_ERRORS, SessionNotFound),
    )
    async def get(self, reader: InjectedReader, session_id: FromPath[UUID]) -> Session:
        """Get a session."""
        return await reader(lambda store: store.sessions.get(session_id), session_id)

    @patch(
        "/{session_id:uuid}",
        opt=documents(body={JSON: SessionPatch}),
        operation_id="updateSession",
        response_description="The updated session.",
        responses=error_responses(*WRITE_ERRORS, *BODY_ERRORS, SessionNotFound, NulByte),
    )
    async def update(
        self, request: Request[Any, Any, Any], store: InjectedStore, session_id: FromPath[UUID]
    ) -> Session:
        """Rename a session or replace its metadata."""
        patch = decode_body((await read_body(request, JSON)).text, _decode_patch)
        check_metadata_depth(patch.metadata)
        session = await store.sessions.update(session_id, **_changes(patch))
        if patch.title is not UNSET:
            await record(request, "session.rename", session_id)
        return without_content(request, session)

    @delete(
        "/{session_id:uuid}",
        opt=needs("delete"),
        operation_id="deleteSession",
        response_description="Deleted.",
        responses=error_responses(*WRITE_ERRORS, SessionNotFound, SequenceMismatch),
    )
    async def delete(
        self,
        request: Request[Any, Any, Any],
        store: InjectedStore,
        session_id: FromPath[UUID],
        expected_sequence: ExpectedSequence = None,
    ) -> None:
        """Delete a session with all its messages.

        Requires the scope `delete`.
        """
        await store.sessions.delete(session_id, expected_sequence=expected_sequence)
        await record(request, "session.delete", session_id)


def without_content(request: Request[Any, Any, Any], session: Session) -> Session:
    """Return the session; without the prompt, a text of a message, and labels if the key has no scope `read`."""
    if may_read(request.scope):
        return session
    return session.model_copy(update={"prompt": ABSENT, "labels": ABSENT})


def _without_secret(resume: SessionResume) -> SessionResume:
    """Return no command with a folder that redaction changes: the quotes of a shell would hide the secret from it."""
    folder = resume.folder
    if folder is None or redact(folder) == folder:
        return resume
    return SessionResume(reason="The name of its folder contains a secret.")


def _changes(patch: SessionPatch) -> ChangedFields:
    changes: ChangedFields = {}
    if patch.title is not UNSET:
        changes["title"] = patch.title
    if patch.metadata is not UNSET:
        changes["metadata"] = patch.metadata
    return changes


def check_metadata_depth(metadata: object) -> None:
    if nests_deeper(metadata, MAX_DEPTH - 1):
        raise TooDeep(f"The maximum depth is {MAX_DEPTH} levels.")
