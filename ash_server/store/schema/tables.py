"""The tables, for Alembic's comparison; queries are plain SQL next to the functions that run them.

Every primary key, unique key and foreign key of the tables of sessions begins with the session's id, and no value
comes from a PostgreSQL sequence, so the schema can be sharded or partitioned by session without changes.

The tables of sessions have the column `tenant`. Row-level security, which Alembic does not compare, shows the role
`ash_app` only the rows of the tenant in the setting `ash.tenant`; it has no rights on the other tables.
"""

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


sessions = Table(
    "sessions",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("source", Text, nullable=False),
    Column("external_id", Text),
    Column("parent_id", Uuid, comment="may name a session that is not stored, or no longer"),
    Column("parent_external_id", Text, comment="the external id of the parent, which may not be stored"),
    Column("title", Text),
    # JSON as text: jsonb rejects the escape \u0000, which a title or a path may contain.
    Column("metadata", Text, nullable=False, server_default="{}"),
    Column(
        "unterminated",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="the imported text has no final newline",
    ),
    Column("created_at", Moment, nullable=False, server_default=func.now()),
    Column("updated_at", Moment, nullable=False, server_default=func.now(), comment="the last activity"),
    Column("first_at", Moment, comment="the time that the first message itself names"),
    Column("last_at", Moment, comment="the time that the last message itself names"),
    Column(
        "title_rank",
        SmallInteger,
        nullable=False,
        server_default="0",
        comment="whose the title is: 0 nobody's, 1 the first prompt's, 2 the tool's, 3 a person's in the tool, "
        "4 a person's in Ash",
    ),
    Column("file_modified_at", Moment, comment="when the imported file was last modified"),
    Column("client_version", Text, comment="the last one that a message names"),
    Column("provider_session_id", Text, comment="the last one that a message names"),
    Column("first_prompt", Text, comment="the beginning of what a person said first"),
    Column("path", Text, comment="path at which the imported transcript was seen last"),
    Column("lineage", ARRAY(Text), comment="digests of names in the transcript that copies have in common"),
    Column("copy_of", Uuid, comment="the session that has the same first messages, even if it is deleted"),
    Column("copied_messages", BigInteger, comment="number of first messages that are in that session"),
    Column("agent_id", Text, comment="id of the subagent whose session it is; empty: none; null: not known"),
    Index("sessions_parent_idx", "parent_id", postgresql_where=text("parent_id IS NOT NULL")),
    _tenant_column(),
    Index(
        "sessions_activity_idx",
        "tenant",
        text("LEAST(COALESCE(last_at, file_modified_at), updated_at) DESC"),
        text("id DESC"),
    ),
    Index("sessions_changes_idx", "tenant", "updated_at"),
    Index("sessions_external_id_idx", "external_id", postgresql_ops={"external_id": "text_pattern_ops"}),
    Index("sessions_lineage_idx", "lineage", postgresql_using="gin"),
    Index("sessions_path_idx", "path", postgresql_where=text("path IS NOT NULL")),
    Index(
        "sessions_unidentified_idx",  # sessions of earlier versions, until their transcripts are imported again
        "provider_session_id",
        postgresql_where=text("lineage IS NULL AND path IS NULL"),
    ),
)

# Separate from `sessions` and without further indexes: every append updates the row, as a HOT update.
session_counters = Table(
    "session_counters",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("message_sequence", BigInteger, nullable=False, server_default="0"),
    Column("event_sequence", BigInteger, nullable=False, server_default="0"),
    Column("normalizer_state", Text),
    Column(
        "events_dropped",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="how many of the first sequences belonged to older readings",
    ),
    Column(
        "normalizer_version",
        Integer,
        comment="of what derived the events; null: messages were stored without any",
    ),
    Column(
        "errors",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="events of type error, and results of tools that failed",
    ),
    Column("unrecognised", BigInteger, nullable=False, server_default="0", comment="events of type raw"),
    Column(
        "has_chunks",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="the log may have chunks; else derived events have no `piece_of`",
    ),
    _tenant_column(),
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
    Column("content", Text, nullable=False, comment="exactly as it came in"),
    Column("block_types", ARRAY(Text), nullable=False, comment="derived from the content by the parser"),
    Column("parser_version", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("digest", LargeBinary, comment="of how the parser reads it; null: not yet computed"),
    Column("role_given", Boolean, comment="by the writer, not by the parser; null: not known"),
    Column("source_given", Boolean, comment="by the writer, not by the parser; null: not known"),
    Column(
        "blocks_start",
        Integer,
        comment="offset in the UTF-8 of the content of the blocks, if the parser copies them from it",
    ),
    Column("blocks_size", Integer, comment="bytes of the blocks in the content"),
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
        comment="the message it was derived from; else the last one that was stored before it",
    ),
    Column(
        "origin",
        Text,
        nullable=False,
        comment="line: derived from a message, posted: by a writer, end: closes what was open",
    ),
    Column("given_id", Text, comment="the id, where a writer gave it; others follow from where they are"),
    Column(
        "piece_of",  # links the chunks of a content and the complete event that supersedes them
        Text,
        comment="digest of what a chunk is a piece of, and of what a whole takes the place of",
    ),
    Column(
        "fields",
        Text,
        nullable=False,
        comment="the event as JSON, without its sequences, and without its beginning if `event_id` is set; "
        "empty where `places` names a value",
    ),
    Column(
        "places",
        ARRAY(Integer),
        comment="values in the text of the message: offset in `fields`, offset in the text, size, in bytes",
    ),
    Column("event_id", Uuid, comment="the id, if `fields` does not have it"),
    Column("event_time", BigInteger, comment="the time in milliseconds, if `fields` does not have it"),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "sequence"),
    CheckConstraint("origin IN ('line', 'posted', 'end')", name="origin"),
    Index(
        "events_given_id_idx",
        "session_id",
        "given_id",
        unique=True,
        postgresql_where=text("given_id IS NOT NULL"),
    ),
    Index(
        "events_whole_idx",
        "session_id",
        "piece_of",
        "sequence",
        postgresql_where=text("piece_of IS NOT NULL AND type NOT LIKE '%chunk'"),
    ),
)

