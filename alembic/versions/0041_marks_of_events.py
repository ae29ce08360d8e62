"""Index of the events that change earlier ones, for streamed projections."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "events_marks_idx",
        "events",
        ["session_id", "sequence"],
        postgresql_where=sa.text("type IN ('reset', 'retraction', 'summary')"),
    )


def downgrade() -> None:
    op.drop_index("events_marks_idx")
