-- fragment: has_citus
-- True if the database may be part of a cluster.
to_regclass('pg_dist_partition') IS NOT NULL

-- name: pass_on_settings
-- Makes Citus send SET LOCAL commands of this transaction to the workers.
SELECT set_config('citus.propagate_set_commands', 'local', true)
