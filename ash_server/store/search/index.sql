-- fragment: pending_sessions
-- Sessions with events that are not indexed.
search_progress AS progress JOIN session_counters AS counters USING (session_id)
WHERE counters.event_sequence > CASE WHEN version < %(version)b THEN 0 ELSE progress.event_sequence END

-- fragment: smallest_backlog_first
-- The order of indexing: a large import does not delay new messages.
ORDER BY version < %(version)b, counters.event_sequence - progress.event_sequence
LIMIT %(limit)b

-- name: list_pending_sessions
-- Sessions to index.
SELECT session_id
FROM {pending_sessions}
{smallest_backlog_first}

-- name: list_changed_sessions
-- Sessions to index that changed since a time.
SELECT session_id
FROM {pending_sessions} AND session_id IN (SELECT id FROM sessions WHERE updated_at > %(since)b)
{smallest_backlog_first}

-- name: read_time
-- A time before which every change is visible: a transaction of an append takes less than a minute.
SELECT statement_timestamp() - interval '1 minute'

-- name: count_pending_events
-- The number of events that are not indexed.
SELECT coalesce(sum(
    counters.event_sequence - CASE WHEN version < %(version)b THEN counters.last_dropped_sequence
        ELSE greatest(progress.event_sequence, counters.last_dropped_sequence) END
), 0)::bigint
FROM {pending_sessions}

-- name: lock_progress
-- The progress of a session with pending events, unless another process is indexing it.
SELECT CASE WHEN version < %(version)b THEN 0 ELSE progress.event_sequence END, progress.last_dropped_sequence,
    counters.event_sequence, counters.last_dropped_sequence, statement_timestamp()
FROM {pending_sessions} AND session_id = %(session_id)b
FOR UPDATE OF progress SKIP LOCKED

-- fragment: event_columns
-- The columns of `_Event`.
sequence, type, {event_json} AS content

-- fragment: events_to_index
-- The events of a session after a sequence, except the types without words.
SELECT session_id, sequence, type, message_sequence, {stored_columns} FROM events
WHERE session_id = %(session_id)b AND sequence > %(after)b AND type <> ALL(%(silent)b)

-- name: delete_words
-- The words of a range of events.
DELETE FROM search WHERE session_id = %b AND sequence > %b AND sequence <= %b

-- name: insert_words
-- Rows of words, which are selected from the counters of the session, so that Citus sends them to one shard.
INSERT INTO search (session_id, sequence, part, weight, readers, role, at, words)
SELECT session_id, sequence, part, weight, readers, role, at, words::tsvector
FROM session_counters, unnest(%(sequences)b::bigint[], %(parts)b::int2[], %(weights)b::text[],
    %(readers)b::text[], %(roles)b::text[], %(ats)b::timestamptz[], %(words)b::text[])
    AS new (sequence, part, weight, readers, role, at, words)
WHERE session_id = %(session_id)b

-- name: advance_progress
-- The last indexed event.
UPDATE search_progress SET event_sequence = %(last)b, last_dropped_sequence = %(dropped)b, version = %(version)b
WHERE session_id = %(session_id)b

-- name: restart_progress
-- Makes all events of a session pending.
UPDATE search_progress SET event_sequence = 0 WHERE session_id = %b

-- name: try_advisory_lock
-- True if no other process has the lock with this number.
SELECT pg_try_advisory_xact_lock(%b)
