"""The search index of events; columns of sessions for lists."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# The operators of `json` fail on an escaped NUL, so `\u0000` is removed first, unless its backslash is itself escaped.
_FAILED = r"""
    CASE
        WHEN type = 'error' THEN true
        WHEN type = 'tool_result' AND content LIKE '%"error":%'
        THEN regexp_replace(content, '(?<!\\)((?:\\\\)*)\\u0000', '\1', 'g')::json #> '{payload,error}' IS NOT NULL
        ELSE false
    END
"""

_COUNT = f"""
    UPDATE session_counters SET errors = found.errors, unrecognised = found.unrecognised
    FROM (
        SELECT session_id, count(*) FILTER (WHERE {_FAILED}) AS errors,
            count(*) FILTER (WHERE type = 'raw') AS unrecognised
        FROM events WHERE type IN ('error', 'tool_result', 'raw')
        GROUP BY session_id
    ) AS found
    WHERE session_counters.session_id = found.session_id
"""  # noqa: S608  # a constant of this module


def upgrade() -> None:
    op.add_column(
        "sessions", sa.Column("first_prompt", sa.Text(), comment="the beginning of what a person said first")
    )
    op.add_column(
        "session_counters",
        sa.Column(
            "errors",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="events of type error, and results of tools that failed",
        ),
    )
    op.add_column(
        "session_counters",
        sa.Column(
            "unrecognised",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="events of type raw",
        ),
    )
    op.execute(_COUNT)
    op.create_table(
        "search",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False, comment="of the event"),
        sa.Column("part", sa.SmallInteger(), nullable=False, comment="a long text is cut into several"),
        sa.Column(
            "weight",
            sa.Text(),
            nullable=False,
            comment="A: said, B: thought, C: calls of tools, D: their results, and all else",
        ),
        sa.Column("role", sa.Text(), nullable=False, comment="whose words they are"),
        sa.Column(
            "at",
            sa.TIMESTAMP(timezone=True),
            nullable=False,
            comment="when the event was, but never later than it was looked at",
        ),
        sa.Column("words", TSVECTOR(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", "sequence", "part", name="search_pkey"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="search_session_id_fkey", ondelete="CASCADE"
        ),
        sa.CheckConstraint("weight IN ('A', 'B', 'C', 'D')", name=op.f("search_weight_check")),
        sa.CheckConstraint("role IN ('user', 'assistant', 'system', 'tool')", name=op.f("search_role_check")),
    )
    for name, weights in (("search_said_idx", "weight <> 'D'"), ("search_rest_idx", "weight = 'D'")):
        op.create_index(name, "search", ["words"], postgresql_using="gin", postgresql_where=sa.text(weights))
    op.create_table(
        "search_progress",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column(
            "event_sequence",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="the last one whose words can be found",
        ),
        sa.Column(
            "events_dropped",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="up to which the words of older readings were removed",
        ),
        sa.Column(
            "version",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="of what took the words from the events",
        ),
        sa.PrimaryKeyConstraint("session_id", name="search_progress_pkey"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="search_progress_session_id_fkey", ondelete="CASCADE"
        ),
        postgresql_with={"fillfactor": 50},
    )
    op.execute("INSERT INTO search_progress (session_id) SELECT id FROM sessions")


def downgrade() -> None:
    op.drop_table("search_progress")
    op.drop_table("search")
    for column in ("errors", "unrecognised"):
        op.drop_column("session_counters", column)
    op.drop_column("sessions", "first_prompt")
