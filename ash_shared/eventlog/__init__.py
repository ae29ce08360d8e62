"""Turn the lines of a session, or the chunks of a stream, into chat events.

Providers translate each record to steps (`ash_shared.records.steps`); the normaliser handles them one by one.
Its `State` between two lines is small JSON: a session can be split anywhere and continued in another process, with the
same events. A store keeps the beginnings of open texts apart from it (`Normalizer.save`). At the end of the input, open
items are closed with the content they have; nothing is invented.

| word | meaning | module |
|---|---|---|
| line | the steps of one stored text; `LineOutput` collects its events | `emitter` |
| turn | from a prompt to the last event it caused; ends explicitly or when the next one begins | `turns` |
| response | one answer of the model; the main conversation and each subagent have their own | `streaming` |
| slot | one streamed item of a response: a chunk event for each chunk, one event when complete | `streaming` |
| open text | the text of a slot that has not ended; the state has only its end | `state`, `built_input` |
| call | a tool call, tracked from its first chunk to the end of the turn that has its result | `tool_calls` |
| part | a complete (non-streamed) message; replaces its slots | `complete_messages`, `emit_messages` |
| document | a text that is written as a whole each time; only its changed elements are followed | `documents` |
| usage | tokens of an answer; the last count per answer is used, a turn has the sum | `usage` |
| value | the usage of one answer for a store; a later value with the same key replaces it | `answers` |

Content that a session contains more than once becomes one event: see `dedupe`.

Modules import downwards only: normalizer > documents, complete_messages > posted_events, streaming > emit_messages >
tool_calls > turns > usage > answers > dedupe > emitter > state. The exception is `LineOutput.close_open`: the end of a
turn closes open slots, and emitting their events needs a turn.
"""

from ash_shared.eventlog.emitter import Context, Event, Line, line_of, parse_line
from ash_shared.eventlog.normalizer import FIRST_LINES, NORMALIZER_VERSION, Normalizer, OpenTurn
from ash_shared.eventlog.posted_events import NOTED
from ash_shared.eventlog.state import inherited_records

__all__ = [
    "FIRST_LINES",
    "NORMALIZER_VERSION",
    "NOTED",
    "Context",
    "Event",
    "Line",
    "Normalizer",
    "OpenTurn",
    "inherited_records",
    "line_of",
    "parse_line",
]
