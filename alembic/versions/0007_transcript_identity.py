"""Names that identify a session's transcript, and its copies, at any path."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_COLUMNS = (
    ("path", sa.Text(), "path at which the imported transcript was seen last"),
    ("lineage", sa.ARRAY(sa.Text()), "digests of names in the transcript that copies have in common"),
    ("copy_of", sa.Uuid(), "the session that has the same first messages, even if it is deleted"),
    ("copied_messages", sa.BigInteger(), "number of first messages that are in that session"),
)


def upgrade() -> None:
    for name, column_type, comment in _COLUMNS:
        op.add_column("sessions", sa.Column(name, column_type, comment=comment))
    op.create_index("sessions_lineage_idx", "sessions", ["lineage"], postgresql_using="gin")
    op.create_index("sessions_path_idx", "sessions", ["path"], postgresql_where=sa.text("path IS NOT NULL"))
    op.create_index(
        "sessions_unidentified_idx",
        "sessions",
        ["provider_session_id"],
        postgresql_where=sa.text("lineage IS NULL AND path IS NULL"),
    )


def downgrade() -> None:
    for name in ("sessions_unidentified_idx", "sessions_path_idx", "sessions_lineage_idx"):
        op.drop_index(name, "sessions")
    for name, *_ in reversed(_COLUMNS):
        op.drop_column("sessions", name)
