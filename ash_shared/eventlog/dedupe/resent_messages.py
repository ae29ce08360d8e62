"""Drop messages that a request sends again: a request repeats the conversation so far in one record.

From the first such record on, emitted blocks are counted by digest. A later record adds a block only as often as it
exceeds the count before that record.
"""

from msgspec.structs import replace

from ash_shared.eventlog.dedupe import digests
from ash_shared.eventlog.emitter import Log
from ash_shared.eventlog.state import MAX_SENT_DIGESTS, State
from ash_shared.model.blocks import Block
from ash_shared.providers._kit.steps import Part, Speaker


def without_resent(log: Log, part: Part) -> Part:
    """Return the part without blocks of earlier records, if its record holds a whole conversation."""
    is_one_of_several = part.original is not None
    if is_one_of_several and log.state.sent_counts is None:
        log.state.sent_counts = {}
    if log.state.sent_counts is None or part.role is None:
        return part
    new = list[Block]()
    for block in part.blocks:
        digest = digests.message_digest(part.role, block)
        if is_one_of_several and part.relation != "revision" and log.resendable.get(digest):
            log.resendable[digest] -= 1
        else:
            new.append(block)
            _increment(log.state.sent_counts, digest)
    return part if len(new) == len(part.blocks) else replace(part, blocks=new)


def count_sent(state: State, role: Speaker, block: Block) -> None:
    if state.sent_counts is not None:
        _increment(state.sent_counts, digests.message_digest(role, block))


def _increment(sent: dict[str, int], digest: str) -> None:
    sent[digest] = sent.get(digest, 0) + 1
    if len(sent) > MAX_SENT_DIGESTS:
        del sent[next(iter(sent))]
