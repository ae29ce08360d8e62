-- fragment: kind
-- The columns that prices and reports depend on.
model, service_tier, speed, region, agent_id, cause, is_request, band

-- fragment: counts
-- The columns of counts.
input_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, output_tokens, reasoning_tokens,
web_searches

-- fragment: facts
-- The columns of an answer that later statements about it replace, without its cost.
{kind}, folder, branch, turn, {counts}

-- fragment: answer
-- The columns of an answer.
session_id, key, message_sequence, at, {facts}, reported_cost

-- fragment: group
-- The key of the sums.
session_id, quarter, {kind}, is_copy

-- fragment: sums
-- The sums of answers with a sign.
session_id, date_bin('15 minutes', at, '2000-01-01Z') AS quarter, {kind},
    coalesce(message_sequence <= copied_messages, false) AS is_copy, sum(sign) AS answers,
    sum(sign * input_tokens) AS input_tokens, sum(sign * cache_read_tokens) AS cache_read_tokens,
    sum(sign * cache_write_5m_tokens) AS cache_write_5m_tokens,
    sum(sign * cache_write_1h_tokens) AS cache_write_1h_tokens, sum(sign * output_tokens) AS output_tokens,
    sum(sign * reasoning_tokens) AS reasoning_tokens, sum(sign * web_searches) AS web_searches,
    sum(sign * coalesce(reported_cost, 0)) AS reported_cost,
    sum(CASE WHEN reported_cost IS NULL THEN 0 ELSE sign END) AS reported_answers

-- fragment: marked
-- The mark of copied messages.
(SELECT id AS session_id, copied_messages FROM sessions WHERE id = %(session_id)b) AS marked

-- fragment: is_known
-- True for the stored sum of a group.
(known.quarter, known.model, known.service_tier, known.speed, known.region, known.agent_id, known.cause,
    known.is_request, known.band, known.is_copy)
= (changes.quarter, changes.model, changes.service_tier, changes.speed, changes.region, changes.agent_id,
    changes.cause, changes.is_request, changes.band, changes.is_copy)

-- fragment: stated_columns
-- The columns of an answer in a JSON document.
key text, message_sequence bigint, time bigint, model text, service_tier text, speed text, region text,
    agent_id text, cause text, is_request bool, band int2, folder text, branch text, turn int, input_tokens bigint,
    cache_read_tokens bigint, cache_write_5m_tokens bigint, cache_write_1h_tokens bigint, output_tokens bigint,
    reasoning_tokens bigint, web_searches bigint, reported_cost bigint

-- fragment: stated
-- The answers of a JSON document.
json_to_recordset(%(answers)b::json) AS value ({stated_columns})

-- fragment: stated_of_sessions
-- The answers of a JSON document that states their sessions.
json_to_recordset(%(answers)b::json) AS value (session_id uuid, {stated_columns})

-- fragment: added
-- The addition to a stored sum.
ON CONFLICT ({group}) DO UPDATE
SET answers = known.answers + excluded.answers,
    input_tokens = known.input_tokens + excluded.input_tokens,
    cache_read_tokens = known.cache_read_tokens + excluded.cache_read_tokens,
    cache_write_5m_tokens = known.cache_write_5m_tokens + excluded.cache_write_5m_tokens,
    cache_write_1h_tokens = known.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
    output_tokens = known.output_tokens + excluded.output_tokens,
    reasoning_tokens = known.reasoning_tokens + excluded.reasoning_tokens,
    web_searches = known.web_searches + excluded.web_searches,
    reported_cost = known.reported_cost + excluded.reported_cost,
    reported_answers = known.reported_answers + excluded.reported_answers

-- fragment: added_answers
-- Parts of a statement that write new answers and their sums. Stored answers stay as they are.
stored_answers AS (
    INSERT INTO answers ({answer})
    SELECT session_id, key, value.message_sequence, coalesce(to_timestamp(time / 1000.0), '-infinity'), {facts},
        reported_cost
    FROM session_counters CROSS JOIN {stated}
    WHERE session_id = %(session_id)b
    ON CONFLICT (session_id, key) DO NOTHING
    RETURNING {answer}
), counted_answers AS (
    INSERT INTO usage_rollups AS known ({group}, answers, {counts}, reported_cost, reported_answers)
    SELECT {sums}
    FROM session_counters AS counters (session_id, last_message)
    JOIN stored_answers USING (session_id) JOIN {marked} USING (session_id)
    CROSS JOIN (VALUES (1)) AS each (sign)
    WHERE session_id = %(session_id)b
    GROUP BY {group}
    {added}
)

-- fragment: changed_sums
-- The end of a statement with signed answers: it adds them to the sums, and deletes the sums of no answers.
changes AS (
    SELECT {sums} FROM signed JOIN {marked} USING (session_id) GROUP BY {group}
), changed AS (
    SELECT changes.*, 0 = answers + coalesce(
        (SELECT known.answers FROM usage_rollups AS known WHERE known.session_id = %(session_id)b AND {is_known}), 0
    ) AS is_empty
    FROM changes
), counted AS (
    INSERT INTO usage_rollups AS known ({group}, answers, {counts}, reported_cost, reported_answers)
    SELECT {group}, answers, {counts}, reported_cost, reported_answers
    FROM session_counters JOIN changed USING (session_id) WHERE session_id = %(session_id)b AND NOT is_empty
    {added}
)
DELETE FROM usage_rollups AS known USING changed AS changes
WHERE known.session_id = %(session_id)b AND is_empty AND {is_known}

