"""Policies of retention, and the sessions that they will delete."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

Moment = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "retention_policies",
        sa.Column("tenant", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("age", sa.Text, nullable=False, comment="such as 2y"),
        sa.Column("keep", sa.ARRAY(sa.Text), nullable=False),
        sa.Column("set_at", Moment, nullable=False, server_default=sa.func.now()),
        sa.Column("checked_at", Moment, comment="last run of a server; null: none yet"),
        sa.Column(
            "waiting",
            sa.BigInteger,
            nullable=False,
            server_default="0",
            comment="old sessions that the last run has not scheduled",
        ),
        sa.Column("held", sa.Text, comment="why servers delete nothing until the next confirmed run"),
        sa.Column("leased_until", Moment, comment="end of the time in which one process runs the policy"),
        sa.PrimaryKeyConstraint("tenant", name="retention_policies_pkey"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.number"], name="retention_policies_tenant_fkey"),
        sa.CheckConstraint("held IN ('share', 'clock')", name=op.f("retention_policies_held_check")),
    )
    op.create_table(
        "scheduled_deletions",
        sa.Column("tenant", sa.Integer, nullable=False),
        sa.Column("session_id", sa.Uuid, nullable=False),
        sa.Column("due_at", Moment, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "session_id", name="scheduled_deletions_pkey"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.number"], name="scheduled_deletions_tenant_fkey"),
    )
    op.create_index("scheduled_deletions_due_idx", "scheduled_deletions", ["tenant", "due_at"])


def downgrade() -> None:
    op.drop_table("scheduled_deletions")
    op.drop_table("retention_policies")
