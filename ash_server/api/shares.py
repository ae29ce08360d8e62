"""Share sessions by links that need no key."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Controller, Request, delete, get, post
from litestar.datastructures import State
from litestar.params import FromPath
from msgspec import Meta, Struct

from ash_server.api.http.bodies import BODY_ERRORS, JSON, decode_body, read_body
from ash_server.api.http.dependencies import InjectedReader, InjectedStore
from ash_server.api.http.guards.access import client_of, needs
from ash_server.api.http.openapi.operations import documents
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, WRITE_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.errors import InvalidParameter, ScopeMissing, SessionNotFound, ShareRefused
from ash_server.keys.shares import DEFAULT_HOURS, MAX_HOURS, ShareOptions, list_shares, share_session
from ash_server.store.access.shares import ShareNotFound
from ash_server.transfer.findings import list_findings
from ash_shared.model.shares import FindingList, NewShare, ShareList


class ShareRequest(Struct, forbid_unknown_fields=True, rename="camel"):
    """A link to create. All fields are optional."""

    expires_in_hours: Annotated[float, Meta(ge=1, le=MAX_HOURS, examples=[48])] = DEFAULT_HOURS
    follow: Annotated[bool, Meta(description="Also show messages that are stored later.")] = False
    subagents: Annotated[bool, Meta(description="Also show lines of subagents in the transcript.")] = False
    redacted: Annotated[
        bool,
        Meta(description="Replace tokens, keys and passwords. `false` requires the scope `admin`."),
    ] = True


_decoder = msgspec.json.Decoder(ShareRequest)


class ShareController(Controller):
    path = "/api/sessions/{session_id:uuid}/shares"
    tags = ("keys",)

    @post(
        opt=needs("read", "share") | documents(body={JSON: ShareRequest}),
        operation_id="shareSession",
        response_description="The link, with its secret.",
        responses=error_responses(
            *WRITE_ERRORS, *BODY_ERRORS, SessionNotFound, InvalidParameter, ShareRefused
        ),
    )
    async def create(
        self, request: Request[Any, Any, Any], store: InjectedStore, state: State, session_id: FromPath[UUID]
    ) -> NewShare:
        """Share a session.

        Creates a link that shows the session without a key, up to its last message: `path`, added to the address
        of the server. Secrets of unknown forms stay visible, also if the link is redacted. Requires the scopes
        `read` and `share`.
        """
        new = decode_body((await read_body(request, JSON)).text, _decoder)
        client = client_of(request.scope)
        if client.key is None:
            raise ShareRefused("Create a key first, with `ash keys create`.")
        if not new.redacted and (is_redacted(request.scope) or "admin" not in client.scopes):
            raise ScopeMissing("Only a key with the scope `admin` shares without redaction.")
        options = ShareOptions(new.expires_in_hours, new.follow, new.subagents, new.redacted)
        return await share_session(store, state.settings, session_id, options, key_id=client.key.id)

    @get(
        opt=needs("share"),
        operation_id="listShares",
        response_description="The links.",
        responses=error_responses(*READ_ERRORS, SessionNotFound),
    )
    async def list(self, store: InjectedStore, session_id: FromPath[UUID]) -> ShareList:
        """List links.

        Lists the links of a session that are valid, without their secrets. Requires the scope `share`.
        """
        return await list_shares(store, session_id)

    @delete(
        "/{share_id:uuid}",
        opt=needs("share"),
        operation_id="revokeShare",
        response_description="Revoked.",
        responses=error_responses(*WRITE_ERRORS, ShareNotFound),
    )
    async def revoke(
        self,
        request: Request[Any, Any, Any],
        store: InjectedStore,
        session_id: FromPath[UUID],
        share_id: FromPath[UUID],
    ) -> None:
        """Revoke a link.

        A page that is being sent ends within 30 seconds. Requires the scope `share`.
        """
        key = client_of(request.scope).key
        await store.shares.revoke(store.tenant, session_id, share_id, key_id=key.id if key else None)


class FindingController(Controller):
    path = "/api/sessions/{session_id:uuid}/findings"
    tags = ("sessions",)

    @get(
        operation_id="listFindings",
        response_description="The kinds and places.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS),
    )
    async def list(self, reader: InjectedReader, session_id: FromPath[UUID]) -> FindingList:
        """List secrets.

        Lists the tokens, keys and passwords of known forms in a session by kind and place, never their values: what
        redaction replaces in its messages, posted events, title and labels. Reads the whole session.
        """
        return await reader(lambda store: list_findings(store, session_id), session_id)
