"""Changes of files in a session: what the tools report, per call, per file and per turn.

| module | contains |
|---|---|
| `extract` | the changes of one call |
| `patches` | readers of patches: unified diffs, `apply_patch`, blocks of SEARCH and REPLACE |
| `line_diff` | the difference between two texts |
"""

from ash_shared.parsing.changes.extract import facts_of_call
from ash_shared.parsing.changes.hunks import CallFacts, FileChange, Hunk

__all__ = ["CallFacts", "FileChange", "Hunk", "facts_of_call"]
