"""A trajectory in ATIF as a file, with its images and recordings in a folder next to it."""

import binascii
import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ash_shared.records.atif_notes import MEDIA_TYPES
from ash_shared.records.json_fields import items_at, text_at

SUFFIX = ".trajectory.json"


def encode_trajectory(document: Any) -> bytes:
    return json.dumps(document, indent=2).encode() + b"\n"


def write_media(document: Any, target: Path) -> None:
    """Write the `data:` URLs of a trajectory to files in the folder `NAME.media` next to `target`.

    The paths of the files replace the URLs in the document. Raises OSError.
    """
    folder = target.with_name(f"{target.stem}.media")
    for number, (source, suffix, content) in enumerate(_inline_media(document), 1):
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{number}.{suffix}"
        file.write_bytes(content)
        source["path"] = f"{folder.name}/{file.name}"


def _inline_media(trajectory: Any) -> Iterator[tuple[dict[str, Any], str, bytes]]:
    """Yield the source of each image and recording, the suffix of its file, and its content."""
    for part in _parts(trajectory):
        media_type = text_at(part, "source", "media_type") or ""
        content = _decoded(text_at(part, "source", "path") or "", media_type)
        if media_type in MEDIA_TYPES.get(text_at(part, "type") or "", ()) and content is not None:
            yield part["source"], media_type.partition("/")[2], content


def _parts(trajectory: Any) -> Iterator[Any]:
    """Yield the parts of messages and results. Arguments of calls may look alike, and stay as they are."""
    for step in items_at(trajectory, "steps"):
        yield from items_at(step, "message")
        for result in items_at(step, "observation", "results"):
            yield from items_at(result, "content")
    for subagent in items_at(trajectory, "subagent_trajectories"):
        yield from _parts(subagent)


def _decoded(url: str, media_type: str) -> bytes | None:
    """Return the content of a `data:` URL with this media type; None for any other URL."""
    prefix = f"data:{media_type};base64,"
    try:
        return b64decode(url.removeprefix(prefix), validate=True) if url.startswith(prefix) else None
    except (binascii.Error, ValueError):
        return None
