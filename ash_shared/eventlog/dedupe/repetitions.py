"""Drop events that a format repeats under the same key, and a text that repeats all streamed texts."""

from ash_shared.eventlog.dedupe.digests import checksum, text_digest
from ash_shared.eventlog.state import MAX_ONCE_PER_SESSION, State


def is_repeated_event(state: State, once_key: str) -> bool:
    """True if the turn has an event with this key."""
    return bool(once_key) and text_digest(once_key) in state.once_digests


def record_event(state: State, once_key: str) -> None:
    if once_key:
        state.once_digests.append(text_digest(once_key))


def is_first_of_session(state: State, key: str) -> bool:
    """True if no event with this key was emitted in the session."""
    digest = text_digest(key)
    if digest in state.once_per_session:
        return False
    state.once_per_session = [*state.once_per_session, digest][-MAX_ONCE_PER_SESSION:]
    return True


def is_repeated_error(state: State, message: str) -> bool:
    """True if the turn has an error with this message; otherwise it is recorded."""
    is_repeated = is_repeated_event(state, f"error/{message}")
    if not is_repeated:
        record_event(state, f"error/{message}")
    return is_repeated


def record_streamed_text(state: State, text: str) -> None:
    turn = state.turn
    if turn is not None:
        turn.streamed_length += len(text)
        turn.streamed_checksum = checksum(text, turn.streamed_checksum)


def is_recap(state: State, text: str) -> bool:
    """True if this text is the whole text of the turn, which was streamed."""
    turn = state.turn
    if turn is None or not text or turn.streamed_length != len(text):
        return False
    return turn.streamed_checksum == checksum(text)
