"""How the parts of a session relate to its other parts: decided once, for standard messages and for the event log.

Both read the same parts in order, and keep `Links` as their state. A part with a relation in `resolvers.RESOLVERS` has
no content of its own. Its resolver updates the links and returns a `Resolution`: which message is retracted, which call
a subagent's line belongs to, which queued prompt was delivered. `conversation.standard_messages` applies it to the
drafts of messages; `eventlog.links` emits events.

| question | module |
|---|---|
| what does a link change? | `resolvers` |
| is a message part of what an earlier record reverted? | `reverts` |
| were this usage and this cost stated before? | `stated_totals` |
| which message model has the session? | `links` |

The two users differ in memory only: the event log forgets the oldest links (`Links.forget_oldest`), because each append
writes its state.
"""

from ash_shared.relations.links import (
    Links,
    Resolution,
    Revert,
    Surroundings,
    is_in_dialect,
)
from ash_shared.relations.resolvers import RESOLVERS, resolve
from ash_shared.relations.reverts import is_reverted
from ash_shared.relations.stated_totals import accept_usage, cost_since_last, revised_usage

__all__ = [
    "RESOLVERS",
    "Links",
    "Resolution",
    "Revert",
    "Surroundings",
    "accept_usage",
    "cost_since_last",
    "is_in_dialect",
    "is_reverted",
    "resolve",
    "revised_usage",
]