-- name: add
-- New answers and their sums. The keys of the new ones are the result.
WITH {added_answers} SELECT key FROM stored_answers

-- name: add_to_new_sessions
-- The answers of sessions without any, with their sums. None of their messages is a copy.
WITH stored AS (
    INSERT INTO answers ({answer})
    SELECT session_id, key, value.message_sequence, coalesce(to_timestamp(time / 1000.0), '-infinity'), {facts},
        reported_cost
    FROM {stated_of_sessions}
    RETURNING {answer}
)
INSERT INTO usage_rollups AS known ({group}, answers, {counts}, reported_cost, reported_answers)
SELECT {sums}
FROM stored CROSS JOIN (VALUES (1, NULL::bigint)) AS each (sign, copied_messages)
GROUP BY {group}
{added}

-- name: revise
-- New values of answers, and the changes of the sums: the new values less the stored ones. The first message and the
-- first known time of an answer stay. Each part names the session, so that Citus sends the statement to one shard.
WITH old AS (
    SELECT {answer} FROM answers WHERE session_id = %(session_id)b AND key = ANY(%(keys)b::text[])
), new AS (
    SELECT session_id, key, coalesce(first_message, value.message_sequence) AS message_sequence,
        coalesce(first_time, to_timestamp(time / 1000.0), '-infinity') AS at, {facts}, reported_cost
    FROM session_counters CROSS JOIN {stated}
    LEFT JOIN (
        SELECT key, message_sequence AS first_message, nullif(at, '-infinity') AS first_time FROM old
    ) AS known USING (key)
    WHERE session_id = %(session_id)b
), stored AS (
    INSERT INTO answers ({answer})
    SELECT new.* FROM session_counters JOIN new USING (session_id) WHERE session_id = %(session_id)b
    ON CONFLICT (session_id, key) DO UPDATE
    SET (at, {facts}, reported_cost) = ROW (
        excluded.at, excluded.model, excluded.service_tier, excluded.speed, excluded.region, excluded.agent_id,
        excluded.cause, excluded.is_request, excluded.band, excluded.folder, excluded.branch, excluded.turn,
        excluded.input_tokens, excluded.cache_read_tokens, excluded.cache_write_5m_tokens,
        excluded.cache_write_1h_tokens, excluded.output_tokens, excluded.reasoning_tokens, excluded.web_searches,
        excluded.reported_cost)
), signed AS (
    SELECT 1 AS sign, {answer} FROM new UNION ALL SELECT -1, {answer} FROM old
), {changed_sums}

-- name: remove
-- Answers that no message states any more, and the changes of the sums.
WITH removed AS (
    DELETE FROM answers WHERE session_id = %(session_id)b AND key = ANY(%(keys)b::text[]) RETURNING {answer}
), signed AS (
    SELECT -1 AS sign, {answer} FROM removed
), {changed_sums}

-- name: find_first_messages
-- The messages that stated some answers first.
SELECT message_sequence FROM answers WHERE session_id = %b AND key = ANY(%b)

-- name: set_turns
-- The numbers of the turns of some answers.
UPDATE answers SET turn = new.turn
FROM unnest(%b::text[], %b::int[]) AS new (key, turn)
WHERE session_id = %b AND answers.key = new.key

-- name: move_turns
-- The numbers of later turns, after a deletion. They are in no index.
UPDATE answers SET turn = turn + %b
WHERE session_id = %b AND (turn > %b OR turn = %b AND message_sequence > %b)

-- name: settle
-- Answers of turns with a cost that includes theirs: those without a cost then cost 0.
WITH settled AS (
    UPDATE answers SET reported_cost = 0
    WHERE session_id = %(session_id)b AND turn = ANY(%(turns)b::int[]) AND reported_cost IS NULL
    RETURNING {answer}
), signed AS (
    SELECT 1 AS sign, {answer} FROM settled
), changes AS (
    SELECT {sums} FROM signed JOIN {marked} USING (session_id) GROUP BY {group}
)
UPDATE usage_rollups AS known SET reported_answers = known.reported_answers + changes.reported_answers
FROM changes WHERE known.session_id = %(session_id)b AND {is_known}

-- name: count_again
-- The sums of all answers of a session.
INSERT INTO usage_rollups ({group}, answers, {counts}, reported_cost, reported_answers)
SELECT {sums}
FROM answers JOIN {marked} USING (session_id) CROSS JOIN (VALUES (1)) AS each (sign)
WHERE session_id = %(session_id)b
GROUP BY {group}

-- name: delete_answers
-- All answers of a session.
DELETE FROM answers WHERE session_id = %b

-- name: delete_rollups
-- All sums of a session.
DELETE FROM usage_rollups WHERE session_id = %b

-- name: forget_cost
-- Marks the kept cost as outdated. The time tells the mark from earlier ones.
UPDATE session_counters SET cost_revision = 'changed ' || statement_timestamp() WHERE session_id = %b
