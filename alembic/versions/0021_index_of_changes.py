"""Index of the sessions that changed last, for the session feed and the search index."""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("sessions_changes_idx", "sessions", ["tenant", "updated_at"])


def downgrade() -> None:
    op.drop_index("sessions_changes_idx", table_name="sessions")
