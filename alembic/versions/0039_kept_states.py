"""States of the normaliser within long sessions, from which a deletion derives the events around its message."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

_TENANT = "coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1)"
_CURRENT = "(SELECT current_setting('ash.tenant')::integer)"

# Citus requires it for new shards and their changes in one transaction.
_SEQUENTIAL = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"

# In a Citus cluster, the new table is placed like the sessions, before its foreign key.
_DISTRIBUTE = """
    DO $$
    BEGIN
        IF to_regclass('pg_dist_partition') IS NULL THEN
            RETURN;
        END IF;
        IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'sessions'::regclass) THEN
            RETURN;
        END IF;
        ALTER POLICY tenant ON kept_states USING (tenant = current_setting('ash.tenant')::integer);
        PERFORM create_distributed_table('kept_states', 'session_id', colocate_with := 'sessions');
    END
    $$
"""

_NEW_LEASE = "time until which one process runs the policy"
_OLD_LEASE = "end of the time in which one process runs the policy"


def upgrade() -> None:
    op.execute(_SEQUENTIAL)
    op.add_column(
        "session_counters",
        sa.Column(
            "kept_sequence",
            sa.BigInteger,
            nullable=False,
            server_default="-1",
            comment="last message in kept_states; -1: its rows are incomplete",
        ),
    )
    op.add_column(
        "session_counters",
        sa.Column(
            "kept_facts",
            sa.Text,
            nullable=False,
            server_default="",
            comment="facts of the messages after kept_sequence, as JSON",
        ),
    )
    op.create_table(
        "kept_states",
        sa.Column("session_id", sa.Uuid, nullable=False),
        sa.Column("message_sequence", sa.BigInteger, nullable=False, comment="last message before the state"),
        sa.Column("event_sequence", sa.BigInteger, nullable=False, comment="last event before the state"),
        sa.Column("state", sa.Text, comment="state of the normaliser, as JSON; null: the initial state"),
        sa.Column(
            "totals", sa.Text, nullable=False, comment="totals of the events before, as JSON; empty: unknown"
        ),
        sa.Column(
            "facts", sa.Text, nullable=False, comment="facts of the messages since the previous row, as JSON"
        ),
        sa.Column("tenant", sa.Integer, nullable=False, server_default=sa.text(_TENANT)),
        sa.PrimaryKeyConstraint("session_id", "message_sequence", name="kept_states_pkey"),
    )
    op.execute("ALTER TABLE kept_states ENABLE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON kept_states TO ash_app USING (tenant = {_CURRENT})")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON kept_states TO ash_app")
    op.execute(_DISTRIBUTE)
    op.create_foreign_key(
        "kept_states_session_id_fkey",
        "kept_states",
        "sessions",
        ["session_id"],
        ["id"],
        ondelete="CASCADE",
    )
    op.alter_column("retention_policies", "leased_until", comment=_NEW_LEASE, existing_comment=_OLD_LEASE)


def downgrade() -> None:
    op.alter_column("retention_policies", "leased_until", comment=_OLD_LEASE, existing_comment=_NEW_LEASE)
    op.drop_table("kept_states")
    op.drop_column("session_counters", "kept_facts")
    op.drop_column("session_counters", "kept_sequence")
