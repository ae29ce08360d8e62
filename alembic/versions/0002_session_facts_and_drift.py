"""Session facts derived from messages, flags for roles and sources set by writers, and drift."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# An existing title can only have been set by a person.
_RANK_TITLES = "UPDATE sessions SET title_rank = 3 WHERE title IS NOT NULL"


def upgrade() -> None:
    op.add_column(
        "sessions",
        sa.Column(
            "title_rank",
            sa.SmallInteger(),
            server_default="0",
            nullable=False,
            comment="whose the title is: 0 nobody's, 1 the first prompt's, 2 the tool's, 3 a person's",
        ),
    )
    op.add_column(
        "sessions", sa.Column("client_version", sa.Text(), comment="the last one that a message names")
    )
    op.add_column(
        "sessions",
        sa.Column("provider_session_id", sa.Text(), comment="the last one that a message names"),
    )
    op.execute(_RANK_TITLES)
    op.drop_index("sessions_activity_idx", "sessions")
    op.create_index(
        "sessions_activity_idx",
        "sessions",
        [sa.text("LEAST(last_at, updated_at) DESC"), sa.text("id DESC")],
    )
    op.add_column(
        "messages",
        sa.Column("digest", sa.LargeBinary(), comment="of how the parser reads it; null: not yet computed"),
    )
    op.add_column(
        "messages",
        sa.Column("role_given", sa.Boolean(), comment="by the writer, not by the parser; null: not known"),
    )
    op.add_column(
        "messages",
        sa.Column("source_given", sa.Boolean(), comment="by the writer, not by the parser; null: not known"),
    )
    op.create_table(
        "drift",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("raw_type", sa.Text(), nullable=False, comment="empty where the block names none"),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("client_version", sa.Text(), comment="where the message itself names one"),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column(
            "seen_at",
            sa.TIMESTAMP(timezone=True),
            nullable=False,
            comment="when the message was written, by its own account, else when it was stored",
        ),
        sa.PrimaryKeyConstraint("session_id", "sequence", "reason", "raw_type", name="drift_pkey"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="drift_session_id_fkey", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    op.drop_table("drift")
    op.drop_index("sessions_activity_idx", "sessions")
    op.create_index("sessions_activity_idx", "sessions", [sa.text("updated_at DESC"), sa.text("id DESC")])
    for column in ("digest", "role_given", "source_given"):
        op.drop_column("messages", column)
    for column in ("title_rank", "client_version", "provider_session_id"):
        op.drop_column("sessions", column)
