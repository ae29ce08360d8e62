-- name: get_process_id
-- The process of PostgreSQL that runs the statement.
SELECT pg_backend_pid()
