-- fragment: list_hits
-- A page of the matching events of a session, numbered from 1.
WITH hits AS (
    SELECT session_id, sequence, array_agg(DISTINCT weight) AS weights, role, at,
        row_number() OVER (ORDER BY sequence) AS number, count(*) OVER () AS total
    FROM search
    WHERE session_id = %(session_id)b AND {condition} AND readers <> %(others)b
    GROUP BY session_id, sequence, role, at
), first AS (
    SELECT greatest(
        %(after)b::bigint,
        coalesce(min(number) FILTER (WHERE sequence >= %(at)b::bigint), max(number)) - %(limit)b / 2 - 1
    ) AS after
    FROM hits
)
SELECT session_id, sequence, weights, role, at, number, total
FROM hits, first
WHERE number > first.after AND number <= first.after + %(limit)b
ORDER BY number

-- fragment: count_hits
-- The number of matching events of a session.
SELECT count(DISTINCT sequence) FROM search
WHERE session_id = %(session_id)b AND {condition} AND readers <> %(others)b
