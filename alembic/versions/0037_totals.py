"""Totals of a log are kept with the counters of its session."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    totals = sa.Column(
        "totals",
        sa.Text,
        nullable=False,
        server_default="",
        comment="totals of the events up to totals_sequence, as JSON; empty: of none",
    )
    sequence = sa.Column(
        "totals_sequence", sa.BigInteger, nullable=False, server_default="0", comment="last event in totals"
    )
    op.add_column("session_counters", totals)
    op.add_column("session_counters", sequence)


def downgrade() -> None:
    op.drop_column("session_counters", "totals_sequence")
    op.drop_column("session_counters", "totals")
