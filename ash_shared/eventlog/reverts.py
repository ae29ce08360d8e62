"""Messages that the person has reverted. A record may revert messages that come after it."""

from ash_shared.eventlog.dedupe.digests import text_digest
from ash_shared.eventlog.emitter import LineOutput
from ash_shared.eventlog.state import Revert
from ash_shared.model.event_types import CATALOGUE
from ash_shared.records.steps import Part


def revert(output: LineOutput, part: Part) -> None:
    """Retract a message and everything after it; a record that says so again retracts nothing."""
    state, message = output.state, part.retracts[0]
    digest = text_digest(message)
    if state.revert is not None and state.revert.message == digest:
        return
    if state.turns:
        output.emit("retraction", {"fromMessageId": message})
    state.revert = Revert(digest, part.until or 0)


def retract_reverted(output: LineOutput, part: Part, before: int) -> None:
    """Retract the events of a part, those after `before`, if it belongs to messages that an earlier record reverted."""
    known, header = output.state.revert, part.header_in(output.header)
    if known is None or header.timestamp is None or header.timestamp > known.until:
        return
    known.has_begun = known.has_begun or text_digest(header.uuid or "") == known.message
    events = [event["id"] for event in output.events[before:] if CATALOGUE[event["type"]].turn is None]
    if known.has_begun and events:
        output.emit("retraction", {"eventIds": events})
