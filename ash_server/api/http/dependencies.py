"""Dependencies of routes: the tenant's store, and a reader that may use a replica."""

import re
from typing import Annotated, Literal, TypeAlias

from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, SkipValidation
from litestar.types import Scope

from ash_server.api.http.guards.access import client_of
from ash_server.errors import InvalidParameter
from ash_server.live.replica import ReplicaReader
from ash_server.store import Store
from ash_server.store.connections.replication import Known

InjectedStore: TypeAlias = NamedDependency[SkipValidation[Store]]
InjectedReader: TypeAlias = NamedDependency[SkipValidation[ReplicaReader]]

SEQUENCE_HEADER = "Ash-Sequence"

_KNOWN = re.compile("(messages|events)=([0-9]{1,15})")
_FORM = f"^(current|{_KNOWN.pattern}( *, *{_KNOWN.pattern})*)$"


def provide_store(state: State, scope: Scope) -> Store:
    """Return the store of the tenant of the request."""
    store: Store = state.store
    return store.for_tenant(client_of(scope).tenant)


def provide_reader(
    state: State,
    scope: Scope,
    ash_sequence: Annotated[
        str | None,
        HeaderParameter(
            name=SEQUENCE_HEADER,
            description="The sequences that the answer must include, such as `messages=42, events=97`, for servers "
            "that read from a replica, which may lag. They belong to the session in the path. `current`: all "
            "stored data.",
            schema_extra={"pattern": _FORM},
        ),
    ] = None,
) -> ReplicaReader:
    """Return the reader of the request."""
    known = None if ash_sequence is None else _parse_known(ash_sequence)
    return ReplicaReader(provide_store(state, scope), state.replica, known)


def _parse_known(text: str) -> Known | Literal["current"]:
    """Raises InvalidParameter."""
    if text == "current":
        return "current"
    matches = [_KNOWN.fullmatch(part.strip()) for part in text.split(",")]
    sequences = sorted((match[1], int(match[2])) for match in matches if match)
    if not all(matches):
        raise InvalidParameter(f"{SEQUENCE_HEADER}: it must be current, or such as messages=42, events=97.")
    return Known(**dict(sequences))  # sorted: the largest sequence of each kind
