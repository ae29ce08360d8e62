-- name: insert_drift
-- The drift of stored messages.
INSERT INTO drift (session_id, sequence, reason, raw_type, source, client_version, count, seen_at)
SELECT session_id, sequence, reason, raw_type, source, client_version, count,
    coalesce(seen_at, (
        SELECT created_at FROM messages
        WHERE messages.session_id = %(session_id)b AND messages.sequence = new.sequence
    ))
FROM session_counters, unnest(%(sequences)b::bigint[], %(reasons)b::text[], %(raw_types)b::text[],
    %(sources)b::text[], %(client_versions)b::text[], %(times)b::int[], %(seen_at)b::timestamptz[])
    AS new (sequence, reason, raw_type, source, client_version, count, seen_at)
WHERE session_id = %(session_id)b

-- name: report_drift
-- Groups by source, client version, type and reason, last seen first. A message that no provider recognizes has the
-- source of its session.
WITH seen AS (
    SELECT CASE WHEN drift.source = 'unknown' THEN sessions.source ELSE drift.source END AS source,
        coalesce(drift.client_version, sessions.client_version, '') AS client_version,
        raw_type, reason, count, seen_at, session_id, sequence
    FROM drift JOIN sessions ON sessions.id = session_id
    WHERE (%(reason)s::text IS NULL OR reason = %(reason)s)
      AND (%(since)s::timestamptz IS NULL OR seen_at >= %(since)s)
), placed AS (
    SELECT *, row_number() OVER (
        PARTITION BY source, client_version, raw_type, reason
        ORDER BY seen_at DESC, session_id, sequence DESC
    ) AS place
    FROM seen
    WHERE %(source)s::text IS NULL OR source = %(source)s
)
SELECT source, nullif(client_version, '') AS "clientVersion", nullif(raw_type, '') AS "rawType", reason,
    sum(count) AS count, min(seen_at) AS "firstSeen", max(seen_at) AS "lastSeen",
    array_agg(session_id ORDER BY place) FILTER (WHERE place <= {max_samples}) AS sessions,
    array_agg(sequence ORDER BY place) FILTER (WHERE place <= {max_samples}) AS sequences
FROM placed
GROUP BY source, client_version, raw_type, reason
ORDER BY max(seen_at) DESC, count DESC, source, client_version, raw_type, reason
LIMIT %(limit)s

-- name: count_drift
-- The number of blocks by source and reason.
SELECT source, reason, sum(count)::bigint FROM drift GROUP BY source, reason ORDER BY source, reason
