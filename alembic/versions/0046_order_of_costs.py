"""Lists by cost read kept costs in one order, also those of earlier prices; outdated ones have their own index."""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("session_counters_cost_idx")
    op.create_index(
        "session_counters_cost_idx",
        "session_counters",
        ["tenant", sa.text("cost DESC"), sa.text("session_id DESC")],
    )
    op.create_index("session_counters_cost_revision_idx", "session_counters", ["tenant", "cost_revision"])


def downgrade() -> None:
    op.drop_index("session_counters_cost_revision_idx")
    op.drop_index("session_counters_cost_idx")
    op.create_index(
        "session_counters_cost_idx",
        "session_counters",
        ["tenant", "cost_revision", sa.text("cost DESC"), sa.text("session_id DESC")],
    )
