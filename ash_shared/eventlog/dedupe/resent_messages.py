"""Drop messages that a request sends again: a request repeats the conversation so far in one record.

From the first such record on, emitted blocks are counted by digest. A later record adds a block only as often as it
exceeds the count before that record.
"""

from msgspec.structs import replace

from ash_shared.eventlog.dedupe.digests import message_digest
from ash_shared.eventlog.emitter import LineOutput
from ash_shared.eventlog.state import MAX_SENT_DIGESTS, MAX_TRACES, State
from ash_shared.model.blocks import Block
from ash_shared.records.digests import evict_oldest
from ash_shared.records.steps import Part, Speaker


def without_resent(output: LineOutput, part: Part) -> Part:
    """Return the part without blocks of earlier records, if its record contains a whole conversation."""
    sent = _counts(output.state, part)
    if sent is None or part.role is None:
        return part
    may_repeat = part.original is not None and not part.is_revision and not _is_of_new_request(output, part)
    resendable = output.resendable if may_repeat else {}
    new = [
        block for block in part.blocks if not _is_resent(sent, resendable, message_digest(part.role, block))
    ]
    return part if len(new) == len(part.blocks) else replace(part, blocks=new)


def _is_of_new_request(output: LineOutput, part: Part) -> bool:
    """True for a prompt or an answer of a request that repeats nothing."""
    request, state = part.request, output.state
    if request is None or part.role == "system":
        return False
    if request not in output.requests:
        output.requests[request] = request.is_new(state.traces, state.last_request)
        others = [trace for trace in state.traces if trace != request.trace]
        state.traces = [*others[1 - MAX_TRACES :], request.trace]
        state.last_request = max(state.last_request, request.start or 0)
    return output.requests[request]


def count_from_here(state: State) -> None:
    """Count emitted blocks from here on, because a later record may repeat them."""
    if state.sent_counts is None:
        state.sent_counts = {}


def _counts(state: State, part: Part) -> dict[str, int] | None:
    """Return the counts of blocks, which begin with the first record of several messages."""
    if part.original is not None:
        count_from_here(state)
    return state.sent_counts


def _is_resent(sent: dict[str, int], resendable: dict[str, int], digest: str) -> bool:
    """True if an earlier record has this block; otherwise it is counted."""
    if resendable.get(digest):
        resendable[digest] -= 1
        return True
    _count(sent, digest)
    return False


def count_sent(state: State, role: Speaker, block: Block) -> None:
    if state.sent_counts is not None:
        _count(state.sent_counts, message_digest(role, block))


def _count(sent: dict[str, int], digest: str) -> None:
    sent[digest] = sent.get(digest, 0) + 1
    evict_oldest(sent, MAX_SENT_DIGESTS)
