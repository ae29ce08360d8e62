"""Recognise a text that repeats all streamed text of its turn (`Part.relation` recap)."""

from ash_shared.eventlog.dedupe.digests import checksum
from ash_shared.eventlog.state import State


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
