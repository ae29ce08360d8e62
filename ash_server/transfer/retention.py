"""How long agents keep their own transcripts, according to the settings in their homes."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from ash_server.transfer.importing.transcript_files import Home

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_MAX_DAYS = 36_500


class Retention(NamedTuple):
    setting: str
    """The key in the settings of the agent."""
    age: timedelta
    """Transcripts without a change for longer are deleted when the agent starts."""


def _claude(settings: Mapping[str, Any]) -> Retention | None:
    """Source: https://code.claude.com/docs/en/settings. Settings of projects and organizations are not read."""
    days = settings.get("cleanupPeriodDays", 30)
    is_valid = isinstance(days, int | float) and 0 <= days <= _MAX_DAYS
    return Retention("cleanupPeriodDays", timedelta(days=days)) if is_valid else None


def _gemini_cli(settings: Mapping[str, Any]) -> Retention | None:
    """Source: docs/cli/session-management.md in the npm package @google/gemini-cli 0.61."""
    retention = _object(_object(settings, "general"), "sessionRetention")
    age = re.fullmatch(r"(\d{1,4})([hdw])", str(retention.get("maxAge", "30d")))
    if age is None or retention.get("enabled", True) is not True:
        return None
    return Retention("general.sessionRetention", timedelta(**{_UNITS[age[2]]: int(age[1])}))


RULES: Mapping[str, Callable[[Mapping[str, Any]], Retention | None]] = {
    "claude": _claude,
    "gemini_cli": _gemini_cli,
}
"""By the id of the agent, from its `settings.json`. Other agents keep their transcripts, as far as is known."""


def read_retention(home: Home) -> Retention | None:
    """Return the retention of the transcripts; None if the agent keeps them, or if its settings are unreadable."""
    rule = RULES.get(home.agent.id)
    if rule is None:
        return None
    try:
        settings = json.loads((home.path / "settings.json").read_bytes())
    except FileNotFoundError:
        settings = {}
    except (OSError, ValueError, RecursionError):
        return None
    return rule(settings) if isinstance(settings, dict) else None


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}
