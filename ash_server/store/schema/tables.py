"""The tables, for Alembic's comparison; queries are plain SQL next to the functions that run them.

Every primary key, unique key and foreign key of the tables of sessions begins with the session's id, and no value
comes from a PostgreSQL sequence, so the schema can be sharded or partitioned by session without changes. Columns have
the order that the migrations give them.

The tables of sessions have the column `tenant`. Row-level security, which Alembic does not compare, shows the role
`ash_app` only the rows of the tenant in the setting `ash.tenant`; it has no rights on the other tables.
"""

from typing import Any

from sqlalchemy import (
    ARRAY,
    TIMESTAMP,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "ck": "%(table_name)s_%(constraint_name)s_check",
    }
)

Moment = TIMESTAMP(timezone=True)


def _tenant_column() -> Column[int]:
    default = "coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1)"
    return Column("tenant", Integer, nullable=False, server_default=text(default))


def _usage_kind() -> list[Column[Any]]:
    """Return the columns that prices and reports depend on. A text is empty if it is unknown."""
    return [
        Column("model", Text, nullable=False),
        Column("service_tier", Text, nullable=False, comment="empty: standard"),
        Column("speed", Text, nullable=False, comment="empty: standard"),
        Column("region", Text, nullable=False),
        Column("agent_id", Text, nullable=False, comment="subagent of lines in another transcript"),
        Column("cause", Text, nullable=False, comment="what started the turn: person, schedule or program"),
        Column("is_request", Boolean, nullable=False, comment="false: a total of several requests"),
        Column(
            "band", SmallInteger, nullable=False, comment="number of price thresholds that the input exceeds"
        ),
    ]


def _counter(name: str, comment: str | None = None) -> Column[Any]:
    return Column(name, BigInteger, nullable=False, server_default="0", comment=comment)


def _usage_counts(type_: type[BigInteger | Numeric[Any]]) -> list[Column[Any]]:
    """Return the columns of counts. Sums are numeric: no count in a record makes them overflow."""
    return [
        Column(
            "input_tokens", type_, nullable=False, comment="without tokens read from or written to a cache"
        ),
        Column("cache_read_tokens", type_, nullable=False),
        Column("cache_write_5m_tokens", type_, nullable=False),
        Column("cache_write_1h_tokens", type_, nullable=False),
        Column("output_tokens", type_, nullable=False, comment="with reasoning"),
        Column("reasoning_tokens", type_, nullable=False),
        Column("web_searches", type_, nullable=False),
    ]


