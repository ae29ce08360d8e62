"""The usage of answers and its sums; machine, key and project of sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_TABLES = ("answers", "usage_rollups")
_TENANT = "coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1)"
_CURRENT = "(SELECT current_setting('ash.tenant')::integer)"

_NEW_COLUMNS = (
    ("machine", sa.Text, "host name of the client that created the session"),
    ("key_id", sa.Uuid, "key that created the session"),
    ("project", sa.Text, "root of the repository, from the first folder in the messages"),
)


# Citus requires it for changes of a distributed table and new shards in one transaction.
_SEQUENTIAL = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"

# In a Citus cluster, the new tables are placed like the sessions.
_DISTRIBUTE = """
    DO $$
    DECLARE
        name text;
    BEGIN
        IF to_regclass('pg_dist_partition') IS NULL THEN
            RETURN;
        END IF;
        IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'sessions'::regclass) THEN
            RETURN;
        END IF;
        FOREACH name IN ARRAY ARRAY['answers', 'usage_rollups'] LOOP
            EXECUTE format('ALTER POLICY tenant ON %I USING (tenant = current_setting(''ash.tenant'')::integer)', name);
            PERFORM create_distributed_table(name, 'session_id', colocate_with := 'sessions');
        END LOOP;
    END
    $$
"""


def upgrade() -> None:
    op.execute(_SEQUENTIAL)
    for name, kind, comment in _NEW_COLUMNS:
        op.add_column("sessions", sa.Column(name, kind, comment=comment))
    op.create_table(
        "answers",
        sa.Column("session_id", sa.Uuid, nullable=False),
        sa.Column(
            "key", sa.Text, nullable=False, comment="digest of the name of the answer, or of its place"
        ),
        sa.Column(
            "message_sequence",
            sa.BigInteger,
            comment="first message that states the usage; null: a posted event, which is never a copy",
        ),
        sa.Column(
            "at",
            sa.TIMESTAMP(timezone=True),
            nullable=False,
            comment="first known time; -infinity: unknown",
        ),
        *_kind(),
        sa.Column("folder", sa.Text, nullable=False, comment="working folder of the agent; empty: unknown"),
        sa.Column("branch", sa.Text, nullable=False, comment="Git branch of the folder; empty: unknown"),
        sa.Column("turn", sa.Integer, nullable=False, comment="number of the turn in the session"),
        *_counts(sa.BigInteger),
        sa.Column("reported_cost", sa.BigInteger, comment="cost in the record, in nano-dollars"),
        sa.Column("tenant", sa.Integer, nullable=False, server_default=sa.text(_TENANT)),
        sa.PrimaryKeyConstraint("session_id", "key", name="answers_pkey"),
    )
    op.create_table(
        "usage_rollups",
        sa.Column("session_id", sa.Uuid, nullable=False),
        sa.Column(
            "quarter",
            sa.TIMESTAMP(timezone=True),
            nullable=False,
            comment="start of a quarter of an hour; -infinity: unknown",
        ),
        *_kind(),
        sa.Column(
            "is_copy", sa.Boolean, nullable=False, comment="answers in the copied messages of a session"
        ),
        sa.Column("answers", sa.BigInteger, nullable=False, comment="number of answers"),
        *_counts(sa.Numeric),
        sa.Column(
            "reported_cost",
            sa.Numeric,
            nullable=False,
            comment="sum of the costs in the records, in nano-dollars",
        ),
        sa.Column(
            "reported_answers", sa.BigInteger, nullable=False, comment="number of answers with such a cost"
        ),
        sa.Column("tenant", sa.Integer, nullable=False, server_default=sa.text(_TENANT)),
        sa.PrimaryKeyConstraint(
            "session_id",
            "quarter",
            *(column.name for column in _kind()),
            "is_copy",
            name="usage_rollups_pkey",
        ),
    )
    op.create_index("usage_rollups_quarter_idx", "usage_rollups", ["tenant", "quarter"])
    for table in _TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenant ON {table} TO ash_app USING (tenant = {_CURRENT})")
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO ash_app")
    op.execute(_DISTRIBUTE)


def downgrade() -> None:
    for table in _TABLES:
        op.drop_table(table)
    for name, _, _ in _NEW_COLUMNS:
        op.drop_column("sessions", name)


def _kind() -> list[sa.Column]:
    return [
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("service_tier", sa.Text, nullable=False, comment="empty: standard"),
        sa.Column("speed", sa.Text, nullable=False, comment="empty: standard"),
        sa.Column("region", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text, nullable=False, comment="subagent of lines in another transcript"),
        sa.Column(
            "cause", sa.Text, nullable=False, comment="what started the turn: person, schedule or program"
        ),
        sa.Column("is_request", sa.Boolean, nullable=False, comment="false: a total of several requests"),
        sa.Column(
            "band",
            sa.SmallInteger,
            nullable=False,
            comment="number of price thresholds that the input exceeds",
        ),
    ]


def _counts(kind: type) -> list[sa.Column]:
    return [
        sa.Column(
            "input_tokens", kind, nullable=False, comment="without tokens read from or written to a cache"
        ),
        sa.Column("cache_read_tokens", kind, nullable=False),
        sa.Column("cache_write_5m_tokens", kind, nullable=False),
        sa.Column("cache_write_1h_tokens", kind, nullable=False),
        sa.Column("output_tokens", kind, nullable=False, comment="with reasoning"),
        sa.Column("reasoning_tokens", kind, nullable=False),
        sa.Column("web_searches", kind, nullable=False),
    ]
