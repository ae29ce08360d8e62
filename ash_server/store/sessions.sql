-- name: create_session
-- A new session, unless its id is taken.
INSERT INTO sessions (id, source, external_id, parent_id, parent_external_id, title, title_priority, metadata, machine,
    key_id, replaced_by)
VALUES (%(id)s, %(source)s, %(external_id)s, %(parent_id)s, %(parent_external_id)s, %(title)s, %(title_priority)s,
    %(metadata)s, %(machine)s, %(key_id)s, %(replaced_by)s)
ON CONFLICT (id) DO NOTHING
RETURNING id

-- name: create_counters
-- The counters of a new session.
INSERT INTO session_counters (session_id) VALUES (%(id)s)

-- name: create_progress
-- The progress of the search index in a new session.
INSERT INTO search_progress (session_id) VALUES (%(id)s)

-- name: update_session
-- Another title, or other metadata.
UPDATE sessions
SET title = CASE WHEN %(retitle)s THEN %(title)s ELSE title END,
    title_priority = CASE WHEN %(retitle)s THEN %(title_priority)s ELSE title_priority END,
    metadata = coalesce(%(metadata)s, metadata),
    updated_at = statement_timestamp()
WHERE id = %(id)s

-- name: set_metadata
-- Metadata that an append merged.
UPDATE sessions SET metadata = %s, updated_at = statement_timestamp() WHERE id = %s

-- name: set_agent
-- The agent that wrote the session, as the first key of the metadata, unless that key is set.
UPDATE sessions
SET metadata = '{"agent":' || to_json(%(agent)s::text)::text
    || CASE WHEN metadata = '{}' THEN '}' ELSE ',' || substr(metadata, 2) END, updated_at = statement_timestamp()
WHERE id = %(id)s AND NOT starts_with(metadata, '{"agent":')

-- name: set_tool_title
-- The title of a session, unless it has one of a higher rank, or this one.
UPDATE sessions SET title = %(title)s, title_priority = %(rank)s, updated_at = statement_timestamp()
WHERE id = %(id)s AND title_priority <= %(rank)s AND (title, title_priority) IS DISTINCT FROM (%(title)s, %(rank)s)
  AND %(title)s::text IS NOT NULL

-- name: find_at_path
-- The latest other session of the transcript at a path.
SELECT id FROM sessions WHERE path = %s AND id <> %s ORDER BY created_at DESC LIMIT 1

-- name: get_parent
-- The parent of a session.
SELECT parent_id FROM sessions WHERE id = %s

-- name: set_parent
-- A parent, unless there is another one.
UPDATE sessions
SET parent_id = coalesce(%(at_path)s::uuid, %(parent_id)s), parent_external_id = %(parent_external_id)s,
    updated_at = statement_timestamp()
WHERE id = %(id)s AND (
    parent_id IS NULL
    OR (parent_id = %(parent_id)s AND parent_external_id IS NULL)
    OR parent_id = %(replaced)s::uuid)

-- name: set_file_time
-- When the file was modified. Without new lines it may be a copy, so the earlier time is kept.
UPDATE sessions
SET file_modified_at = %(modified_at)s, updated_at = statement_timestamp()
WHERE id = %(id)s AND (
    file_modified_at IS NULL
    OR file_modified_at > %(modified_at)s
    OR (%(has_grown)s AND file_modified_at < %(modified_at)s))

-- name: lacks_final_newline
-- Whether the file had no final newline.
SELECT lacks_final_newline FROM sessions WHERE id = %s

-- name: set_lacks_final_newline
-- Whether the file had no final newline, if its last message is still the last one.
UPDATE sessions SET lacks_final_newline = %(lacks_newline)s
WHERE id = %(id)s AND (%(last_message)s::text IS NULL OR EXISTS (
    SELECT FROM session_counters JOIN messages USING (session_id)
    WHERE session_id = %(id)s AND sequence = message_sequence AND messages.id = %(last_message)s))

-- name: get_writer_fields
-- The fields that a writer set, without values derived from messages.
SELECT parent_id, parent_external_id, CASE WHEN title_priority = %s THEN title END, metadata, machine, key_id
FROM sessions WHERE id = %s

-- name: lock_counters
-- The lock that appends take first, which avoids deadlocks. A separate statement, so that the next ones see what was
-- committed while it waited.
SELECT message_sequence FROM session_counters WHERE session_id = %s FOR UPDATE

-- name: lock_unchanged
-- The lock of a change of labels, unless the session has changed since a time.
SELECT id FROM sessions WHERE id = %s AND updated_at = %s FOR NO KEY UPDATE

-- name: find_new_child
-- A session that this one started, other than some.
SELECT id FROM sessions WHERE parent_id = %s AND id <> ALL(%s) LIMIT 1

-- name: get_end
-- The end of the messages and of the log, with the columns of `SessionEnd`.
SELECT message_sequence, event_sequence, last_dropped_sequence FROM session_counters WHERE session_id = %s

-- name: delete_progress
-- Deleted first, to wait for an indexer of the session: it locks this row, then the row in `sessions` by inserting
-- into `search`.
DELETE FROM search_progress WHERE session_id = %s

-- name: delete_events
-- All events of a session, which have no foreign key.
DELETE FROM events WHERE session_id = %s

-- name: delete_messages
-- All messages of a session, which have no foreign key.
DELETE FROM messages WHERE session_id = %s

-- name: list_copies
-- The copies of a session.
SELECT id FROM sessions
WHERE copy_of = %(id)s AND id IN (
    SELECT id FROM tenant_lineages WHERE lineage && (SELECT lineage FROM sessions WHERE id = %(id)s)
)
ORDER BY id

-- name: replace_original
-- The copy with the most messages of a deleted session becomes the original of the other copies. So their shared
-- messages still count once. If the deleted session was itself a copy, the new original remains a copy, too.
WITH deleted AS (SELECT lineage, copy_of, copied_messages FROM sessions WHERE id = %(id)s), copies AS (
    SELECT sessions.id, sessions.copied_messages, first_value(sessions.id) OVER (
        ORDER BY sessions.copied_messages DESC, first_at NULLS LAST, created_at, sessions.id
    ) AS original
    FROM sessions
    WHERE sessions.copy_of = %(id)s AND sessions.id IN (
        SELECT tenant_lineages.id FROM tenant_lineages, deleted WHERE tenant_lineages.lineage && deleted.lineage
    )
)
UPDATE sessions
SET copy_of = CASE WHEN sessions.id = original THEN deleted.copy_of ELSE original END,
    copied_messages = CASE
        WHEN sessions.id <> original THEN copies.copied_messages
        WHEN deleted.copy_of IS NOT NULL THEN least(deleted.copied_messages, copies.copied_messages)
    END
FROM copies, deleted WHERE sessions.id = copies.id

-- name: delete_session
-- A session, with its counters and its place in the search index.
DELETE FROM sessions WHERE id = %s
