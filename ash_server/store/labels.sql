-- name: lock_session
-- The lock of a change. A separate statement, so that the next one sees what was committed while it waited.
SELECT id FROM sessions WHERE id = %s FOR NO KEY UPDATE

-- name: get_labels
-- The labels of a session, with the columns of `Labels`.
SELECT starred, archived, tags, note FROM session_labels WHERE session_id = %s

-- name: set_labels
-- The labels of a session.
INSERT INTO session_labels (session_id, starred, archived, tags, note)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (session_id) DO UPDATE
SET starred = excluded.starred, archived = excluded.archived, tags = excluded.tags, note = excluded.note

-- name: delete_labels
-- A session without labels.
DELETE FROM session_labels WHERE session_id = %s

-- name: set_change_time
-- The time of the change, by which followers of the list find the session.
UPDATE sessions SET updated_at = statement_timestamp() WHERE id = %s

-- name: count_tags
-- The tags of sessions that are not archived, most used first.
SELECT tag, count(*) FROM session_labels, unnest(tags) AS tag WHERE NOT archived
GROUP BY tag ORDER BY count(*) DESC, tag
