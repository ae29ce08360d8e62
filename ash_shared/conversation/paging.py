"""Pages of the standard messages of a session."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ash_shared.conversation.standard_messages import Fold
from ash_shared.model.message import StandardMessage


class Page(NamedTuple):
    """One page of messages."""

    messages: list[StandardMessage]
    lines: int
    """Number of lines used: the next page begins after them."""


def transform_page(
    lines: Sequence[tuple[str, str | None]],
    *,
    head: Iterable[tuple[str, str | None]] = (),
    more: bool = False,
) -> Page:
    """Return the messages of consecutive lines of a session, given with their sources.

    `head` has the first lines of the session, if they are not in `lines`: they name the session and the client. If more
    lines follow, the page ends before its last prompt, so that it does not split a turn, unless it is a single turn.
    """
    fold = _fold_lines(lines, head)
    used = fold.last_prompt() if more else None
    if used:
        fold = _fold_lines(lines[:used], head)
    return Page(fold.messages(), used or len(lines))


def _fold_lines(lines: Iterable[tuple[str, str | None]], head: Iterable[tuple[str, str | None]]) -> "Fold":
    fold = Fold()
    for raw, source in head:
        fold.add_facts(raw, source)
    for raw, source in lines:
        fold.add(raw, source)
    return fold
