"""Export a session as a trajectory in ATIF, with its images and recordings in a folder next to the file."""

import asyncio
import json
from pathlib import Path
from uuid import UUID

from ash_server.store import Store

SUFFIX = ".trajectory.json"


async def trajectory_json(store: Store, session_id: UUID, *, redacts: bool = False) -> bytes:
    """Return the trajectory as one document, with `data:` URLs. Raises SessionNotFound, SessionTooLarge."""
    trajectory = await store.conversation.read_atif(session_id, redacts=redacts)
    return await asyncio.to_thread(_encode, trajectory.document)


async def write_media(store: Store, session_id: UUID, target: Path, *, redacts: bool = False) -> bytes:
    """Write the images and recordings into the folder `NAME.media` next to `target`, and return the trajectory.

    Raises SessionNotFound, SessionTooLarge, OSError.
    """
    folder = f"{target.stem}.media"
    trajectory = await store.conversation.read_atif(session_id, media_folder=folder, redacts=redacts)
    for path, content in trajectory.files.items():
        file = target.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return await asyncio.to_thread(_encode, trajectory.document)


def _encode(document: object) -> bytes:
    return json.dumps(document, indent=2).encode() + b"\n"
