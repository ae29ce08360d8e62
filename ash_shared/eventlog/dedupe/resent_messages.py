"""What is sent again: a request holds the conversation so far once more, as one record of several messages.

From the first such record on, all that is told is counted by digest. A later one tells of each thing only what is more
than what was there before it came.
"""

from msgspec.structs import replace

from ash_shared.eventlog.dedupe import digests
from ash_shared.eventlog.emitter import Log
from ash_shared.eventlog.state import MAX_SENT, State
from ash_shared.model.blocks import Block
from ash_shared.providers._kit.steps import Part, Speaker


def without_resent(log: Log, part: Part) -> Part:
    """The part without what an earlier record held, where this one holds a whole conversation."""
    is_one_of_several = part.original is not None
    if is_one_of_several and log.state.sent is None:
        log.state.sent = {}
    if log.state.sent is None or part.role is None:
        return part
    new = list[Block]()
    for block in part.blocks:
        digest = digests.message_digest(part.role, block)
        if is_one_of_several and not part.replaces and log.again.get(digest):
            log.again[digest] -= 1
        else:
            new.append(block)
            _increment(log.state.sent, digest)
    return part if len(new) == len(part.blocks) else replace(part, blocks=new)


def count_sent(state: State, role: Speaker, block: Block) -> None:
    if state.sent is not None:
        _increment(state.sent, digests.message_digest(role, block))


def _increment(sent: dict[str, int], digest: str) -> None:
    sent[digest] = sent.get(digest, 0) + 1
    if len(sent) > MAX_SENT:
        del sent[next(iter(sent))]
