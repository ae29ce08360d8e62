-- fragment: start
-- The time of the first message, else of the imported file or of the creation.
coalesce(first_at, least(file_modified_at, created_at))

-- fragment: duration
-- From the first message to the last one.
coalesce(last_at - first_at, '0'::interval)

-- fragment: with_ids
-- Some sessions.
id = ANY(%(ids)s::uuid[])

-- fragment: with_sources
-- The format of a session, or the agent that wrote it: the first key of its metadata.
(source = ANY(%(sources)s::text[])
    OR starts_with(metadata, '{"agent":') AND metadata ^@ ANY(%(agents)s::text[]))

-- fragment: with_projects
-- Sessions of projects, or in folders of projects above.
(project = ANY(%(projects)s::text[]) OR project = ANY(%(parents)s::text[]) AND folder = ANY(%(folders)s::text[])
    OR id = ANY(%(transcripts)s::uuid[]))

-- fragment: with_branches
-- Sessions on Git branches.
branch = ANY(%(branches)s::text[])

-- fragment: with_machines
-- Sessions that machines stored.
machine = ANY(%(machines)s::text[])

-- fragment: with_causes
-- Sessions by what started them.
cause = ANY(%(causes)s::text[])

-- fragment: with_keys
-- Sessions that keys stored.
key_id = ANY(%(keys)s::uuid[])

-- fragment: with_persons
-- Sessions that keys with some names stored.
key_id = ANY(%(person_keys)s::uuid[])

-- fragment: with_models
-- Sessions with answers of models.
id IN (SELECT session_id FROM usage_rollups WHERE model = ANY(%(models)s::text[]))

-- fragment: with_tools
-- Sessions that called tools.
id IN (SELECT session_id FROM tool_calls WHERE tool = ANY(%(tools)s::text[]))

-- fragment: is_change
-- True for a call that changes its file; without a result, it may have.
action IN ('edit', 'write', 'delete', 'move') AND outcome NOT IN ('failed', 'denied')

-- fragment: with_edited
-- Sessions that changed files.
id IN (SELECT session_id FROM tool_calls WHERE path <> '' AND path = ANY(%(edited)s::text[]) AND {is_change})

-- fragment: with_tags
-- Sessions with all of the tags.
id IN (SELECT session_id FROM session_labels WHERE tags @> %(tags)s::text[])

-- fragment: starred
-- Sessions with a star.
id IN (SELECT session_id FROM session_labels WHERE starred)

-- fragment: not_starred
-- Sessions without a star.
NOT EXISTS (SELECT FROM session_labels WHERE session_id = sessions.id AND starred)

-- fragment: archived
-- Archived sessions.
id IN (SELECT session_id FROM session_labels WHERE archived)

-- fragment: not_archived
-- Sessions that are not archived.
NOT EXISTS (SELECT FROM session_labels WHERE session_id = sessions.id AND archived)

-- fragment: with_errors
-- Sessions with errors.
id IN (SELECT session_id FROM session_counters WHERE errors > 0)

-- fragment: without_errors
-- Sessions without errors.
id IN (SELECT session_id FROM session_counters WHERE errors = 0)

-- fragment: with_parent
-- Sessions that one session started.
sessions.parent_id = %(parent_id)s::uuid

-- fragment: with_provider_session_id
-- Sessions by the id of the provider.
provider_session_id = %(provider_session_id)s::text

-- fragment: with_external_id
-- Sessions with an external id.
external_id = %(external_id)s::text

-- fragment: with_external_id_prefix
-- Sessions by the beginning of their external ids.
(external_id ~>=~ %(external_id_prefix)s::text
    AND external_id ~<~ (%(external_id_prefix)s::text || chr(1114111)))

-- fragment: since
-- Sessions with activity at a time or later.
{activity} >= %(since)s::timestamptz

-- fragment: until
-- Sessions last active before a time.
{activity} < %(until)s::timestamptz

-- fragment: names
-- The texts that a list is searched for.
concat_ws(E'\n', title, external_id, array_to_string(tags, E'\n'), note)

-- fragment: plain_names
-- Names without accents, as `without_accents` returns them.
translate(
    normalize(regexp_replace(normalize({names}, NFD),
        '[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff]', '', 'g'), NFC),
    'ĐđĦħıŁłŦŧØø', 'DdHhiLlTtOo'
)

-- fragment: with_text
-- Sessions by a text in the names, or by the beginning of the id. Without a subquery, which Citus refuses here.
(strpos(lower(CASE WHEN octet_length({names}) = length({names}) THEN {names} ELSE {plain_names} END),
        lower(%(plain)s::text)) > 0
    OR starts_with(id::text, %(id_prefix)s::text))

