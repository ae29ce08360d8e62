"""Texts that a session holds twice: originals, which count, and copies (`Part.echo`).

Whichever comes first, one of the two is told. An original is told at once, and the copy after it is left out. A copy is
held until its original has come, or cannot come any more, or something else is said that goes behind it; once it was
told, the original that still comes is left out. Nothing here writes to the log: `said` does.
"""

from typing import Literal

from ash_shared.eventlog.dedupe import digests
from ash_shared.eventlog.state import MAX_SAID, Held, State
from ash_shared.providers._kit.steps import Part, Speaker


def take_original(state: State, role: Speaker, text: str) -> bool:
    """Whether this is a copy of what was told."""
    digest = _role_digest(role, text)
    if digest not in state.said:
        return False
    state.said.remove(digest)
    return True


def accept_copy(state: State, role: Speaker, text: str) -> bool:
    """Whether this copy is to be told, since its original has not come; the original will not be, then."""
    if take_original(state, role, text):
        return False
    state.copied = [*state.copied, _role_digest(role, text)][-MAX_SAID:]
    return True


def accept_original(state: State, role: Speaker, text: str) -> tuple[bool, list[Held]]:
    """Whether this original is to be told, and the copies that go before it; those of itself are dropped."""
    digest = _role_digest(role, text)
    if digest in state.copied:
        state.copied.remove(digest)
        return False, []
    waiting = [held for held in state.held if held.role == role]
    before = waiting if role == "assistant" else []
    for place, held in enumerate(waiting):
        if held.text == text:
            state.held.remove(held)
            return True, before[:place]
    parts = [held for held in before if held.is_part_of(text)]
    if parts:
        state.held = [held for held in state.held if held not in parts]
        return True, []
    state.said = [*state.said, digest][-MAX_SAID:]
    return True, before


def is_duplicate_error(state: State, part: Part, message: str) -> bool:
    """Whether an error that is a copy was told before."""
    digest = digests.text_digest(f"error{message}")
    if part.echo and digest in state.said:
        state.said.remove(digest)
        return True
    if not part.echo:
        state.said = [*state.said, digest][-MAX_SAID:]
    return False


def _role_digest(role: Literal["user", "assistant", "system"], text: str) -> str:
    return role[0] + digests.text_digest(text)
