-- name: get_revision
-- The revision of the schema.
SELECT version_num FROM alembic_version

-- name: lock
-- One process changes the schema; the others wait for the end of its transaction.
SELECT pg_advisory_xact_lock(%s)

-- name: is_new
-- Whether the database has no schema of Ash.
SELECT to_regclass('alembic_version') IS NULL
