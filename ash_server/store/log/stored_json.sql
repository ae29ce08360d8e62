-- fragment: stored_columns
-- The columns of `entry` that the other fragments read, besides its key, its type and its message.
stored_json, text_ranges, event_id, event_time

-- fragment: json
-- The stored JSON of a row. Raises an error if it is in an archive.
coalesce({row}.stored_json, cold_text({row}.session_id))

-- fragment: without_text
-- The JSON of an event without values of the text, or if its message is missing.
event_json(
    {row}.session_id, {row}.type, {row}.event_id, {row}.event_time, convert_to({json}, 'UTF8'), NULL, NULL
)

-- fragment: event_json
-- The JSON of a row of `events`, in UTF-8. OFFSET 0 makes PostgreSQL convert each text once. PostgreSQL inlines the
-- function only if its arguments are columns, not queries.
CASE WHEN {row}.text_ranges IS NULL THEN {without_text} ELSE coalesce(
    (
        SELECT event_json(
            {row}.session_id, {row}.type, {row}.event_id, {row}.event_time, bytes.stored_json, {row}.text_ranges,
            bytes.text
        )
        FROM (
            SELECT convert_to({json}, 'UTF8') AS stored_json,
                convert_to(coalesce(content, cold_text(messages.session_id)), 'UTF8') AS text
            FROM messages
            WHERE messages.session_id = {session} AND messages.sequence = {row}.message_sequence
            OFFSET 0
        ) AS bytes
    ),
    {without_text}
) END

-- fragment: event_json_size
-- The bytes of the JSON, without reading a text. Its beginning has 119 bytes besides the time and the type.
octet_length(coalesce(entry.stored_json, cold_text(entry.session_id)))
    + coalesce(entry.text_ranges[1][3] - 2, 0) + coalesce(entry.text_ranges[2][3] - 2, 0)
    + coalesce(119 + length(entry.event_time::text) + octet_length(entry.type), 0)

-- fragment: create_events_full
-- The view with the JSON of all events as text, in schema.sql.
CREATE VIEW events_full WITH (security_invoker = true) AS
SELECT session_id, sequence, type, message_sequence, origin, explicit_id AS given_id, chunk_group AS piece_of,
    convert_from({event_json}, 'UTF8') AS content
FROM events AS event
