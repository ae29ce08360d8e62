-- name: find_turn_start
-- The position before the turn that contains an event.
SELECT sequence - 1, message_sequence - CASE WHEN origin = 'line' THEN 1 ELSE 0 END
FROM events WHERE session_id = %b AND sequence <= %b AND type = 'turn_start'
ORDER BY sequence DESC LIMIT 1

-- name: find_last_mark
-- The last start or end of a turn up to an event.
SELECT type FROM events
WHERE session_id = %b AND sequence <= %b AND type IN ('turn_start', 'turn_end')
ORDER BY sequence DESC LIMIT 1

-- name: begins_next_turn
-- True if a line is the prompt of the next turn: it ends the previous turn, but belongs to the next one.
SELECT EXISTS (
    SELECT FROM events
    WHERE session_id = %(session_id)b AND sequence = %(end)b + 1 AND type = 'turn_start'
      AND message_sequence = %(line)b AND origin = 'line'
) AND NOT EXISTS (
    SELECT FROM events
    WHERE session_id = %(session_id)b AND sequence > %(start)b AND sequence <= %(end)b
      AND message_sequence = %(line)b AND origin = 'line' AND type = ANY(%(answers)b)
)

-- name: find_last_turn
-- The sequence before the last turn.
SELECT sequence - CASE WHEN type = 'turn_start' THEN 1 ELSE 0 END FROM events
WHERE session_id = %b AND type IN ('turn_start', 'reset')
ORDER BY sequence DESC LIMIT 1

-- name: find_position
-- The last event up to a sequence, and its message.
SELECT sequence, message_sequence FROM events WHERE session_id = %b AND sequence <= %b
ORDER BY sequence DESC LIMIT 1

-- fragment: event_columns
-- The columns of `SpannedEvent`.
sequence, message_sequence, origin, kind, {event_json} AS content

-- fragment: events_between
-- The events of some types between two sequences, with the kind of their message.
SELECT event.session_id, event.sequence, type, message_sequence, origin, kind, {stored_columns}
FROM events AS event
LEFT JOIN messages ON origin = 'line'
  AND messages.session_id = event.session_id AND messages.sequence = message_sequence
WHERE event.session_id = %(session_id)b
  AND event.sequence > %(after)b AND event.sequence <= %(last)b
  AND type = ANY(%(types)b)
  AND NOT (%(omit_in_messages)b AND origin = 'line' AND kind <> 'chunk')