sessions = Table(
    "sessions",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("source", Text, nullable=False),
    Column("external_id", Text),
    Column("parent_id", Uuid, comment="id of the parent session, which may be deleted or not stored yet"),
    Column("title", Text),
    # JSON as text: jsonb rejects the escape \u0000, which a title or a path may contain.
    Column("metadata", Text, nullable=False, server_default="{}"),
    Column(
        "lacks_final_newline",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="the imported text has no final newline",
    ),
    Column("created_at", Moment, nullable=False, server_default=func.now()),
    Column(
        "updated_at", Moment, nullable=False, server_default=func.now(), comment="time of the last activity"
    ),
    Column("first_at", Moment, comment="earliest timestamp in the messages"),
    Column("last_at", Moment, comment="latest timestamp in the messages"),
    Column(
        "title_priority",
        SmallInteger,
        nullable=False,
        server_default="0",
        comment="origin of the title: 0 none, 1 the first prompt, 2 the client, 3 a person in the client, "
        "4 a person in Ash; a title never replaces one with a higher number",
    ),
    Column("client_version", Text, comment="last client version in the messages"),
    Column("provider_session_id", Text, comment="last session id in the messages"),
    Column("first_prompt", Text, comment="beginning of the first prompt of a person"),
    Column("file_modified_at", Moment, comment="modification time of the imported file"),
    Column("parent_external_id", Text, comment="external id of the parent session, which may not be stored"),
    Column("path", Text, comment="last known path of the imported transcript"),
    Column("lineage", ARRAY(Text), comment="digests of names in the transcript, the same in all its copies"),
    Column("copy_of", Uuid, comment="session with the same first messages; it may be deleted"),
    Column("copied_messages", BigInteger, comment="number of first messages shared with the session copy_of"),
    Column(
        "agent_id",
        Text,
        comment="id of the subagent that wrote the session; empty: a main session; null: unknown",
    ),
    Index("sessions_parent_idx", "parent_id", postgresql_where=text("parent_id IS NOT NULL")),
    _tenant_column(),
    Column("machine", Text, comment="host name of the client that created the session"),
    Column("key_id", Uuid, comment="key that created the session"),
    Column("project", Text, comment="root of the repository, from the first folder in the messages"),
    Column(
        "stated_cost",
        BigInteger,
        comment="last cost of the session in a record of the agent, in nano-dollars",
    ),
    Column("stated_models", ARRAY(Text), comment="models with a part of stated_cost"),
    Column("folder", Text, comment="first working folder in the messages"),
    Column("branch", Text, comment="last Git branch in the messages"),
    Column("git_commit", Text, comment="first Git commit in the messages"),
    Column("cause", Text, comment="what started the first turn: person, schedule or program"),
    Column(
        "replaced_by", Uuid, comment="session with the transcript; lists leave this session of prompts out"
    ),
    Index(
        "sessions_activity_idx",
        "tenant",
        text("LEAST(COALESCE(last_at, file_modified_at), updated_at) DESC"),
        text("id DESC"),
    ),
    Index(
        "sessions_start_idx",
        "tenant",
        text("COALESCE(first_at, LEAST(file_modified_at, created_at)) DESC"),
        text("id DESC"),
    ),
    Index(
        "sessions_duration_idx",
        "tenant",
        text("COALESCE(last_at - first_at, '00:00:00'::interval) DESC"),
        text("id DESC"),
    ),
    Index("sessions_source_idx", "tenant", "source"),
    Index(
        "sessions_agent_idx",
        "tenant",
        "id",
        postgresql_where=text("starts_with(metadata, '{\"agent\":'::text)"),
    ),
    Index(
        "sessions_project_idx", "tenant", "project", "folder", postgresql_where=text("project IS NOT NULL")
    ),
    Index("sessions_branch_idx", "tenant", "branch", postgresql_where=text("branch IS NOT NULL")),
    Index("sessions_machine_idx", "tenant", "machine", postgresql_where=text("machine IS NOT NULL")),
    Index("sessions_key_idx", "tenant", "key_id", postgresql_where=text("key_id IS NOT NULL")),
    Index("sessions_cause_idx", "tenant", "cause", postgresql_where=text("cause IS NOT NULL")),
    Index("sessions_changes_idx", "tenant", "updated_at"),
    Index("sessions_external_id_idx", "external_id", postgresql_ops={"external_id": "text_pattern_ops"}),
    Index("sessions_lineage_idx", "lineage", postgresql_using="gin"),
    Index("sessions_path_idx", "path", postgresql_where=text("path IS NOT NULL")),
    Index("sessions_replaced_idx", "tenant", "id", postgresql_where=text("replaced_by IS NOT NULL")),
    Index(
        "sessions_unidentified_idx",  # sessions of earlier versions, until their transcripts are imported again
        "provider_session_id",
        postgresql_where=text("lineage IS NULL AND path IS NULL"),
    ),
)

