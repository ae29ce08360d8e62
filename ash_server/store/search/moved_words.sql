-- fragment: indexed
-- The last event of a log with words of this version, and the ranges of words to move.
CASE WHEN version < %(version)b THEN 0 ELSE progress.event_sequence END,
CASE WHEN version < %(version)b THEN '{}' ELSE moved END

-- name: lock_words
-- The progress of a session, with the lock that the indexer holds while it writes words.
SELECT {indexed}, counters.last_dropped_sequence, progress.last_dropped_sequence
FROM search_progress AS progress JOIN session_counters AS counters USING (session_id)
WHERE session_id = %(session_id)b
FOR UPDATE OF progress

-- name: set_moved
-- The ranges of words to move.
UPDATE search_progress SET moved = %b::bigint[] WHERE session_id = %b

-- name: find_end
-- The last of the first words in a range that are moved at once, at least one event; null: all of them.
SELECT CASE WHEN count(*) = %(rows)b OR max(bytes) > %(bytes)b
    THEN coalesce(max(sequence) FILTER (WHERE bytes <= %(bytes)b), min(sequence)) END
FROM (
    SELECT sequence, sum(pg_column_size(words)) OVER (ORDER BY sequence) AS bytes
    FROM search WHERE session_id = %(session_id)b AND sequence > %(after)b AND sequence <= %(last)b
    ORDER BY sequence LIMIT %(rows)b
) AS first

-- name: move_words
-- The sequences of a range of words.
UPDATE search SET sequence = sequence + %b WHERE session_id = %b AND sequence > %b AND sequence <= %b

-- name: delete_words
-- The words of some events.
DELETE FROM search WHERE session_id = %b AND sequence = ANY(%b)

-- name: delete_between
-- The words in a range of sequences.
DELETE FROM search WHERE session_id = %b AND sequence > %b AND sequence <= %b
