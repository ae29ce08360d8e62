"""Searches read the newest events until a page is full."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    columns = ["tenant", sa.text("at DESC"), sa.text("session_id DESC"), sa.text("sequence DESC")]
    op.create_index("search_newest_idx", "search", columns)


def downgrade() -> None:
    op.drop_index("search_newest_idx")
