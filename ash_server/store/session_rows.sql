-- fragment: sessions
-- Sessions, with the columns of `Session`.
SELECT
    id, source, external_id, title, metadata, created_at, updated_at, first_at, last_at, file_modified_at,
    client_version, provider_session_id, parent_id, parent_external_id, replaced_by,
    CASE WHEN path IS DISTINCT FROM external_id THEN path END AS path, copy_of, copied_messages,
    nullif(agent_id, '') AS agent_id,
    CASE WHEN first_prompt IS DISTINCT FROM title THEN first_prompt END AS prompt,
    message_sequence AS message_count, event_sequence - last_dropped_sequence AS event_count,
    errors AS error_count, unrecognised AS unrecognised_count,
    project, folder, branch, git_commit AS commit, machine, key_id, cause,
    normalizer_version >= {facts_version} AS has_facts, prompts AS prompt_count, turns AS turn_count, active_ms,
    tool_calls AS tool_call_count, tool_failures AS tool_failure_count, files_changed, lines_added, lines_removed,
    starred, archived, tags, note
FROM sessions JOIN session_counters ON session_id = id LEFT JOIN session_labels USING (session_id)

-- name: get_session
-- One session.
{sessions} WHERE id = %(id)s

-- name: get_sessions
-- The sessions with some ids.
{sessions} WHERE id = ANY(%(ids)s)

-- name: find_by_name
-- Sessions with an external id or a path.
{sessions} WHERE (external_id = %(name)s OR path = %(name)s) AND replaced_by IS NULL LIMIT %(limit)s

-- name: find_by_id_prefix
-- Sessions with ids within bounds.
{sessions} WHERE id BETWEEN %(low)s AND %(high)s LIMIT %(limit)s

-- name: find_by_provider_id
-- Sessions with the provider's session id.
{sessions} WHERE provider_session_id = %(name)s LIMIT %(limit)s

-- name: existing_ids
-- The ids of stored sessions among some.
SELECT id FROM sessions WHERE id = ANY(%s)

-- name: list_models
-- The models of the answers of sessions.
SELECT DISTINCT session_id, model FROM usage_rollups WHERE session_id = ANY(%s) AND model <> '' ORDER BY model

-- name: list_key_names
-- The names of keys.
SELECT id, name FROM tenant_keys WHERE id = ANY(%s)

-- name: next_ids
-- The next ids in ascending order.
SELECT id FROM sessions WHERE id > %b ORDER BY id LIMIT %b

-- name: recent_sessions
-- The sessions that changed within the last 10 seconds.
SELECT id, updated_at FROM sessions WHERE updated_at > statement_timestamp() - interval '10 seconds'

-- fragment: tree_sessions
-- Sessions with the columns of `TreeSession`, and the original of copies.
SELECT id, nullif(agent_id, ''), copied_messages, copy_of FROM sessions

-- name: get_root
-- The session at the top of a tree.
{tree_sessions} WHERE id = %b

-- name: get_children
-- The sessions of subagents. A session with a parent and an empty agent is a fork.
{tree_sessions} WHERE parent_id = ANY(%b) AND agent_id IS DISTINCT FROM ''
