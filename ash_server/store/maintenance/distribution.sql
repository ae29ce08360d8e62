-- name: has_citus
-- True if the database has the extension.
SELECT EXISTS (SELECT FROM pg_proc WHERE proname = 'create_distributed_table')

-- name: list_tenants
-- The numbers of the tenants.
SELECT number FROM tenants ORDER BY number

-- name: list_roles
-- The roles of the server.
SELECT rolname FROM pg_roles

-- name: list_distributed_tables
-- The tables that are distributed.
SELECT logicalrelid::regclass::text FROM pg_dist_partition

-- name: has_own_rows
-- True if a table has or had rows on the coordinator.
SELECT pg_relation_size(%s::regclass) > 0

-- fragment: simplify_policy
-- The policy without a subquery, which the policies of distributed tables must not have.
ALTER POLICY tenant ON {table} USING (tenant = current_setting('ash.tenant')::integer)

-- fragment: distribute
-- Copies the rows of a table to the workers.
SELECT create_distributed_table({table}, {column}, {place})

-- fragment: truncate_local_data
-- The original rows, which stay in the table of the coordinator, where no statement reads them.
SELECT truncate_local_data_after_distributing_table({table})
