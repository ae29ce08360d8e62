-- name: read
-- The totals of a session, and the bounds of its log.
SELECT totals, totals_sequence, event_sequence, last_dropped_sequence FROM session_counters WHERE session_id = %b

-- name: list_retractions
-- The retractions between two events.
SELECT {event_json}
FROM events AS entry
WHERE session_id = %(session_id)b AND sequence > %(after)b AND sequence <= %(last)b AND type = 'retraction'
ORDER BY sequence

-- fragment: columns
-- The columns of `_Row`. The JSON has long texts only if the type is counted by them.
sequence, CASE WHEN origin = 'line' THEN message_sequence END, text_ranges IS NOT NULL,
CASE WHEN type = ANY(%(types)b) THEN {event_json} ELSE {without_text} END

-- fragment: page
-- The events between two sequences.
SELECT session_id, sequence, type, message_sequence, origin, {stored_columns}
FROM events
WHERE session_id = %(session_id)b AND sequence > %(after)b AND sequence <= %(last)b

-- name: set
-- The totals after a change of the log.
UPDATE session_counters SET totals = %b, totals_sequence = %b, needs_upkeep = true WHERE session_id = %b

-- fragment: counted
-- The last message in the counts of models.
coalesce(((CASE WHEN starts_with(totals, '[{version},') THEN totals END)::json -> 6 ->> 4)::bigint, 0)

-- fragment: are_near
-- True for totals that a reader completes, or derives, from few events, with counts of models from few messages.
((counters.event_sequence - counters.last_dropped_sequence <= {max_lag}
    OR starts_with(totals, '[{version},') AND counters.event_sequence - totals_sequence <= {max_lag})
  AND CASE WHEN counters.message_sequence > {max_uncounted}
      THEN {counted} >= counters.message_sequence - {max_uncounted} ELSE true END)

-- name: list_behind
-- Sessions with other totals, among those that need upkeep, except cold sessions.
SELECT session_id, counters.event_sequence
FROM session_counters AS counters JOIN search_progress USING (session_id)
WHERE needs_upkeep AND NOT {are_near}
LIMIT %b

-- name: save
-- The totals of events that were read without a lock, unless others are stored, or a retraction has changed the events.
UPDATE session_counters SET totals = %(totals)b, totals_sequence = %(sequence)b
WHERE session_id = %(session_id)b AND totals_sequence = %(before)b AND last_dropped_sequence = %(dropped)b
  AND NOT EXISTS (
      SELECT FROM events
      WHERE events.session_id = %(session_id)b AND sequence > %(last)b AND type = 'retraction' AND origin = 'posted')
