-- name: list_unchanged
-- The next sessions without a change since a time, oldest change first.
SELECT id, updated_at FROM sessions
WHERE updated_at < %(before)s AND (updated_at, id) > (%(after)s, %(after_id)s)
ORDER BY updated_at, id
LIMIT %(limit)s

-- name: list_relatives
-- Some sessions, and those that they started, or that a transcript among them replaces, with the columns of
-- `RelatedSession`.
SELECT id, parent_id, replaced_by, updated_at FROM sessions
WHERE id = ANY(%(ids)s) OR parent_id = ANY(%(ids)s) OR replaced_by = ANY(%(ids)s)

-- name: list_labelled
-- Sessions among some that a person starred or noted, or tagged.
SELECT session_id FROM session_labels
WHERE session_id = ANY(%(ids)s) AND (starred OR note <> '' OR (%(with_tagged)s AND tags <> '{}'))

-- name: count_all
-- The number of sessions.
SELECT count(*) FROM sessions
