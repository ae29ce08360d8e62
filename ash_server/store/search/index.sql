-- fragment: pending_sessions
-- Sessions with events that are not indexed.
search_progress AS progress JOIN session_counters AS counters USING (session_id)
WHERE counters.event_sequence > CASE WHEN version < %(version)b THEN 0 ELSE progress.event_sequence END

-- fragment: smallest_backlog_first
-- The order of indexing: a large import does not delay new messages.
ORDER BY version < %(version)b, counters.event_sequence - progress.event_sequence
LIMIT %(limit)b

-- name: list_pending_sessions
-- Sessions with new events to index.
SELECT session_id
FROM {pending_sessions} AND needs_upkeep
{smallest_backlog_first}

-- name: list_outdated_sessions
-- Sessions with words of an earlier version.
SELECT session_id
FROM {pending_sessions} AND version < %(version)b
{smallest_backlog_first}

-- fragment: backlog
-- The number of events of a session that are not indexed.
session_id, counters.event_sequence - CASE WHEN version < %(version)b THEN counters.last_dropped_sequence
    ELSE greatest(progress.event_sequence, counters.last_dropped_sequence) END AS events

-- name: count_pending_events
-- The number of events that are not indexed. Each part has an index.
SELECT coalesce(sum(events), 0)::bigint
FROM (
    SELECT {backlog} FROM {pending_sessions} AND needs_upkeep
    UNION ALL
    SELECT {backlog} FROM {pending_sessions} AND version < %(version)b AND NOT needs_upkeep
) AS backlogs

-- name: list_finished_sessions
-- Sessions that no longer need upkeep, with their last events. The mark stays until they are quiet: the next append would
-- set it again.
SELECT session_id, counters.event_sequence
FROM search_progress AS progress JOIN session_counters AS counters USING (session_id) JOIN sessions ON id = session_id
WHERE needs_upkeep AND progress.version >= %(version)b AND progress.event_sequence >= counters.event_sequence
  AND {are_near_totals} AND updated_at < statement_timestamp() - %(quiet)b::float8 * interval '1 second'
LIMIT %(limit)b

-- fragment: chosen
-- Some sessions.
session_id = ANY(%(ids)b::uuid[])

-- fragment: unlocked
-- Those without a writer: a statement that waits for one would block the writers of the other sessions.
session_id IN (SELECT session_id FROM session_counters WHERE {chosen} FOR NO KEY UPDATE SKIP LOCKED)

-- fragment: end_upkeep
-- Removes the mark of sessions without further events.
UPDATE session_counters SET needs_upkeep = false
WHERE {selected} AND event_sequence = (%(last)b::bigint[])[array_position(%(ids)b::uuid[], session_id)]

-- name: lock_progress
-- The progress of a session with pending events, unless another process is indexing it.
SELECT {indexed}, progress.last_dropped_sequence, counters.event_sequence, counters.last_dropped_sequence,
    statement_timestamp()
FROM {pending_sessions} AND session_id = %(session_id)b
FOR UPDATE OF progress SKIP LOCKED

-- fragment: event_columns
-- The columns of `_Event`.
sequence, type, {event_json} AS content

-- fragment: events_to_index
-- The events of a session between two sequences, except the types without words.
SELECT session_id, sequence, type, message_sequence, {stored_columns} FROM events
WHERE session_id = %(session_id)b AND sequence > %(after)b AND sequence <= %(last)b AND type <> ALL(%(silent)b)

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
UPDATE search_progress
SET event_sequence = %(last)b, last_dropped_sequence = %(dropped)b, version = %(version)b, moved = %(moved)b::bigint[]
WHERE session_id = %(session_id)b

-- name: restart_progress
-- Makes all events of a session pending.
UPDATE search_progress SET event_sequence = 0, moved = '{}' WHERE session_id = %b

-- name: try_advisory_lock
-- True if no other process has the lock with this number.
SELECT pg_try_advisory_xact_lock(%b)
