-- name: lock_prompts
-- Of a session of prompts and the session of their transcript, the later one sees the earlier one.
SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))

-- name: find_transcript
-- The main session with a provider's id, other than a session that is deleted in this transaction.
SELECT id FROM sessions
WHERE source = %(source)s AND provider_session_id = %(name)s AND coalesce(agent_id, '') = ''
  AND id IS DISTINCT FROM %(deleted)s::uuid AND id IN (
    SELECT id FROM tenant_lineages WHERE lineage @> ARRAY[%(lineage)s::text]
    UNION ALL
    SELECT id FROM sessions WHERE lineage IS NULL AND path IS NULL AND provider_session_id = %(name)s
)
ORDER BY created_at, id
LIMIT 1

-- name: replace_prompts
-- Marks a session of prompts as replaced.
UPDATE sessions SET replaced_by = %(transcript)s, updated_at = statement_timestamp()
WHERE id = %(prompts)s AND replaced_by IS NULL

-- name: get_transcript_names
-- The names of a transcript that a session of prompts may have, too.
SELECT source, provider_session_id FROM sessions WHERE id = %s AND coalesce(agent_id, '') = ''

-- name: change_replacement
-- Another transcript, or none, for the prompts of a transcript that is deleted.
UPDATE sessions SET replaced_by = %(transcript)s, updated_at = statement_timestamp()
WHERE id = %(prompts)s AND replaced_by = %(deleted)s

-- name: list_stored_names
-- The provider's ids with a stored transcript, among some.
SELECT DISTINCT provider_session_id FROM sessions
WHERE source = %s AND provider_session_id = ANY(%s) AND coalesce(agent_id, '') = ''
