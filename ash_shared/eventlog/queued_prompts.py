"""Prompts typed during a turn: held as copies until the agent receives them, and emitted there."""

from ash_shared.eventlog import emit_messages
from ash_shared.eventlog.emitter import LineOutput
from ash_shared.eventlog.state import HeldCopy, State
from ash_shared.records.steps import Part
from ash_shared.relations.prompt_queue import begins_turn, is_abandoned


def is_sent(output: LineOutput, part: Part, text: str) -> bool:
    """Return True if this user message sends a queued prompt.

    If it is not queued but begins a turn, abandoned prompts are emitted before it.
    """
    entries = queued(output.state)
    if part.parent_call or not entries:
        return False
    sent = output.state.queue.send(entries, text, part.origin)
    if sent is not None:
        output.state.held_copies.remove(sent)
    elif begins_turn(text, part.origin):
        emit_unsent(output, list(filter(is_abandoned, entries)))
    return sent is not None


def is_repeated(output: LineOutput, part: Part, text: str) -> bool:
    """True if this user message repeats a prompt that was emitted when it left the queue."""
    return not part.parent_call and output.state.queue.is_repeated(text, part.origin)


def release_taken(output: LineOutput) -> None:
    """Emit queued prompts that began a turn although no line sent them."""
    if taken := [held for held in queued(output.state) if held.phase == "taken"]:
        emit_messages.release_copies(output, taken, is_prompt=True)


def emit_removed(output: LineOutput) -> None:
    """Emit the prompts that were withdrawn during the turn."""
    emit_unsent(output, [held for held in queued(output.state) if held.phase == "removed"])


def emit_all_unsent(output: LineOutput) -> None:
    emit_unsent(output, queued(output.state))


def emit_unsent(output: LineOutput, entries: list[HeldCopy]) -> None:
    """Emit prompts that nothing will send anymore; retract removed ones, which were withdrawn."""
    for held in entries:
        is_withdrawn = held.phase == "removed" and not held.synthetic
        emit_messages.release_copies(output, [held], is_withdrawn=is_withdrawn)


def queued(state: State) -> list[HeldCopy]:
    return [held for held in state.held_copies if held.role == "user"]
