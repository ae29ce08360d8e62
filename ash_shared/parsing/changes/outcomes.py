"""The outcome of a tool call, from its result."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from ash_shared.model.events import failure_of

Outcome = Literal["ok", "failed", "denied"]

_DENIALS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:<tool_use_error>)?The user doesn't want to (?:proceed|take this action)",
        r"Permission (?:prompt was aborted|to use .{1,80} (?:has been )?denied)",
        r"(?s)Claude requested permissions? to .{1,200} haven't granted",
        r"(?i)(?:User )?(?:rejected|declined|denied|refused)\b",
        r"(?i)exec(?:ution)? (?:command )?rejected by user",
        r"(?i).{0,80}(?:was|has been) (?:rejected|declined|denied) by (?:the )?user",
        r"(?i)The tool call was (?:rejected|declined|denied)",
    )
)
"""The beginnings of error messages of denied calls; the viewer has the same in `render/tools/call-state.js`."""
_DENIAL_CODE = re.compile("denied|reject|declin|permission", re.IGNORECASE)


def outcome_of(result: Mapping[str, Any]) -> Outcome:
    """Return the outcome that the payload of a `tool_result` states. Never raises."""
    if _is_refusal(result.get("structured")):
        return "denied"
    failure = failure_of(result)
    if failure is None:
        return "ok"
    is_denied = _DENIAL_CODE.search(failure.code) or any(
        pattern.match(failure.message) for pattern in _DENIALS
    )
    return "denied" if is_denied else "failed"


def _is_refusal(structured: Any) -> bool:
    if not isinstance(structured, dict):
        return False
    is_declined = structured.get("status") == "declined" or structured.get("approve") is False
    return is_declined or isinstance(structured.get("rejected"), dict)
