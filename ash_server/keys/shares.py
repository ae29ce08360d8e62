"""Create links that show one session without a key, and check their secrets."""

import hmac
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from ash_server.errors import InvalidParameter
from ash_server.ids import uuid7
from ash_server.keys.digests import digest, random_text, read_or_create_secret
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.shares import ShareNotFound, ShareToCreate, StoredShare, title_digest
from ash_shared.model.session import Session
from ash_shared.model.shares import NewShare, Share, ShareList

DEFAULT_HOURS, MAX_HOURS = 7 * 24, 90 * 24
"""How long a link is valid."""


class ShareOptions(NamedTuple):
    hours: float = DEFAULT_HOURS
    """How long the link is valid."""
    follows: bool = False
    """Also show messages that are stored later."""
    subagents: bool = False
    """Also show lines of subagents in the transcript."""
    redacted: bool = True


async def share_session(
    store: Store, settings: Settings, session_id: UUID, options: ShareOptions, *, key_id: UUID | None = None
) -> NewShare:
    """Create a link. Raises SessionNotFound, InvalidParameter, ShareRefused."""
    if not 1 <= options.hours <= MAX_HOURS:
        raise InvalidParameter(f"a link is valid for 1 to {MAX_HOURS} hours")
    expires_at = datetime.now(UTC) + timedelta(hours=options.hours)
    session = await store.sessions.get(session_id)
    end = await store.sessions.get_end(session_id)
    secret, id = random_text(), uuid7()
    new = ShareToCreate(
        id,
        digest(read_or_create_secret(settings), secret),
        expires_at,
        options.follows,
        options.subagents,
        options.redacted,
    )
    stored = await store.shares.create(store.tenant, session, end, new, key_id=key_id)
    return NewShare(**_fields(stored), path=f"{share_path(id)}#{secret}")


async def list_shares(store: Store, session_id: UUID) -> ShareList:
    """Return the valid links of a session. Raises SessionNotFound."""
    session = await store.sessions.get(session_id)
    stored = await store.shares.list_shares(store.tenant, session)
    return ShareList(shares=[Share(**_fields(each)) for each in stored])


def share_path(id: UUID) -> str:
    return f"/shares/{id}"


def is_secret_of(secret: bytes, share: StoredShare, text: str) -> bool:
    """True if the text is the secret in the link. `secret` is the one of the server."""
    return hmac.compare_digest(digest(secret, text), share.digest)


def cookie_of(secret: bytes, share: StoredShare) -> str:
    """Return the cookie of browsers that have opened a link; it does not contain the secret in the link."""
    return digest(secret, f"share-cookie/{share.id}/{share.digest.hex()}").hex()


def is_cookie_of(secret: bytes, share: StoredShare, cookie: str) -> bool:
    return hmac.compare_digest(cookie_of(secret, share), cookie.encode("ascii", "replace").decode())


async def shared_session(store: Store, share: StoredShare) -> Session:
    """Return the session with only what its link shows: no names, paths, labels or counts. Raises ShareNotFound.

    A title that has changed since is left out: it may be from a message that was deleted, or stored later.
    """
    found = [
        each
        for each in await store.sessions.get_many([share.session_id])
        if each.created_at == share.session_created_at
    ]
    if not found:
        raise ShareNotFound
    session = found[0]
    is_shown = share.last_message is None or title_digest(share.id, session.title) == share.title_digest
    title = session.title if is_shown else None
    return Session.model_validate(
        {
            "id": session.id,
            "source": session.source,
            "createdAt": session.created_at,
            "updatedAt": session.created_at,
            "messageCount": share.last_message or 0,
            "eventCount": share.last_event - share.last_dropped_event,
            "errorCount": 0,
            "unrecognisedCount": 0,
            "metadata": {},
            **({} if title is None else {"title": title}),
        }
    )


def _fields(share: StoredShare) -> dict[str, object]:
    optional = {"lastMessage": share.last_message, "keyId": share.key_id}
    return {
        "id": share.id,
        "sessionId": share.session_id,
        "createdAt": share.created_at,
        "expiresAt": share.expires_at,
        "subagents": share.with_subagents,
        "redacted": share.redacts,
        **{name: value for name, value in optional.items() if value is not None},
    }
