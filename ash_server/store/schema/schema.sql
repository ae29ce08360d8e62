-- The schema of a new store, as one transaction. Stores of earlier versions get it from the migrations in alembic/versions;
-- a test compares both.

CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

-- The role of all statements on sessions, to which row-level security applies. Roles belong to the whole server: another
-- database may already have it, or create it at the same time.
DO $$
DECLARE
    has_option boolean := current_setting('server_version_num')::integer >= 160000;
    option text := CASE WHEN has_option THEN ' WITH SET TRUE' ELSE '' END;
    membership text := format('GRANT ash_app TO %I', current_user) || option;
    missing text := membership;
BEGIN
    IF to_regrole('ash_app') IS NULL THEN
        missing := 'CREATE ROLE ash_app NOLOGIN; ' || membership;
        BEGIN
            CREATE ROLE ash_app NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END IF;
    IF NOT pg_has_role('ash_app', CASE WHEN has_option THEN 'SET' ELSE 'MEMBER' END) THEN
        EXECUTE membership;
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('user %I may not use the role ash_app', current_user), HINT = missing || ';';
END
$$;

-- Tables, written by `make schema` from tables.py.

INSERT INTO alembic_version VALUES ('0048');

-- sessions

CREATE TABLE sessions (
    id UUID NOT NULL,
    source TEXT NOT NULL,
    external_id TEXT,
    parent_id UUID,
    title TEXT,
    metadata TEXT DEFAULT '{}' NOT NULL,
    lacks_final_newline BOOLEAN DEFAULT false NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    first_at TIMESTAMP WITH TIME ZONE,
    last_at TIMESTAMP WITH TIME ZONE,
    title_priority SMALLINT DEFAULT '0' NOT NULL,
    client_version TEXT,
    provider_session_id TEXT,
    first_prompt TEXT,
    file_modified_at TIMESTAMP WITH TIME ZONE,
    parent_external_id TEXT,
    path TEXT,
    lineage TEXT[],
    copy_of UUID,
    copied_messages BIGINT,
    agent_id TEXT,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    machine TEXT,
    key_id UUID,
    project TEXT,
    stated_cost BIGINT,
    stated_models TEXT[],
    folder TEXT,
    branch TEXT,
    git_commit TEXT,
    cause TEXT,
    replaced_by UUID,
    CONSTRAINT sessions_pkey PRIMARY KEY (id)
);
CREATE INDEX sessions_activity_idx ON sessions (tenant, LEAST(COALESCE(last_at, file_modified_at), updated_at) DESC, id DESC);
CREATE INDEX sessions_agent_idx ON sessions (tenant, id)
    WHERE starts_with(metadata, '{"agent":'::text);
CREATE INDEX sessions_branch_idx ON sessions (tenant, branch)
    WHERE branch IS NOT NULL;
CREATE INDEX sessions_cause_idx ON sessions (tenant, cause)
    WHERE cause IS NOT NULL;
CREATE INDEX sessions_changes_idx ON sessions (tenant, updated_at);
CREATE INDEX sessions_duration_idx ON sessions (tenant, COALESCE(last_at - first_at, '00:00:00'::interval) DESC, id DESC);
CREATE INDEX sessions_external_id_idx ON sessions (external_id text_pattern_ops);
CREATE INDEX sessions_key_idx ON sessions (tenant, key_id)
    WHERE key_id IS NOT NULL;
CREATE INDEX sessions_lineage_idx ON sessions USING gin (lineage);
CREATE INDEX sessions_machine_idx ON sessions (tenant, machine)
    WHERE machine IS NOT NULL;
CREATE INDEX sessions_parent_idx ON sessions (parent_id)
    WHERE parent_id IS NOT NULL;
CREATE INDEX sessions_path_idx ON sessions (path)
    WHERE path IS NOT NULL;
CREATE INDEX sessions_project_idx ON sessions (tenant, project, folder)
    WHERE project IS NOT NULL;
CREATE INDEX sessions_replaced_idx ON sessions (tenant, id)
    WHERE replaced_by IS NOT NULL;
CREATE INDEX sessions_source_idx ON sessions (tenant, source);
CREATE INDEX sessions_start_idx ON sessions (tenant, COALESCE(first_at, LEAST(file_modified_at, created_at)) DESC, id DESC);
CREATE INDEX sessions_unidentified_idx ON sessions (provider_session_id)
    WHERE lineage IS NULL AND path IS NULL;
