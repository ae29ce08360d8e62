"""Query parameters of several routes."""

from typing import Annotated, TypeAlias

from litestar.params import QueryParameter
from msgspec import Meta

from ash_server.store.lists.session_lists import MAX_FILTER_TEXT, MAX_VALUES
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


FilterText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_FILTER_TEXT, pattern=ONE_LINE)]

_ITEMS = {"items": {"type": "string", "minLength": 1, "maxLength": MAX_FILTER_TEXT, "pattern": ONE_LINE}}
"""The schema of `FilterText`, which the framework leaves out of lists."""


def list_parameter(name: str, description: str) -> QueryParameter:
    """Return a parameter that may be repeated."""
    return QueryParameter(name=name, max_items=MAX_VALUES, description=description)


def texts_parameter(name: str, description: str) -> QueryParameter:
    """Return a parameter with texts that may be repeated."""
    return QueryParameter(name=name, max_items=MAX_VALUES, description=description, schema_extra=_ITEMS)


Sources = Annotated[
    list[FilterText] | None,
    texts_parameter(
        "source", "Only sessions from one of these sources, or by one of these agents (`metadata.agent`)."
    ),
]
Projects = Annotated[
    list[FilterText] | None,
    texts_parameter(
        "project",
        "Only sessions in one of these folders or below: the root of a repository or another folder, by path or only "
        "by name.",
    ),
]
Persons = Annotated[
    list[FilterText] | None,
    texts_parameter("person", "Only sessions stored with a key of one of these names."),
]
Tools = Annotated[
    list[FilterText] | None, texts_parameter("tool", "Only sessions that called one of these tools.")
]
EditedPaths = Annotated[
    list[FilterText] | None,
    texts_parameter(
        "edited",
        "Only sessions that changed one of these files: a path, the end of a path, or a folder with an absolute path.",
    ),
]

Branches = Annotated[
    list[FilterText] | None, texts_parameter("branch", "Only sessions on one of these Git branches.")
]
Machines = Annotated[
    list[FilterText] | None, texts_parameter("machine", "Only sessions stored by one of these machines.")
]
Models = Annotated[
    list[FilterText] | None, texts_parameter("model", "Only sessions with answers of one of these models.")
]
OnlyTags = Annotated[list[FilterText] | None, texts_parameter("tag", "Only sessions with all of these tags.")]
Starred = Annotated[
    bool | None,
    QueryParameter(description="Only sessions with a star (`true`) or without one (`false`)."),
]
WithErrors = Annotated[
    bool | None,
    QueryParameter(description="Only sessions with errors (`true`) or without errors (`false`)."),
]


def id_parameter(description: str, name: str | None = None) -> QueryParameter:
    return QueryParameter(name=name, min_length=1, max_length=255, pattern=ONE_LINE, description=description)


def format_parameter(description: str) -> QueryParameter:
    return QueryParameter(max_length=100, pattern=ONE_LINE, description=description)
