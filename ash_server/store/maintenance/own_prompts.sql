-- name: count_copied
-- The number of copied messages at the beginning of a subagent.
SELECT copied_messages FROM sessions
WHERE id = %b AND copied_messages > 0 AND nullif(agent_id, '') IS NOT NULL

-- name: set_prompt
-- The first prompt, and the title unless the tool or a person set it.
UPDATE sessions SET
    first_prompt = %(first_prompt)b,
    title = CASE WHEN title_priority > {from_prompt} THEN title ELSE %(first_prompt)b END,
    title_priority = CASE
        WHEN title_priority > {from_prompt} THEN title_priority
        WHEN %(first_prompt)b::text IS NULL THEN {unnamed}
        ELSE {from_prompt}
    END
WHERE id = %(session_id)b
