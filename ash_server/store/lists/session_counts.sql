-- fragment: agent
-- The agent that wrote a session, else its format. The agent is the first key of the metadata.
CASE WHEN starts_with(metadata, '{"agent":') THEN substring(metadata FROM '^\{"agent":"(([^"\\]|\\.)*)"') ELSE source END

-- fragment: read_values
-- The values of the sessions that match further conditions.
SELECT id, {agent}, project, branch, machine, key_id
FROM tenant_sessions AS sessions
WHERE id = ANY(%(read_ids)s::uuid[]) AND {conditions}

-- name: count_models
-- Models, with the number of sessions of each.
SELECT model, count(DISTINCT session_id) FROM usage_rollups
WHERE session_id = ANY(%(ids)s::uuid[]) AND model <> ''
GROUP BY model
