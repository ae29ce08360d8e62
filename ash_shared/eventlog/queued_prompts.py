"""Prompts typed during a turn: held as copies until the agent receives them, and emitted there."""

from ash_shared.eventlog import emit_messages
from ash_shared.eventlog.emitter import Log
from ash_shared.eventlog.state import HeldCopy, State
from ash_shared.model.blocks import joined_text
from ash_shared.records.prompt_queue import begins_turn, is_abandoned
from ash_shared.records.steps import Part


def take(log: Log, part: Part) -> None:
    log.state.queue.take(_entries(log.state), joined_text(part.blocks))


def remove(log: Log, part: Part) -> None:
    """Emit a prompt that leaves the queue during a turn, unless the session records deliveries."""
    delivered = log.state.queue.remove(_entries(log.state), joined_text(part.blocks))
    if delivered is not None:
        emit_messages.release_copies(log, [delivered])


def withdraw(log: Log, part: Part) -> None:
    """Emit the prompt that the person withdrew, and its retraction."""
    withdrawn = log.state.queue.withdraw(_entries(log.state), joined_text(part.blocks))
    if withdrawn is not None:
        emit_messages.release_copies(log, [withdrawn], is_withdrawn=True)


def record_deliveries(log: Log) -> None:
    log.state.queue.records_deliveries = True


def is_sent(log: Log, part: Part, text: str) -> bool:
    """Return True if this user message sends a queued prompt.

    If it is not queued but begins a turn, abandoned prompts are emitted before it.
    """
    entries = _entries(log.state)
    if part.parent_call or not entries:
        return False
    sent = log.state.queue.send(entries, text, part.origin)
    if sent is not None:
        log.state.held_copies.remove(sent)
    elif begins_turn(text, part.origin):
        settle(log, list(filter(is_abandoned, entries)))
    return sent is not None


def is_repeated(log: Log, part: Part, text: str) -> bool:
    """True if this user message repeats a prompt that was emitted when it left the queue."""
    return not part.parent_call and log.state.queue.is_repeated(text, part.origin)


def release_taken(log: Log) -> None:
    """Emit queued prompts that began a turn although no line sent them."""
    if taken := [held for held in _entries(log.state) if held.phase == "taken"]:
        emit_messages.release_copies(log, taken, is_prompt=True)


def settle_removed(log: Log) -> None:
    """Emit the prompts that were withdrawn during the turn."""
    settle(log, [held for held in _entries(log.state) if held.phase == "removed"])


def settle_all(log: Log) -> None:
    settle(log, _entries(log.state))


def settle(log: Log, entries: list[HeldCopy]) -> None:
    """Emit prompts that nothing will send anymore; retract removed ones, which were withdrawn."""
    for held in entries:
        is_withdrawn = held.phase == "removed" and not held.synthetic
        emit_messages.release_copies(log, [held], is_withdrawn=is_withdrawn)


def _entries(state: State) -> list[HeldCopy]:
    return [held for held in state.held_copies if held.role == "user"]
