-- name: notify
-- A notification. The commit does not wait for the disk: the transaction has nothing else, and a crash loses
-- notifications anyway.
SELECT pg_notify(%s, %s), set_config('synchronous_commit', 'off', true)

-- name: last_sequences
-- The columns of `Last` for some sessions.
SELECT session_id, event_sequence, created_at
FROM session_counters JOIN sessions ON id = session_id
WHERE session_id = ANY(%b)
