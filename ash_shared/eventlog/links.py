"""Events of the parts without content: retractions, queued prompts, and the calls of subagents' lines."""

from collections.abc import Iterator, Sequence

from ash_shared.eventlog import emit_messages, queued_prompts, turns
from ash_shared.eventlog.dedupe import revisions
from ash_shared.eventlog.dedupe.digests import text_digest
from ash_shared.eventlog.emitter import LineOutput
from ash_shared.eventlog.state import HeldCopy, State
from ash_shared.model.event_types import CATALOGUE
from ash_shared.records.steps import Part
from ash_shared.relations import Resolution, is_reverted, resolve


class _Surroundings:
    def __init__(self, state: State) -> None:
        self._state = state

    def queued_prompts(self) -> Sequence[HeldCopy]:
        return queued_prompts.queued(self._state)

    def calls_with_prompt(self, prompt: str) -> Iterator[str]:
        digest = text_digest(prompt)
        calls = self._state.calls.items()
        return (id for id, call in calls if call.prompt == digest and call.state != "answered")


def follow(output: LineOutput, part: Part) -> None:
    """Emit the events of a part that only changes others."""
    record = part.header_in(output.header).uuid
    resolution = resolve(output.state, part, record, _Surroundings(output.state))
    output.state.forget_oldest()
    if resolution.line_call is not None:
        output.sidechain_call = resolution.line_call
    if resolution.removes_section:
        revisions.remove_section(output, part)
    if resolution.delivered is not None:
        emit_messages.release_copies(output, [resolution.delivered])
    if resolution.withdrawn is not None:
        emit_messages.release_copies(output, [resolution.withdrawn], is_withdrawn=True)
    _retract(output, resolution)


def _retract(output: LineOutput, resolution: Resolution[HeldCopy]) -> None:
    if resolution.is_new_version:
        turns.end_previous_turn(output)
    first = resolution.retracted_from
    if first is not None and (output.state.turns or resolution.is_from_start):
        output.emit("retraction", {"fromMessageId": first})
    if resolution.retracted:
        output.emit("retraction", {"messageIds": list(resolution.retracted)})
    if resolution.retracted_turns:
        output.emit("retraction", {"turns": resolution.retracted_turns})


def retract_reverted(output: LineOutput, part: Part, before: int) -> None:
    """Retract the events of a part, those after `before`, if it belongs to messages that an earlier record reverted."""
    events = [event["id"] for event in output.events[before:] if CATALOGUE[event["type"]].turn is None]
    if is_reverted(output.state, part.header_in(output.header)) and events:
        output.emit("retraction", {"eventIds": events})
