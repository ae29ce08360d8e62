"""The external id of a session's parent, which may not be stored."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "sessions",
        sa.Column(
            "parent_external_id", sa.Text(), comment="the external id of the parent, which may not be stored"
        ),
    )


def downgrade() -> None:
    op.drop_column("sessions", "parent_external_id")
