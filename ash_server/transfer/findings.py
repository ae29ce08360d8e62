"""The secrets in sessions by kind and place, without their values."""

import json
from collections.abc import Iterator
from contextlib import aclosing
from uuid import UUID

from ash_server.offload import HasContent, offload
from ash_server.redaction import count_secrets
from ash_server.store import Store
from ash_shared.model.session import Session
from ash_shared.model.shares import FindingList, SecretFinding

MAX_FINDINGS = 1000
"""Places in a list; the others are only counted."""


async def list_findings(store: Store, session_id: UUID) -> FindingList:
    """Return what redaction replaces in a session: in its fields, messages and posted events. Raises SessionNotFound.

    A text of a posted chunk is found in the event with the complete text.
    """
    session = await store.sessions.get(session_id)
    findings = [each for name, text in _fields(session) for each in _find(text, field=name)]
    total = sum(each.count for each in findings)

    async def add(text: HasContent, **place: int) -> None:
        nonlocal total
        for each in await offload(lambda text: list(_find(text.content, **place)), text):
            total += each.count
            if len(findings) < MAX_FINDINGS:
                findings.append(each)

    async with aclosing(store.messages.stream_messages(session_id)) as messages:
        async for message in messages:
            await add(message, message=message.sequence)
    async with aclosing(store.events.stream_stored_events(session_id)) as events:
        async for event in events:
            if event.message_sequence is None and not event.type.endswith("chunk"):
                await add(event, event=event.sequence)
    return FindingList(total=total, findings=findings[:MAX_FINDINGS])


def _fields(session: Session) -> Iterator[tuple[str, str]]:
    yield "title", session.title or ""
    yield "external id", session.external_id or ""
    yield "metadata", json.dumps(session.metadata)
    if session.labels:
        yield "note", session.labels.note
        yield "tags", "\n".join(session.labels.tags)


def _find(content: str | bytes, **place: int | str) -> Iterator[SecretFinding]:
    text = content.decode() if isinstance(content, bytes) else content
    for kind, count in sorted(count_secrets(text).items()):
        yield SecretFinding.model_validate({"kind": kind, "count": count, **place})
