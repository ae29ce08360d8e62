"""Drop answers that were streamed and are then stored again, as the client assembled them.

The original is the stream. The copy is a complete record of the same answer and nothing else: the message alone, or the
whole API response under the same id, before any other content. Its usage still counts for the answer while the turn is
open.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from ash_shared.eventlog.dedupe.digests import message_digest
from ash_shared.eventlog.state import Response, State, StreamedAnswer
from ash_shared.model.blocks import Block, is_audio
from ash_shared.records.steps import ChunkEnd, Emit, Part, ResponseEnd, ResponseStart, Step, TurnEnd

_COMPLETE_STEPS = frozenset({ChunkEnd, ResponseEnd, ResponseStart, Emit})
_IDENTITY_KEYS = {"text": "text", "thinking": "thinking", "tool_use": "id"}


def record_blocks(response: Response, blocks: Sequence[Block]) -> None:
    response.block_digests.extend(
        message_digest("assistant", block) for block in blocks if _has_identity(block)
    )


def record_end(state: State, response: Response) -> None:
    if response.was_streamed and response.block_digests:
        state.last_streamed = StreamedAnswer(response.id, list(response.block_digests))


def without_copy(state: State, answer: StreamedAnswer, steps: Sequence[Step]) -> Sequence[Step]:
    """Return the steps of a line; if it is a copy of this answer, only usage and turn ends."""
    if not _is_copy(answer, steps):
        return steps
    if state.turn is None:
        return ()
    usages = [replace(part, blocks=[], error=None) for part in _parts(steps) if part.usage is not None]
    return [*usages, *(step for step in steps if isinstance(step, TurnEnd))]


def _parts(steps: Sequence[Step]) -> list[Part]:
    return [step for step in steps if isinstance(step, Part)]


def _is_copy(answer: StreamedAnswer, steps: Sequence[Step]) -> bool:
    if not all(map(_is_complete, steps)):
        return False
    return _has_id_of(answer, steps) and _has_blocks_of(answer, _parts(steps))


def _is_complete(step: Step) -> bool:
    """True if the step may be part of a complete record of an answer."""
    if isinstance(step, TurnEnd):
        return step.interrupt is None
    return _is_new_answer(step) if isinstance(step, Part) else step.__class__ in _COMPLETE_STEPS


def _is_new_answer(part: Part) -> bool:
    if not part.blocks:
        return part.relation not in ("interruption", "event")
    return part.role == "assistant" and not (part.is_copy or part.is_revision)


def _has_id_of(answer: StreamedAnswer, steps: Sequence[Step]) -> bool:
    """True if neither the steps nor the answer have another id."""
    if answer.id is None:
        return True
    ids = {part.message_id or part.key for part in _parts(steps)}
    ids |= {step.id for step in steps if isinstance(step, ResponseStart)}
    return ids <= {None, answer.id}


def _has_blocks_of(answer: StreamedAnswer, parts: Sequence[Part]) -> bool:
    """True if all blocks of the parts were streamed, as far as they can be recognised."""
    blocks = [block for part in parts for block in part.blocks]
    digests = {message_digest("assistant", block) for block in blocks if _has_identity(block)}
    is_known = all(block["type"] in _IDENTITY_KEYS or is_audio(block) for block in blocks)
    return is_known and bool(digests) and digests.issubset(answer.block_digests)


def _has_identity(block: Block) -> bool:
    """True if the block can be recognised by its content, unlike encrypted reasoning."""
    return bool(block.get(_IDENTITY_KEYS.get(block["type"], "")))
