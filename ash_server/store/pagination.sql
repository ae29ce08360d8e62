-- fragment: bounded_page
-- The first `limit` rows of a query, up to the row that makes the sum of sizes exceed `bytes`.
SELECT {columns}
FROM (
    SELECT *,
        coalesce(sum({size}) OVER (ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
            AS bytes_before
    FROM ({page} ORDER BY {order} LIMIT %(limit)b) AS entry
) AS entry
WHERE bytes_before < %(bytes)b::bigint
ORDER BY {order}

-- fragment: find_stored
-- The id, the sequence and the content of each entry that has one of some ids. The parameters are the ids and the
-- session. Ids are looked up one by one: before the table is analysed, PostgreSQL plans `id = ANY(...)` as a scan of the
-- whole session, which makes a long import quadratic. LIMIT keeps the planner from joining the two. OFFSET hides the
-- number of ids from the planner, which would plan the query again for each short list.
SELECT stored.*
FROM (SELECT %b::text[] AS ids OFFSET 0) AS args,
    unnest(ids) AS arg_id,
    LATERAL (
        SELECT {id}, sequence, {content}
        FROM {table}
        WHERE session_id = %b AND {id} = arg_id
        LIMIT 1
    ) AS stored
