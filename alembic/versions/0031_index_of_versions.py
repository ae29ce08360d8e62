"""Reports of usage and `ash reindex` find the sessions of earlier versions by an index."""

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("session_counters_version_idx", "session_counters", ["normalizer_version"])


def downgrade() -> None:
    op.drop_index("session_counters_version_idx", "session_counters")
