"""The key of a request."""

from datetime import datetime

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable


class OwnKey(AshModel):
    """The tenant and the scopes of the key of a request."""

    tenant: str
    """The team with the sessions that it gives access to."""
    name: Omittable[str] = ABSENT
    """Absent if the server has no keys."""
    scopes: list[str]
    """`read`, `write`, `delete` and others, sorted."""
    redacts: bool
    """True if tokens, keys and passwords of known forms are replaced in all responses."""


class SignInCode(AshModel):
    """A code that signs one browser in, once."""

    path: str
    """Path and fragment of the page that exchanges the code, to add to the address of the server. It contains the
    code, and is shown only now."""
    expires_at: datetime = Field(alias="expiresAt")