-- fragment: matching
-- The sessions among some that match further filters. Text is compared here only: it needs the labels.
{sessions} WHERE id = ANY(%(read_ids)s::uuid[]) AND {conditions}

-- fragment: matching_ids
-- The ids of the sessions that match.
SELECT id FROM tenant_sessions AS sessions WHERE {conditions}

-- fragment: keys
-- The ids and sort keys of sessions, in one order.
SELECT id, {sort_key} AS sort_key FROM tenant_sessions AS sessions WHERE {conditions}

-- fragment: error_keys
-- The ids of sessions and their numbers of errors.
SELECT id, errors AS sort_key FROM session_counters JOIN tenant_sessions AS sessions ON id = session_id
WHERE {conditions}

-- fragment: cost_keys
-- The ids of sessions and their kept costs, except some sessions.
SELECT id, cost AS sort_key FROM session_counters JOIN tenant_sessions AS sessions ON id = session_id
WHERE {conditions} AND session_id <> ALL(%(computed)s::uuid[])

-- fragment: outdated_ids
-- Sessions that match, with costs of other prices, or of earlier usage.
SELECT id FROM session_counters JOIN tenant_sessions AS sessions ON id = session_id
WHERE {conditions} AND (cost_revision < %(revision)s OR cost_revision > %(revision)s)
LIMIT {max_outdated} + 1

-- fragment: page_of_few
-- The next ids and sort keys if few sessions match, and the number of those that match, up to a limit. PostgreSQL
-- reads them before it sorts, whatever it expects of the filters.
SELECT id, sort_key, matches
FROM (SELECT id, sort_key, count(*) OVER () AS matches FROM ({found} LIMIT {max_sorted} + 1) AS limited) AS counted
WHERE (sort_key, id) < (%(key)s::{type}, %(id)s::uuid) OR matches > {max_sorted}
ORDER BY sort_key DESC, id DESC
LIMIT %(limit)s

-- fragment: page_of_many
-- The next ids and sort keys, from the index of the order.
{found} AND ({sort_key}, {sort_id}) < (%(key)s::{type}, %(id)s::uuid)
ORDER BY {sort_key} DESC, {sort_id} DESC
LIMIT %(limit)s

-- name: set_serial
-- No further processes for the next statement of a transaction.
SELECT set_config('max_parallel_workers_per_gather', '0', true)

-- name: list_folders
-- The projects with their folders, each once. Without this recursion, PostgreSQL would read all sessions.
WITH RECURSIVE places AS (
    (SELECT project, folder FROM sessions WHERE project IS NOT NULL AND folder IS NOT NULL ORDER BY project, folder
    LIMIT 1)
    UNION ALL
    SELECT next.project, next.folder
    FROM places CROSS JOIN LATERAL (
        SELECT project, folder FROM sessions
        WHERE (project, folder) > (places.project, places.folder) AND project IS NOT NULL AND folder IS NOT NULL
        ORDER BY project, folder LIMIT 1
    ) AS next
)
SELECT project, folder FROM places

-- name: list_projects
-- The projects, each once.
WITH RECURSIVE places AS (
    (SELECT project FROM sessions WHERE project IS NOT NULL ORDER BY project LIMIT 1)
    UNION ALL
    SELECT next.project
    FROM places CROSS JOIN LATERAL (
        SELECT project FROM sessions WHERE project > places.project ORDER BY project LIMIT 1
    ) AS next
)
SELECT project FROM places

-- name: list_folders_on_workers
-- The same as `list_folders` and `list_projects`, in a Citus cluster, which supports no recursion over shards.
SELECT DISTINCT project, folder FROM sessions WHERE project IS NOT NULL

-- name: list_cursor_transcripts
-- The sessions of Cursor without a project in one folder, which is a part of their names.
SELECT id FROM sessions
WHERE project IS NULL AND external_id ~>=~ %(prefix)s::text AND external_id ~<~ (%(prefix)s::text || chr(1114111))
LIMIT {max_transcripts}

-- name: list_keys_of_persons
-- The keys with some names.
SELECT id FROM tenant_keys WHERE name = ANY(%s)

-- name: list_paths_in
-- The changed files at a path or below it.
SELECT DISTINCT path FROM tenant_files
WHERE (path = %(path)s::text OR path ~>=~ %(below)s::text AND path ~<~ (%(below)s::text || chr(1114111)))
  AND {is_change}
LIMIT {max_paths}

-- name: list_paths_with_end
-- The changed files with paths that end with one or more names.
SELECT DISTINCT path FROM tenant_files
WHERE (reverse(path) = reverse(%(path)s::text) OR reverse(path) ~>=~ reverse(%(end)s::text)
    AND reverse(path) ~<~ (reverse(%(end)s::text) || chr(1114111)))
  AND {is_change}
LIMIT {max_paths}
