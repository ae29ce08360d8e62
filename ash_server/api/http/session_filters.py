"""The filters of sessions that lists, counts and searches share."""

from typing import TypeAlias, TypedDict

from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.types import Scope

from ash_server.api.http.parameters import (
    Branches,
    Machines,
    Models,
    OnlyTags,
    Persons,
    Projects,
    Sources,
    Starred,
    WithErrors,
)
from ash_server.api.http.redaction import compared_all


class SessionFilters(TypedDict):
    """Arguments of the store. For keys that redact, texts are compared with redacted ones."""

    source: list[str] | None
    project: list[str] | None
    branch: list[str] | None
    machine: list[str] | None
    person: list[str] | None
    model: list[str] | None
    tag: list[str] | None
    starred: bool | None
    errors: bool | None


InjectedFilters: TypeAlias = NamedDependency[SkipValidation[SessionFilters]]


def provide_filters(  # noqa: PLR0913  # one argument per parameter
    scope: Scope,
    *,
    source: Sources = None,
    project: Projects = None,
    branch: Branches = None,
    machine: Machines = None,
    person: Persons = None,
    model: Models = None,
    tag: OnlyTags = None,
    starred: Starred = None,
    errors: WithErrors = None,
) -> SessionFilters:
    """Return the filters of the request."""
    return SessionFilters(
        source=compared_all(scope, source),
        project=project,
        branch=compared_all(scope, branch),
        machine=compared_all(scope, machine),
        person=compared_all(scope, person),
        model=compared_all(scope, model),
        tag=compared_all(scope, tag),
        starred=starred,
        errors=errors,
    )
