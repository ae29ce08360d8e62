"""The stored API document, which test_openapi.py compares with the application: building it takes seconds."""

import json
from pathlib import Path
from typing import Any

DOCUMENT: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "openapi" / "openapi.json").read_text(encoding="utf-8")
)
