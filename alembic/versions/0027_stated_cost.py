"""The cost that an agent states for its whole session."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "sessions",
        sa.Column(
            "stated_cost",
            sa.BigInteger,
            comment="last cost of the session in a record of the agent, in nano-dollars",
        ),
    )
    op.add_column(
        "sessions",
        sa.Column("stated_models", sa.ARRAY(sa.Text), comment="models with a part of stated_cost"),
    )


def downgrade() -> None:
    op.drop_column("sessions", "stated_models")
    op.drop_column("sessions", "stated_cost")
