"""Links that show one session without a key."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable


class Share(AshModel):
    """A link that is neither expired nor revoked, without its secret."""

    id: UUID
    session_id: UUID = Field(alias="sessionId")
    created_at: datetime = Field(alias="createdAt")
    expires_at: datetime = Field(alias="expiresAt")
    last_message: Omittable[int] = Field(default=ABSENT, alias="lastMessage")
    """The last message that the link shows; absent if it also shows later ones."""
    subagents: bool
    """True if it shows lines of subagents."""
    redacted: bool
    """True if tokens, keys and passwords of known forms are replaced."""
    key_id: Omittable[UUID] = Field(default=ABSENT, alias="keyId")
    """The key that created it; absent for a command on the database."""


class NewShare(Share):
    """A link that was created."""

    path: str
    """Path and fragment of the link, to add to the address of the server. It contains the secret, and is shown only
    now."""


class ShareList(AshModel):
    """The links of a session, newest first."""

    shares: list[Share]


class SecretFinding(AshModel):
    """Secrets of a kind at a place of a session: in a message, in a posted event or in a field of the session."""

    kind: str = Field(examples=["github token"])
    count: int
    message: Omittable[int] = ABSENT
    """The sequence of the message."""
    event: Omittable[int] = ABSENT
    """The sequence of an event that was posted without a message."""
    field: Omittable[str] = ABSENT
    """`title`, `external id`, `metadata`, `note` or `tags`."""


class FindingList(AshModel):
    """Secrets of known forms in a session, without their values."""

    total: int
    """The number of secrets."""
    findings: list[SecretFinding]
    """The first 1,000 places: fields, then messages, then events."""
