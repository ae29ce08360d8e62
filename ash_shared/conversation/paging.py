"""Pages of the standard messages of a session."""

from collections.abc import Sequence
from typing import NamedTuple

from ash_shared.conversation.standard_messages import Fold
from ash_shared.model.message import StandardMessage

PageLines = Sequence[tuple[str, str | None]]
"""Texts with their sources."""


class Page(NamedTuple):
    """One page of messages."""

    messages: list[StandardMessage]
    starts: list[int]
    """For each message, the index of the line on which it begins."""
    lines: int
    """Number of lines used: the next page begins after them."""
    is_cut: bool = False
    """True if the page ends within a turn, because no further prompt is among the lines."""


def transform_page(
    lines: PageLines,
    *,
    head: PageLines = (),
    before: PageLines = (),
    limit: int | None = None,
    more: bool = False,
) -> Page:
    """Return the messages that begin on consecutive lines of a session: the same as in the whole session.

    The page has whole turns: as many as `limit` lines contain, but at least one. `more`: further lines follow, so the
    last turn may be incomplete. The lines after the page, and those `before` it, only complete its messages: usage,
    costs and copies. `head` has the first lines of the session, if they precede `before`: they name the session and the
    client.
    """
    fold = Fold()
    for raw, source in head:
        fold.add_facts(raw, source)
    for raw, source in before:
        fold.add(raw, source)
    for raw, source in lines:
        fold.add(raw, source)
    start, limit = len(before), len(lines) if limit is None else limit
    whole = _count_whole(fold, start, len(lines), limit, more=more)
    used = limit if whole is None else whole
    starts = [draft.line - start for draft in fold.drafts if start <= draft.line < start + used]
    return Page(fold.messages(start=start, end=start + used), starts, used, is_cut=whole is None)


def _count_whole(fold: Fold, start: int, total: int, limit: int, *, more: bool) -> int | None:
    """Return the number of lines of whole turns for a page; None if no turn is known to end."""
    first = next((draft.line for draft in fold.drafts if draft.line >= start), start)
    ends = [draft.line - start for draft in fold.drafts if draft.begins_turn and draft.line > first]
    ends += [] if more else [total]
    within = [end for end in ends if end <= limit]
    return within[-1] if within else next(iter(ends), None)
