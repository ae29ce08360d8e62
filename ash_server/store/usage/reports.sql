-- name: get_stated_costs
-- The costs that agents state for some sessions, and the sessions that these were copied from.
SELECT id, stated_cost, stated_models, CASE WHEN copied_messages > 0 THEN copy_of END
FROM sessions WHERE id = ANY(%s) AND stated_cost IS NOT NULL

-- name: count_models
-- The tokens of the models with the most answers, over all tenants.
SELECT source, model, sum(answers), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
    sum(cache_write_5m_tokens + cache_write_1h_tokens)
FROM usage_rollups JOIN sessions ON id = session_id
WHERE NOT is_copy
GROUP BY source, model
ORDER BY sum(answers) DESC, source, model
LIMIT %s
