-- name: get_server_state
-- The columns of `ServerState`. The timeline increases when a replica is promoted. A replica knows the timeline of its
-- last restart point, and of the log that it receives; only superusers and members of pg_read_all_stats can read the
-- latter.
SELECT pg_is_in_recovery(), system_identifier,
    CASE WHEN pg_is_in_recovery() THEN greatest(
        (SELECT timeline_id FROM pg_control_checkpoint()),
        (SELECT min_recovery_end_timeline FROM pg_control_recovery()),
        (SELECT received_tli FROM pg_stat_wal_receiver)
    ) ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer END,
    coalesce(
        CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0'::pg_lsn,
        0
    )
FROM pg_control_system()

-- name: has_reached
-- One row if a session has these sequences.
SELECT FROM session_counters
WHERE session_id = %b AND message_sequence >= %b AND event_sequence >= %b
