-- fragment: bounded_page
-- The first `limit` rows of a query, cut after the row at which the sum of sizes exceeds `bytes`.
SELECT {columns}
FROM (
    SELECT *,
        coalesce(sum({size}) OVER (ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
            AS bytes_before
    FROM ({page} ORDER BY {order} LIMIT %(limit)b) AS entry
) AS entry
WHERE bytes_before < %(bytes)b::bigint
ORDER BY {order}
