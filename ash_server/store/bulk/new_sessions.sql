-- fragment: sessions
-- The sessions of a JSON document.
json_to_recordset(%(sessions)b::json) AS value (
    id uuid, external_id text, source text, first_at timestamptz, last_at timestamptz, title text,
    title_priority int2, first_prompt text, client_version text, provider_session_id text, agent_id text, project text,
    stated_cost bigint, stated_models text[], folder text, branch text, git_commit text, cause text)

-- fragment: counters
-- The counters of a JSON document.
json_to_recordset(%(counters)b::json) AS value (
    session_id uuid, message_sequence bigint, event_sequence bigint, normalizer_state text, errors bigint,
    unrecognised bigint, may_have_chunks bool, prompts bigint, turns bigint, active_ms bigint, totals text,
    totals_sequence bigint, kept_sequence bigint, kept_facts text)

-- name: add_sessions
-- New sessions with the facts in their messages, unless their ids are taken. The result is the ids of the new ones.
INSERT INTO sessions (id, external_id, source, first_at, last_at, title, title_priority, first_prompt, client_version,
    provider_session_id, agent_id, project, stated_cost, stated_models, folder, branch, git_commit, cause, key_id)
SELECT value.*, %(key_id)b::uuid FROM {sessions}
ON CONFLICT (id) DO NOTHING
RETURNING id

-- name: add_counters
-- The counters of new sessions, and the progress of their search index.
WITH progress AS (
    INSERT INTO search_progress (session_id) SELECT session_id FROM {counters}
)
INSERT INTO session_counters (session_id, message_sequence, event_sequence, normalizer_state, errors, unrecognised,
    may_have_chunks, prompts, turns, active_ms, totals, totals_sequence, kept_sequence, kept_facts, normalizer_version)
SELECT value.*, %(normalizer_version)b::int FROM {counters}

-- fragment: message_columns
-- The columns of messages that a caller sets.
session_id, sequence, id, content, role, kind, source, block_types, digest, has_explicit_role, has_explicit_source,
blocks_start, blocks_size

-- name: add_messages
-- The messages of new sessions.
INSERT INTO messages ({message_columns}, parser_version, created_at)
SELECT session_id, sequence, id, content, role, kind, source, string_to_array(block_types, ','), digest,
    has_explicit_role, has_explicit_source, blocks_start, blocks_size, %(parser_version)b::int, statement_timestamp()
FROM unnest(%(session_ids)b::uuid[], %(sequences)b::bigint[], %(ids)b::text[], %(contents)b::text[],
    %(roles)b::text[], %(kinds)b::text[], %(sources)b::text[], %(block_types)b::text[], %(digests)b::bytea[],
    %(have_explicit_roles)b::bool[], %(have_explicit_sources)b::bool[], %(blocks_starts)b::int[],
    %(blocks_sizes)b::int[]) AS new ({message_columns})

-- fragment: event_columns
-- The columns of events.
session_id, sequence, type, message_sequence, origin, explicit_id, chunk_group, stored_json, text_ranges, event_id,
event_time

-- name: add_events
-- The events of new sessions.
INSERT INTO events ({event_columns})
SELECT session_id, sequence, type, message_sequence, origin, explicit_id, chunk_group, stored_json, text_ranges::int[],
    event_id::uuid, event_time
FROM unnest(%(session_ids)b::uuid[], %(sequences)b::bigint[], %(types)b::text[], %(message_sequences)b::bigint[],
    %(origins)b::text[], %(explicit_ids)b::text[], %(chunk_groups)b::text[], %(stored_jsons)b::text[],
    %(text_ranges)b::text[], %(event_ids)b::text[], %(event_times)b::bigint[]) AS new ({event_columns})
