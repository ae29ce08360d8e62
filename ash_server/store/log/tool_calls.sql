-- fragment: call
-- The columns of a call and a file, except for its file, in the order of `file`.
key, number, message_sequence, at, turn, tool, mcp_server, skill, outcome

-- fragment: file
-- The columns of a file.
action, path, added, removed

-- fragment: changes
-- True for a file that a call changed.
(action IN ('edit', 'write', 'delete', 'move') AND path <> '' AND outcome = 'ok')

-- fragment: stored_calls
-- Parts of a statement that write tool calls, and results of stored ones, with the changes of the counts. Rows without a
-- tool are results: they keep the call, and the lines that they report replace the stored ones. The first place, time and
-- turn of a call stay. OFFSET 0 and LIMIT 1 keep lookups by key and path apart: without statistics, PostgreSQL would read
-- all calls of the session instead.
stated AS (
    SELECT * FROM json_to_recordset(%(calls)b::json) AS value (
        key text, number int, message_sequence bigint, time bigint, turn int, tool text, mcp_server text, skill text,
        action text, path text, added int, removed int, outcome text)
), old AS (
    SELECT found.* FROM (SELECT DISTINCT key FROM stated) AS wanted CROSS JOIN LATERAL (
        SELECT {call}, {file} FROM tool_calls WHERE session_id = %(session_id)b AND key = wanted.key OFFSET 0
    ) AS found
), new AS (
    SELECT stated.key, stated.number,
        CASE WHEN first.key IS NULL THEN stated.message_sequence ELSE first.message_sequence END AS message_sequence,
        coalesce(nullif(first.at, '-infinity'), to_timestamp(time / 1000.0), '-infinity') AS at,
        coalesce(first.turn, stated.turn) AS turn, coalesce(stated.tool, first.tool) AS tool,
        coalesce(stated.mcp_server, first.mcp_server) AS mcp_server, coalesce(stated.skill, first.skill) AS skill,
        coalesce(nullif(stated.outcome, ''), first.outcome, '') AS outcome,
        CASE WHEN stated.tool IS NULL THEN coalesce(nullif(same.action, ''), stated.action, '') ELSE stated.action
            END AS action,
        CASE WHEN stated.tool IS NULL THEN coalesce(nullif(same.path, ''), stated.path, '') ELSE stated.path
            END AS path,
        CASE WHEN stated.action IS NULL THEN same.added ELSE stated.added END AS added,
        CASE WHEN stated.action IS NULL THEN same.removed ELSE stated.removed END AS removed
    FROM stated
    LEFT JOIN old AS first ON first.key = stated.key AND first.number = 0
    LEFT JOIN old AS same ON same.key = stated.key AND same.number = stated.number
    WHERE stated.tool IS NOT NULL OR first.key IS NOT NULL
    UNION ALL
    SELECT old.key, old.number, old.message_sequence, at, old.turn, old.tool, old.mcp_server, old.skill, stated.outcome,
        old.action, old.path, old.added, old.removed
    FROM old JOIN stated ON stated.key = old.key AND stated.number = 0 AND stated.tool IS NULL
    WHERE (old.key, old.number) NOT IN (SELECT key, number FROM stated)
), signed AS (
    SELECT 1 AS sign, new.* FROM new UNION ALL SELECT -1, old.* FROM old
), counts AS (
    SELECT coalesce(sum(sign) FILTER (WHERE number = 0), 0) AS calls,
        coalesce(sum(sign) FILTER (WHERE number = 0 AND outcome IN ('failed', 'denied')), 0) AS failures,
        coalesce(sum(sign * added) FILTER (WHERE {changes}), 0) AS added,
        coalesce(sum(sign * removed) FILTER (WHERE {changes}), 0) AS removed
    FROM signed
), changed AS (
    SELECT bool_or(sign = 1)::int - bool_or(sign = -1)::int AS files
    FROM signed
    WHERE {changes} AND (
        SELECT true FROM tool_calls AS other
        WHERE session_id = %(session_id)b AND other.path = signed.path AND {changes}
          AND other.key NOT IN (SELECT stated.key FROM stated)
        LIMIT 1) IS NULL
    GROUP BY path
), stored AS (
    INSERT INTO tool_calls (session_id, {call}, {file})
    SELECT session_id, new.* FROM session_counters CROSS JOIN new WHERE session_id = %(session_id)b
    ON CONFLICT (session_id, key, number) DO UPDATE
    SET (at, tool, mcp_server, skill, outcome, {file}) = ROW (
        excluded.at, excluded.tool, excluded.mcp_server, excluded.skill, excluded.outcome, excluded.action,
        excluded.path, excluded.added, excluded.removed)
), surplus AS (
    SELECT key, number FROM old
    WHERE NOT EXISTS (SELECT FROM new WHERE new.key = old.key AND new.number = old.number)
)

