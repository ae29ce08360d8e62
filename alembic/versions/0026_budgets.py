"""Budgets, and notices of budgets that were passed."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

Moment = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "budgets",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("tenant", sa.Integer, nullable=False),
        sa.Column("limit_nano_usd", sa.BigInteger, nullable=False, comment="limit, in 10^-9 US dollars"),
        sa.Column("period", sa.Text, nullable=False),
        sa.Column("timezone", sa.Text, nullable=False, comment="IANA name of the zone where periods begin"),
        sa.Column("project", sa.Text, nullable=False, comment="empty: all projects"),
        sa.Column("webhook_url", sa.Text),
        sa.Column("created_at", Moment, nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("id", name="budgets_pkey"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.number"], name="budgets_tenant_fkey"),
        sa.UniqueConstraint("tenant", "period", "project", name="budgets_tenant_period_project_key"),
        sa.CheckConstraint("limit_nano_usd > 0", name=op.f("budgets_limit_check")),
        sa.CheckConstraint("period IN ('day', 'week', 'month')", name=op.f("budgets_period_check")),
    )
    op.create_table(
        "budget_notices",
        sa.Column("budget_id", sa.Uuid, nullable=False),
        sa.Column("period_start", Moment, nullable=False),
        sa.Column(
            "spent_nano_usd",
            sa.BigInteger,
            nullable=False,
            comment="cost when it was passed, in 10^-9 US dollars",
        ),
        sa.Column("passed_at", Moment, nullable=False, server_default=sa.func.now()),
        sa.Column("attempts", sa.SmallInteger, nullable=False, server_default="0"),
        sa.Column("next_attempt_at", Moment, comment="null: the webhook is not sent again"),
        sa.PrimaryKeyConstraint("budget_id", "period_start", name="budget_notices_pkey"),
        sa.ForeignKeyConstraint(
            ["budget_id"], ["budgets.id"], name="budget_notices_budget_id_fkey", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    op.drop_table("budget_notices")
    op.drop_table("budgets")
