-- name: is_cold
-- A row if the texts of the session are in an archive.
SELECT FROM cold_sessions WHERE session_id = %b AND restored_at IS NULL

-- name: count_some
-- The number of cold sessions, up to a limit.
SELECT count(*) FROM (SELECT session_id FROM cold_sessions WHERE restored_at IS NULL LIMIT %b) AS cold

-- name: next_part
-- The next part of an archive.
SELECT part, data, digest FROM cold_archives WHERE session_id = %b AND part > %b ORDER BY part LIMIT 1

-- name: get_part
-- A part of an archive.
SELECT part, data, digest FROM cold_archives WHERE session_id = %b AND part = %b

-- fragment: parts_with
-- The parts of an archive with texts of a table between two sequences. Parts are in the order of sequences.
SELECT part FROM (
    SELECT part, {table} AS texts, sum({table}) OVER (ORDER BY part) AS texts_to_end
    FROM cold_archives WHERE session_id = %(session_id)b
) AS parts
WHERE texts > 0
  AND texts_to_end > (
      SELECT count(*) FROM {table} WHERE session_id = %(session_id)b AND sequence < %(first)b AND {text} IS NULL
  )
  AND texts_to_end - texts <= (
      SELECT count(*) FROM {table} WHERE session_id = %(session_id)b AND sequence < %(last)b AND {text} IS NULL
  )
ORDER BY part

-- fragment: find_archived
-- A row if one of some texts of a table is archived.
SELECT FROM {table} WHERE session_id = %(session_id)b AND sequence = ANY(%(sequences)b::bigint[]) AND {text} IS NULL LIMIT 1
