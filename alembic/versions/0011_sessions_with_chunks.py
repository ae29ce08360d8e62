"""A mark of sessions that may have chunks: only their events are indexed by the groups of chunks."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_COMMENT = "the log may have chunks; else derived events have no `piece_of`"


def upgrade() -> None:
    # True for the sessions that exist: their events are not read.
    op.add_column(
        "session_counters",
        sa.Column("has_chunks", sa.Boolean(), nullable=False, server_default=sa.true(), comment=_COMMENT),
    )
    op.alter_column("session_counters", "has_chunks", server_default=sa.false())


def downgrade() -> None:
    """Events without a group stay so: no chunk precedes them."""
    op.drop_column("session_counters", "has_chunks")
