"""Sessions: making, finding, naming and deleting them."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Controller, Request, Response, delete, get, patch, post
from litestar.datastructures import State
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, QueryParameter
from msgspec import UNSET, Meta, Struct, UnsetType

from ash_server.api.http.bodies import BODY_REFUSALS, JSON, decode_body, read_body
from ash_server.api.http.connections import Pool
from ash_server.api.http.operations import ONE_LINE, WITHOUT_NUL, json_of, operation
from ash_server.api.http.problems import READS, WRITES, refusals
from ash_server.db import sessions
from ash_server.db.sessions import Session, SessionChanges, SessionPage
from ash_server.errors import NulByte, SessionNotFound, TooDeep
from ash_server.ingest import Source
from ash_shared.model.blocks import MAX_DEPTH, nests_deeper

_MAX_BODY_BYTES = 64 * 1024

Title = Annotated[
    str, Meta(max_length=1000, examples=["Fix the path test on Windows"], extra_json_schema=WITHOUT_NUL)
]
Metadata = Annotated[
    dict[str, Any],
    Meta(
        description="Anything the writer wants to find here again, up to 64 KiB.",
        examples=[{"team": "platform"}],
    ),
]


class NewSession(Struct, forbid_unknown_fields=True, rename="camel"):
    """What a writer may say of a new session; nothing is needed."""

    source: Source | UnsetType = UNSET
    external_id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=1000,
                description="What the session is called where it comes from. Its id follows from `source` and this, "
                "so asking again gives the same session.",
                examples=["projects/-home-ada-site/3f0c.jsonl"],
                extra_json_schema=WITHOUT_NUL,
            ),
        ]
        | None
    ) = None
    parent_id: Annotated[UUID, Meta(description="The session it was forked from or started by.")] | None = (
        None
    )
    title: Title | None = None
    metadata: Metadata | None = None


class SessionPatch(Struct, forbid_unknown_fields=True):
    """What is to change; a key that is left out stays as it is."""

    title: Title | None | UnsetType = UNSET
    metadata: Annotated[dict[str, Any], Meta(description="Replaces the metadata as a whole.")] | UnsetType = (
        UNSET
    )


_SESSION_EXAMPLE = {
    "id": "0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60",
    "source": "claude",
    "externalId": "projects/-home-ada-site/3f0c.jsonl",
    "title": "Fix the path test on Windows",
    "prompt": "test_paths fails on one machine, which is a Windows one.",
    "createdAt": "2026-11-02T09:14:07.120394Z",
    "updatedAt": "2026-11-02T09:31:55.002817Z",
    "firstAt": "2026-11-02T09:14:07.130112Z",
    "lastAt": "2026-11-02T09:31:55.002817Z",
    "messageCount": 42,
    "eventCount": 61,
    "errorCount": 2,
    "unrecognisedCount": 0,
    "metadata": {"team": "platform"},
}
_SHOWN = {JSON: json_of(Session, session=_SESSION_EXAMPLE)}

_decode_new = msgspec.json.Decoder(NewSession)
_decode_patch = msgspec.json.Decoder(SessionPatch)


class SessionController(Controller):
    path = "/api/sessions"
    tags = ("sessions",)
    request_max_body_size = _MAX_BODY_BYTES

    @post(
        operation_id="createSession",
        summary="Get or create a session",
        description="With an `externalId` the session's id is computed from `source` and `externalId`: the first "
        "request creates it (201), every later one gets it as it is (200). Without one each request creates another.",
        response_description="It was created.",
        responses={
            200: ResponseSpec(Session, description="It was there already.", generate_examples=False),
            **refusals(*WRITES, *BODY_REFUSALS, NulByte),
        },
        operation_class=operation(
            body={
                JSON: json_of(
                    NewSession,
                    from_elsewhere={"source": "claude", "externalId": "projects/-home-ada-site/3f0c.jsonl"},
                    new={"title": "Fix the path test on Windows", "metadata": {"team": "platform"}},
                )
            },
            answers={201: _SHOWN, 200: _SHOWN},
        ),
    )
    async def create(self, request: Request[Any, Any, Any], state: State, pool: Pool) -> Response[Session]:
        new = decode_body((await read_body(request, JSON)).text, _decode_new)
        _check_depth(new.metadata)
        async with pool.connection() as conn:
            session, created = await sessions.create_session(
                conn,
                source="unknown" if new.source is UNSET else new.source,
                external_id=new.external_id,
                parent_id=new.parent_id,
                title=new.title,
                metadata=new.metadata,
            )
        if created:
            state.hub.wake(session.id)
        return Response(session, status_code=201 if created else 200)

    @get(
        operation_id="listSessions",
        summary="List sessions",
        description="Newest activity first: by the time of the last message, as it tells it, or else by when something "
        "was last stored. `nextAfter` of one page is the `after` of the next; it is opaque, and "
        "absent on the last page.",
        response_description="A page of sessions.",
        responses=refusals(*READS, NulByte),
        operation_class=operation(
            answers={200: {JSON: json_of(SessionPage, page={"sessions": [_SESSION_EXAMPLE]})}}
        ),
    )
    async def list(  # noqa: PLR0913  # one argument per parameter
        self,
        pool: Pool,
        *,
        after: Annotated[
            str | None, QueryParameter(min_length=1, description="The `nextAfter` of a page.")
        ] = None,
        limit: Annotated[
            int, QueryParameter(ge=1, le=1000, description="The most sessions to answer.")
        ] = 100,
        source: Annotated[
            str | None,
            QueryParameter(pattern=ONE_LINE, description="Only those of this format."),
        ] = None,
        q: Annotated[
            str | None,
            QueryParameter(
                min_length=1, pattern=ONE_LINE, description="Only those with this in title or external id."
            ),
        ] = None,
        parent_id: Annotated[
            UUID | None,
            QueryParameter(
                name="parentId", description="Only those that were started by this session, or forked."
            ),
        ] = None,
        provider_session_id: Annotated[
            str | None,
            QueryParameter(
                name="providerSessionId",
                min_length=1,
                pattern=ONE_LINE,
                description="Only those whose messages name this as the provider's own id of the session.",
            ),
        ] = None,
        since: Annotated[
            datetime | None,
            QueryParameter(
                description="Only those that were active then or later. Without a zone it is UTC."
            ),
        ] = None,
        until: Annotated[
            datetime | None, QueryParameter(description="Only those whose last activity was before.")
        ] = None,
        errors: Annotated[
            bool | None,
            QueryParameter(description="Only those that tell of errors (true), or only the others (false)."),
        ] = None,
    ) -> SessionPage:
        async with pool.connection() as conn:
            return await sessions.list_sessions(
                conn,
                after=after,
                limit=limit,
                source=source,
                q=q,
                parent_id=parent_id,
                provider_session_id=provider_session_id,
                since=since,
                until=until,
                errors=errors,
            )

    @get(
        "/{session_id:uuid}",
        operation_id="getSession",
        summary="Get a session",
        response_description="The session.",
        responses=refusals(*READS, SessionNotFound),
        operation_class=operation(answers={200: _SHOWN}),
    )
    async def get(self, pool: Pool, session_id: FromPath[UUID]) -> Session:
        async with pool.connection() as conn:
            return await sessions.get_session(conn, session_id)

    @patch(
        "/{session_id:uuid}",
        operation_id="updateSession",
        summary="Name a session, or replace its metadata",
        response_description="The session as it is now.",
        responses=refusals(*WRITES, *BODY_REFUSALS, SessionNotFound, NulByte),
        operation_class=operation(
            body={JSON: json_of(SessionPatch, rename={"title": "Path test, Windows"})}, answers={200: _SHOWN}
        ),
    )
    async def update(
        self, request: Request[Any, Any, Any], state: State, pool: Pool, session_id: FromPath[UUID]
    ) -> Session:
        patch = decode_body((await read_body(request, JSON)).text, _decode_patch)
        _check_depth(patch.metadata)
        async with pool.connection() as conn:
            changed = await sessions.update_session(conn, session_id, **_changes(patch))
        state.hub.wake(session_id)
        return changed

    @delete(
        "/{session_id:uuid}",
        operation_id="deleteSession",
        summary="Delete a session with all its messages",
        response_description="It is gone.",
        responses=refusals(*WRITES, SessionNotFound),
    )
    async def delete(self, state: State, pool: Pool, session_id: FromPath[UUID]) -> None:
        async with pool.connection() as conn:
            await sessions.delete_session(conn, session_id)
        state.hub.wake(session_id)


def _changes(patch: SessionPatch) -> SessionChanges:
    changes: SessionChanges = {}
    if patch.title is not UNSET:
        changes["title"] = patch.title
    if patch.metadata is not UNSET:
        changes["metadata"] = patch.metadata
    return changes


def _check_depth(metadata: object) -> None:
    if nests_deeper(metadata, MAX_DEPTH - 1):
        raise TooDeep(f"At most {MAX_DEPTH} levels are read.")
