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
    """The index of the first line of each message."""
    lines: int
    """Number of lines used: the next page begins after them."""
    is_cut: bool = False
    """True if the page ends within a turn because no line begins another one."""


def transform_page(
    lines: PageLines,
    *,
    head: PageLines = (),
    before: PageLines = (),
    limit: int | None = None,
    more: bool = False,
) -> Page:
    """Return the messages that begin on consecutive lines of a session, as they are in the whole session.

    The page consists of whole turns: as many as fit into `limit` lines, but at least one. If `more` is True, further
    lines follow, so the last turn may be incomplete. Lines after the page and `before` it only complete its messages
    with usage, costs and copies. `head` contains the first lines of the session, unless `before` begins with them; they
    identify the session and the client.
    """
    fold = Fold()
    for raw, source in head:
        fold.add_header(raw, source)
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
    """Return the number of lines in the whole turns of a page, or None if no turn is known to end."""
    first = next((draft.line for draft in fold.drafts if draft.line >= start), start)
    ends = [draft.line - start for draft in fold.drafts if draft.begins_turn and draft.line > first]
    ends += [] if more else [total]
    within = [end for end in ends if end <= limit]
    return within[-1] if within else next(iter(ends), None)
