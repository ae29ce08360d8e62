"""The files that a tool call changes and reads, and its outcome.

| module | contains |
|---|---|
| `extract` | facts of a call: changed and read files, and the command |
| `commands` | shell commands that may change files |
| `outcomes` | the outcome of a call: ok, failed, denied |
| `patches` | readers of patches: unified diffs, `apply_patch`, blocks of SEARCH and REPLACE |
| `line_diff` | the difference between two texts |
| `hunks` | the values of changes |
"""

from ash_shared.parsing.changes.commands import may_change_files
from ash_shared.parsing.changes.extract import CHANGING_KINDS, facts_of_call, kind_of_call
from ash_shared.parsing.changes.hunks import CallFacts, FileChange, Hunk
from ash_shared.parsing.changes.outcomes import Outcome, outcome_of

__all__ = [
    "CHANGING_KINDS",
    "CallFacts",
    "FileChange",
    "Hunk",
    "Outcome",
    "facts_of_call",
    "kind_of_call",
    "may_change_files",
    "outcome_of",
]
