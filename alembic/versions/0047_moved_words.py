"""After a deletion that changes the sequences of events, the indexer moves their words instead of reading all again."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moved = sa.Column(
        "moved",
        ARRAY(sa.BigInteger),
        nullable=False,
        server_default="{}",
        comment="words to move, as triples: after a sequence, up to another, by a number",
    )
    op.add_column("search_progress", moved)


def downgrade() -> None:
    op.drop_column("search_progress", "moved")
