"""Stars, tags, notes and the archive of sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
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
        ALTER POLICY tenant ON session_labels USING (tenant = current_setting('ash.tenant')::integer);
        PERFORM create_distributed_table('session_labels', 'session_id', colocate_with := 'sessions');
    END
    $$
"""


def upgrade() -> None:
    op.execute(_SEQUENTIAL)
    op.create_table(
        "session_labels",
        sa.Column("session_id", sa.Uuid, nullable=False),
        sa.Column("starred", sa.Boolean, nullable=False),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("tags", sa.ARRAY(sa.Text), nullable=False),
        sa.Column("note", sa.Text, nullable=False, comment="Markdown"),
        sa.Column("tenant", sa.Integer, nullable=False, server_default=sa.text(_TENANT)),
        sa.PrimaryKeyConstraint("session_id", name="session_labels_pkey"),
    )
    op.execute("ALTER TABLE session_labels ENABLE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON session_labels TO ash_app USING (tenant = {_CURRENT})")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON session_labels TO ash_app")
    op.execute(_DISTRIBUTE)
    op.create_foreign_key(
        "session_labels_session_id_fkey",
        "session_labels",
        "sessions",
        ["session_id"],
        ["id"],
        ondelete="CASCADE",
    )


def downgrade() -> None:
    op.drop_table("session_labels")