COMMENT ON COLUMN sessions.parent_id IS 'id of the parent session, which may be deleted or not stored yet';
COMMENT ON COLUMN sessions.lacks_final_newline IS 'the imported text has no final newline';
COMMENT ON COLUMN sessions.updated_at IS 'time of the last activity';
COMMENT ON COLUMN sessions.first_at IS 'earliest timestamp in the messages';
COMMENT ON COLUMN sessions.last_at IS 'latest timestamp in the messages';
COMMENT ON COLUMN sessions.title_priority IS 'origin of the title: 0 none, 1 the first prompt, 2 the client, 3 a person in the client, 4 a person in Ash; a title never replaces one with a higher number';
COMMENT ON COLUMN sessions.client_version IS 'last client version in the messages';
COMMENT ON COLUMN sessions.provider_session_id IS 'last session id in the messages';
COMMENT ON COLUMN sessions.first_prompt IS 'beginning of the first prompt of a person';
COMMENT ON COLUMN sessions.file_modified_at IS 'modification time of the imported file';
COMMENT ON COLUMN sessions.parent_external_id IS 'external id of the parent session, which may not be stored';
COMMENT ON COLUMN sessions.path IS 'last known path of the imported transcript';
COMMENT ON COLUMN sessions.lineage IS 'digests of names in the transcript, the same in all its copies';
COMMENT ON COLUMN sessions.copy_of IS 'session with the same first messages; it may be deleted';
COMMENT ON COLUMN sessions.copied_messages IS 'number of first messages shared with the session copy_of';
COMMENT ON COLUMN sessions.agent_id IS 'id of the subagent that wrote the session; empty: a main session; null: unknown';
COMMENT ON COLUMN sessions.machine IS 'host name of the client that created the session';
COMMENT ON COLUMN sessions.key_id IS 'key that created the session';
COMMENT ON COLUMN sessions.project IS 'root of the repository, from the first folder in the messages';
COMMENT ON COLUMN sessions.stated_cost IS 'last cost of the session in a record of the agent, in nano-dollars';
COMMENT ON COLUMN sessions.stated_models IS 'models with a part of stated_cost';
COMMENT ON COLUMN sessions.folder IS 'first working folder in the messages';
COMMENT ON COLUMN sessions.branch IS 'last Git branch in the messages';
COMMENT ON COLUMN sessions.git_commit IS 'first Git commit in the messages';
COMMENT ON COLUMN sessions.cause IS 'what started the first turn: person, schedule or program';
COMMENT ON COLUMN sessions.replaced_by IS 'session with the transcript; lists leave this session of prompts out';
ALTER TABLE sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON sessions TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON sessions TO ash_app;

-- session_counters

CREATE TABLE session_counters (
    session_id UUID NOT NULL,
    message_sequence BIGINT DEFAULT '0' NOT NULL,
    event_sequence BIGINT DEFAULT '0' NOT NULL,
    normalizer_state TEXT,
    last_dropped_sequence BIGINT DEFAULT '0' NOT NULL,
    normalizer_version INTEGER,
    errors BIGINT DEFAULT '0' NOT NULL,
    unrecognised BIGINT DEFAULT '0' NOT NULL,
    may_have_chunks BOOLEAN DEFAULT false NOT NULL,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    prompts BIGINT DEFAULT '0' NOT NULL,
    turns BIGINT DEFAULT '0' NOT NULL,
    active_ms BIGINT DEFAULT '0' NOT NULL,
    tool_calls BIGINT DEFAULT '0' NOT NULL,
    tool_failures BIGINT DEFAULT '0' NOT NULL,
    files_changed BIGINT DEFAULT '0' NOT NULL,
    lines_added BIGINT DEFAULT '0' NOT NULL,
    lines_removed BIGINT DEFAULT '0' NOT NULL,
    totals TEXT DEFAULT '' NOT NULL,
    totals_sequence BIGINT DEFAULT '0' NOT NULL,
    kept_sequence BIGINT DEFAULT '-1' NOT NULL,
    kept_facts TEXT DEFAULT '' NOT NULL,
    cost BIGINT DEFAULT '0' NOT NULL,
    cost_revision TEXT DEFAULT '' NOT NULL,
    needs_upkeep BOOLEAN DEFAULT true NOT NULL,
    CONSTRAINT session_counters_pkey PRIMARY KEY (session_id),
    CONSTRAINT session_counters_session_id_fkey FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
)
 WITH (fillfactor = 50);
CREATE INDEX session_counters_cost_idx ON session_counters (tenant, cost DESC, session_id DESC);
CREATE INDEX session_counters_cost_revision_idx ON session_counters (tenant, cost_revision);
CREATE INDEX session_counters_errors_idx ON session_counters (tenant, errors DESC, session_id DESC);
CREATE INDEX session_counters_upkeep_idx ON session_counters (tenant, session_id)
    WHERE needs_upkeep;
CREATE INDEX session_counters_version_idx ON session_counters (normalizer_version);
COMMENT ON COLUMN session_counters.normalizer_state IS 'state of the normaliser, as JSON; null: the initial state';
COMMENT ON COLUMN session_counters.last_dropped_sequence IS 'last event dropped by a rebuild; the log starts with the next one';
COMMENT ON COLUMN session_counters.normalizer_version IS 'version of the normaliser that derived the events; null: none derived yet';
COMMENT ON COLUMN session_counters.errors IS 'number of events of type error and of failed tool results';
COMMENT ON COLUMN session_counters.unrecognised IS 'number of events of type raw';
COMMENT ON COLUMN session_counters.may_have_chunks IS 'false: the log has no chunks, and its derived events have no chunk_group';
COMMENT ON COLUMN session_counters.prompts IS 'number of messages of a person';
COMMENT ON COLUMN session_counters.turns IS 'number of turns with an answer';
COMMENT ON COLUMN session_counters.active_ms IS 'time without waiting for a person, in milliseconds';
COMMENT ON COLUMN session_counters.tool_calls IS 'number of tool calls';
COMMENT ON COLUMN session_counters.tool_failures IS 'number of tool calls that failed or were denied';
COMMENT ON COLUMN session_counters.files_changed IS 'number of paths with changes';
COMMENT ON COLUMN session_counters.totals IS 'totals of the events up to totals_sequence, as JSON; empty: of none';
COMMENT ON COLUMN session_counters.totals_sequence IS 'last event in totals';
COMMENT ON COLUMN session_counters.kept_sequence IS 'last message in kept_states; -1: its rows are incomplete';
COMMENT ON COLUMN session_counters.kept_facts IS 'facts of the messages after kept_sequence, as JSON';
COMMENT ON COLUMN session_counters.cost IS 'computed cost, in nano-dollars';
COMMENT ON COLUMN session_counters.cost_revision IS 'revision of the prices of cost; empty: the usage has changed since';
COMMENT ON COLUMN session_counters.needs_upkeep IS 'false: the words of all events are indexed, and totals are near the end of the log';
ALTER TABLE session_counters ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session_counters TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON session_counters TO ash_app;

