"""Trajectories are written step by step, with the bytes of the whole document."""

import io
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ash_server.transfer.exporting.trajectory import write_trajectory

PNG = b"\x89PNG\r\n\x1a\n"


def step(number: int, *parts: Any) -> dict[str, Any]:
    return {"step_id": number, "message": [*parts], "extra": {"none": {}, "list": [], "n": [1, 2.5, None]}}


def image(path: str) -> dict[str, Any]:
    return {"type": "image", "source": {"media_type": "image/png", "path": path}}


def document(*paths: str) -> dict[str, Any]:
    """Return a trajectory with a subagent and images at these three paths."""
    first, second, third = paths
    result = {"content": [image(second)]}
    return {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "heron \ud800", "tool_definitions": []},
        "steps": [
            step(1, image(first)),
            {**step(2, {"type": "text", "text": 'A "knot",\n{\\}'}), "observation": {"results": [result]}},
        ],
        "subagent_trajectories": [
            {"trajectory_id": "a1", "agent": {}, "steps": [step(1)]},
            {"trajectory_id": "a2", "steps": [step(1, image(third)), step(2)], "final_metrics": {"n": 1}},
        ],
        "number": 12345,
        "last": None,
    }


async def pieces(text: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("run.media/*"))]


@pytest.mark.parametrize("size", [1, 7, 100, 100_000])
@pytest.mark.parametrize("has_folder", [True, False])
async def test_pieces_of_any_size(tmp_path: Path, size: int, has_folder: bool) -> None:
    urls = [f"data:image/png;base64,{b64encode(PNG + bytes([n])).decode()}" for n in range(3)]
    files = [f"run.media/{number}.png" for number in (1, 2, 3)]
    written = io.BytesIO()

    text = json.dumps(document(*urls)).encode()
    await write_trajectory(pieces(text, size), written, tmp_path / "run.json" if has_folder else None)

    expected = json.dumps(document(*(files if has_folder else urls)), indent=2)
    assert written.getvalue().decode() == expected + "\n"
    assert contents(tmp_path) == ([PNG + bytes([n]) for n in range(3)] if has_folder else [])


async def test_an_incomplete_document_is_an_error() -> None:
    text = json.dumps(document("a", "b", "c")).encode()[:-5]

    with pytest.raises(ValueError, match="incomplete"):
        await write_trajectory(pieces(text, 50), io.BytesIO(), None)
