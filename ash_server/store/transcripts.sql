-- name: lock_key
-- One of several processes that import the same transcript creates its session; the others see it.
SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))

-- name: find_candidate
-- The session of a transcript. Sessions without names were imported before the first line with a name, or by an earlier
-- version. A file that its program has rewritten may begin with other names, but its path and its session are the same.
SELECT id, external_id, lineage IS NOT NULL, path, message_sequence, EXISTS (
    SELECT FROM messages WHERE session_id = sessions.id AND starts_with(messages.id, {record_id_prefix}))
FROM sessions JOIN session_counters ON session_id = id
WHERE id <> ALL(%(rejected)s) AND id = ANY(ARRAY(
    SELECT id FROM tenant_lineages WHERE lineage @> ARRAY[%(key)s::text]
    UNION ALL
    SELECT id FROM sessions WHERE lineage IS NULL AND id = ANY(%(ids)s)
    UNION ALL
    SELECT id FROM sessions
    WHERE lineage IS NULL AND path IS NULL AND provider_session_id = %(provider_session_id)s
    UNION ALL
    SELECT id FROM sessions WHERE path = %(path)s AND provider_session_id = %(provider_session_id)s
))
ORDER BY lineage IS NULL AND id = ANY(%(ids)s) DESC, path = %(path)s DESC NULLS LAST, created_at, id
LIMIT 1

-- name: set_names
-- Where the file was seen last, and the names in it.
-- A rewritten file may begin with other names than before; both are kept.
UPDATE sessions
SET path = %(path)s, lineage = CASE WHEN %(lineage)s::text[] IS NULL THEN lineage ELSE coalesce(lineage, '{}') || ARRAY(
    SELECT name FROM unnest(%(lineage)s::text[]) AS name WHERE name <> ALL (coalesce(lineage, '{}'))
) END
WHERE id = %(id)s AND (
    path IS DISTINCT FROM %(path)s
    OR NOT coalesce(lineage @> %(lineage)s::text[], %(lineage)s::text[] IS NULL)
)

-- name: set_lineage
-- The names of a new session.
UPDATE sessions SET lineage = %s WHERE id = %s

-- name: set_missing_names
-- The names of a session without names.
UPDATE sessions SET lineage = %s, path = coalesce(path, external_id) WHERE id = %s AND lineage IS NULL

-- name: replace_parent
-- Subagents that were imported before their parent name the session that its path would have made.
UPDATE sessions SET parent_id = %s, updated_at = statement_timestamp() WHERE parent_id = %s RETURNING id

-- name: list_relatives
-- The sessions that have a name in common with a session, originals before their copies.
SELECT id, source, created_at, message_sequence, copy_of, copied_messages
FROM sessions JOIN session_counters ON session_id = id
WHERE id = ANY(ARRAY(
    SELECT id FROM tenant_lineages WHERE lineage && (SELECT lineage FROM sessions WHERE id = %s)
))
ORDER BY (SELECT count(*) FROM unnest(lineage) AS name WHERE name LIKE 'session:%%'),
    first_at NULLS LAST, created_at, id
LIMIT {max_relatives}

-- name: set_copy
-- The mark of a copy, or none.
UPDATE sessions SET copy_of = %s, copied_messages = %s, updated_at = statement_timestamp() WHERE id = %s

-- name: list_imported_paths
-- The stored paths among some.
SELECT path FROM sessions WHERE path = ANY(%s)
