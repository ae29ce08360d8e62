"""Find messages that repeat the text of another message, because a format writes it twice."""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from itertools import accumulate

from ash_shared.conversation.drafts import Draft

_MAX_SEARCHES, _MIN_SEARCH_BUDGET = 50, 10_000_000


def find_shadows(drafts: Sequence[Draft]) -> Mapping[int, Draft]:
    """Map the id() of each copy to the original draft with the same text.

    A queued prompt is a copy of the message that sends it. Other copies and originals of the same text are matched one
    to one, in the same or an adjacent turn. A copy also matches a message of its turn that contains its text, or all
    messages of the turn together.
    """
    shadows = {id(draft): draft.sent_as for draft in drafts if draft.sent_as is not None}
    copies = [draft for draft in drafts if draft.is_copy and not draft.is_queued]
    if not copies:
        return shadows
    originals = defaultdict[tuple[str, str], deque[Draft]](deque)
    turns = defaultdict[tuple[str, int], _TurnTexts](_TurnTexts)
    for draft in drafts:
        if not draft.is_copy:
            originals[draft.role, draft.text()].append(draft)
            turns[draft.role, draft.turn].add(draft)
    for copy in copies:
        if text := copy.text():
            original = _take_duplicate(copy, originals[copy.role, text]) or turns[
                copy.role, copy.turn
            ].holder(text)
            if original is not None:
                shadows[id(copy)] = original
    return shadows


def _take_duplicate(copy: Draft, originals: deque[Draft]) -> Draft | None:
    """Take the first original in the same or an adjacent turn, dropping older ones."""
    while originals and originals[0].turn < copy.turn - 1:
        originals.popleft()
    return originals.popleft() if originals and originals[0].turn <= copy.turn + 1 else None


class _TurnTexts:
    """The texts of the messages with one role in a turn."""

    def __init__(self) -> None:
        self._drafts: list[Draft] = []
        self._texts: list[str] = []
        self._whole: str | None = None
        self._ends: list[int] = []
        self._offset = 0
        self._budget = 0

    def add(self, draft: Draft) -> None:
        self._drafts.append(draft)
        self._texts.append(draft.text())

    def holder(self, text: str) -> Draft | None:
        """Return the message that contains this text, or the last message if all texts together do."""
        if (start := self._find(text)) < 0:
            return None
        index = bisect_right(self._ends, start)
        inside = start + len(text) <= self._ends[index]
        return self._drafts[index] if inside else self._drafts[-1] if text == self._whole else None

    def _find(self, text: str) -> int:
        """Return the index of a text, which is mostly after the previous match, as for chunks of a stream.

        Searching from the start is limited to a budget proportional to the length of the texts.
        """
        if self._whole is None:
            self._whole = "".join(self._texts)
            self._ends = list(accumulate(map(len, self._texts)))
            self._budget = _MAX_SEARCHES * len(self._whole) + _MIN_SEARCH_BUDGET
        if self._whole.startswith(text, self._offset):
            start = self._offset
        elif self._budget < 0:
            return -1
        else:
            self._budget -= len(self._whole)
            start = self._whole.find(text)
        self._offset = start + len(text) if start >= 0 else self._offset
        return start
