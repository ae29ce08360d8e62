"""From the lines of a session, or the pieces of a stream, to its events.

Providers say what each record adds, as values (`ash_shared.providers._kit.steps`); here one machine follows them, step
by step. All that it remembers between two lines is its `State`, small JSON: cut anywhere, go on in another process, the
events are the same. What is open when nothing follows is closed with what is there, and nothing is made up.

| word | what it is | where |
|---|---|---|
| line | what one stored text adds; the log takes its events | `log` |
| turn | from what was asked to the last thing that came of it; ended by a word, or by what comes next | `turns` |
| response | one answer of the model; another one for each lane, that is, each subagent | `slots` |
| slot | something that a response is writing: its pieces are told as they come, the whole once | `slots` |
| call | known from its first sign to the end of the turn in which its result came | `calls` |
| part | what a record says at rest: it takes the place of the slots that came of it | `parts`, `said` |
| usage | what an answer cost; of one answer the last count holds, the turn has the sum | `usage` |

The same thing may be told twice in five ways, and becomes one event in each:

- in pieces and then as a whole, in the same answer: the whole takes the slots (`slots.take`);
- in pieces and then assembled by their reader, after the answer: a copy that is left out (`assembled`);
- by two kinds of record, one of which counts: original and copy (`twins`);
- as an item that changes: what is new is told anew, what is gone is revoked (`parts`, `Part.replaces`);
- in a request that holds the conversation so far: what was sent before is left out (`sent`).

Modules import downwards only: machine, notes > parts > slots > said > calls, twins > turns > usage > log > state. The
one way up is `Log.close_open`, since a turn ends with what is open, and what is told needs a turn.
"""

from ash_shared.eventlog.emitter import Context, Event, Line, line_of, read_line
from ash_shared.eventlog.normalizer import FIRST_LINES, NORMALIZER_VERSION, Normalizer, OpenTurn
from ash_shared.eventlog.posted_events import NOTED

__all__ = [
    "FIRST_LINES",
    "NORMALIZER_VERSION",
    "NOTED",
    "Context",
    "Event",
    "Line",
    "Normalizer",
    "OpenTurn",
    "line_of",
    "read_line",
]