# Separate from `sessions`: every append updates the row, as a HOT update unless it adds errors.
session_counters = Table(
    "session_counters",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("message_sequence", BigInteger, nullable=False, server_default="0"),
    Column("event_sequence", BigInteger, nullable=False, server_default="0"),
    Column(
        "normalizer_state",
        Text,
        comment="state of the normaliser, as JSON; null: the initial state",
    ),
    Column(
        "last_dropped_sequence",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="last event dropped by a rebuild; the log starts with the next one",
    ),
    Column(
        "normalizer_version",
        Integer,
        comment="version of the normaliser that derived the events; null: none derived yet",
    ),
    Column(
        "errors",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="number of events of type error and of failed tool results",
    ),
    Column(
        "unrecognised", BigInteger, nullable=False, server_default="0", comment="number of events of type raw"
    ),
    Column(
        "may_have_chunks",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="false: the log has no chunks, and its derived events have no chunk_group",
    ),
    _tenant_column(),
    _counter("prompts", "number of messages of a person"),
    _counter("turns", "number of turns with an answer"),
    _counter("active_ms", "time without waiting for a person, in milliseconds"),
    _counter("tool_calls", "number of tool calls"),
    _counter("tool_failures", "number of tool calls that failed or were denied"),
    _counter("files_changed", "number of paths with changes"),
    _counter("lines_added"),
    _counter("lines_removed"),
    Column(
        "totals",
        Text,
        nullable=False,
        server_default="",
        comment="totals of the events up to totals_sequence, as JSON; empty: of none",
    ),
    _counter("totals_sequence", "last event in totals"),
    Column(
        "kept_sequence",
        BigInteger,
        nullable=False,
        server_default="-1",
        comment="last message in kept_states; -1: its rows are incomplete",
    ),
    Column(
        "kept_facts",
        Text,
        nullable=False,
        server_default="",
        comment="facts of the messages after kept_sequence, as JSON",
    ),
    _counter("cost", "computed cost, in nano-dollars"),
    Column(
        "cost_revision",
        Text,
        nullable=False,
        server_default="",
        comment="revision of the prices of cost; empty: the usage has changed since",
    ),
    Column(
        "needs_upkeep",
        Boolean,
        nullable=False,
        server_default=text("true"),
        comment="false: the words of all events are indexed, and totals are near the end of the log",
    ),
    Index("session_counters_cost_idx", "tenant", text("cost DESC"), text("session_id DESC")),
    Index("session_counters_cost_revision_idx", "tenant", "cost_revision"),
    Index("session_counters_upkeep_idx", "tenant", "session_id", postgresql_where=text("needs_upkeep")),
    Index("session_counters_errors_idx", "tenant", text("errors DESC"), text("session_id DESC")),
    Index("session_counters_version_idx", "normalizer_version"),
    postgresql_with={"fillfactor": 50},
)

# No foreign key, since it would be checked for each row: writing and deleting messages both lock the session's row in
# session_counters. The same applies to events.
messages = Table(
    "messages",
    metadata,
    Column("session_id", Uuid, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("content", Text, comment="text exactly as received; null: in cold_archives"),
    Column("block_types", ARRAY(Text), nullable=False, comment="types of the blocks, derived by the parser"),
    Column("parser_version", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column(
        "digest",
        LargeBinary,
        comment="digest of the parsed message, to detect changes of the parser; null: not computed yet",
    ),
    Column(
        "has_explicit_role",
        Boolean,
        comment="true: the writer set the role; false: the parser derived it; null: unknown",
    ),
    Column(
        "has_explicit_source",
        Boolean,
        comment="true: the writer set the source; false: the parser derived it; null: unknown",
    ),
    Column(
        "blocks_start",
        Integer,
        comment="byte offset of the blocks in the content; null: the parser does not copy them",
    ),
    Column("blocks_size", Integer, comment="size of the blocks in the content, in bytes"),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "sequence"),
    UniqueConstraint("session_id", "id"),
    CheckConstraint("length(id) BETWEEN 1 AND 255", name="id"),
    CheckConstraint("role IN ('user', 'assistant', 'system', 'tool')", name="role"),
    CheckConstraint("kind IN ('message', 'record', 'chunk', 'deleted')", name="kind"),
)

# Events derived from messages, or posted. A rebuild deletes the derived events and appends them again.
events = Table(
    "events",
    metadata,
    Column("session_id", Uuid, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column(
        "message_sequence",
        BigInteger,
        nullable=False,
        comment="message that the event was derived from; otherwise the last message stored before it",
    ),
    Column(
        "origin",
        Text,
        nullable=False,
        comment="line: derived from a message; posted: sent by a writer; end: closes open turns, calls and texts",
    ),
    Column("explicit_id", Text, comment="id set by the writer; null: the id is derived from the position"),
    Column(
        "chunk_group",  # links the chunks of a content and the complete event that supersedes them
        Text,
        comment="digest shared by the chunks of a text and the complete event that supersedes them",
    ),
    Column(
        "stored_json",
        Text,
        comment="JSON of the event without sequences; without its first fields if event_id is set, and with "
        "empty values where text_ranges has the value; null: in cold_archives",
    ),
    Column(
        "text_ranges",
        ARRAY(Integer),
        comment="values in messages.content: offset in stored_json, offset in the content, size, in bytes",
    ),
    Column("event_id", Uuid, comment="id of the event, unless stored_json has it"),
    Column("event_time", BigInteger, comment="Unix time in milliseconds, unless stored_json has it"),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "sequence"),
    CheckConstraint("origin IN ('line', 'posted', 'end')", name="origin"),
    Index(
        "events_explicit_id_idx",
        "session_id",
        "explicit_id",
        unique=True,
        postgresql_where=text("explicit_id IS NOT NULL"),
    ),
    Index(
        "events_chunk_group_idx",
        "session_id",
        "chunk_group",
        "sequence",
        postgresql_where=text("chunk_group IS NOT NULL AND type NOT LIKE '%chunk'"),
    ),
    Index(
        "events_marks_idx",
        "session_id",
        "sequence",
        postgresql_where=text("type IN ('reset', 'retraction', 'summary')"),
    ),
)

# The text of streamed items that have not ended, without its end, which is in the state of the normaliser: a text of
# megabytes arrives in small chunks, each of which writes the state.
open_texts = Table(
    "open_texts",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False, comment="number of the text in its session"),
    Column("start", BigInteger, nullable=False, comment="offset of the content in the text, in characters"),
    # As JSON: a text may contain U+0000.
    Column("content", Text, nullable=False, comment="part of the text, as a JSON string"),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "number", "start"),
)

