-- name: delete_replaced
-- The budget of the same period and project, with its notices.
DELETE FROM budgets WHERE tenant = %s AND period = %s AND project = %s

-- name: insert_budget
-- A new budget.
INSERT INTO budgets (id, tenant, limit_nano_usd, period, timezone, project, webhook_url)
VALUES (%s, %s, %s, %s, %s, %s, %s)

-- name: list_budgets
-- The budgets of a tenant, with the columns of `StoredBudget`.
SELECT id, limit_nano_usd, period, timezone, project, webhook_url
FROM budgets WHERE tenant = %s
ORDER BY project, period, id

-- name: list_tenants
-- The tenants with budgets, with the columns of `Tenant`.
SELECT number, id, name FROM tenants
WHERE number IN (SELECT tenant FROM budgets)
ORDER BY number

-- name: delete_budget
-- A budget with its notices.
DELETE FROM budgets WHERE id = %s AND tenant = %s

-- name: record_passed
-- A budget that was passed, once for each period. The first attempt of its webhook is due now.
INSERT INTO budget_notices (budget_id, period_start, spent_nano_usd, next_attempt_at)
SELECT id, %s, %s, CASE WHEN webhook_url IS NOT NULL THEN statement_timestamp() END
FROM budgets WHERE id = %s
ON CONFLICT DO NOTHING

-- name: claim_notices
-- The notices that are due, with the columns of `Notice`. If the server stops, the next attempt still follows.
UPDATE budget_notices
SET attempts = attempts + 1,
    next_attempt_at = statement_timestamp() + (%s::integer[])[attempts + 1] * interval '1 second'
FROM budgets
WHERE budgets.id = budget_id AND tenant = %s AND next_attempt_at <= statement_timestamp()
RETURNING budget_id, period_start, spent_nano_usd, attempts, webhook_url, limit_nano_usd, period, timezone

-- name: end_attempts
-- The end of the attempts for a notice.
UPDATE budget_notices SET next_attempt_at = NULL WHERE budget_id = %s AND period_start = %s
