"""The place of the blocks in the text of a message, so that pages copy the blocks instead of parsing the text."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_START = "offset in the UTF-8 of the content of the blocks, if the parser copies them from it"
_SIZE = "bytes of the blocks in the content"


def upgrade() -> None:
    """Messages that exist have no place until `ash reindex`: they are parsed."""
    op.add_column("messages", sa.Column("blocks_start", sa.Integer(), comment=_START))
    op.add_column("messages", sa.Column("blocks_size", sa.Integer(), comment=_SIZE))


def downgrade() -> None:
    op.drop_column("messages", "blocks_size")
    op.drop_column("messages", "blocks_start")
