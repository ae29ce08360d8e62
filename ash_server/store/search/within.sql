-- fragment: is_in_log
-- True for words with sequences of the present log. Those of an earlier one are deleted or moved later.
sequence > (SELECT last_dropped_sequence FROM session_counters WHERE session_id = %(session_id)b)

-- fragment: list_hits
-- A page of the matching events of a session, numbered from 1.
WITH hits AS (
    SELECT session_id, sequence, array_agg(DISTINCT weight) AS weights, role, at,
        row_number() OVER (ORDER BY sequence) AS number, count(*) OVER () AS total
    FROM tenant_search AS search
    WHERE session_id = %(session_id)b AND {condition} AND readers <> %(others)b AND {is_in_log}
    GROUP BY session_id, sequence, role, at
), first AS (
    SELECT CASE
        WHEN %(before)b::bigint IS NOT NULL THEN greatest(
            count(*) FILTER (WHERE sequence <= %(after)b::bigint),
            count(*) FILTER (WHERE sequence < %(before)b::bigint) - %(limit)b
        )
        ELSE greatest(
            count(*) FILTER (WHERE sequence <= %(after)b::bigint),
            coalesce(min(number) FILTER (WHERE sequence >= %(at)b::bigint), max(number)) - %(limit)b / 2 - 1
        )
    END AS after
    FROM hits
)
SELECT session_id, sequence, weights, role, at, number, total
FROM hits, first
WHERE number > first.after AND number <= first.after + %(limit)b
  AND (%(before)b::bigint IS NULL OR sequence < %(before)b::bigint)
ORDER BY number

-- fragment: count_hits
-- The number of matching events of a session.
SELECT count(DISTINCT sequence) FROM tenant_search AS search
WHERE session_id = %(session_id)b AND {condition} AND readers <> %(others)b AND {is_in_log}

-- fragment: matching
-- The matching rows between two events of a session.
search
WHERE session_id = %(session_id)b AND sequence >= %(low)b AND sequence < %(high)b
  AND {condition} AND readers <> %(others)b

-- fragment: hits
-- Matching events without numbers.
SELECT session_id, sequence, array_agg(DISTINCT weight) AS weights, min(role) AS role, min(at) AS at,
    NULL::bigint AS number, 0::bigint AS total
FROM {matching}
GROUP BY session_id, sequence

-- fragment: list_next
-- The first matching events between two events.
{hits} ORDER BY sequence LIMIT %(limit)b

-- fragment: list_previous
-- The last ones, backwards.
{hits} ORDER BY sequence DESC LIMIT %(limit)b

-- fragment: count_last
-- The number of matching events between two events, the last ones first, up to a limit.
SELECT count(*) FROM (SELECT DISTINCT sequence FROM {matching} ORDER BY sequence DESC LIMIT %(most)b) AS last
