"""Drop events and usage that a format repeats under the same key, and a text that repeats all streamed texts."""

from ash_shared.eventlog.dedupe.digests import checksum, text_digest
from ash_shared.eventlog.state import MAX_ONCE_PER_SESSION, State
from ash_shared.records.steps import Part


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


def accept_usage(state: State, part: Part) -> bool:
    """False if the usage repeats the last one, possibly in another turn, or recounts it."""
    if part.role is not None or part.relation not in ("copy", "recount") or part.key is None:
        return True
    digest = text_digest(part.key)
    if part.relation == "copy":
        is_new = digest not in (state.last_usage_digest, state.last_recount_digest)
        state.last_usage_digest, state.may_be_recounted = digest, state.may_be_recounted or is_new
        return is_new
    if digest == state.last_recount_digest:
        return False
    is_new = digest != state.last_usage_digest and not state.may_be_recounted
    state.last_recount_digest, state.may_be_recounted = digest, False
    return is_new


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
