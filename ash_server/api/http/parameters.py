"""Query parameters of several routes."""

from typing import Annotated

from litestar.params import QueryParameter

from ash_server.store.text import ONE_LINE
from ash_shared.model.message import LAST_SEQUENCE, Role

PageCursor = Annotated[
    str | None, QueryParameter(min_length=1, description="The `nextAfter` of the previous page.")
]

OnlyRole = Annotated[Role | None, QueryParameter(description="Only messages with this role.")]

ExpectedSequence = Annotated[
    int | None,
    QueryParameter(
        name="expectedSequence",
        ge=0,
        le=LAST_SEQUENCE,
        schema_extra={"minimum": 0},  # omitted by the framework for optional parameters
        description="The last sequence that the client knows; 0 if none. If the session has later messages, nothing "
        "changes.",
    ),
]


def id_parameter(description: str, name: str | None = None) -> QueryParameter:
    return QueryParameter(name=name, min_length=1, max_length=255, pattern=ONE_LINE, description=description)


def format_parameter(description: str) -> QueryParameter:
    return QueryParameter(max_length=100, pattern=ONE_LINE, description=description)
