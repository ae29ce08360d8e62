"""Pages of the standard messages of a session."""

from collections.abc import Sequence
from typing import NamedTuple

from ash_shared.conversation.standard_messages import AnswerModel, Fold
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
    fold, limit = _fold(head, before, lines), len(lines) if limit is None else limit
    start = len(before)
    whole = _count_whole(fold, start, len(lines), limit, more=more)
    used = limit if whole is None else whole
    starts = [draft.line - start for draft in fold.drafts if start <= draft.line < start + used]
    return Page(fold.messages(start=start, end=start + used), starts, used, is_cut=whole is None)


class ModelsPage(NamedTuple):
    """The models of the answers of one page."""

    models: list[AnswerModel]
    """With lines from 0."""
    turns: list[int]
    """The first line of each turn that begins with a prompt."""
    session_models: list[AnswerModel]
    """The models of answers that state none; with negative lines before the page."""
    lines: int
    is_cut: bool
    """True if the page ends within a turn."""


def models_of_page(
    lines: PageLines, *, head: PageLines, before: PageLines, limit: int, more: bool, model: str = ""
) -> ModelsPage:
    """Return the models of the answers that `transform_page` returns for the same arguments.

    `model` is the model of answers that state none, after `before`; empty if it is unknown.
    """
    fold, start = _fold(head, before, lines, model), len(before)
    whole = _count_whole(fold, start, len(lines), limit, more=more)
    used = limit if whole is None else whole
    models, of_session = fold.answer_models(start, start + used), fold.session_models
    turns = [draft.line - start for draft in fold.drafts if draft.begins_turn and draft.line >= start]
    return ModelsPage(
        [AnswerModel(each.line - start, each.model) for each in models],
        turns,
        [AnswerModel(each.line - start, each.model) for each in of_session],
        used,
        is_cut=whole is None,
    )


def _fold(head: PageLines, before: PageLines, lines: PageLines, model: str = "") -> Fold:
    fold = Fold()
    for raw, source in head:
        fold.add_header(raw, source)
    if model:
        fold.set_model(model)
    for raw, source in (*before, *lines):
        fold.add(raw, source)
    return fold


def _count_whole(fold: Fold, start: int, total: int, limit: int, *, more: bool) -> int | None:
    """Return the number of lines in the whole turns of a page, or None if no turn is known to end."""
    first = next((draft.line for draft in fold.drafts if draft.line >= start), start)
    ends = [draft.line - start for draft in fold.drafts if draft.begins_turn and draft.line > first]
    ends += [] if more else [total]
    within = [end for end in ends if end <= limit]
    return within[-1] if within else next(iter(ends), None)
