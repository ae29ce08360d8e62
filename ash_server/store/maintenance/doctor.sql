-- name: list_tables
-- The columns of `TableSize`, largest tables first.
SELECT stat.relname, reltuples::bigint AS rows, pg_table_size(relid) AS bytes,
    pg_indexes_size(relid) AS index_bytes, coalesce(n_live_tup, 0) AS live_rows,
    coalesce(n_dead_tup, 0) AS dead_rows, coalesce(n_mod_since_analyze, 0) AS changed_rows,
    EXISTS (SELECT FROM pg_stats WHERE schemaname = stat.schemaname AND tablename = stat.relname) AS has_statistics,
    greatest(last_vacuum, last_autovacuum) AS vacuumed_at, greatest(last_analyze, last_autoanalyze) AS analyzed_at
FROM pg_stat_user_tables AS stat JOIN pg_class ON pg_class.oid = relid
WHERE stat.schemaname = current_schema()
ORDER BY pg_total_relation_size(relid) DESC, stat.relname

-- name: list_indexes
-- The columns of `IndexSize`, largest indexes first.
SELECT indexrelname AS name, stat.relname, pg_relation_size(indexrelid) AS bytes, idx_scan AS scans
FROM pg_stat_user_indexes AS stat
WHERE stat.schemaname = current_schema()
ORDER BY pg_relation_size(indexrelid) DESC, indexrelname

-- name: has_statement_statistics
-- True if PostgreSQL can record the durations of statements.
SELECT to_regclass('pg_stat_statements') IS NOT NULL

-- name: list_slowest_statements
-- The columns of `Statement`. Recorded statements have no values, except commands such as SET.
SELECT regexp_replace(left(query, 300), '\s+', ' ', 'g'), calls, mean_exec_time, total_exec_time
FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid
WHERE datname = current_database() AND query ~* '^\s*(WITH|SELECT|INSERT|UPDATE|DELETE)'
ORDER BY mean_exec_time DESC
LIMIT 10

-- name: list_followers
-- The columns of `Follower`.
SELECT coalesce(nullif(application_name, ''), client_addr::text, pid::text), state,
    coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)::bigint
FROM pg_stat_replication ORDER BY 1

-- name: is_follower
-- True if this server is a replica.
SELECT pg_is_in_recovery()

-- name: list_unused_slots
-- The replication slots that keep the log for a follower that is gone.
SELECT slot_name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint
FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL ORDER BY 1

-- name: count_outdated_messages
-- The number of sessions read by another parser: the first message shows it, since `ash reindex` goes in order.
SELECT count(*) FROM session_counters JOIN messages USING (session_id)
WHERE sequence = 1 AND kind <> 'deleted' AND parser_version <> %s AND NOT EXISTS (
      SELECT FROM cold_sessions WHERE cold_sessions.session_id = messages.session_id AND restored_at IS NULL)

-- name: count_outdated_events
-- The number of sessions with events of another normaliser.
SELECT count(*) FROM session_counters
WHERE message_sequence > 0 AND normalizer_version IS DISTINCT FROM %s AND NOT EXISTS (
      SELECT FROM cold_sessions WHERE cold_sessions.session_id = session_counters.session_id AND restored_at IS NULL)

-- name: list_settings
-- The values of some settings of PostgreSQL.
SELECT name, setting FROM pg_settings WHERE name = ANY(%s)
