-- name: clear_message
-- The text of a message and everything derived from it. Its row stays.
UPDATE messages
SET kind = 'deleted', content = '', role = 'system', source = 'unknown', block_types = '{}', digest = NULL,
    has_explicit_role = NULL, has_explicit_source = NULL, blocks_start = NULL, blocks_size = NULL
WHERE session_id = %b AND sequence = %b

-- name: find_last_event
-- The last event that was stored before the message after this one.
SELECT sequence FROM events WHERE session_id = %b AND message_sequence <= %b ORDER BY sequence DESC LIMIT 1

-- name: list_events_of_message
-- The events of a message, which follow another event, and whether the beginning of their JSON is in columns.
SELECT sequence, event_id IS NOT NULL, {event_json}
FROM events AS entry
WHERE session_id = %(session_id)b AND message_sequence = %(sequence)b AND origin = 'line' AND sequence > %(after)b
  AND sequence < coalesce(
      (SELECT sequence FROM events
       WHERE session_id = %(session_id)b AND sequence > %(after)b AND message_sequence > %(sequence)b
       ORDER BY sequence LIMIT 1),
      9223372036854775807)
ORDER BY sequence

-- name: replace_with_retractions
-- Events that become retractions of themselves.
UPDATE events SET type = 'retraction', chunk_group = NULL, text_ranges = NULL, stored_json = new.json
FROM unnest(%b::bigint[], %b::text[]) AS new (sequence, json)
WHERE events.session_id = %b AND events.sequence = new.sequence

-- name: subtract_issues
-- Numbers of issues in removed events.
UPDATE session_counters SET errors = errors - %b, unrecognised = unrecognised - %b WHERE session_id = %b

-- name: set_normalizer_state
-- The state of the normaliser after the last message.
UPDATE session_counters SET normalizer_state = %b WHERE session_id = %b

-- name: delete_drift
-- The drift that the parser found in a message.
DELETE FROM drift WHERE session_id = %b AND sequence = %b
