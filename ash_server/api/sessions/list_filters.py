"""The filters of the list of sessions that counts and searches lack."""

from datetime import datetime
from typing import Annotated, TypeAlias, TypedDict
from uuid import UUID

from litestar.di import NamedDependency
from litestar.params import QueryParameter, SkipValidation
from litestar.types import Scope

from ash_server.api.http.parameters import EditedPaths, Tools, list_parameter
from ash_server.api.http.redaction import compared, compared_all
from ash_server.store.lists.session_lists import Archived
from ash_server.store.text import ONE_LINE
from ash_shared.model.usage.answers import Cause

NamePart = Annotated[
    str | None,
    QueryParameter(
        min_length=1,
        pattern=ONE_LINE,
        description="Only sessions with this text in the title, external id, tags or note, or at the start of the id.",
    ),
]
ParentId = Annotated[
    UUID | None,
    QueryParameter(name="parentId", description="Only sessions started by this session or forked from it."),
]
ProviderSessionId = Annotated[
    str | None,
    QueryParameter(
        name="providerSessionId",
        min_length=1,
        pattern=ONE_LINE,
        description="Only sessions with this provider session id in the last message that has one.",
    ),
]
ExternalId = Annotated[
    str | None,
    QueryParameter(
        name="externalId",
        min_length=1,
        max_length=1000,
        pattern=ONE_LINE,
        description="Only sessions with this external id: at most one per source, plus imported copies.",
    ),
]
ExternalIdPrefix = Annotated[
    str | None,
    QueryParameter(
        name="externalIdPrefix",
        min_length=1,
        pattern=ONE_LINE,
        description="Only sessions with an external id that starts with this text.",
    ),
]
Reference = Annotated[
    str | None,
    QueryParameter(
        min_length=1,
        max_length=1000,
        pattern=ONE_LINE,
        description="Only sessions that match a reference as used by the commands: an external id or transcript "
        "path, otherwise a session id or its first digits, otherwise a provider session id. At most 20 sessions.",
    ),
]
Since = Annotated[
    datetime | None,
    QueryParameter(
        description="Only sessions active at or after this time; UTC unless a time zone is specified."
    ),
]
Until = Annotated[
    datetime | None,
    QueryParameter(description="Only sessions last active before this time."),
]
Keys = Annotated[
    list[UUID] | None, list_parameter("key", "Only sessions stored with one of these keys, by their ids.")
]
Causes = Annotated[
    list[Cause] | None,
    list_parameter("cause", "Only sessions started by a person, a schedule or a program."),
]
WithArchived = Annotated[
    Archived | None,
    QueryParameter(
        description="Whether the list contains archived sessions. `exclude` by default, but `include` for a list that "
        "names sessions: by `reference`, `externalId`, `externalIdPrefix`, `parentId` or `providerSessionId`."
    ),
]


class ListFilters(TypedDict):
    """Arguments of the store. For keys that redact, texts are compared with redacted ones."""

    q: str | None
    parent_id: UUID | None
    provider_session_id: str | None
    external_id: str | None
    external_id_prefix: str | None
    since: datetime | None
    until: datetime | None
    key: list[UUID] | None
    cause: list[Cause] | None
    tool: list[str] | None
    edited: list[str] | None
    reference: str | None
    archived: Archived | None


InjectedListFilters: TypeAlias = NamedDependency[SkipValidation[ListFilters]]


def provide_list_filters(  # noqa: PLR0913  # one argument per parameter
    scope: Scope,
    *,
    q: NamePart = None,
    parent_id: ParentId = None,
    provider_session_id: ProviderSessionId = None,
    external_id: ExternalId = None,
    external_id_prefix: ExternalIdPrefix = None,
    since: Since = None,
    until: Until = None,
    key: Keys = None,
    cause: Causes = None,
    tool: Tools = None,
    edited: EditedPaths = None,
    reference: Reference = None,
    archived: WithArchived = None,
) -> ListFilters:
    """Return the filters of the request."""
    return ListFilters(
        q=q,
        parent_id=parent_id,
        provider_session_id=compared(scope, provider_session_id),
        external_id=compared(scope, external_id),
        external_id_prefix=external_id_prefix,
        since=since,
        until=until,
        key=key,
        cause=cause,
        tool=compared_all(scope, tool),
        edited=edited,
        reference=compared(scope, reference),
        archived=archived,
    )
