"""Star, archive, tag and annotate sessions."""

from typing import Annotated, Any, cast
from uuid import UUID

import msgspec
from litestar import Controller, Request, get, patch
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from ash_server.api.http.bodies import BODY_ERRORS, JSON, decode_body, read_body
from ash_server.api.http.dependencies import InjectedReader, InjectedStore
from ash_server.api.http.guards.access import record
from ash_server.api.http.openapi.operations import WITHOUT_NUL, documents
from ash_server.api.http.problems import READ_ERRORS, WRITE_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.api.sessions.sessions import without_content
from ash_server.errors import InvalidParameter, NulByte, SessionNotFound
from ash_server.store.labels import MAX_NOTE_BYTES, MAX_TAG, MAX_TAGS, TAG, LabelChanges
from ash_shared.model.session import Session, TagList

_MAX_BODY_BYTES = 512 * 1024
"""A note of the maximum size, with each character escaped."""

TagName = Annotated[str, Meta(min_length=1, max_length=MAX_TAG, pattern=TAG, examples=["flaky"])]
Tags = Annotated[list[TagName], Meta(max_length=MAX_TAGS)]


class LabelPatch(Struct, forbid_unknown_fields=True, rename="camel"):
    """Changes to the labels of a session. Omitted fields stay unchanged."""

    starred: bool | UnsetType = UNSET
    archived: Annotated[bool, Meta(description="Also of the sessions of subagents.")] | UnsetType = UNSET
    tags: (
        Annotated[Tags, Meta(description="Replaces all tags, before others are added and removed.")]
        | UnsetType
    ) = UNSET
    add_tags: Tags | UnsetType = UNSET
    remove_tags: Tags | UnsetType = UNSET
    note: (
        Annotated[
            str,
            Meta(
                max_length=MAX_NOTE_BYTES,
                description="Markdown, up to 64 KiB. Empty: no note.",
                extra_json_schema=WITHOUT_NUL,
            ),
        ]
        | UnsetType
    ) = UNSET


_decoder = msgspec.json.Decoder(LabelPatch)


class LabelController(Controller):
    path = "/api/sessions/{session_id:uuid}/labels"
    tags = ("sessions",)
    request_max_body_size = _MAX_BODY_BYTES

    @patch(
        opt=documents(body={JSON: LabelPatch}),
        operation_id="updateLabels",
        response_description="The session with its labels.",
        responses=error_responses(*WRITE_ERRORS, *BODY_ERRORS, SessionNotFound, InvalidParameter, NulByte),
    )
    async def update(
        self, request: Request[Any, Any, Any], store: InjectedStore, session_id: FromPath[UUID]
    ) -> Session:
        """Star, archive, tag or annotate a session.

        Changes only the fields that the body contains. Labels are stored apart from the messages: imports and
        reindexing keep them. Archived sessions are left out of lists.
        """
        patch = decode_body((await read_body(request, JSON)).text, _decoder)
        session = await store.sessions.update_labels(session_id, **_changes(patch))
        await record(request, "session.label", session_id)
        return without_content(request, session)


class TagController(Controller):
    path = "/api/tags"
    tags = ("sessions",)

    @get(
        operation_id="listTags",
        response_description="The tags.",
        responses=error_responses(*READ_ERRORS),
    )
    async def list(self, request: Request[Any, Any, Any], reader: InjectedReader) -> TagList:
        """List tags.

        Lists the tags of sessions that are not archived, most used first, at most 1,000.
        """
        return await reader(lambda store: store.sessions.list_tags(redact=is_redacted(request.scope)))


def _changes(patch: LabelPatch) -> LabelChanges:
    values = {name: getattr(patch, name) for name in LabelPatch.__struct_fields__}
    changes: Any = {name: value for name, value in values.items() if value is not UNSET}
    return cast(LabelChanges, changes)