# States of the normaliser after every 100 messages: a deletion derives the events after one of them.
kept_states = Table(
    "kept_states",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("message_sequence", BigInteger, nullable=False, comment="last message before the state"),
    Column("event_sequence", BigInteger, nullable=False, comment="last event before the state"),
    Column("state", Text, comment="state of the normaliser, as JSON; null: the initial state"),
    Column("totals", Text, nullable=False, comment="totals of the events before, as JSON; empty: unknown"),
    Column("facts", Text, nullable=False, comment="facts of the messages since the previous row, as JSON"),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "message_sequence"),
)

# The usage of answers, derived with the events. No foreign key, as for messages.
answers = Table(
    "answers",
    metadata,
    Column("session_id", Uuid, nullable=False),
    Column("key", Text, nullable=False, comment="digest of the name of the answer, or of its place"),
    Column(
        "message_sequence",
        BigInteger,
        comment="first message that states the usage; null: a posted event, which is never a copy",
    ),
    Column("at", Moment, nullable=False, comment="first known time; -infinity: unknown"),
    *_usage_kind(),
    Column("folder", Text, nullable=False, comment="working folder of the agent; empty: unknown"),
    Column("branch", Text, nullable=False, comment="Git branch of the folder; empty: unknown"),
    Column("turn", Integer, nullable=False, comment="number of the turn in the session"),
    *_usage_counts(BigInteger),
    Column("reported_cost", BigInteger, comment="cost in the record, in nano-dollars"),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "key"),
)

# Sums of `answers`: reports read these rows instead. Tokens, never money, so that later prices apply to them, too.
usage_rollups = Table(
    "usage_rollups",
    metadata,
    Column("session_id", Uuid, nullable=False),
    Column("quarter", Moment, nullable=False, comment="start of a quarter of an hour; -infinity: unknown"),
    *_usage_kind(),
    Column("is_copy", Boolean, nullable=False, comment="answers in the copied messages of a session"),
    Column("answers", BigInteger, nullable=False, comment="number of answers"),
    *_usage_counts(Numeric),
    Column(
        "reported_cost", Numeric, nullable=False, comment="sum of the costs in the records, in nano-dollars"
    ),
    Column("reported_answers", BigInteger, nullable=False, comment="number of answers with such a cost"),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "quarter", *(column.name for column in _usage_kind()), "is_copy"),
    Index("usage_rollups_quarter_idx", "tenant", "quarter"),
    Index("usage_rollups_model_idx", "tenant", "model", "session_id"),
    Index("usage_rollups_shared_idx", "session_id", postgresql_where=text("is_copy OR agent_id <> ''")),
)

