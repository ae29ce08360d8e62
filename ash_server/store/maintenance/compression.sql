-- name: get_compression
-- The compression of new texts.
SELECT CASE
    WHEN attstorage = 'e' THEN 'none'
    WHEN attcompression = 'l' THEN 'lz4'
    WHEN attcompression = 'p' THEN 'pglz'
    ELSE current_setting('default_toast_compression') END
FROM pg_attribute
WHERE attrelid = 'messages'::regclass AND attname = 'content'

-- fragment: use_lz4
-- Compression with lz4.
ALTER TABLE {table} ALTER content SET STORAGE EXTENDED, ALTER content SET COMPRESSION lz4

-- fragment: use_pglz
-- Compression with pglz.
ALTER TABLE {table} ALTER content SET STORAGE EXTENDED, ALTER content SET COMPRESSION pglz

-- fragment: use_none
-- No compression.
ALTER TABLE {table} ALTER content SET STORAGE EXTERNAL

-- name: is_distributed
-- True if the messages are on the workers of a cluster.
SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'messages'::regclass)

-- name: run_on_shards
-- The errors of a statement that runs on all shards of a cluster.
SELECT result FROM run_command_on_shards('messages', %s) WHERE NOT success

-- name: alter_coordinator_alone
-- Makes Citus run the next statements on the coordinator only.
SET citus.enable_ddl_propagation = off
