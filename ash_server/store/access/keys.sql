-- fragment: keys
-- Keys and their tenants, with the columns of `Key`.
SELECT keys.id, tenants.number, tenants.id, tenants.name, keys.name, prefix, scopes, keys.created_at, keys.expires_at,
    revoked_at, last_used_at, redacts

-- fragment: is_active
-- True for a key that may be used.
revoked_at IS NULL AND (keys.expires_at IS NULL OR keys.expires_at > statement_timestamp())

-- name: create_key
-- A new key.
INSERT INTO keys (id, tenant, name, prefix, digest, scopes, expires_at, redacts)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)

-- name: list_keys
-- The keys of all tenants, revoked ones last.
{keys} FROM keys JOIN tenants ON number = tenant
ORDER BY revoked_at IS NOT NULL, tenants.name, keys.name, keys.id

-- name: has_keys
-- True if a key was ever created.
SELECT EXISTS (SELECT FROM keys)

-- name: find_key
-- The active key with a digest.
{keys} FROM keys JOIN tenants ON number = tenant
WHERE digest = %s AND {is_active}

-- name: find_signed_in_key
-- The active key of the sign-in with a digest, with the scopes of the sign-in.
SELECT keys.id, tenants.number, tenants.id, tenants.name, keys.name, prefix, COALESCE(sign_ins.scopes, keys.scopes),
    keys.created_at, keys.expires_at, revoked_at, last_used_at, redacts
FROM sign_ins JOIN keys ON keys.id = key_id JOIN tenants ON number = tenant
WHERE sign_ins.digest = %s AND sign_ins.expires_at > statement_timestamp() AND {is_active}

-- name: mark_used
-- The time of the last use, to the minute.
UPDATE keys SET last_used_at = statement_timestamp()
WHERE id = %s AND (last_used_at IS NULL OR last_used_at < statement_timestamp() - interval '1 minute')

-- name: revoke_key
-- A key that may no longer be used.
UPDATE keys SET revoked_at = statement_timestamp() WHERE id = %s AND revoked_at IS NULL

-- name: end_sign_ins
-- The end of the sign-ins with a key, and of all expired ones.
DELETE FROM sign_ins WHERE key_id = %s OR expires_at < statement_timestamp()

-- name: end_codes
-- The end of the codes of a key, and of all expired ones.
DELETE FROM sign_in_codes WHERE key_id = %s OR expires_at < statement_timestamp()

-- name: create_code
-- A code that signs a browser in once.
INSERT INTO sign_in_codes (digest, key_id, expires_at) VALUES (%s, %s, %s)

-- name: take_code
-- The key of a code, which is no longer valid.
DELETE FROM sign_in_codes WHERE digest = %s AND expires_at > statement_timestamp() RETURNING key_id

-- name: get_key
-- The active key with an id.
{keys} FROM keys JOIN tenants ON number = tenant
WHERE keys.id = %s AND {is_active}

-- name: sign_in
-- A sign-in with a key.
INSERT INTO sign_ins (digest, key_id, expires_at, scopes) VALUES (%s, %s, %s, %s)

-- name: sign_out
-- The end of a sign-in.
DELETE FROM sign_ins WHERE digest = %s

-- name: record
-- An entry of the audit log.
INSERT INTO audit (id, tenant, key_id, action, target) VALUES (%s, %s, %s, %s, %s)

-- name: record_uses
-- An entry of the audit log for each of some targets.
INSERT INTO audit (tenant, key_id, action, id, target)
SELECT %s::int, %s::uuid, %s::text, new.* FROM unnest(%s::uuid[], %s::text[]) AS new

-- name: record_refused_sign_in
-- The entry of the audit log for refused sign-ins, one for each address and minute.
INSERT INTO audit (id, tenant, action, target, count) VALUES (%s, %s, 'sign_in.refused', %s, 1)
ON CONFLICT (id) DO UPDATE SET count = audit.count + 1

-- name: list_audit
-- Entries of the audit log of a tenant, or of all, newest first.
SELECT audit.id, audit.at, tenants.name, keys.name, keys.prefix, action, target, count
FROM audit JOIN tenants ON number = audit.tenant LEFT JOIN keys ON keys.id = key_id
WHERE (%(tenant)s::integer IS NULL OR audit.tenant = %(tenant)s) AND audit.id < %(before)s
ORDER BY audit.id DESC
LIMIT %(limit)s
