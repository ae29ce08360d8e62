"""Codex: rollout files of every age, and what `codex exec --json` prints, of old and now.

Sources: `RolloutItem`, `EventMsg` and `exec_events.rs` of Codex, and captured files. A rollout file began as bare
items of the Responses API below a first line without a type; since 0.40 each line is `{timestamp, type, payload}`. It
holds most texts twice: as the item that the model saw or made, which counts, and as an event, which may be the only
one (an aborted turn, a file without items). `codex exec --json` prints items of a turn, of old `{id, msg}` events.
"""

from ash_shared.providers._kit.contract import Provider
from ash_shared.providers.codex.content import read_block
from ash_shared.providers.codex.lines import MARKS, facts, read, recognizes
from ash_shared.providers.codex.messages import parts
from ash_shared.providers.codex.steps import steps

__all__ = ["PROVIDER"]

PROVIDER = Provider(
    source="codex",
    recognizes=recognizes,
    marks=MARKS,
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
    steps=steps,
)