# Tool calls and the files they concern, derived with the events. No foreign key, as for messages.
tool_calls = Table(
    "tool_calls",
    metadata,
    Column("session_id", Uuid, nullable=False),
    Column("key", Text, nullable=False, comment="digest of the id of the call"),
    Column("number", Integer, nullable=False, comment="0, 1, 2 … for the files of a call"),
    Column(
        "message_sequence",
        BigInteger,
        comment="message with the call; null: a posted event, which is never a copy",
    ),
    Column("at", Moment, nullable=False, comment="time of the call; -infinity: unknown"),
    Column("turn", Integer, nullable=False, comment="number of the turn in the session"),
    Column("tool", Text, nullable=False),
    Column("mcp_server", Text, nullable=False, comment="empty: not a tool of an MCP server"),
    Column("skill", Text, nullable=False, comment="skill that the call loads; empty: none"),
    Column(
        "action",
        Text,
        nullable=False,
        comment="read, edit, write, delete or move for a file; shell for a command; empty: other",
    ),
    Column("path", Text, nullable=False, comment="empty: no file"),
    Column("added", Integer, comment="number of added lines; null: unknown"),
    Column("removed", Integer, comment="number of removed lines; null: unknown"),
    Column("outcome", Text, nullable=False, comment="ok, failed or denied; empty: no result"),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "key", "number"),
    Index(
        "tool_calls_path_idx",
        "tenant",
        "path",
        "session_id",
        postgresql_ops={"path": "text_pattern_ops"},
        postgresql_where=text("path <> ''"),
    ),
    Index("tool_calls_tool_idx", "tool", "tenant", "session_id"),
    Index(
        "tool_calls_path_end_idx",
        "tenant",
        func.reverse(text("path")).label("path_end"),
        "session_id",
        postgresql_ops={"path_end": "text_pattern_ops"},
        postgresql_where=text("path <> ''"),
    ),
)

# What people set in Ash, apart from what the agent wrote: a row only for sessions with labels.
session_labels = Table(
    "session_labels",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("starred", Boolean, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("tags", ARRAY(Text), nullable=False),
    Column("note", Text, nullable=False, comment="Markdown"),
    _tenant_column(),
)

# Old sessions with their texts in `cold_archives`, or that were restored from there.
cold_sessions = Table(
    "cold_sessions",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("archived_at", Moment, nullable=False, server_default=func.now()),
    Column("restored_at", Moment, comment="null: the texts are in cold_archives"),
    _tenant_column(),
)

# The texts of cold sessions, in parts of limited size.
cold_archives = Table(
    "cold_archives",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("part", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False, comment="texts with their sequences, MessagePack in LZMA"),
    Column("digest", LargeBinary, nullable=False, comment="SHA-256 of the data"),
    Column("messages", Integer, nullable=False, comment="number of texts of messages"),
    Column("events", Integer, nullable=False, comment="number of texts of events"),
    Column("size", BigInteger, nullable=False, comment="bytes of the texts"),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "part"),
)

# Unknown and malformed blocks: few rows, and none for most sessions.
drift = Table(
    "drift",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column(
        "raw_type", Text, nullable=False, comment="type of the block in the message; empty if it has none"
    ),
    Column("source", Text, nullable=False),
    Column("client_version", Text, comment="client version in the message"),
    Column("count", Integer, nullable=False),
    Column(
        "seen_at", Moment, nullable=False, comment="timestamp of the message, or the time when it was stored"
    ),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "sequence", "reason", "raw_type"),
)

