-- name: list_outdated_sessions
-- The sessions with messages that another version of the parser read, without cold sessions.
SELECT DISTINCT session_id FROM messages
WHERE kind <> 'deleted' AND parser_version <> %b AND NOT EXISTS (
      SELECT FROM cold_sessions WHERE cold_sessions.session_id = messages.session_id AND restored_at IS NULL)
ORDER BY session_id

-- fragment: message_columns
-- The columns of `Stored`.
sequence, content, source, role, kind, block_types, parser_version, digest,
has_explicit_role, has_explicit_source, blocks_start, blocks_size

-- fragment: messages_after
-- The messages of a session after a sequence.
SELECT sequence, coalesce(content, cold_text(session_id)) AS content, source, role, kind, block_types, parser_version,
    digest, has_explicit_role, has_explicit_source, blocks_start, blocks_size
FROM messages WHERE session_id = %(session_id)b AND sequence > %(after)b AND kind <> 'deleted'

-- name: update_messages
-- The derived columns of some messages.
UPDATE messages
SET source = new.source, role = new.role, kind = new.kind, digest = new.digest,
    block_types = string_to_array(new.block_types, ','), parser_version = %(parser_version)b,
    blocks_start = new.blocks_start, blocks_size = new.blocks_size
FROM unnest(%(sequences)b::bigint[], %(sources)b::text[], %(roles)b::text[], %(kinds)b::text[],
    %(block_types)b::text[], %(digests)b::bytea[], %(blocks_starts)b::int[], %(blocks_sizes)b::int[])
    AS new (sequence, source, role, kind, block_types, digest, blocks_start, blocks_size)
WHERE messages.session_id = %(session_id)b AND messages.sequence = new.sequence

-- name: delete_drift
-- The drift that the parser found in some messages.
DELETE FROM drift WHERE session_id = %b AND sequence = ANY(%b)

-- name: replace_facts
-- The facts that all messages of a session give.
UPDATE sessions SET {replaced_facts} WHERE id = %(session_id)b

-- name: get_outside_title
-- The title of an agent with titles outside of the messages.
SELECT title, title_priority FROM sessions
WHERE id = %b AND title_priority IN ({from_tool}, {renamed})
    AND (source IN ('codex', 'copilot_cli', 'gptme', 'grok_build', 'kimi', 'mistral_vibe') OR starts_with(metadata, '{"agent":"cowork"'))

-- name: keep_title
-- A title from outside of the messages, unless they have one of the same rank.
UPDATE sessions SET title = %(title)b, title_priority = %(title_priority)b::int2
WHERE id = %(session_id)b AND title_priority < %(title_priority)b::int2
