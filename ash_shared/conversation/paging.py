"""Pages of the standard messages of a session."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ash_shared.conversation.standard_messages import Fold
from ash_shared.model.message import StandardMessage


class Page(NamedTuple):
    """The messages of a part of a session."""

    messages: list[StandardMessage]
    lines: int
    """How many of the lines they were made of: the next page begins behind these."""


def transform_page(
    lines: Sequence[tuple[str, str | None]],
    *,
    head: Iterable[tuple[str, str | None]] = (),
    more: bool = False,
) -> Page:
    """As `transform_messages`, for texts with their sources out of the middle of a session.

    `head` are first lines of the session, if they are not in `lines`: they tell which session and which client it is.
    Where more lines follow, the page ends before its last prompt, so that no turn is cut: a page that begins a turn
    and does not end it is all one turn.
    """
    fold = _fold_lines(lines, head)
    used = fold.last_prompt() if more else None
    if used:
        fold = _fold_lines(lines[:used], head)
    return Page(fold.messages(), used or len(lines))


def _fold_lines(lines: Iterable[tuple[str, str | None]], head: Iterable[tuple[str, str | None]]) -> "Fold":
    fold = Fold()
    for raw, source in head:
        fold.hear(raw, source)
    for raw, source in lines:
        fold.add(raw, source)
    return fold
