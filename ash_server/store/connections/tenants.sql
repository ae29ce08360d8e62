-- name: get_tenant
-- A tenant by name.
SELECT number, id, name FROM tenants WHERE name = %s

-- name: list_tenants
-- All tenants.
SELECT number, id, name FROM tenants ORDER BY number

-- name: lock_tenants
-- The lock of the process that creates a tenant.
LOCK TABLE tenants IN SHARE ROW EXCLUSIVE MODE

-- name: create_tenant
-- A tenant with the next number.
INSERT INTO tenants (number, id, name)
SELECT max(number) + 1, %s, %s FROM tenants
ON CONFLICT DO NOTHING

-- name: lacks_role
-- True if the database is distributed, and the default tenant has a role but this one has none.
SELECT to_regclass('pg_dist_partition') IS NOT NULL AND to_regrole(%s) IS NOT NULL AND to_regrole(%s) IS NULL

-- fragment: role_of_tenant
-- The role of the statements of a tenant.
CASE WHEN to_regclass('pg_dist_partition') IS NULL OR to_regrole({own}) IS NULL THEN {app} ELSE {own} END

-- fragment: create_role
-- The role of a tenant in a distributed database.
CREATE ROLE {role} LOGIN IN ROLE {app}

-- fragment: restrict_role
-- The tenant of the connections to workers with the role.
ALTER ROLE {role} SET ash.tenant = {number}

-- fragment: grant_role
-- Lets the user of the connection set the role.
GRANT {role} TO CURRENT_USER
