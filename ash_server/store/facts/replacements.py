"""Sessions of prompts alone, and the sessions of their transcripts, which replace them.

An agent may keep the prompts of a session after it has deleted the transcript. The session of prompts has a source of
its own (`PROMPTS_OF`), and the provider's id of the session as external id. So its id follows from the transcript, and
each statement changes one row. The later one of both sessions sets `replaced_by`. The views `tenant_sessions` and
`tenant_search` leave replaced sessions out.

Functions accept a connection in autocommit mode (`connections.pool.open_pool`), some only within a transaction.
"""

from collections.abc import Sequence
from hashlib import blake2b
from json import dumps
from uuid import UUID, uuid5

from psycopg import AsyncConnection

from ash_server.store.connections.tenants import DEFAULT, Tenant, tenant_of
from ash_server.store.statements import statements
from ash_server.store.text import storable
from ash_shared.model.session import PROMPTS_OF

MAX_NAMED_MESSAGES = 100
"""Messages at the beginning of a transcript of which one names its session."""

_TRANSCRIPTS_OF = {prompts: source for source, prompts in PROMPTS_OF.items()}

SQL = statements(__file__)


def session_id_for(source: str, external_id: str, tenant: Tenant = DEFAULT) -> UUID:
    """Compute the id of a session with an external id."""
    return uuid5(uuid5(tenant.id, source), external_id)


def digest_of_names(kind: str, *names: str | None) -> str:
    """Return names in the lineage of a transcript, as a digest of fixed length."""
    text = dumps(names).encode("utf-8", "surrogatepass")
    return f"{kind}:{blake2b(text, digest_size=16).hexdigest()}"


async def lock_and_find_transcript(
    conn: AsyncConnection, source: str, external_id: str | None
) -> UUID | None:
    """Return the session that replaces a new session of prompts. Within the transaction that creates it."""
    if source not in _TRANSCRIPTS_OF or external_id is None:
        return None
    await conn.execute(SQL.lock_prompts, [_lock_name(source, external_id, tenant_of(conn))])
    return await _find_transcript(conn, _TRANSCRIPTS_OF[source], external_id)


async def find_transcript(conn: AsyncConnection, source: str, external_id: str) -> UUID | None:
    """Return the stored session with the transcript of prompts, and mark the session of prompts if it is stored.

    None for other sources.
    """
    if source not in _TRANSCRIPTS_OF:
        return None
    transcript = await _find_transcript(conn, _TRANSCRIPTS_OF[source], external_id)
    if transcript is not None:
        prompts = session_id_for(source, external_id, tenant_of(conn))
        await conn.execute(SQL.replace_prompts, {"transcript": transcript, "prompts": prompts})
    return transcript


async def list_stored_names(conn: AsyncConnection, source: str, names: Sequence[str]) -> set[str]:
    """Return the provider's ids of sessions with a stored transcript."""
    rows = await (await conn.execute(SQL.list_stored_names, [source, list(names)])).fetchall()
    return {name for (name,) in rows}


async def replace_prompts(
    conn: AsyncConnection, session_id: UUID, source: str, provider_session_id: str | None
) -> None:
    """Replace the session of prompts by a session with their transcript. Within the transaction of an append."""
    if source in PROMPTS_OF and provider_session_id is not None:
        prompts, tenant = PROMPTS_OF[source], tenant_of(conn)
        await conn.execute(SQL.lock_prompts, [_lock_name(prompts, provider_session_id, tenant)])
        replaced = session_id_for(prompts, provider_session_id, tenant)
        await conn.execute(SQL.replace_prompts, {"transcript": session_id, "prompts": replaced})


async def restore_prompts(conn: AsyncConnection, session_id: UUID) -> None:
    """Show the prompts of a transcript again. Within the transaction that deletes the transcript."""
    row = await (await conn.execute(SQL.get_transcript_names, [session_id])).fetchone()
    if row is None or row[0] not in PROMPTS_OF or row[1] is None:
        return
    source, name = row
    prompts = session_id_for(PROMPTS_OF[source], name, tenant_of(conn))
    other = await _find_transcript(conn, source, name, deleted=session_id)
    params = {"transcript": other, "prompts": prompts, "deleted": session_id}
    await conn.execute(SQL.change_replacement, params)


async def _find_transcript(
    conn: AsyncConnection, source: str, name: str, deleted: UUID | None = None
) -> UUID | None:
    params = {
        "source": source,
        "name": storable(name),
        "lineage": digest_of_names("session", source, name),
        "deleted": deleted,
    }
    row = await (await conn.execute(SQL.find_transcript, params)).fetchone()
    return row[0] if row else None


def _lock_name(source: str, name: str, tenant: Tenant) -> str:
    return str(session_id_for(source, name, tenant))