# The words of events by kind of text. Two indexes: most text is tool output, and most searches exclude it.
search = Table(
    "search",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("sequence", BigInteger, nullable=False, comment="sequence of the event"),
    Column("part", SmallInteger, nullable=False, comment="number of the part, since long texts are split"),
    Column(
        "weight",
        Text,
        nullable=False,
        comment="A: messages, B: reasoning, C: tool calls, D: tool results and everything else",
    ),
    Column("role", Text, nullable=False, comment="role of the author"),
    Column("at", Moment, nullable=False, comment="time of the event, but not after the time of indexing"),
    Column("words", TSVECTOR, nullable=False),
    _tenant_column(),
    Column(
        "readers",
        Text,
        nullable=False,
        server_default="unredacted",
        comment="clients that find the words: all of them, or only those that see redacted or unredacted texts",
    ),
    PrimaryKeyConstraint("session_id", "sequence", "part"),
    CheckConstraint("weight IN ('A', 'B', 'C', 'D')", name="weight"),
    CheckConstraint("readers IN ('all', 'redacted', 'unredacted')", name="readers"),
    CheckConstraint("role IN ('user', 'assistant', 'system', 'tool')", name="role"),
    Index("search_conversation_idx", "words", postgresql_using="gin", postgresql_where=text("weight <> 'D'")),
    Index("search_results_idx", "words", postgresql_using="gin", postgresql_where=text("weight = 'D'")),
    Index("search_newest_idx", "tenant", text("at DESC"), text("session_id DESC"), text("sequence DESC")),
)

# Separate from `session_counters`, so that appends do not wait for the lock that indexing holds on the row.
search_progress = Table(
    "search_progress",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("event_sequence", BigInteger, nullable=False, server_default="0", comment="last indexed event"),
    Column(
        "last_dropped_sequence",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="last event dropped by a rebuild for which the words were deleted",
    ),
    Column(
        "version",
        Integer,
        nullable=False,
        server_default="0",
        comment="version of the indexer that wrote the words",
    ),
    _tenant_column(),
    Column(
        "moved",
        ARRAY(BigInteger),
        nullable=False,
        server_default="{}",
        comment="words to move, as triples: after a sequence, up to another, by a number",
    ),
    Index("search_progress_version_idx", "version"),
    postgresql_with={"fillfactor": 50},
)

tenants = Table(
    "tenants",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", Uuid, nullable=False, unique=True),
    Column("name", Text, nullable=False, unique=True),
)

keys = Table(
    "keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant", Integer, ForeignKey("tenants.number"), nullable=False),
    Column("name", Text, nullable=False),
    Column("prefix", Text, nullable=False, comment="first characters of the key"),
    Column("digest", LargeBinary, nullable=False, unique=True, comment="HMAC-SHA256 of the key"),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("created_at", Moment, nullable=False, server_default=func.now()),
    Column("expires_at", Moment),
    Column("revoked_at", Moment),
    Column("last_used_at", Moment),
    Column("redacts", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("scopes <@ ARRAY['read', 'write', 'delete', 'share', 'admin']", name="scopes"),
    Index("keys_name_idx", "tenant", "name", unique=True, postgresql_where=text("revoked_at IS NULL")),
)

# Browsers that signed in with a key.
sign_ins = Table(
    "sign_ins",
    metadata,
    Column("digest", LargeBinary, primary_key=True, comment="HMAC-SHA256 of the cookie"),
    Column("key_id", Uuid, ForeignKey("keys.id"), nullable=False),
    Column("created_at", Moment, nullable=False, server_default=func.now()),
    Column("expires_at", Moment, nullable=False),
    Column("scopes", ARRAY(Text), comment="null: the scopes of the key"),
)

