-- name: read
-- The beginnings of the open texts of a session, in order.
SELECT number, content FROM open_texts WHERE session_id = %b ORDER BY number, start

-- name: insert
-- Additions, which are selected from the counters of the session, so that Citus sends them to one shard.
INSERT INTO open_texts (session_id, number, start, content)
SELECT session_id, number, start, content
FROM session_counters, unnest(%b::integer[], %b::bigint[], %b::text[]) AS new (number, start, content)
WHERE session_id = %b

-- name: delete_ended
-- The beginnings of texts that have ended.
DELETE FROM open_texts WHERE session_id = %b AND number = ANY(%b)

-- name: delete_all
-- The beginnings of all texts of a session.
DELETE FROM open_texts WHERE session_id = %b
