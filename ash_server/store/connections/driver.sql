-- fragment: has_citus
-- True if the database may be part of a cluster.
to_regclass('pg_dist_partition') IS NOT NULL

-- name: pass_on_settings
-- Makes Citus send the SET LOCAL commands of a transaction to the workers.
SELECT set_config('citus.propagate_set_commands', 'local', true)
