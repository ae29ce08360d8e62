-- name: list_tables
-- The tables and the columns with rows to copy.
SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position)
FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' AND is_generated = 'NEVER'
  AND table_name <> 'alembic_version'
GROUP BY table_name
ORDER BY table_name

-- name: list_references
-- The tables that refer to others.
SELECT child.relname, parent.relname
FROM pg_constraint
JOIN pg_class AS child ON child.oid = conrelid JOIN pg_class AS parent ON parent.oid = confrelid
WHERE contype = 'f' AND conrelid <> confrelid AND child.relnamespace = current_schema()::regnamespace

-- name: list_sequences
-- The sequences and their last values.
SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = current_schema()

-- name: set_sequence
-- The last value of a sequence.
SELECT setval(%s::regclass, %s)
