-- fragment: key
-- The order of search results.
(at, session_id, sequence)

-- fragment: place
-- A place in the order of results.
(%(at)b::timestamptz, %(id)b::uuid, %(sequence)b::bigint)

-- fragment: is_older
-- True for events after this place, which are older.
{key} < {place}

-- name: find_bound
-- The place of an event a number of rows after a place in the order of results.
SELECT at, session_id, sequence FROM tenant_search AS search
WHERE {is_older} AND (%(since)b::timestamptz IS NULL OR at >= %(since)b)
ORDER BY at DESC, session_id DESC, sequence DESC
OFFSET %(rows)b LIMIT 1

-- name: find_other
-- The next place of other sessions in the order of results, if it is near.
SELECT at, session_id, sequence
FROM (
    SELECT at, session_id, sequence FROM tenant_search AS search
    WHERE {is_older}
    ORDER BY at DESC, session_id DESC, sequence DESC
    LIMIT %(rows)b
) AS next
WHERE session_id <> ALL(%(full)b::uuid[])
ORDER BY at DESC, session_id DESC, sequence DESC
LIMIT 1

-- fragment: in_window
-- Events between two places in the order of results.
{is_older} AND {key} >= (%(last_at)b::timestamptz, %(last_id)b::uuid, %(last_sequence)b::bigint) AND {in_sessions}

-- fragment: in_window_of_session
-- Events between two sequences, in a single session.
session_id = %(session_id)b AND sequence < %(sequence)b AND sequence >= %(last_sequence)b

-- fragment: newest_first
-- The order of results.
at DESC, session_id DESC, sequence DESC

-- fragment: is_newer
-- True for events before this place.
{key} >= {place}

-- fragment: is_later
-- The same for the log of a single session.
sequence >= %(sequence)b

-- fragment: last_first
-- The order of results in a single session: as in its log.
sequence DESC

-- fragment: find_in_window
-- The matching events of a window, and their places within their sessions.
SELECT session_id, sequence, weights, role, at, place
FROM (
    SELECT session_id, sequence, array_agg(DISTINCT weight) AS weights, min(role) AS role, at,
        row_number() OVER (PARTITION BY session_id ORDER BY {order}) AS place
    FROM tenant_search AS search
    WHERE {passes} AND {window}
    GROUP BY session_id, sequence, at
) AS matching
WHERE place <= %(per_session)b
ORDER BY {order}
LIMIT %(limit)b

-- fragment: count_in_window
-- The number of rows of a window with the words.
SELECT count(*) FROM tenant_search AS search WHERE {condition} AND {window}

-- fragment: count_matching_rows
-- The number of matching rows, up to a limit.
SELECT count(*) FROM (SELECT 1 FROM tenant_search AS search WHERE {condition} LIMIT %(rows)b) AS matching

-- fragment: count_newer
-- The number of matching events of some sessions that come first in the order of results.
SELECT session_id, count(DISTINCT sequence) FROM tenant_search AS search
WHERE {passes} AND session_id = ANY(%(ids)b::uuid[]) AND {newer}
GROUP BY session_id

-- fragment: count_matches
-- The number of matching events among the last ones of some sessions.
SELECT search.session_id, count(DISTINCT search.sequence)
FROM session_counters AS counters
JOIN tenant_search AS search
    ON search.session_id = counters.session_id AND search.sequence > counters.event_sequence - %(rows)b::bigint
WHERE {passes} AND counters.session_id = ANY(%(ids)b::uuid[])
GROUP BY search.session_id

-- name: describe_sessions
-- The fields of sessions that results show, and the number of their events.
SELECT id, title, external_id, source, metadata, event_sequence - last_dropped_sequence
FROM sessions JOIN session_counters ON session_id = id
WHERE id = ANY(%b)

-- fragment: list_few
-- Some of the sessions that match the filters.
SELECT id FROM ({sessions}) AS matching LIMIT %(most)b

-- name: bounds_of_log
-- The first and the last event of a session.
SELECT last_dropped_sequence + 1, event_sequence FROM session_counters WHERE session_id = %b

-- name: count_events
-- The number of events of some sessions.
SELECT coalesce(sum(event_sequence - last_dropped_sequence), 0)::bigint FROM session_counters
WHERE session_id = ANY(%b)
