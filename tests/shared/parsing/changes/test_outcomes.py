"""The outcome of a call, from the payload of its result."""

from typing import Any

import pytest

from ash_shared.parsing.changes import outcome_of

CASES: list[tuple[dict[str, Any], str]] = [
    ({"result": "done"}, "ok"),
    ({"error": None}, "ok"),
    ({"error": False}, "ok"),
    ({"error": ""}, "ok"),
    ({"error": True}, "failed"),
    ({"error": {"code": "error", "message": "String to replace not found in file."}}, "failed"),
    ({"error": {"code": "permission_denied", "message": ""}}, "denied"),
    (
        {"error": {"code": "error", "message": "The user doesn't want to proceed with this tool use."}},
        "denied",
    ),
    ({"error": "<tool_use_error>The user doesn't want to take this action"}, "denied"),
    ({"error": "Permission to use Bash with command ls has been denied."}, "denied"),
    ({"error": "Claude requested permissions to write to a\nb, but you haven't granted it yet."}, "denied"),
    ({"error": "exec command rejected by user"}, "denied"),
    ({"error": "The patch was rejected by the user"}, "denied"),
    ({"error": "Rejected"}, "denied"),
    ({"error": "Unrejected"}, "failed"),
    ({"error": "[Request interrupted by user for tool use]"}, "failed"),
    ({"structured": {"rejected": {"reason": ""}}}, "denied"),
    ({"structured": {"status": "declined"}}, "denied"),
    ({"structured": {"approve": False}}, "denied"),
    ({"structured": ["rejected"], "error": [1]}, "failed"),
]


@pytest.mark.parametrize(("payload", "outcome"), CASES)
def test_outcome(payload: dict[str, Any], outcome: str) -> None:
    assert outcome_of(payload) == outcome
