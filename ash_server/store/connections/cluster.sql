-- name: list_workers
-- The addresses of the workers, and whether they answer.
SELECT format('%s:%s', nodename, nodeport), coalesce(success, false)
FROM pg_dist_node LEFT JOIN run_command_on_workers('SELECT 1') USING (nodename, nodeport)
WHERE noderole = 'primary' AND groupid <> 0
ORDER BY 1

-- name: database_bytes
-- The size of the database on this server.
SELECT pg_database_size(current_database())

-- name: database_bytes_of_workers
-- The size of the database on all workers that answer.
SELECT coalesce(sum(result::bigint) FILTER (WHERE success), 0)::bigint FROM run_command_on_workers('{database_bytes}')

-- name: has_citus
-- True if the database may be part of a cluster.
SELECT {has_citus_extension}

-- fragment: rows_as_json
-- The rows of a query in one value.
SELECT coalesce(json_agg(each), '[]') FROM ({query}) AS each

-- name: run_on_workers
-- The results of a statement on all workers that answer.
SELECT result FROM run_command_on_workers(%s) WHERE success