-- messages

CREATE TABLE messages (
    session_id UUID NOT NULL,
    sequence BIGINT NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    content TEXT,
    block_types TEXT[] NOT NULL,
    parser_version INTEGER NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    digest BYTEA,
    has_explicit_role BOOLEAN,
    has_explicit_source BOOLEAN,
    blocks_start INTEGER,
    blocks_size INTEGER,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    CONSTRAINT messages_pkey PRIMARY KEY (session_id, sequence),
    CONSTRAINT messages_session_id_id_key UNIQUE (session_id, id),
    CONSTRAINT messages_id_check CHECK (length(id) BETWEEN 1 AND 255),
    CONSTRAINT messages_role_check CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    CONSTRAINT messages_kind_check CHECK (kind IN ('message', 'record', 'chunk', 'deleted'))
);
COMMENT ON COLUMN messages.content IS 'text exactly as received; null: in cold_archives';
COMMENT ON COLUMN messages.block_types IS 'types of the blocks, derived by the parser';
COMMENT ON COLUMN messages.digest IS 'digest of the parsed message, to detect changes of the parser; null: not computed yet';
COMMENT ON COLUMN messages.has_explicit_role IS 'true: the writer set the role; false: the parser derived it; null: unknown';
COMMENT ON COLUMN messages.has_explicit_source IS 'true: the writer set the source; false: the parser derived it; null: unknown';
COMMENT ON COLUMN messages.blocks_start IS 'byte offset of the blocks in the content; null: the parser does not copy them';
COMMENT ON COLUMN messages.blocks_size IS 'size of the blocks in the content, in bytes';
ALTER TABLE messages ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON messages TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON messages TO ash_app;

-- events

CREATE TABLE events (
    session_id UUID NOT NULL,
    sequence BIGINT NOT NULL,
    type TEXT NOT NULL,
    message_sequence BIGINT NOT NULL,
    origin TEXT NOT NULL,
    explicit_id TEXT,
    chunk_group TEXT,
    stored_json TEXT,
    text_ranges INTEGER[],
    event_id UUID,
    event_time BIGINT,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (session_id, sequence),
    CONSTRAINT events_origin_check CHECK (origin IN ('line', 'posted', 'end'))
);
CREATE INDEX events_chunk_group_idx ON events (session_id, chunk_group, sequence)
    WHERE chunk_group IS NOT NULL AND type NOT LIKE '%chunk';
CREATE UNIQUE INDEX events_explicit_id_idx ON events (session_id, explicit_id)
    WHERE explicit_id IS NOT NULL;
CREATE INDEX events_marks_idx ON events (session_id, sequence)
    WHERE type IN ('reset', 'retraction', 'summary');
COMMENT ON COLUMN events.message_sequence IS 'message that the event was derived from; otherwise the last message stored before it';
COMMENT ON COLUMN events.origin IS 'line: derived from a message; posted: sent by a writer; end: closes open turns, calls and texts';
COMMENT ON COLUMN events.explicit_id IS 'id set by the writer; null: the id is derived from the position';
COMMENT ON COLUMN events.chunk_group IS 'digest shared by the chunks of a text and the complete event that supersedes them';
COMMENT ON COLUMN events.stored_json IS 'JSON of the event without sequences; without its first fields if event_id is set, and with empty values where text_ranges has the value; null: in cold_archives';
COMMENT ON COLUMN events.text_ranges IS 'values in messages.content: offset in stored_json, offset in the content, size, in bytes';
COMMENT ON COLUMN events.event_id IS 'id of the event, unless stored_json has it';
COMMENT ON COLUMN events.event_time IS 'Unix time in milliseconds, unless stored_json has it';
ALTER TABLE events ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON events TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON events TO ash_app;

-- open_texts

