-- name: get_parents
-- The sessions that started subagents. A session with a parent and an empty agent is a fork.
SELECT id, parent_id FROM sessions WHERE parent_id IS NOT NULL AND agent_id IS DISTINCT FROM ''

-- name: get_children
-- The subagents that some sessions started.
SELECT id, parent_id FROM sessions WHERE parent_id = ANY(%s) AND agent_id IS DISTINCT FROM ''
