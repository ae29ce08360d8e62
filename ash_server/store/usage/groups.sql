-- fragment: agent
-- The program that wrote a session, else its format. The program is the first key of the metadata.
CASE WHEN starts_with(metadata, '{"agent":') THEN substring(metadata FROM '^\{"agent":"(([^"\\]|\\.)*)"') ELSE source END

-- fragment: period
-- The start of the period of a quarter of an hour.
CASE
    WHEN %(period)b::text IS NULL OR quarter = '-infinity' THEN NULL
    WHEN %(period)b::text = 'quarter' THEN quarter
    ELSE date_trunc(%(period)b::text, quarter, %(timezone)b::text)
END

-- fragment: is_chosen
-- The conditions on sessions.
(%(sessions)b::uuid[] IS NULL OR id = ANY(%(sessions)b))
AND (%(sources)b::text[] IS NULL OR source = ANY(%(sources)b))
AND (%(projects)b::text IS NULL OR project ~ %(projects)b)
AND (%(machines)b::text[] IS NULL OR machine = ANY(%(machines)b))
AND (%(agents)b::text[] IS NULL OR {agent} = ANY(%(agents)b))
AND (%(keys)b::uuid[] IS NULL OR key_id = ANY(%(keys)b))

-- name: read_groups
-- Sums by period and other fields, and by everything that prices depend on. Unknown times are a group of their own, and
-- so is usage with reported costs: the computed cost of the rest is then known. Sums are texts, because psycopg takes
-- longer to read numbers of any size.
SELECT start, nullif(min(quarter), '-infinity'), nullif(max(quarter), '-infinity'), source, nullif(model, ''), nullif(service_tier, ''),
    nullif(speed, ''), nullif(region, ''), is_request, band, group_session, group_project, group_machine, group_agent,
    group_key, nullif(group_agent_id, ''), nullif(group_cause, ''), sum(answers)::text, sum(input_tokens)::text,
    sum(cache_read_tokens)::text, sum(cache_write_5m_tokens)::text, sum(cache_write_1h_tokens)::text,
    sum(output_tokens)::text, sum(reasoning_tokens)::text, sum(web_searches)::text, sum(reported_cost)::text,
    sum(reported_answers)::text
FROM (
    SELECT {period} AS start, width_bucket(quarter, %(price_changes)b::timestamptz[]) AS price_period,
        quarter = '-infinity' AS is_unknown, quarter, source, model, service_tier, speed, region, is_request, band,
        CASE WHEN %(by_session)b::bool THEN session_id END AS group_session,
        CASE WHEN %(by_project)b::bool THEN project END AS group_project,
        CASE WHEN %(by_machine)b::bool THEN machine END AS group_machine,
        CASE WHEN %(by_agent)b::bool THEN {agent} END AS group_agent,
        CASE WHEN %(by_key)b::bool THEN key_id END AS group_key,
        CASE WHEN %(by_agent_id)b::bool THEN usage_rollups.agent_id END AS group_agent_id,
        CASE WHEN %(by_cause)b::bool THEN usage_rollups.cause END AS group_cause, answers, input_tokens,
        cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, output_tokens, reasoning_tokens,
        web_searches, reported_cost, reported_answers, reported_answers > 0 AS is_reported,
        reported_answers < answers AS is_unreported
    FROM usage_rollups JOIN sessions ON id = session_id
    WHERE (%(since)b::timestamptz IS NULL OR quarter >= date_bin('15 minutes', %(since)b, '2000-01-01Z'))
      AND (%(until)b::timestamptz IS NULL OR quarter < %(until)b AND quarter > '-infinity')
      AND (%(models)b::text[] IS NULL OR model = ANY(%(models)b))
      AND {is_chosen}
      AND (NOT is_copy OR session_id = ANY(%(without_original)b::uuid[]))
      AND (usage_rollups.agent_id = '' OR session_id || ' ' || usage_rollups.agent_id <> ALL(%(repeated)b::text[]))
) AS usage
GROUP BY start, price_period, is_unknown, source, model, service_tier, speed, region, is_request, band, group_session,
    group_project, group_machine, group_agent, group_key, group_agent_id, group_cause, is_reported, is_unreported
HAVING sum(answers) > 0

-- name: list_shared
-- The sessions with usage that another session may have, too: in copied messages, or in lines of subagents.
SELECT DISTINCT session_id, agent_id, is_copy
FROM usage_rollups
WHERE (is_copy OR agent_id <> '')
  AND (%(since)b::timestamptz IS NULL OR quarter >= date_bin('15 minutes', %(since)b, '2000-01-01Z'))
  AND (%(until)b::timestamptz IS NULL OR quarter < %(until)b)
  AND (%(sessions)b::uuid[] IS NULL OR session_id = ANY(%(sessions)b))

-- name: list_originals
-- The originals of copies.
SELECT id, copy_of FROM sessions WHERE id = ANY(%b) AND copy_of IS NOT NULL

-- name: list_without_answers
-- The newest sessions with a stated cost and without answers.
SELECT id FROM sessions
WHERE stated_cost IS NOT NULL AND {is_chosen}
  AND NOT EXISTS (SELECT FROM usage_rollups WHERE session_id = sessions.id)
ORDER BY last_at DESC NULLS LAST, id
LIMIT %(limit)b

-- name: list_sessions_with_usage
-- The sessions with tokens of their own among some.
SELECT DISTINCT session_id FROM usage_rollups
WHERE session_id = ANY(%b) AND NOT is_copy AND input_tokens + cache_read_tokens + output_tokens > 0

-- name: count_without_facts
-- The number of sessions with events of another version, by an index.
SELECT count(*) FROM session_counters
WHERE message_sequence > 0
  AND (normalizer_version < %(version)b OR normalizer_version > %(version)b OR normalizer_version IS NULL)
  AND (%(sessions)b::uuid[] IS NULL OR session_id = ANY(%(sessions)b))
