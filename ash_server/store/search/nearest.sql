-- name: set_bounds
-- The time limit of the next statement in the transaction, and whether it may scan the table, or the index of times,
-- instead of the indexes of words: PostgreSQL overestimates the rows that match hundreds of words.
SELECT set_config('statement_timeout', %b, true), set_config('enable_seqscan', %b, true),
    set_config('enable_indexscan', %b, true)

-- fragment: some_rows
-- Some matching rows.
SELECT words FROM tenant_search AS search
WHERE {condition} AND readers <> %(others)b AND (%(session_id)b::uuid IS NULL OR session_id = %(session_id)b)
LIMIT %(rows)b

-- fragment: some_indexed_rows
-- The same for each of several queries, among the first rows of the indexes of words. The inner LIMIT keeps PostgreSQL from
-- reading all rows of the session.
SELECT found.words
FROM unnest(%(queries)b::tsquery[]) AS one (query) CROSS JOIN LATERAL (
    SELECT words
    FROM (
        SELECT words, session_id FROM tenant_search AS search
        WHERE {condition} AND readers <> %(others)b
        LIMIT %(indexed)b
    ) AS search
    WHERE %(session_id)b::uuid IS NULL OR session_id = %(session_id)b
    LIMIT %(rows)b
) AS found

-- fragment: has_words
-- A row if any of these rows has the word.
SELECT 1 FROM ({rows}) AS search WHERE ts_match_vq(words, %(word)b::tsquery) LIMIT 1

-- fragment: read_words
-- The words of matching rows, among candidates or with a beginning, the most frequent first.
SELECT word, count(*)
FROM ({rows}) AS matching, unnest(tsvector_to_array(words)) AS word
WHERE word = ANY(%(candidates)b::text[]) OR starts_with(word, %(beginning)b::text)
GROUP BY word
ORDER BY count(*) DESC, word
LIMIT %(most)b
