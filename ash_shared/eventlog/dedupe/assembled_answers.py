"""Answers that were streamed and then are stored once more, as their reader put them together: the copy is not told.

The original is what came in pieces. The copy is a record of an answer at rest that says nothing else, be it the message
alone or the whole answer of the API under the same id, before anything else was said. What it tells of the usage counts
for the same answer, as long as the turn is open.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from ash_shared.eventlog.dedupe import digests
from ash_shared.eventlog.state import Answer, Response, State
from ash_shared.model.blocks import Block
from ash_shared.providers._kit.steps import (
    Counted,
    Part,
    ResponseEnds,
    ResponseStarts,
    Says,
    Step,
    TurnEnds,
    Whole,
)

_AT_REST = frozenset({Counted, ResponseEnds, ResponseStarts, Says, TurnEnds, Whole})
_KNOWN_BY = {"text": "text", "thinking": "thinking", "tool_use": "id"}


def note(response: Response, blocks: Sequence[Block]) -> None:
    response.said.extend(digests.of_sent("assistant", block) for block in blocks if _says(block))


def note_end(state: State, response: Response) -> None:
    if response.is_pieced and response.said:
        state.streamed = Answer(response.id, response.said)


def beside_copy(state: State, answer: Answer, steps: Sequence[Step]) -> Sequence[Step]:
    """The steps of a line; of one that is a copy of this answer, those that count."""
    if not _is_copy(answer, steps):
        return steps
    if state.turn is None:
        return ()
    parts = [step.part for step in steps if isinstance(step, Whole) and step.part.usage is not None]
    spent = [Whole(replace(part, blocks=[], metadata=_price(part), error=None)) for part in parts]
    return [*spent, *(step for step in steps if isinstance(step, Counted | TurnEnds))]


def _price(part: Part) -> Block:
    return {name: part.metadata[name] for name in ("costUsd", "messageId") if name in part.metadata}


def _is_copy(answer: Answer, steps: Sequence[Step]) -> bool:
    if not all(step.__class__ in _AT_REST for step in steps):
        return False
    parts = [step.part for step in steps if isinstance(step, Whole)]
    names = {part.metadata.get("messageId") or part.key for part in parts}
    names |= {step.id for step in steps if isinstance(step, ResponseStarts)}
    if answer.id is not None and names - {None, answer.id}:
        return False
    blocks = [block for part in parts for block in part.blocks]
    return (
        all(part.role == "assistant" and not (part.echo or part.replaces) for part in parts if part.blocks)
        and any(map(_says, blocks))
        and all(digests.of_sent("assistant", block) in answer.said for block in blocks if _says(block))
        and all(block["type"] in _KNOWN_BY for block in blocks)
    )


def _says(block: Block) -> bool:
    """Whether it is known by what it says; sealed reasoning, e.g., is not."""
    return bool(block.get(_KNOWN_BY.get(block["type"], "")))
