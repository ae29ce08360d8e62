-- name: has_database
-- One row if there is a database with a name.
SELECT FROM pg_database WHERE datname = %s
