"""Find messages that repeat the text of another message, because a format writes it twice."""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from itertools import accumulate

from ash_shared.conversation.drafts import Draft

_SEARCHES, _SEARCHED = 50, 10_000_000


def find_shadows(drafts: Sequence[Draft]) -> Mapping[int, Draft]:
    """For each draft that only repeats: the one whose text it repeats, of those that count.

    Twins of the same text stand for each other one by one, in one turn or the next. A text that is part of another of
    its turn, or is all of them together, repeats them, too.
    """
    if not any(draft.echo for draft in drafts):
        return {}
    twins, turns = (
        defaultdict[tuple[str, str], deque[Draft]](deque),
        defaultdict[tuple[str, int], _TurnTexts](_TurnTexts),
    )
    for draft in drafts:
        if not draft.echo:
            twins[draft.role, draft.said()].append(draft)
            turns[draft.role, draft.turn].add(draft)
    shadows = dict[int, Draft]()
    for echo in drafts:
        if echo.echo and (text := echo.said()):
            twin = _take_duplicate(echo, twins[echo.role, text]) or turns[echo.role, echo.turn].holder(text)
            if twin is not None:
                shadows[id(echo)] = twin
    return shadows


def _take_duplicate(echo: Draft, twins: deque[Draft]) -> Draft | None:
    """The first of these that is near enough; those of turns long gone stand for none that follow."""
    while twins and twins[0].turn < echo.turn - 1:
        twins.popleft()
    return twins.popleft() if twins and twins[0].turn <= echo.turn + 1 else None


class _TurnTexts:
    """What the messages of one role say in one turn."""

    def __init__(self) -> None:
        self._drafts: list[Draft] = []
        self._texts: list[str] = []
        self._whole: str | None = None
        self._ends: list[int] = []
        self._found = 0
        self._budget = 0

    def add(self, draft: Draft) -> None:
        self._drafts.append(draft)
        self._texts.append(draft.said())

    def holder(self, text: str) -> Draft | None:
        """The message that holds this text, or the last of them where it is what they say one after the other."""
        if (start := self._find(text)) < 0:
            return None
        place = bisect_right(self._ends, start)
        inside = start + len(text) <= self._ends[place]
        return self._drafts[place] if inside else self._drafts[-1] if text == self._whole else None

    def _find(self, text: str) -> int:
        """Where it stands: mostly behind what was found last, as pieces of a stream do.

        Searching from the beginning has an end when it has cost a few times what is said.
        """
        if self._whole is None:
            self._whole = "".join(self._texts)
            self._ends = list(accumulate(map(len, self._texts)))
            self._budget = _SEARCHES * len(self._whole) + _SEARCHED
        if self._whole.startswith(text, self._found):
            start = self._found
        elif self._budget < 0:
            return -1
        else:
            self._budget -= len(self._whole)
            start = self._whole.find(text)
        self._found = start + len(text) if start >= 0 else self._found
        return start