# Codes that sign a browser in once.
sign_in_codes = Table(
    "sign_in_codes",
    metadata,
    Column("digest", LargeBinary, primary_key=True, comment="HMAC-SHA256 of the code"),
    Column("key_id", Uuid, ForeignKey("keys.id"), nullable=False),
    Column("expires_at", Moment, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("at", Moment, nullable=False, server_default=func.now()),
    Column("tenant", Integer, nullable=False),
    Column("key_id", Uuid, comment="null: a command run on the database"),
    Column("action", Text, nullable=False),
    Column("target", Text, comment="id of a session or key, or address of a client"),
    Column("count", Integer, comment="number of refused sign-ins within a minute"),
    Index("audit_tenant_idx", "tenant", "id"),
)

# Links that show one session without a key.
shares = Table(
    "shares",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant", Integer, ForeignKey("tenants.number"), nullable=False),
    Column(
        "digest", LargeBinary, nullable=False, unique=True, comment="HMAC-SHA256 of the secret in the link"
    ),
    Column("session_id", Uuid, nullable=False),
    Column(
        "session_created_at",
        Moment,
        nullable=False,
        comment="the link ends if the session is deleted and created again",
    ),
    Column(
        "title_digest",
        LargeBinary,
        nullable=False,
        comment="SHA-256 of the id of the link and the title of the session when it was shared",
    ),
    Column("last_message", BigInteger, comment="last shared message; null: also later ones"),
    Column("last_event", BigInteger, nullable=False, comment="last event when it was shared"),
    Column(
        "last_dropped_event",
        BigInteger,
        nullable=False,
        comment="last_dropped_sequence of the session when it was shared: another one means another log",
    ),
    Column("with_subagents", Boolean, nullable=False),
    Column("redacts", Boolean, nullable=False),
    Column("key_id", Uuid, comment="key that created the link; null: a command on the database"),
    Column("created_at", Moment, nullable=False, server_default=func.now()),
    Column("expires_at", Moment, nullable=False),
    Column("revoked_at", Moment),
    Index("shares_session_idx", "tenant", "session_id"),
)

budgets = Table(
    "budgets",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant", Integer, ForeignKey("tenants.number"), nullable=False),
    Column("limit_nano_usd", BigInteger, nullable=False, comment="limit, in 10^-9 US dollars"),
    Column("period", Text, nullable=False),
    Column("timezone", Text, nullable=False, comment="IANA name of the zone where periods begin"),
    Column("project", Text, nullable=False, comment="empty: all projects"),
    Column("webhook_url", Text),
    Column("created_at", Moment, nullable=False, server_default=func.now()),
    UniqueConstraint("tenant", "period", "project"),
    CheckConstraint("limit_nano_usd > 0", name="limit"),
    CheckConstraint("period IN ('day', 'week', 'month')", name="period"),
)

# Budgets that were passed, once for each period, and the attempts to send their webhooks.
budget_notices = Table(
    "budget_notices",
    metadata,
    Column("budget_id", Uuid, ForeignKey("budgets.id", ondelete="CASCADE"), nullable=False),
    Column("period_start", Moment, nullable=False),
    Column(
        "spent_nano_usd", BigInteger, nullable=False, comment="cost when it was passed, in 10^-9 US dollars"
    ),
    Column("passed_at", Moment, nullable=False, server_default=func.now()),
    Column("attempts", SmallInteger, nullable=False, server_default="0"),
    Column("next_attempt_at", Moment, comment="null: the webhook is not sent again"),
    PrimaryKeyConstraint("budget_id", "period_start"),
)

retention_policies = Table(
    "retention_policies",
    metadata,
    Column("tenant", Integer, ForeignKey("tenants.number"), primary_key=True, autoincrement=False),
    Column("age", Text, nullable=False, comment="such as 2y"),
    Column("keep", ARRAY(Text), nullable=False),
    Column("set_at", Moment, nullable=False, server_default=func.now()),
    Column("checked_at", Moment, comment="last run of a server; null: none yet"),
    _counter("waiting", "old sessions that the last run has not scheduled"),
    Column("held", Text, comment="why servers delete nothing until the next confirmed run"),
    Column("leased_until", Moment, comment="time until which one process runs the policy"),
    CheckConstraint("held IN ('share', 'clock')", name="held"),
)

# Old sessions that a retention policy will delete. They stay readable until then.
scheduled_deletions = Table(
    "scheduled_deletions",
    metadata,
    Column("tenant", Integer, ForeignKey("tenants.number"), nullable=False),
    Column("session_id", Uuid, nullable=False),
    Column("due_at", Moment, nullable=False),
    PrimaryKeyConstraint("tenant", "session_id"),
    Index("scheduled_deletions_due_idx", "tenant", "due_at"),
)

cold_policies = Table(
    "cold_policies",
    metadata,
    Column("tenant", Integer, ForeignKey("tenants.number"), primary_key=True, autoincrement=False),
    Column("age", Text, nullable=False, comment="such as 180d"),
    Column("set_at", Moment, nullable=False, server_default=func.now()),
    Column("checked_at", Moment, comment="last run; null: none yet"),
    Column("leased_until", Moment, comment="end of the time in which one process runs the policy"),
)
