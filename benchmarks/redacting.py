"""P15: redaction of the worst inputs for its patterns, and the delay of an event loop meanwhile."""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import NamedTuple

from ash_server.redaction import redact_text
from benchmarks.table import Details, Row

_LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6jK9mN2pQ5sT8vW1yZ4"
_KEY = "-----BEGIN PRIVATE KEY-----"

INPUTS: Mapping[str, str] = {
    "the name of a key": "aws",
    "names of keys without a value": "aws_secret_access_key = ",
    "names before 40 characters": f"{'aws' * 13}'{_LETTERS[:40]} ",
    "the beginning of a web token": "eyJ",
    "the second part of a web token": ".eyJ",
    "web tokens with short parts": f"eyJ{'a' * 9}.",
    "headers of keys": _KEY,
    "headers of keys with other footers": f"{_KEY}{'-----END x' * 1600}",
    "keys without a footer": f"{_KEY}\n" + f"{_LETTERS[:44]}\n" * 8,
    "the beginning of a URL": "://",
    "users of URLs without a password": f"://{'a' * 64}:@",
    "passwords without a host": f"://a:{'b' * 255} ",
    "passwords with many signs": f"://a:{'b@' * 130} ",
    "passwords with parts without a host": f"://a@{'b' * 64}:{'c' * 256}{('@' + 'd' * 64) * 5}/",
    "the name of a session token": "session_token=",
    "session tokens that lack a character": f"security-token: {'a' * 99} ",
    "numbers of an app's token": "xapp-1-A-1",
    "the name of a header": "authorization",
    "headers without a value": "authorization: bearer ",
    "parts of a bot's token": ".aaaaaa.",
    "the first letter of a bot's token": "M",
    "ends of a Mailchimp key": "-us1",
    "numbers of a Slack token": "xoxb-1-",
    "tokens that lack a character": f"ghp_{'a' * 35} ",
    "SIDs that lack a character": f"AC{'a' * 31} ",
    "ids of bots that lack a character": f"1234567890:{'a' * 34} ",
    "Base64": _LETTERS,
    "binary values": '{"base64":"QQ=="}',
    "the beginning of a binary value": '{"base64":"',
    "quotes": '"',
    "backslashes": "\\",
    "escapes of JSON": "\\u0041",
    "levels of escapes": f"\\{'u005c' * 22}",
}
"""Units that are repeated."""


class Size(NamedTuple):
    characters: int
    rounds: int


FULL = Size(characters=1_000_000, rounds=3)
SMOKE = Size(characters=20_000, rounds=1)

_ANY_FORM = "\\u0040 "
"""Such an escape makes redaction search for all forms, not only for those with their literal in the text."""
_MAX_WAIT, _MAX_TIME = 50, 2000
_TICK = 0.001


class _Times(NamedTuple):
    redaction: float
    wait: float
    """The longest time during which the event loop did not run. Both times are in milliseconds."""


async def measure(size: Size) -> tuple[list[Row], list[Details]]:
    times = {name: await _measure_input(unit, size) for name, unit in INPUTS.items()}
    slowest = max(times, key=lambda name: times[name].redaction)
    longest = max(times, key=lambda name: times[name].wait)
    worst = f"worst of {len(INPUTS)} inputs of {size.characters / 1e6:g} MB"
    rows = [
        _row(f"{worst}: redaction", times[slowest].redaction, _MAX_TIME, slowest),
        _row(f"{worst}: wait of others", times[longest].wait, _MAX_WAIT, longest),
    ]
    headings = ("repeated input", "redaction, ms", "longest wait of others, ms")
    cells = [(name, f"{each.redaction:.0f}", f"{each.wait:.1f}") for name, each in times.items()]
    return rows, [
        Details("Redaction of a text, and of JSON with this text: the slower of both", headings, cells)
    ]


def _row(name: str, milliseconds: float, limit: float, note: str) -> Row:
    return Row("P15", name, milliseconds, limit, bound="<=", note=note, unit=" ms")


async def _measure_input(unit: str, size: Size) -> _Times:
    """Return the shortest times of several rounds, because other processes only make them longer."""
    text = _ANY_FORM + (unit * (size.characters // len(unit) + 1))[: size.characters]
    rounds = [
        [await _measure_text(each) for _ in range(size.rounds)] for each in (text, json.dumps({"text": text}))
    ]
    best = [_Times(*map(min, zip(*times, strict=True))) for times in rounds]
    return _Times(*map(max, zip(*best, strict=True)))


async def _measure_text(text: str) -> _Times:
    ticker = asyncio.create_task(_longest_wait())
    await asyncio.sleep(0)
    began = time.process_time()
    await asyncio.to_thread(redact_text, text)
    seconds = time.process_time() - began
    ticker.cancel()
    return _Times(1000 * seconds, 1000 * await ticker)


async def _longest_wait() -> float:
    """Return the longest time between two ticks until cancelled, in CPU time of the process."""
    longest, last = 0.0, time.process_time()
    try:
        while True:
            await asyncio.sleep(_TICK)
            now = time.process_time()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return longest
