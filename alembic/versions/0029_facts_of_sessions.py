"""Tool calls and other facts of sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_TENANT = "coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1)"
_CURRENT = "(SELECT current_setting('ash.tenant')::integer)"

# Citus requires it for changes of a distributed table and new shards in one transaction.
_SEQUENTIAL = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"

# In a Citus cluster, the new table is placed like the sessions.
_DISTRIBUTE = """
    DO $$
    BEGIN
        IF to_regclass('pg_dist_partition') IS NULL THEN
            RETURN;
        END IF;
        IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'sessions'::regclass) THEN
            RETURN;
        END IF;
        ALTER POLICY tenant ON tool_calls USING (tenant = current_setting('ash.tenant')::integer);
        PERFORM create_distributed_table('tool_calls', 'session_id', colocate_with := 'sessions');
    END
    $$
"""

_OF_SESSIONS = (
    ("folder", "first working folder in the messages"),
    ("branch", "last Git branch in the messages"),
    ("git_commit", "first Git commit in the messages"),
    ("cause", "what started the first turn: person, schedule or program"),
)
_COUNTERS = (
    ("prompts", "number of messages of a person"),
    ("turns", "number of turns with an answer"),
    ("active_ms", "time without waiting for a person, in milliseconds"),
    ("tool_calls", "number of tool calls"),
    ("tool_failures", "number of tool calls that failed or were denied"),
    ("files_changed", "number of paths with changes"),
    ("lines_added", None),
    ("lines_removed", None),
)


def upgrade() -> None:
    op.execute(_SEQUENTIAL)
    for name, comment in _OF_SESSIONS:
        op.add_column("sessions", sa.Column(name, sa.Text, comment=comment))
    for name, comment in _COUNTERS:
        counter = sa.Column(name, sa.BigInteger, nullable=False, server_default="0", comment=comment)
        op.add_column("session_counters", counter)
    op.create_table(
        "tool_calls",
        sa.Column("session_id", sa.Uuid, nullable=False),
        sa.Column("key", sa.Text, nullable=False, comment="digest of the id of the call"),
        sa.Column("number", sa.Integer, nullable=False, comment="0, 1, 2 … for the files of a call"),
        sa.Column(
            "message_sequence",
            sa.BigInteger,
            comment="message with the call; null: a posted event, which is never a copy",
        ),
        sa.Column(
            "at", sa.TIMESTAMP(timezone=True), nullable=False, comment="time of the call; -infinity: unknown"
        ),
        sa.Column("turn", sa.Integer, nullable=False, comment="number of the turn in the session"),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("mcp_server", sa.Text, nullable=False, comment="empty: not a tool of an MCP server"),
        sa.Column("skill", sa.Text, nullable=False, comment="skill that the call loads; empty: none"),
        sa.Column(
            "action",
            sa.Text,
            nullable=False,
            comment="read, edit, write, delete or move for a file; shell for a command; empty: other",
        ),
        sa.Column("path", sa.Text, nullable=False, comment="empty: no file"),
        sa.Column("added", sa.Integer, comment="number of added lines; null: unknown"),
        sa.Column("removed", sa.Integer, comment="number of removed lines; null: unknown"),
        sa.Column("outcome", sa.Text, nullable=False, comment="ok, failed or denied; empty: no result"),
        sa.Column("tenant", sa.Integer, nullable=False, server_default=sa.text(_TENANT)),
        sa.PrimaryKeyConstraint("session_id", "key", "number", name="tool_calls_pkey"),
    )
    op.create_index(
        "tool_calls_path_idx",
        "tool_calls",
        ["tenant", "path", "session_id"],
        postgresql_ops={"path": "text_pattern_ops"},
        postgresql_where=sa.text("path <> ''"),
    )
    op.execute("ALTER TABLE tool_calls ENABLE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON tool_calls TO ash_app USING (tenant = {_CURRENT})")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON tool_calls TO ash_app")
    op.execute(_DISTRIBUTE)
    op.execute(f"CREATE VIEW tenant_keys AS SELECT id, name FROM keys WHERE tenant = {_CURRENT}")  # noqa: S608  # a constant
    op.execute("COMMENT ON VIEW tenant_keys IS 'names of keys, without their digests'")
    op.execute("GRANT SELECT ON tenant_keys TO ash_app")


def downgrade() -> None:
    op.execute("DROP VIEW tenant_keys")
    op.drop_table("tool_calls")
    for name, _ in _COUNTERS:
        op.drop_column("session_counters", name)
    for name, _ in _OF_SESSIONS:
        op.drop_column("sessions", name)
