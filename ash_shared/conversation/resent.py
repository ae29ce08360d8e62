"""Leave out blocks that a record repeats: it contains the conversation so far (relation `resent`)."""

from collections import Counter

from ash_shared.conversation.drafts import Draft
from ash_shared.model.blocks import Block
from ash_shared.records.digests import message_digest
from ash_shared.records.steps import ModelRequest, Part


class ResentBlocks:
    """The blocks of a session, and how often it has each. A record may repeat a block as often as earlier records
    have it."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._repeatable = Counter[str]()
        self._drafts: dict[str, Draft] = {}
        self._traces = set[str]()
        self._last_start = 0
        self._requests: dict[ModelRequest, bool] = {}
        """The requests of the record, and whether they are new."""

    def begin_record(self) -> None:
        self._requests = {}
        if self._counts:
            self._repeatable = self._counts.copy()

    def new_blocks(self, part: Part) -> list[Block]:
        """Return the blocks that no earlier record has."""
        may_repeat = not self.is_new(part)
        return [block for block in part.blocks if not self._is_repeated(_digest(part, block), may_repeat)]

    def is_new(self, part: Part) -> bool:
        """True for a prompt or an answer of a request that repeats nothing."""
        request = part.request
        if request is None or part.role == "system":
            return False
        if request not in self._requests:
            self._requests[request] = request.is_new(self._traces, self._last_start)
            self._traces.add(request.trace)
            self._last_start = max(self._last_start, request.start or 0)
        return self._requests[request]

    def _is_repeated(self, digest: str, may_repeat: bool) -> bool:
        if may_repeat and self._repeatable[digest] > 0:
            self._repeatable[digest] -= 1
            return True
        self._counts[digest] += 1
        return False

    def assign(self, part: Part, draft: Draft) -> None:
        """Record the message that has the blocks of a part."""
        for block in part.blocks:
            self._drafts[_digest(part, block)] = draft

    def draft_of(self, part: Part) -> Draft | None:
        """Return the message that has one of the blocks."""
        drafts = (self._drafts.get(_digest(part, block)) for block in part.blocks)
        return next(filter(None, drafts), None)


def _digest(part: Part, block: Block) -> str:
    return message_digest(part.role or "", block)
