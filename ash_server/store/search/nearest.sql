-- name: set_bounds
-- The time limit of the next statement in the transaction, and whether it may scan the table without an index:
-- PostgreSQL overestimates the rows that match hundreds of words.
SELECT set_config('statement_timeout', %b, true), set_config('enable_seqscan', %b, true)

-- fragment: has_words
-- A row if any event matches.
SELECT 1 FROM tenant_search AS search
WHERE {condition} AND readers <> %(others)b AND (%(session_id)b::uuid IS NULL OR session_id = %(session_id)b)
LIMIT 1

-- fragment: read_words
-- The words of some matching rows, among candidates or with a beginning, the most frequent first.
SELECT word, count(*)
FROM (
    SELECT words FROM tenant_search AS search
    WHERE {condition} AND readers <> %(others)b AND (%(session_id)b::uuid IS NULL OR session_id = %(session_id)b)
    LIMIT %(rows)b
) AS matching, unnest(tsvector_to_array(words)) AS word
WHERE word = ANY(%(candidates)b::text[]) OR starts_with(word, %(beginning)b::text)
GROUP BY word
ORDER BY count(*) DESC, word
LIMIT %(most)b
