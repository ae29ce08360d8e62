"""The number of answers by model. Counts of earlier messages are kept with the totals of the log."""

from collections import Counter
from collections.abc import Collection, Iterable
from functools import partial

from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.standard_pages import StoredModels, get_models
from ash_server.store.log.totals import MAX_UNCOUNTED, Copies, CountedModels, CountModels, KeptModels
from ash_server.store.usage.session_answers import count_answers
from ash_shared.model.session import Session
from ash_shared.parsing.parse import PARSER_VERSION

MAX_COUNTED = 2000
"""Messages that a bounded reader counts."""
_MAX_UNSETTLED = 300
"""Last messages that are read again, except for a shorter part of their turns."""
_MIN_UNSETTLED = 100
"""Last messages that later ones may continue."""
_DISTANCE = 100
"""Messages before these that are read with them."""
_MAX_SIZE = 256 * 1024
"""Characters of messages that are read again."""
_MAX_KEPT = 100
"""Models of a session."""
_MAX_NAME = 200


def counting_of(connect: Connect, session: Session, copies: Copies, *, is_bounded: bool) -> CountModels:
    """Return a function that counts the answers of a session, without copies that its summary skips.

    If it is bounded and too many messages follow the kept counts, it counts only answers with known usage.
    """
    return partial(_count, connect, session, copies, is_bounded)


async def _count(
    connect: Connect, session: Session, copies: Copies, is_bounded: bool, kept: KeptModels
) -> CountedModels:
    if kept.parser_version != PARSER_VERSION or kept.last > session.message_count:
        kept = KeptModels()
    if kept.last == session.message_count:
        return CountedModels(Counter(kept.counts) + Counter(kept.rest), kept, must_save=False)
    settled = kept.settled or (copies.messages if copies.are_skipped else 0)
    if is_bounded and session.message_count - settled > MAX_COUNTED:
        async with connect() as conn:
            known = await count_answers(conn, session.id, with_copies=not copies.are_skipped)
        return CountedModels(Counter(known), kept, must_save=False)
    counts, size = Counter(kept.counts), 0
    page = await _read_first(connect, session, settled, kept)
    while not page.is_last:
        counts += _count_names(page.models)
        settled, size = page.last, size + page.size
        page = await get_models(connect, session.id, after=settled)
    first = _first_unsettled(page, settled)
    counts += _count_names(each for each in page.models if each[0] < first)
    rest = _count_names(each for each in page.models if each[0] >= first)
    model = next((name for place, name in reversed(page.session_models) if place < first), kept.model)
    models = KeptModels(PARSER_VERSION, first - 1, model, dict(counts), page.last, dict(rest))
    total = counts + rest
    if not _can_keep({*total, model}):
        return CountedModels(total, KeptModels(), must_save=False)
    is_long = page.last - kept.last > MAX_UNCOUNTED or size + page.size > _MAX_SIZE
    return CountedModels(total, models, is_long)


async def _read_first(connect: Connect, session: Session, after: int, kept: KeptModels) -> StoredModels:
    if not kept.settled:
        return await get_models(connect, session.id, after=after)
    return await get_models(connect, session.id, after=after, distance=_DISTANCE, model=kept.model)


def _count_names(models: Iterable[tuple[int, str]]) -> Counter[str]:
    return Counter(name for _, name in models)


def _first_unsettled(page: StoredModels, before: int) -> int:
    """Return the first message of the last turn with enough messages; in a long turn, a message within it."""
    last = page.last - _MIN_UNSETTLED + 1
    turn = max((first for first in page.turns if first <= last), default=before + 1)
    return turn if page.last - turn < _MAX_UNSETTLED else last


def _can_keep(names: Collection[str]) -> bool:
    return len(names) <= _MAX_KEPT and all(len(name) <= _MAX_NAME for name in names)
