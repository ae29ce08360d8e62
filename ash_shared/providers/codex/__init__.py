"""Codex: rollout files of all versions, and the current and the legacy output of `codex exec --json`.

Sources: `RolloutItem`, `EventMsg` and `exec_events.rs` of Codex, and captured files. Early rollout files
contain bare items of the Responses API after a first line without a type; since 0.40 each line is `{timestamp,
type, payload}`. Most texts occur twice: as the item seen or written by the model, which is authoritative, and
as an event, which may be the only copy (an aborted turn, a file without items). `codex exec --json` prints
items of a turn; legacy versions print `{id, msg}` events.
"""

from ash_shared.providers._kit.contract import Provider
from ash_shared.providers.codex.content import read_block
from ash_shared.providers.codex.lines import MARKS, facts, recognizes, wire_type

__all__ = ["PROVIDER"]

PROVIDER = Provider(
    source="codex",
    recognizes=recognizes,
    marks=MARKS,
    wire_type=wire_type,
    read_block=read_block,
    facts=facts,
)
