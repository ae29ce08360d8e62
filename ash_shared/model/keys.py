"""The key of a request."""

from ash_shared.model.base import ABSENT, AshModel, Omittable


class OwnKey(AshModel):
    """What the key of the request may do."""

    tenant: str
    """The team whose sessions it gives access to."""
    name: Omittable[str] = ABSENT
    """Absent if the server has no keys."""
    scopes: list[str]
    """`read`, `write`, `delete` and others, sorted."""
    redacts: bool
    """True if everything is shown without tokens, keys and passwords."""