CREATE TABLE open_texts (
    session_id UUID NOT NULL,
    number INTEGER NOT NULL,
    start BIGINT NOT NULL,
    content TEXT NOT NULL,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    CONSTRAINT open_texts_pkey PRIMARY KEY (session_id, number, start),
    CONSTRAINT open_texts_session_id_fkey FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
COMMENT ON COLUMN open_texts.number IS 'number of the text in its session';
COMMENT ON COLUMN open_texts.start IS 'offset of the content in the text, in characters';
COMMENT ON COLUMN open_texts.content IS 'part of the text, as a JSON string';
ALTER TABLE open_texts ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON open_texts TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON open_texts TO ash_app;

-- kept_states

CREATE TABLE kept_states (
    session_id UUID NOT NULL,
    message_sequence BIGINT NOT NULL,
    event_sequence BIGINT NOT NULL,
    state TEXT,
    totals TEXT NOT NULL,
    facts TEXT NOT NULL,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    CONSTRAINT kept_states_pkey PRIMARY KEY (session_id, message_sequence),
    CONSTRAINT kept_states_session_id_fkey FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
COMMENT ON COLUMN kept_states.message_sequence IS 'last message before the state';
COMMENT ON COLUMN kept_states.event_sequence IS 'last event before the state';
COMMENT ON COLUMN kept_states.state IS 'state of the normaliser, as JSON; null: the initial state';
COMMENT ON COLUMN kept_states.totals IS 'totals of the events before, as JSON; empty: unknown';
COMMENT ON COLUMN kept_states.facts IS 'facts of the messages since the previous row, as JSON';
ALTER TABLE kept_states ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON kept_states TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON kept_states TO ash_app;

-- answers

CREATE TABLE answers (
    session_id UUID NOT NULL,
    key TEXT NOT NULL,
    message_sequence BIGINT,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    model TEXT NOT NULL,
    service_tier TEXT NOT NULL,
    speed TEXT NOT NULL,
    region TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    cause TEXT NOT NULL,
    is_request BOOLEAN NOT NULL,
    band SMALLINT NOT NULL,
    folder TEXT NOT NULL,
    branch TEXT NOT NULL,
    turn INTEGER NOT NULL,
    input_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    cache_write_5m_tokens BIGINT NOT NULL,
    cache_write_1h_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    web_searches BIGINT NOT NULL,
    reported_cost BIGINT,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    CONSTRAINT answers_pkey PRIMARY KEY (session_id, key)
);
COMMENT ON COLUMN answers.key IS 'digest of the name of the answer, or of its place';
COMMENT ON COLUMN answers.message_sequence IS 'first message that states the usage; null: a posted event, which is never a copy';
COMMENT ON COLUMN answers.at IS 'first known time; -infinity: unknown';
COMMENT ON COLUMN answers.service_tier IS 'empty: standard';
COMMENT ON COLUMN answers.speed IS 'empty: standard';
COMMENT ON COLUMN answers.agent_id IS 'subagent of lines in another transcript';
COMMENT ON COLUMN answers.cause IS 'what started the turn: person, schedule or program';
COMMENT ON COLUMN answers.is_request IS 'false: a total of several requests';
COMMENT ON COLUMN answers.band IS 'number of price thresholds that the input exceeds';
COMMENT ON COLUMN answers.folder IS 'working folder of the agent; empty: unknown';
COMMENT ON COLUMN answers.branch IS 'Git branch of the folder; empty: unknown';
COMMENT ON COLUMN answers.turn IS 'number of the turn in the session';
COMMENT ON COLUMN answers.input_tokens IS 'without tokens read from or written to a cache';
COMMENT ON COLUMN answers.output_tokens IS 'with reasoning';
COMMENT ON COLUMN answers.reported_cost IS 'cost in the record, in nano-dollars';
ALTER TABLE answers ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON answers TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON answers TO ash_app;

-- usage_rollups

CREATE TABLE usage_rollups (
    session_id UUID NOT NULL,
    quarter TIMESTAMP WITH TIME ZONE NOT NULL,
    model TEXT NOT NULL,
    service_tier TEXT NOT NULL,
    speed TEXT NOT NULL,
    region TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    cause TEXT NOT NULL,
    is_request BOOLEAN NOT NULL,
    band SMALLINT NOT NULL,
    is_copy BOOLEAN NOT NULL,
    answers BIGINT NOT NULL,
    input_tokens NUMERIC NOT NULL,
    cache_read_tokens NUMERIC NOT NULL,
    cache_write_5m_tokens NUMERIC NOT NULL,
    cache_write_1h_tokens NUMERIC NOT NULL,
    output_tokens NUMERIC NOT NULL,
    reasoning_tokens NUMERIC NOT NULL,
    web_searches NUMERIC NOT NULL,
    reported_cost NUMERIC NOT NULL,
    reported_answers BIGINT NOT NULL,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    CONSTRAINT usage_rollups_pkey PRIMARY KEY (session_id, quarter, model, service_tier, speed, region, agent_id, cause, is_request, band, is_copy)
);
CREATE INDEX usage_rollups_model_idx ON usage_rollups (tenant, model, session_id);
CREATE INDEX usage_rollups_quarter_idx ON usage_rollups (tenant, quarter);
CREATE INDEX usage_rollups_shared_idx ON usage_rollups (session_id)
    WHERE is_copy OR agent_id <> '';
COMMENT ON COLUMN usage_rollups.quarter IS 'start of a quarter of an hour; -infinity: unknown';
COMMENT ON COLUMN usage_rollups.service_tier IS 'empty: standard';
COMMENT ON COLUMN usage_rollups.speed IS 'empty: standard';
COMMENT ON COLUMN usage_rollups.agent_id IS 'subagent of lines in another transcript';
COMMENT ON COLUMN usage_rollups.cause IS 'what started the turn: person, schedule or program';
COMMENT ON COLUMN usage_rollups.is_request IS 'false: a total of several requests';
COMMENT ON COLUMN usage_rollups.band IS 'number of price thresholds that the input exceeds';
COMMENT ON COLUMN usage_rollups.is_copy IS 'answers in the copied messages of a session';
COMMENT ON COLUMN usage_rollups.answers IS 'number of answers';
COMMENT ON COLUMN usage_rollups.input_tokens IS 'without tokens read from or written to a cache';
COMMENT ON COLUMN usage_rollups.output_tokens IS 'with reasoning';
COMMENT ON COLUMN usage_rollups.reported_cost IS 'sum of the costs in the records, in nano-dollars';
COMMENT ON COLUMN usage_rollups.reported_answers IS 'number of answers with such a cost';
ALTER TABLE usage_rollups ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON usage_rollups TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON usage_rollups TO ash_app;

-- tool_calls

CREATE TABLE tool_calls (
    session_id UUID NOT NULL,
    key TEXT NOT NULL,
    number INTEGER NOT NULL,
    message_sequence BIGINT,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    turn INTEGER NOT NULL,
    tool TEXT NOT NULL,
    mcp_server TEXT NOT NULL,
    skill TEXT NOT NULL,
    action TEXT NOT NULL,
    path TEXT NOT NULL,
    added INTEGER,
    removed INTEGER,
    outcome TEXT NOT NULL,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    CONSTRAINT tool_calls_pkey PRIMARY KEY (session_id, key, number)
);
CREATE INDEX tool_calls_path_end_idx ON tool_calls (tenant, reverse(path) text_pattern_ops, session_id)
    WHERE path <> '';
CREATE INDEX tool_calls_path_idx ON tool_calls (tenant, path text_pattern_ops, session_id)
    WHERE path <> '';
CREATE INDEX tool_calls_tool_idx ON tool_calls (tool, tenant, session_id);
COMMENT ON COLUMN tool_calls.key IS 'digest of the id of the call';
COMMENT ON COLUMN tool_calls.number IS '0, 1, 2 … for the files of a call';
COMMENT ON COLUMN tool_calls.message_sequence IS 'message with the call; null: a posted event, which is never a copy';
COMMENT ON COLUMN tool_calls.at IS 'time of the call; -infinity: unknown';
COMMENT ON COLUMN tool_calls.turn IS 'number of the turn in the session';
COMMENT ON COLUMN tool_calls.mcp_server IS 'empty: not a tool of an MCP server';
COMMENT ON COLUMN tool_calls.skill IS 'skill that the call loads; empty: none';
COMMENT ON COLUMN tool_calls.action IS 'read, edit, write, delete or move for a file; shell for a command; empty: other';
COMMENT ON COLUMN tool_calls.path IS 'empty: no file';
COMMENT ON COLUMN tool_calls.added IS 'number of added lines; null: unknown';
COMMENT ON COLUMN tool_calls.removed IS 'number of removed lines; null: unknown';
COMMENT ON COLUMN tool_calls.outcome IS 'ok, failed or denied; empty: no result';
ALTER TABLE tool_calls ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tool_calls TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON tool_calls TO ash_app;

-- session_labels

CREATE TABLE session_labels (
    session_id UUID NOT NULL,
    starred BOOLEAN NOT NULL,
    archived BOOLEAN NOT NULL,
    tags TEXT[] NOT NULL,
    note TEXT NOT NULL,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    CONSTRAINT session_labels_pkey PRIMARY KEY (session_id),
    CONSTRAINT session_labels_session_id_fkey FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
COMMENT ON COLUMN session_labels.note IS 'Markdown';
ALTER TABLE session_labels ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session_labels TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON session_labels TO ash_app;

-- cold_sessions

CREATE TABLE cold_sessions (
    session_id UUID NOT NULL,
    archived_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    restored_at TIMESTAMP WITH TIME ZONE,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    CONSTRAINT cold_sessions_pkey PRIMARY KEY (session_id),
    CONSTRAINT cold_sessions_session_id_fkey FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
COMMENT ON COLUMN cold_sessions.restored_at IS 'null: the texts are in cold_archives';
ALTER TABLE cold_sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON cold_sessions TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON cold_sessions TO ash_app;

-- cold_archives

CREATE TABLE cold_archives (
    session_id UUID NOT NULL,
    part INTEGER NOT NULL,
    data BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    messages INTEGER NOT NULL,
    events INTEGER NOT NULL,
    size BIGINT NOT NULL,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    CONSTRAINT cold_archives_pkey PRIMARY KEY (session_id, part),
    CONSTRAINT cold_archives_session_id_fkey FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
COMMENT ON COLUMN cold_archives.data IS 'texts with their sequences, MessagePack in LZMA';
COMMENT ON COLUMN cold_archives.digest IS 'SHA-256 of the data';
COMMENT ON COLUMN cold_archives.messages IS 'number of texts of messages';
COMMENT ON COLUMN cold_archives.events IS 'number of texts of events';
COMMENT ON COLUMN cold_archives.size IS 'bytes of the texts';
ALTER TABLE cold_archives ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON cold_archives TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON cold_archives TO ash_app;

-- drift

CREATE TABLE drift (
    session_id UUID NOT NULL,
    sequence BIGINT NOT NULL,
    reason TEXT NOT NULL,
    raw_type TEXT NOT NULL,
    source TEXT NOT NULL,
    client_version TEXT,
    count INTEGER NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    CONSTRAINT drift_pkey PRIMARY KEY (session_id, sequence, reason, raw_type),
    CONSTRAINT drift_session_id_fkey FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
COMMENT ON COLUMN drift.raw_type IS 'type of the block in the message; empty if it has none';
COMMENT ON COLUMN drift.client_version IS 'client version in the message';
COMMENT ON COLUMN drift.seen_at IS 'timestamp of the message, or the time when it was stored';
ALTER TABLE drift ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON drift TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON drift TO ash_app;

-- search

CREATE TABLE search (
    session_id UUID NOT NULL,
    sequence BIGINT NOT NULL,
    part SMALLINT NOT NULL,
    weight TEXT NOT NULL,
    role TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    words TSVECTOR NOT NULL,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    readers TEXT DEFAULT 'unredacted' NOT NULL,
    CONSTRAINT search_pkey PRIMARY KEY (session_id, sequence, part),
    CONSTRAINT search_weight_check CHECK (weight IN ('A', 'B', 'C', 'D')),
    CONSTRAINT search_readers_check CHECK (readers IN ('all', 'redacted', 'unredacted')),
    CONSTRAINT search_role_check CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    CONSTRAINT search_session_id_fkey FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
CREATE INDEX search_conversation_idx ON search USING gin (words)
    WHERE weight <> 'D';
CREATE INDEX search_newest_idx ON search (tenant, at DESC, session_id DESC, sequence DESC);
CREATE INDEX search_results_idx ON search USING gin (words)
    WHERE weight = 'D';
COMMENT ON COLUMN search.sequence IS 'sequence of the event';
COMMENT ON COLUMN search.part IS 'number of the part, since long texts are split';
COMMENT ON COLUMN search.weight IS 'A: messages, B: reasoning, C: tool calls, D: tool results and everything else';
COMMENT ON COLUMN search.role IS 'role of the author';
COMMENT ON COLUMN search.at IS 'time of the event, but not after the time of indexing';
COMMENT ON COLUMN search.readers IS 'clients that find the words: all of them, or only those that see redacted or unredacted texts';
ALTER TABLE search ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON search TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON search TO ash_app;

-- search_progress

CREATE TABLE search_progress (
    session_id UUID NOT NULL,
    event_sequence BIGINT DEFAULT '0' NOT NULL,
    last_dropped_sequence BIGINT DEFAULT '0' NOT NULL,
    version INTEGER DEFAULT '0' NOT NULL,
    tenant INTEGER DEFAULT coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1) NOT NULL,
    moved BIGINT[] DEFAULT '{}' NOT NULL,
    CONSTRAINT search_progress_pkey PRIMARY KEY (session_id),
    CONSTRAINT search_progress_session_id_fkey FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
)
 WITH (fillfactor = 50);
CREATE INDEX search_progress_version_idx ON search_progress (version);
COMMENT ON COLUMN search_progress.event_sequence IS 'last indexed event';
COMMENT ON COLUMN search_progress.last_dropped_sequence IS 'last event dropped by a rebuild for which the words were deleted';
COMMENT ON COLUMN search_progress.version IS 'version of the indexer that wrote the words';
COMMENT ON COLUMN search_progress.moved IS 'words to move, as triples: after a sequence, up to another, by a number';
ALTER TABLE search_progress ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON search_progress TO ash_app
    USING (tenant = (SELECT current_setting('ash.tenant')::integer));
GRANT SELECT, INSERT, UPDATE, DELETE ON search_progress TO ash_app;

-- tenants

CREATE TABLE tenants (
    number INTEGER NOT NULL,
    id UUID NOT NULL,
    name TEXT NOT NULL,
    CONSTRAINT tenants_pkey PRIMARY KEY (number),
    CONSTRAINT tenants_id_key UNIQUE (id),
    CONSTRAINT tenants_name_key UNIQUE (name)
);

-- keys

CREATE TABLE keys (
    id UUID NOT NULL,
    tenant INTEGER NOT NULL,
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    digest BYTEA NOT NULL,
    scopes TEXT[] NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    last_used_at TIMESTAMP WITH TIME ZONE,
    redacts BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT keys_pkey PRIMARY KEY (id),
    CONSTRAINT keys_scopes_check CHECK (scopes <@ ARRAY['read', 'write', 'delete', 'share', 'admin']),
    CONSTRAINT keys_tenant_fkey FOREIGN KEY(tenant) REFERENCES tenants (number),
    CONSTRAINT keys_digest_key UNIQUE (digest)
);
CREATE UNIQUE INDEX keys_name_idx ON keys (tenant, name)
    WHERE revoked_at IS NULL;
COMMENT ON COLUMN keys.prefix IS 'first characters of the key';
COMMENT ON COLUMN keys.digest IS 'HMAC-SHA256 of the key';

-- sign_ins

CREATE TABLE sign_ins (
    digest BYTEA NOT NULL,
    key_id UUID NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    scopes TEXT[],
    CONSTRAINT sign_ins_pkey PRIMARY KEY (digest),
    CONSTRAINT sign_ins_key_id_fkey FOREIGN KEY(key_id) REFERENCES keys (id)
);
COMMENT ON COLUMN sign_ins.digest IS 'HMAC-SHA256 of the cookie';
COMMENT ON COLUMN sign_ins.scopes IS 'null: the scopes of the key';

-- sign_in_codes

CREATE TABLE sign_in_codes (
    digest BYTEA NOT NULL,
    key_id UUID NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT sign_in_codes_pkey PRIMARY KEY (digest),
    CONSTRAINT sign_in_codes_key_id_fkey FOREIGN KEY(key_id) REFERENCES keys (id)
);
COMMENT ON COLUMN sign_in_codes.digest IS 'HMAC-SHA256 of the code';

-- audit

CREATE TABLE audit (
    id UUID NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    tenant INTEGER NOT NULL,
    key_id UUID,
    action TEXT NOT NULL,
    target TEXT,
    count INTEGER,
    CONSTRAINT audit_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_tenant_idx ON audit (tenant, id);
COMMENT ON COLUMN audit.key_id IS 'null: a command run on the database';
COMMENT ON COLUMN audit.target IS 'id of a session or key, or address of a client';
COMMENT ON COLUMN audit.count IS 'number of refused sign-ins within a minute';

-- shares

CREATE TABLE shares (
    id UUID NOT NULL,
    tenant INTEGER NOT NULL,
    digest BYTEA NOT NULL,
    session_id UUID NOT NULL,
    session_created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    title_digest BYTEA NOT NULL,
    last_message BIGINT,
    last_event BIGINT NOT NULL,
    last_dropped_event BIGINT NOT NULL,
    with_subagents BOOLEAN NOT NULL,
    redacts BOOLEAN NOT NULL,
    key_id UUID,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT shares_pkey PRIMARY KEY (id),
    CONSTRAINT shares_tenant_fkey FOREIGN KEY(tenant) REFERENCES tenants (number),
    CONSTRAINT shares_digest_key UNIQUE (digest)
);
CREATE INDEX shares_session_idx ON shares (tenant, session_id);
COMMENT ON COLUMN shares.digest IS 'HMAC-SHA256 of the secret in the link';
COMMENT ON COLUMN shares.session_created_at IS 'the link ends if the session is deleted and created again';
COMMENT ON COLUMN shares.title_digest IS 'SHA-256 of the id of the link and the title of the session when it was shared';
COMMENT ON COLUMN shares.last_message IS 'last shared message; null: also later ones';
COMMENT ON COLUMN shares.last_event IS 'last event when it was shared';
COMMENT ON COLUMN shares.last_dropped_event IS 'last_dropped_sequence of the session when it was shared: another one means another log';
COMMENT ON COLUMN shares.key_id IS 'key that created the link; null: a command on the database';

-- budgets

CREATE TABLE budgets (
    id UUID NOT NULL,
    tenant INTEGER NOT NULL,
    limit_nano_usd BIGINT NOT NULL,
    period TEXT NOT NULL,
    timezone TEXT NOT NULL,
    project TEXT NOT NULL,
    webhook_url TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT budgets_pkey PRIMARY KEY (id),
    CONSTRAINT budgets_tenant_period_project_key UNIQUE (tenant, period, project),
    CONSTRAINT budgets_limit_check CHECK (limit_nano_usd > 0),
    CONSTRAINT budgets_period_check CHECK (period IN ('day', 'week', 'month')),
    CONSTRAINT budgets_tenant_fkey FOREIGN KEY(tenant) REFERENCES tenants (number)
);
COMMENT ON COLUMN budgets.limit_nano_usd IS 'limit, in 10^-9 US dollars';
COMMENT ON COLUMN budgets.timezone IS 'IANA name of the zone where periods begin';
COMMENT ON COLUMN budgets.project IS 'empty: all projects';

-- budget_notices

CREATE TABLE budget_notices (
    budget_id UUID NOT NULL,
    period_start TIMESTAMP WITH TIME ZONE NOT NULL,
    spent_nano_usd BIGINT NOT NULL,
    passed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    attempts SMALLINT DEFAULT '0' NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT budget_notices_pkey PRIMARY KEY (budget_id, period_start),
    CONSTRAINT budget_notices_budget_id_fkey FOREIGN KEY(budget_id) REFERENCES budgets (id) ON DELETE CASCADE
);
COMMENT ON COLUMN budget_notices.spent_nano_usd IS 'cost when it was passed, in 10^-9 US dollars';
COMMENT ON COLUMN budget_notices.next_attempt_at IS 'null: the webhook is not sent again';

-- retention_policies

CREATE TABLE retention_policies (
    tenant INTEGER NOT NULL,
    age TEXT NOT NULL,
    keep TEXT[] NOT NULL,
    set_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    checked_at TIMESTAMP WITH TIME ZONE,
    waiting BIGINT DEFAULT '0' NOT NULL,
    held TEXT,
    leased_until TIMESTAMP WITH TIME ZONE,
    CONSTRAINT retention_policies_pkey PRIMARY KEY (tenant),
    CONSTRAINT retention_policies_held_check CHECK (held IN ('share', 'clock')),
    CONSTRAINT retention_policies_tenant_fkey FOREIGN KEY(tenant) REFERENCES tenants (number)
);
COMMENT ON COLUMN retention_policies.age IS 'such as 2y';
COMMENT ON COLUMN retention_policies.checked_at IS 'last run of a server; null: none yet';
COMMENT ON COLUMN retention_policies.waiting IS 'old sessions that the last run has not scheduled';
COMMENT ON COLUMN retention_policies.held IS 'why servers delete nothing until the next confirmed run';
COMMENT ON COLUMN retention_policies.leased_until IS 'time until which one process runs the policy';

-- scheduled_deletions

CREATE TABLE scheduled_deletions (
    tenant INTEGER NOT NULL,
    session_id UUID NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT scheduled_deletions_pkey PRIMARY KEY (tenant, session_id),
    CONSTRAINT scheduled_deletions_tenant_fkey FOREIGN KEY(tenant) REFERENCES tenants (number)
);
CREATE INDEX scheduled_deletions_due_idx ON scheduled_deletions (tenant, due_at);

-- cold_policies

CREATE TABLE cold_policies (
    tenant INTEGER NOT NULL,
    age TEXT NOT NULL,
    set_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    checked_at TIMESTAMP WITH TIME ZONE,
    leased_until TIMESTAMP WITH TIME ZONE,
    CONSTRAINT cold_policies_pkey PRIMARY KEY (tenant),
    CONSTRAINT cold_policies_tenant_fkey FOREIGN KEY(tenant) REFERENCES tenants (number)
);
COMMENT ON COLUMN cold_policies.age IS 'such as 180d';
COMMENT ON COLUMN cold_policies.checked_at IS 'last run; null: none yet';
COMMENT ON COLUMN cold_policies.leased_until IS 'end of the time in which one process runs the policy';

-- End of the tables.

-- Compression: lz4 takes less than half the time of the default in both directions. Without it, events are not
-- compressed, because that would take longer than all other steps of a write.
DO $$
BEGIN
    IF 'lz4' = ANY (SELECT unnest(enumvals) FROM pg_settings WHERE name = 'default_toast_compression') THEN
        ALTER TABLE messages ALTER COLUMN content SET COMPRESSION lz4;
        ALTER TABLE events ALTER COLUMN stored_json SET COMPRESSION lz4;
    ELSE
        ALTER TABLE events ALTER COLUMN stored_json SET STORAGE EXTERNAL;
    END IF;
END
$$;

-- Functions and views

-- The JSON of an event. A function without a table, so that PostgreSQL inlines it and the workers of a cluster can run it.
CREATE FUNCTION event_json(
    session_id uuid, type text, event_id uuid, event_time bigint, stored_json bytea, text_ranges integer[],
    text bytea
)
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE
RETURN
    coalesce(convert_to('{"id":"' || event_id || '","timestamp":' || event_time
        || ',"sessionId":"' || session_id || '","type":"' || type || '",', 'UTF8'), '')
    || CASE WHEN text_ranges IS NULL OR text IS NULL THEN stored_json ELSE
        substr(stored_json, 1, text_ranges[1][1])
        || substr(text, text_ranges[1][2] + 1, text_ranges[1][3])
        || coalesce(
            substr(stored_json, text_ranges[1][1] + 3, text_ranges[2][1] - text_ranges[1][1] - 2)
            || substr(text, text_ranges[2][2] + 1, text_ranges[2][3])
            || substr(stored_json, text_ranges[2][1] + 3),
            substr(stored_json, text_ranges[1][1] + 3)
        )
    END;
COMMENT ON FUNCTION event_json IS
    'JSON of an event, in UTF-8, from the columns of its row and from the text of its message, both in UTF-8';
GRANT EXECUTE ON FUNCTION event_json TO ash_app;

-- Statements read texts that a session may have in an archive with `coalesce(content, cold_text(session_id))`.
CREATE FUNCTION cold_text(session_id uuid)
RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1
AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'ASC01',
        MESSAGE = 'the texts of a session are in an archive',
        DETAIL = session_id,
        HINT = 'Restore them with `ash cold restore`.';
END
$$;
COMMENT ON FUNCTION cold_text IS
    'raises an error: the session has a text in cold_archives instead of its row';
GRANT EXECUTE ON FUNCTION cold_text TO ash_app;

-- The view of events, written by `make schema` from log/stored_json.sql.

CREATE VIEW events_full WITH (security_invoker = true) AS
SELECT session_id, sequence, type, message_sequence, origin, explicit_id AS given_id, chunk_group AS piece_of,
    convert_from(CASE WHEN event.text_ranges IS NULL THEN event_json(
    event.session_id, event.type, event.event_id, event.event_time, convert_to(coalesce(event.stored_json, cold_text(event.session_id)), 'UTF8'), NULL, NULL
) ELSE coalesce(
    (
        SELECT event_json(
            event.session_id, event.type, event.event_id, event.event_time, bytes.stored_json, event.text_ranges,
            bytes.text
        )
        FROM (
            SELECT convert_to(coalesce(event.stored_json, cold_text(event.session_id)), 'UTF8') AS stored_json,
                convert_to(coalesce(content, cold_text(messages.session_id)), 'UTF8') AS text
            FROM messages
            WHERE messages.session_id = event.session_id AND messages.sequence = event.message_sequence
            OFFSET 0
        ) AS bytes
    ),
    event_json(
    event.session_id, event.type, event.event_id, event.event_time, convert_to(coalesce(event.stored_json, cold_text(event.session_id)), 'UTF8'), NULL, NULL
)
) END, 'UTF8') AS content
FROM events AS event;

-- End of the view.

COMMENT ON VIEW events_full IS 'events with their JSON in full';

-- The conditions of row-level security are checked before the conditions of a query, unless these are leakproof.
-- Comparisons of words and of arrays are not, nor are functions, so an index on them would not be used. A view has no
-- such order.
--
-- Sessions that others replace are left out of searches and lists here. `NOT IN` is a filter of each row, where PostgreSQL
-- would plan a join for `NOT EXISTS`.
CREATE VIEW tenant_search AS
SELECT session_id, sequence, weight, role, at, words, readers FROM search
WHERE tenant = (SELECT current_setting('ash.tenant')::integer)
  AND session_id NOT IN (
    SELECT id FROM sessions
    WHERE tenant = (SELECT current_setting('ash.tenant')::integer) AND replaced_by IS NOT NULL
  );

CREATE VIEW tenant_lineages AS
SELECT id, lineage FROM sessions
WHERE tenant = (SELECT current_setting('ash.tenant')::integer);

CREATE VIEW tenant_keys AS
SELECT id, name FROM keys
WHERE tenant = (SELECT current_setting('ash.tenant')::integer);

CREATE VIEW tenant_files AS
SELECT session_id, path, action, outcome FROM tool_calls
WHERE path <> '' AND tenant = (SELECT current_setting('ash.tenant')::integer);

CREATE VIEW tenant_sessions AS
SELECT id, source, external_id, parent_id, metadata, created_at, updated_at, first_at, last_at, file_modified_at,
    provider_session_id, machine, key_id, project, folder, branch, cause
FROM sessions
WHERE tenant = (SELECT current_setting('ash.tenant')::integer) AND replaced_by IS NULL;

COMMENT ON VIEW tenant_keys IS 'names of keys, without their digests';

GRANT SELECT ON alembic_version, events_full, tenant_search, tenant_lineages, tenant_keys, tenant_files, tenant_sessions
    TO ash_app;

-- The tenant of a server without keys

INSERT INTO tenants (number, id, name) VALUES (1, '36db4084-d553-42c7-8f6e-dc8e38a6a21a', 'default');
