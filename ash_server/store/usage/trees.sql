-- name: list_parents
-- The parents of the sessions of subagents. A session with a parent and an empty agent is a fork.
SELECT id, parent_id FROM sessions WHERE id = ANY(%b) AND parent_id IS NOT NULL AND agent_id IS DISTINCT FROM ''

-- name: list_children
-- The sessions of subagents, with their parents.
SELECT id, parent_id, agent_id FROM sessions WHERE parent_id = ANY(%b) AND agent_id IS DISTINCT FROM ''