# The text of streamed items that have not ended, without its end, which is in the state of the normaliser: a text of
# megabytes arrives in small chunks, each of which writes the state.
open_texts = Table(
    "open_texts",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False, comment="number of the text within its session"),
    Column("start", BigInteger, nullable=False, comment="offset of the content in the text, in characters"),
    # As JSON: a text may contain U+0000.
    Column("content", Text, nullable=False, comment="a JSON string"),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "number", "start"),
)

# Unknown and malformed blocks: few rows, and none for most sessions.
drift = Table(
    "drift",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("raw_type", Text, nullable=False, comment="empty where the block names none"),
    Column("source", Text, nullable=False),
    Column("client_version", Text, comment="where the message itself names one"),
    Column("count", Integer, nullable=False),
    Column(
        "seen_at",
        Moment,
        nullable=False,
        comment="when the message was written, by its own account, else when it was stored",
    ),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "sequence", "reason", "raw_type"),
)

# The words of events by kind of text. Two indexes: most text is tool output, and most searches exclude it.
search = Table(
    "search",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("sequence", BigInteger, nullable=False, comment="of the event"),
    Column("part", SmallInteger, nullable=False, comment="a long text is cut into several"),
    Column(
        "weight",
        Text,
        nullable=False,
        comment="A: said, B: thought, C: calls of tools, D: their results, and all else",
    ),
    Column("role", Text, nullable=False, comment="whose words they are"),
    Column("at", Moment, nullable=False, comment="when the event was, but never later than it was looked at"),
    Column("words", TSVECTOR, nullable=False),
    Column(
        "readers",
        Text,
        nullable=False,
        server_default="unredacted",
        comment="clients that find these words; those that see redacted texts must not find words of secrets",
    ),
    _tenant_column(),
    PrimaryKeyConstraint("session_id", "sequence", "part"),
    CheckConstraint("weight IN ('A', 'B', 'C', 'D')", name="weight"),
    CheckConstraint("readers IN ('all', 'redacted', 'unredacted')", name="readers"),
    CheckConstraint("role IN ('user', 'assistant', 'system', 'tool')", name="role"),
    Index("search_said_idx", "words", postgresql_using="gin", postgresql_where=text("weight <> 'D'")),
    Index("search_rest_idx", "words", postgresql_using="gin", postgresql_where=text("weight = 'D'")),
)

# Separate from `session_counters`, so that appends do not wait for the lock that indexing holds on the row.
search_progress = Table(
    "search_progress",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "event_sequence",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="the last one whose words can be found",
    ),
    Column(
        "events_dropped",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="up to which the words of older readings were removed",
    ),
    Column(
        "version",
        Integer,
        nullable=False,
        server_default="0",
        comment="of what took the words from the events",
    ),
    _tenant_column(),
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
    Column("prefix", Text, nullable=False, comment="the first characters of the key"),
    Column("digest", LargeBinary, nullable=False, unique=True, comment="HMAC-SHA256 of the key"),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("created_at", Moment, nullable=False, server_default=func.now()),
    Column("expires_at", Moment),
    Column("revoked_at", Moment),
    Column("last_used_at", Moment),
    Column("redacts", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("scopes <@ ARRAY['read', 'write', 'delete', 'admin']", name="scopes"),
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
)

audit = Table(
    "audit",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("at", Moment, nullable=False, server_default=func.now()),
    Column("tenant", Integer, nullable=False),
    Column("key_id", Uuid, comment="null: a command on the database"),
    Column("action", Text, nullable=False),
    Column("target", Text, comment="id of the session or of the key, or address of a client"),
    Column("count", Integer, comment="number of refused sign-ins within a minute"),
    Index("audit_tenant_idx", "tenant", "id"),
)
