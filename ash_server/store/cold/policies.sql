-- name: get_policy
-- The policy of a tenant, with the columns of `StoredColdPolicy`.
SELECT age, set_at, checked_at FROM cold_policies WHERE tenant = %s

-- name: set_policy
-- A policy instead of the earlier one.
INSERT INTO cold_policies (tenant, age) VALUES (%s, %s)
ON CONFLICT (tenant) DO UPDATE SET age = excluded.age, set_at = excluded.set_at, checked_at = NULL

-- name: delete_policy
-- No policy.
DELETE FROM cold_policies WHERE tenant = %s

-- name: extend_lease
-- The time in which one process runs a policy; no row if another one does.
UPDATE cold_policies SET leased_until = statement_timestamp() + %(seconds)s * interval '1 second'
WHERE tenant = %(tenant)s AND (leased_until IS NULL OR leased_until < statement_timestamp() OR %(is_own)s)
RETURNING tenant

-- name: end_lease
-- The end of a run.
UPDATE cold_policies SET leased_until = NULL WHERE tenant = %s

-- name: save_run
-- The time of a run, unless another policy was set meanwhile.
UPDATE cold_policies SET checked_at = %(now)s WHERE tenant = %(tenant)s AND set_at = %(set_at)s
