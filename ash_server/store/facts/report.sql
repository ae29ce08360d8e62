-- name: list_tools
-- The calls of each tool, most used first.
SELECT tool, mcp_server, count(*), count(*) FILTER (WHERE outcome IN ('failed', 'denied')),
    count(*) FILTER (WHERE outcome = 'denied')
FROM tool_calls WHERE session_id = %(session_id)b AND number = 0
GROUP BY tool, mcp_server ORDER BY count(*) DESC, tool, mcp_server

-- name: list_servers
-- The calls of each MCP server, most used first.
SELECT mcp_server, count(*) FROM tool_calls
WHERE session_id = %(session_id)b AND number = 0 AND mcp_server <> ''
GROUP BY mcp_server ORDER BY count(*) DESC, mcp_server

-- name: list_skills
-- The calls that load each skill, most used first.
SELECT skill, count(*) FROM tool_calls
WHERE session_id = %(session_id)b AND number = 0 AND skill <> ''
GROUP BY skill ORDER BY count(*) DESC, skill

-- name: list_files
-- The files of calls that succeeded, in the order of their first call.
SELECT path, count(*) FILTER (WHERE action = 'read'), count(*) FILTER (WHERE action <> 'read'), sum(added)::bigint,
    sum(removed)::bigint
FROM tool_calls
WHERE session_id = %(session_id)b AND path <> '' AND outcome = 'ok'
GROUP BY path ORDER BY min(message_sequence) NULLS LAST, min(number), path LIMIT %(limit)b

-- name: list_calls
-- The messages with the last calls of some tools.
SELECT message_sequence FROM tool_calls
WHERE session_id = %(session_id)b AND number = 0 AND tool = ANY(%(tools)b::text[]) AND message_sequence IS NOT NULL
  AND outcome NOT IN ('failed', 'denied')
ORDER BY message_sequence DESC LIMIT %(limit)b

-- name: list_events
-- The calls in some messages.
SELECT {event_json}
FROM events AS entry
WHERE session_id = %(session_id)b AND type = 'tool_call' AND message_sequence = ANY(%(places)b::bigint[])
ORDER BY sequence
