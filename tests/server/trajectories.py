"""The trajectory of a stored session as another program reads it."""

import json
from contextlib import aclosing
from typing import Any
from uuid import UUID

from ash_server.store import Store


async def read_trajectory(store: Store, session_id: UUID, *, redacts: bool = False) -> dict[str, Any]:
    async with aclosing(store.conversation.stream_atif(session_id, redacts=redacts)) as parts:
        document: dict[str, Any] = json.loads(b"".join([part async for part in parts]))
    return document
