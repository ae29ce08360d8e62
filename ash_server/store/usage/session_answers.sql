-- name: list_answers
-- The answers that a range of messages stated first. Answers without a time have none.
SELECT message_sequence, turn, nullif(at, '-infinity'), nullif(model, ''), nullif(service_tier, ''),
    nullif(speed, ''), nullif(region, ''), is_request, band, input_tokens, cache_read_tokens, cache_write_5m_tokens,
    cache_write_1h_tokens, output_tokens, reasoning_tokens, web_searches, reported_cost
FROM answers
WHERE session_id = %(session_id)s AND message_sequence > %(after)s AND message_sequence <= %(until)s
ORDER BY message_sequence, key

-- name: count_answers
-- The number of answers by model, without those that a tool wrote.
SELECT model, sum(answers)::bigint
FROM usage_rollups
WHERE session_id = %(session_id)s AND model <> '' AND model NOT LIKE '<%%' AND (%(with_copies)s OR NOT is_copy)
GROUP BY model
