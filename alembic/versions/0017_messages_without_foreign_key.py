"""Messages without a foreign key, which PostgreSQL checks for each row."""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Writing and deleting messages both lock the session's row in session_counters.
    op.drop_constraint("messages_session_id_fkey", "messages", type_="foreignkey")


def downgrade() -> None:
    op.create_foreign_key(
        "messages_session_id_fkey", "messages", "sessions", ["session_id"], ["id"], ondelete="CASCADE"
    )
