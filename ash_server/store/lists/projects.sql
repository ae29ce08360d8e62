-- name: list_projects
-- A page of projects, most recent activity first.
SELECT project, max({activity}), md5(project)
FROM tenant_sessions
WHERE project IS NOT NULL
GROUP BY project
HAVING (max({activity}), md5(project)) < (%(active_at)s::timestamptz, %(digest)s::text)
ORDER BY max({activity}) DESC, md5(project) DESC
LIMIT %(limit)s

-- name: count_by_folder
-- The sessions and messages of some projects by folder.
SELECT project, folder, count(*), sum(message_sequence)::bigint
FROM tenant_sessions AS sessions JOIN session_counters ON session_id = sessions.id
WHERE project = ANY(%(projects)s::text[])
GROUP BY project, folder
ORDER BY count(*) DESC, folder
