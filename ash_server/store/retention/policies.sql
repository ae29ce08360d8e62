-- name: get_policy
-- The policy of a tenant, with the columns of `StoredPolicy`.
SELECT age, keep, set_at, checked_at, waiting, held FROM retention_policies WHERE tenant = %s

-- name: set_policy
-- A policy instead of the earlier one. Its first run only reports.
INSERT INTO retention_policies (tenant, age, keep) VALUES (%s, %s, %s)
ON CONFLICT (tenant) DO UPDATE
SET age = excluded.age, keep = excluded.keep, set_at = excluded.set_at, checked_at = NULL, waiting = 0, held = NULL

-- name: delete_policy
-- No policy.
DELETE FROM retention_policies WHERE tenant = %s

-- name: list_tenants
-- The tenants with policies, with the columns of `Tenant`.
SELECT number, id, name FROM tenants
WHERE number IN (SELECT tenant FROM retention_policies)
ORDER BY number

-- name: now
-- The time of the database, which sets the times of changes.
SELECT statement_timestamp()

-- name: extend_lease
-- The time in which one process runs a policy; no row if another one does.
UPDATE retention_policies SET leased_until = statement_timestamp() + %(seconds)s * interval '1 second'
WHERE tenant = %(tenant)s AND (leased_until IS NULL OR leased_until < statement_timestamp() OR %(is_own)s)
RETURNING tenant

-- name: end_lease
-- The end of a run.
UPDATE retention_policies SET leased_until = NULL WHERE tenant = %s

-- name: save_run
-- The result of a run.
UPDATE retention_policies SET checked_at = %(now)s, waiting = %(waiting)s, held = %(held)s
WHERE tenant = %(tenant)s AND set_at = %(set_at)s

-- name: list_scheduled
-- The scheduled sessions of a tenant.
SELECT session_id, due_at FROM scheduled_deletions WHERE tenant = %s

-- name: count_scheduled
-- The number of scheduled sessions, and the time of the first deletion.
SELECT count(*), min(due_at) FROM scheduled_deletions WHERE tenant = %s

-- name: list_next
-- The next scheduled sessions.
SELECT session_id FROM scheduled_deletions WHERE tenant = %s ORDER BY due_at, session_id LIMIT %s

-- name: schedule
-- Sessions that will be deleted.
INSERT INTO scheduled_deletions (tenant, session_id, due_at)
SELECT %s, id, %s FROM unnest(%s::uuid[]) AS expired (id)
ON CONFLICT DO NOTHING

-- name: unschedule
-- Sessions that are kept, or are deleted.
DELETE FROM scheduled_deletions WHERE tenant = %s AND session_id = ANY(%s)

-- name: unschedule_all
-- All sessions are kept.
DELETE FROM scheduled_deletions WHERE tenant = %s

-- name: list_shared
-- The sessions of a tenant with valid links.
SELECT DISTINCT session_id FROM shares
WHERE tenant = %s AND revoked_at IS NULL AND expires_at > statement_timestamp()
