"""Messages that an earlier record has reverted: it may precede them."""

from ash_shared.model.message import RecordHeader
from ash_shared.records.digests import text_digest
from ash_shared.relations.links import Links


def is_reverted(links: Links, header: RecordHeader) -> bool:
    """True if the message with this header is reverted. Call it for each message, in order."""
    revert = links.revert
    if revert is None:
        return False
    revert.has_begun = revert.has_begun or text_digest(header.uuid or "") == revert.message
    return revert.has_begun and header.timestamp is not None and header.timestamp <= revert.until
