"""Index of external ids, to list sessions by the beginning of their external id."""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "sessions_external_id_idx",
        "sessions",
        ["external_id"],
        postgresql_ops={"external_id": "text_pattern_ops"},
    )


def downgrade() -> None:
    op.drop_index("sessions_external_id_idx", table_name="sessions")
