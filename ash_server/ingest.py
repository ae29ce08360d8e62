"""From a text that comes in to the message that is stored: which id it has, and what reading it tells."""

from uuid import UUID, uuid5

from ash_server.db.messages import PreparedMessage
from ash_server.db.sessions import uuid7
from ash_shared.eventlog import line_of
from ash_shared.model.message import Role
from ash_shared.reading.describe import describe_read
from ash_shared.reading.read import read_raw


def prepare_message(
    session_id: UUID, raw: str, *, id: str | None = None, role: Role | None = None, source: str | None = None
) -> PreparedMessage:
    """The message to append. What the writer says of it wins over what reading it tells.

    Its id is the given one; else it follows from the session, the provider's own id in the text, and the text,
    so that a repeated line is stored once; else it is random, so that the text is stored each time.
    """
    read = read_raw(raw, source)
    described = describe_read(read, source)
    return PreparedMessage(
        id=id if id is not None else _derived_id(session_id, described.facts.uuid, raw),
        given=id is not None,
        content=raw,
        described=described._replace(role=role) if role else described,
        role_given=role is not None,
        source_given=source is not None,
        line=line_of(read, source, role, facts=described.facts),
    )


def line_id(session_id: UUID, name: int | str) -> str:
    """The id of a line of an imported file, counted from 1; or of a file of a session that is kept in many."""
    return str(uuid5(session_id, str(name)))


def _derived_id(session_id: UUID, provider_id: str | None, raw: str) -> str:
    if provider_id is None:
        return str(uuid7())
    # Half a surrogate pair is for `append` to refuse, which can tell where it is.
    name = (provider_id + raw).encode("utf-8", "backslashreplace").decode()
    return str(uuid5(session_id, name))
