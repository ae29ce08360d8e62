-- fragment: matches
-- True for words that match a query.
words @@ {query}

-- fragment: is_said
-- True for messages of the user and the assistant that match.
weight = 'A' AND {matches}

-- fragment: is_conversation
-- True for messages, thinking and tool calls that match.
weight <> 'D' AND {matches}

-- fragment: is_result
-- True for tool results and all other texts that match.
weight = 'D' AND {matches}

-- fragment: is_anything
-- True for all texts that match. Each side has its own index.
(weight <> 'D' AND {matches} OR weight = 'D' AND {matches})

-- fragment: contains
-- True for words that match the query. PostgreSQL uses no index for a function: the index of the words returns all rows
-- of the store that match.
ts_match_vq(words, %(query)b::tsquery)

-- fragment: read_said
-- The same as `is_said`, without an index.
weight = 'A' AND {contains}

-- fragment: read_conversation
-- The same as `is_conversation`, without an index.
weight <> 'D' AND {contains}

-- fragment: read_results
-- The same as `is_result`, without an index.
weight = 'D' AND {contains}

-- fragment: read_anything
-- The same as `is_anything`, without an index.
{contains}

-- fragment: is_in_some
-- True for events of some sessions, by their ids.
session_id = ANY(%(ids)b::uuid[])

-- fragment: is_in_sessions
-- True for events of some sessions.
session_id IN ({sessions})

-- fragment: is_in_any
-- True for events of all sessions, or for those in a single one.
(%(session_id)b::uuid IS NULL OR session_id = %(session_id)b)

-- fragment: passes
-- True for events that pass the filters of a search, apart from those on sessions.
{condition} AND readers <> %(others)b
  AND (%(role)b::text IS NULL OR role = %(role)b)
  AND (%(since)b::timestamptz IS NULL OR at >= %(since)b)
  AND (%(until)b::timestamptz IS NULL OR at < %(until)b)

-- fragment: is_earlier
-- True for events after this place in the results of a single session.
sequence < %(sequence)b::bigint

-- fragment: find
-- A page of the matching events, newest first, with the number of matches of their sessions. Sessions are joined to the
-- results of the page only: their number is known, and PostgreSQL only guesses the number of matches.
SELECT result.session_id, sequence, weights, role, at, matches, title, external_id, source, metadata
FROM (
    SELECT * FROM (
        SELECT session_id, sequence, array_agg(DISTINCT weight) AS weights, role, at,
            row_number() OVER (PARTITION BY session_id ORDER BY {order}) AS place,
            count(*) OVER (PARTITION BY session_id) AS matches
        FROM tenant_search AS search
        WHERE {passing}
        GROUP BY session_id, sequence, role, at
    ) AS matching
    WHERE place <= %(per_session)b
      AND {in_sessions}
      AND {follows}
    ORDER BY {order}
    LIMIT %(limit)b
) AS result JOIN sessions ON id = result.session_id
ORDER BY {order}

-- fragment: matching_keys
-- The keys of events, in the order of the matches.
place, session_id, sequence

-- fragment: matching_events
-- The events of the matches.
SELECT place, events.*
FROM unnest(%(sessions)b::uuid[], %(sequences)b::bigint[])
    WITH ORDINALITY AS matches (session_id, sequence, place)
JOIN events USING (session_id, sequence)

-- fragment: read_matching_events
-- The JSON of the matching events that fit into one page.
SELECT place, CASE WHEN origin = 'line' THEN message_sequence END, {event_json}
FROM ({page}) AS picked JOIN events AS entry USING (session_id, sequence)
ORDER BY place
