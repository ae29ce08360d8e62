-- name: states
-- The states of the normaliser of some sessions.
SELECT session_id, normalizer_state FROM session_counters WHERE session_id = ANY(%b)

-- name: last_calls
-- The latest tool calls among the last events: a long text or output has one event per chunk.
SELECT {event_json}
FROM (SELECT * FROM events WHERE session_id = %(session_id)b ORDER BY sequence DESC LIMIT {max_events}) AS entry
WHERE type = 'tool_call'
ORDER BY sequence DESC
LIMIT {max_calls}
