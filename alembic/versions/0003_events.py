"""The event log of each session."""

import sqlalchemy as sa
from alembic import context, op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # No foreign key: writing and deleting events both lock the session's row in session_counters.
    op.create_table(
        "events",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column(
            "message_sequence",
            sa.BigInteger(),
            nullable=False,
            comment="the message it was derived from; else the last one that was stored before it",
        ),
        sa.Column(
            "origin",
            sa.Text(),
            nullable=False,
            comment="line: derived from a message, posted: by a writer, end: closes what was open",
        ),
        sa.Column(
            "given_id", sa.Text(), comment="the id, where a writer gave it; others follow from where they are"
        ),
        sa.Column(
            "piece_of",
            sa.Text(),
            comment="digest of what a chunk is a piece of, and of what a whole takes the place of",
        ),
        sa.Column("content", sa.Text(), nullable=False, comment="the event as JSON, without its sequences"),
        sa.PrimaryKeyConstraint("session_id", "sequence", name="events_pkey"),
        sa.CheckConstraint("origin IN ('line', 'posted', 'end')", name=op.f("events_origin_check")),
    )
    op.create_index(
        "events_given_id_idx",
        "events",
        ["session_id", "given_id"],
        unique=True,
        postgresql_where=sa.text("given_id IS NOT NULL"),
    )
    op.create_index(
        "events_whole_idx",
        "events",
        ["session_id", "piece_of", "sequence"],
        postgresql_where=sa.text("piece_of IS NOT NULL AND type NOT LIKE '%chunk'"),
    )
    # Without lz4, contents are not compressed: the default compression takes longer than all other steps of a write.
    storage = "SET COMPRESSION lz4" if offers_lz4() else "SET STORAGE EXTERNAL"
    op.execute(f"ALTER TABLE events ALTER COLUMN content {storage}")
    op.add_column(
        "session_counters",
        sa.Column(
            "events_dropped",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="how many of the first sequences belonged to older readings",
        ),
    )
    op.add_column(
        "session_counters",
        sa.Column(
            "normalizer_version",
            sa.Integer(),
            comment="of what derived the events; null: messages were stored without any",
        ),
    )


def offers_lz4() -> bool:
    """Return True if the server supports lz4; see migration 0001."""
    if context.is_offline_mode():
        return False
    methods = "SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
    return bool(op.get_bind().scalar(sa.text(methods)))


def downgrade() -> None:
    for column in ("events_dropped", "normalizer_version"):
        op.drop_column("session_counters", column)
    op.drop_table("events")
