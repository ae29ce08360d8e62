-- fragment: merge
-- `RecordFacts.merge`, for the row of a session when messages are appended.
source = CASE WHEN source = 'unknown' THEN %(source)b ELSE source END,
first_at = least(first_at, %(first_at)b),
last_at = greatest(last_at, %(last_at)b),
title = CASE
    WHEN %(title_priority)b::int2 > title_priority
        OR (%(title_priority)b::int2 = title_priority AND title_priority IN ({from_tool}, {renamed}))
    THEN %(title)b ELSE title END,
title_priority = greatest(title_priority, %(title_priority)b::int2),
first_prompt = coalesce(first_prompt, %(first_prompt)b),
client_version = coalesce(%(client_version)b, client_version),
provider_session_id = coalesce(%(provider_session_id)b, provider_session_id),
agent_id = coalesce(agent_id, %(agent_id)b),
project = coalesce(project, %(project)b),
stated_cost = coalesce(%(stated_cost)b, stated_cost),
stated_models = CASE
    WHEN %(stated_cost)b::bigint IS NULL THEN stated_models ELSE %(stated_models)b::text[] END,
folder = coalesce(folder, %(folder)b),
branch = coalesce(%(branch)b, branch),
git_commit = coalesce(git_commit, %(git_commit)b),
cause = coalesce(cause, %(cause)b)

-- fragment: replace
-- The facts of all messages, for the row of a session.
source = CASE WHEN source = 'unknown' THEN %(source)b ELSE source END,
first_at = %(first_at)b,
last_at = %(last_at)b,
title = CASE WHEN title_priority = {from_person} THEN title ELSE %(title)b END,
title_priority = CASE WHEN title_priority = {from_person} THEN title_priority ELSE %(title_priority)b::int2 END,
first_prompt = %(first_prompt)b,
client_version = %(client_version)b,
provider_session_id = %(provider_session_id)b,
agent_id = %(agent_id)b,
project = %(project)b,
stated_cost = %(stated_cost)b,
stated_models = %(stated_models)b::text[],
folder = %(folder)b,
branch = %(branch)b,
git_commit = %(git_commit)b,
cause = %(cause)b
