-- fragment: shares
-- Valid links, with the columns of `StoredShare`.
SELECT shares.id, number, tenants.id, name, session_id, session_created_at, title_digest, last_message, last_event,
    last_dropped_event, with_subagents, redacts, key_id, created_at, expires_at, digest
FROM shares JOIN tenants ON number = tenant
WHERE revoked_at IS NULL AND expires_at > statement_timestamp()

-- name: create_share
-- A new link.
INSERT INTO shares (id, tenant, digest, session_id, session_created_at, title_digest, last_message, last_event,
    last_dropped_event, with_subagents, redacts, key_id, expires_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)

-- name: get_share
-- A valid link.
{shares} AND shares.id = %s

-- name: list_shares
-- The valid links of a session, newest first.
{shares} AND tenant = %s AND session_id = %s AND session_created_at = %s ORDER BY shares.id DESC

-- name: revoke_share
-- A link that is no longer valid.
UPDATE shares SET revoked_at = statement_timestamp()
WHERE id = %s AND tenant = %s AND session_id = %s AND revoked_at IS NULL AND expires_at > statement_timestamp()
