-- fragment: stored_columns
-- The columns of `entry` that the other fragments read, besides those of its key, its type and its message.
stored_json, text_ranges, event_id, event_time

-- fragment: head
-- The beginning of the JSON that is in columns; empty if the event is stored whole.
coalesce(convert_to('{"id":"' || entry.event_id || '","timestamp":' || entry.event_time || ',"sessionId":"'
    || entry.session_id || '","type":"' || entry.type || '",', 'UTF8'), '')

-- fragment: event_json
-- The JSON of `entry`, a row of `events`, in UTF-8. OFFSET 0 makes PostgreSQL read each text once.
{head} || CASE WHEN entry.text_ranges IS NULL THEN convert_to(entry.stored_json, 'UTF8') ELSE coalesce((
    SELECT substr(json, 1, entry.text_ranges[1][1])
        || (substr(text, entry.text_ranges[1][2] + 1, entry.text_ranges[1][3])
        || coalesce(
            substr(json, entry.text_ranges[1][1] + 3, entry.text_ranges[2][1] - entry.text_ranges[1][1] - 2)
                || (substr(text, entry.text_ranges[2][2] + 1, entry.text_ranges[2][3])
                || substr(json, entry.text_ranges[2][1] + 3)),
            substr(json, entry.text_ranges[1][1] + 3)
        ))
    FROM (
        SELECT convert_to(entry.stored_json, 'UTF8') AS json, convert_to(messages.content, 'UTF8') AS text
        FROM messages
        WHERE messages.session_id = {session} AND messages.sequence = entry.message_sequence
        OFFSET 0
    ) AS bytes
), convert_to(entry.stored_json, 'UTF8')) END

-- fragment: event_json_size
-- The bytes of the JSON, without reading a text. The head has 119 bytes besides the time and the type.
octet_length(entry.stored_json) + coalesce(entry.text_ranges[1][3] - 2, 0) + coalesce(entry.text_ranges[2][3] - 2, 0)
    + coalesce(119 + length(entry.event_time::text) + octet_length(entry.type), 0)
