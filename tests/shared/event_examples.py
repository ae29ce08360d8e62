"""One event of each type, from the table of docs/events.md."""

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "events.md"
EXAMPLES: dict[str, Any] = {
    name: json.loads(payload)
    for name, payload in re.findall(
        r"^\| `(\w+)` \| `(\{.*?\})` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
}
"""Payloads by type."""


def example(name: str, id: str = "e1", **more: Any) -> dict[str, Any]:
    """Return an event of this type in wire form."""
    return {"id": id, "timestamp": 1, "sessionId": "s", **more, "type": name, "payload": EXAMPLES[name]}
