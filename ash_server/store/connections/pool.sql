-- name: get_revision
-- The revision of the schema.
SELECT version_num FROM alembic_version
