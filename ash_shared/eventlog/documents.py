"""Documents that are written as a whole each time, as trajectories are.

Only the elements that have changed are followed, so that a document may have any length, and its usage is counted once.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from ash_shared.eventlog.dedupe.digests import text_digest, value_digest
from ash_shared.eventlog.emitter import LineOutput
from ash_shared.eventlog.state import MAX_DOCUMENTS, MAX_ELEMENTS, EndedTurn, WrittenDocument
from ash_shared.records.digests import evict_oldest
from ash_shared.records.steps import DocumentStart, Step

_DIGEST_LENGTH = len(text_digest(""))


def changed_steps(output: LineOutput, steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps, except of elements that the earlier version of their document has at the same place."""
    remaining = iter(steps)
    for step in remaining:
        if isinstance(step, DocumentStart):
            yield from _changed_elements(output, step, remaining)
        else:
            yield step


def _changed_elements(output: LineOutput, document: DocumentStart, steps: Iterator[Step]) -> Iterator[Step]:
    state, name = output.state, text_digest(document.key)
    known = state.documents.pop(name, None) or WrittenDocument()
    output.continued_turn = known.turn
    digests = list[str]()
    for number, (value, length) in enumerate(document.elements):
        own, digest = list(islice(steps, length)), value_digest(value)
        start = number * _DIGEST_LENGTH
        if known.elements[start : start + _DIGEST_LENGTH] != digest:
            yield from own
        digests.append(digest)
    turn = known.turn if state.turn is None else EndedTurn(state.turn.id, state.turn.cause)
    state.documents[name] = WrittenDocument("".join(digests[:MAX_ELEMENTS]), turn)
    evict_oldest(state.documents, MAX_DOCUMENTS)