-- fragment: delete_surplus
-- The rows of files that calls do not state any more.
DELETE FROM tool_calls USING surplus
WHERE session_id = %(session_id)b AND tool_calls.key = ANY(ARRAY(SELECT key FROM surplus))
  AND tool_calls.key = surplus.key AND tool_calls.number = surplus.number

-- fragment: written_calls
-- All parts.
{stored_calls}, deleted AS ({delete_surplus})

-- fragment: counter_sums
-- The counters of the session after `written_calls`.
tool_calls = tool_calls + counts.calls, tool_failures = tool_failures + failures,
lines_added = lines_added + counts.added, lines_removed = lines_removed + counts.removed,
files_changed = files_changed + coalesce((SELECT sum(files) FROM changed), 0)

-- name: write
-- Tool calls and results with their counts.
WITH {written_calls} UPDATE session_counters SET {counter_sums} FROM counts WHERE session_id = %(session_id)b

-- name: remove
-- Calls that no message states any more, with the changes of their counts.
WITH old AS (
    DELETE FROM tool_calls WHERE session_id = %(session_id)b AND key = ANY(%(keys)b::text[]) RETURNING {call}, {file}
), counts AS (
    SELECT -count(*) FILTER (WHERE number = 0) AS calls,
        -count(*) FILTER (WHERE number = 0 AND outcome IN ('failed', 'denied')) AS failures,
        -coalesce(sum(added) FILTER (WHERE {changes}), 0) AS added,
        -coalesce(sum(removed) FILTER (WHERE {changes}), 0) AS removed
    FROM old
), changed AS (
    SELECT -1 AS files FROM old
    WHERE {changes} AND (
        SELECT true FROM tool_calls AS other
        WHERE session_id = %(session_id)b AND other.path = old.path AND {changes}
          AND other.key <> ALL(%(keys)b::text[])
        LIMIT 1) IS NULL
    GROUP BY path
)
UPDATE session_counters SET {counter_sums} FROM counts WHERE session_id = %(session_id)b

-- name: find_first_messages
-- The messages that stated some calls first.
SELECT message_sequence FROM tool_calls WHERE session_id = %b AND key = ANY(%b)

-- name: find_last_stated
-- The last of some events that states one of these ids of calls.
SELECT max(sequence) FROM events
WHERE session_id = %b AND sequence > %b AND sequence <= %b AND type IN ('tool_call', 'tool_result')
  AND EXISTS (
      SELECT FROM unnest(%b::text[]) AS id WHERE strpos(coalesce(stored_json, cold_text(session_id)), id) > 0)

-- name: set_turns
-- The numbers of the turns of some calls, if these messages stated them first.
UPDATE tool_calls SET turn = new.turn
FROM unnest(%b::text[], %b::bigint[], %b::int[]) AS new (key, message, turn)
WHERE session_id = %b AND tool_calls.key = new.key AND message_sequence = new.message

-- name: move_turns
-- The numbers of later turns, after a deletion. They are in no index.
UPDATE tool_calls SET turn = turn + %b
WHERE session_id = %b AND (turn > %b OR turn = %b AND message_sequence > %b)

-- name: has_posted
-- A row if posted events state calls or answers in a turn, which have no place.
SELECT FROM tool_calls WHERE session_id = %(session_id)b AND turn = %(turn)b AND message_sequence IS NULL
UNION ALL
SELECT FROM answers WHERE session_id = %(session_id)b AND turn = %(turn)b AND message_sequence IS NULL
LIMIT 1

-- name: has_posted_reset
-- A row if a posted event numbers the turns from 1 again.
SELECT FROM events WHERE session_id = %b AND type = 'reset' AND origin <> 'end' LIMIT 1

-- name: add_activity
-- The counts that no tool call gives.
UPDATE session_counters SET prompts = prompts + %b, turns = turns + %b, active_ms = active_ms + %b
WHERE session_id = %b

-- name: reset_counters
-- The counts of a session without facts.
UPDATE session_counters
SET prompts = 0, turns = 0, active_ms = 0, tool_calls = 0, tool_failures = 0, files_changed = 0, lines_added = 0,
    lines_removed = 0
WHERE session_id = %b

-- name: delete
-- All tool calls of a session.
DELETE FROM tool_calls WHERE session_id = %b
