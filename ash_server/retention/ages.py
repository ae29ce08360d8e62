"""How long sessions are kept, as a text such as `2y`."""

import re
from datetime import timedelta

from ash_server.errors import InvalidRetention

_DAYS = {"d": 1, "w": 7, "mo": 30, "y": 365}
_AGE = re.compile(rf"([0-9]{{1,5}})({'|'.join(_DAYS)})")
_MAX_DAYS = 36_500


def parse_age(text: str) -> timedelta:
    """Return the time that a text such as `90d`, `8w`, `18mo` or `2y` states. Raises InvalidRetention."""
    match = _AGE.fullmatch(text)
    if match is None:
        is_short = re.fullmatch(r"[0-9]+(h|m|min|s)", text)
        reason = "at least a day" if is_short else "a number of days, weeks, months or years"
        raise InvalidRetention(f"the age is {reason}, such as 90d, 8w, 18mo or 2y")
    days = int(match[1]) * _DAYS[match[2]]
    if not 1 <= days <= _MAX_DAYS:
        raise InvalidRetention("the age is from 1d to 100y")
    return timedelta(days=days)
