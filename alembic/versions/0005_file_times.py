"""The modification time of an imported file, for sessions without timestamps in their messages."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "sessions",
        sa.Column(
            "file_modified_at",
            sa.TIMESTAMP(timezone=True),
            comment="when the imported file was last modified",
        ),
    )
    _index_activity("COALESCE(last_at, file_modified_at)")


def downgrade() -> None:
    _index_activity("last_at")
    op.drop_column("sessions", "file_modified_at")


def _index_activity(last: str) -> None:
    op.drop_index("sessions_activity_idx", "sessions")
    op.create_index(
        "sessions_activity_idx",
        "sessions",
        [sa.text(f"LEAST({last}, updated_at) DESC"), sa.text("id DESC")],
    )
