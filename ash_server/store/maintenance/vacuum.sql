-- name: list_tables
-- The tables of the schema.
SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename

-- name: size_of_tables
-- The bytes of some tables, with their indexes.
SELECT coalesce(sum(pg_total_relation_size(quote_ident(name)::regclass)), 0) FROM unnest(%b::text[]) AS name

-- name: size_of_shards
-- The bytes of all distributed tables on the workers of a cluster.
SELECT coalesce(sum(citus_total_relation_size(logicalrelid)), 0) FROM pg_dist_partition

-- name: format_size
-- A number of bytes for people.
SELECT pg_size_pretty(%b::numeric)
