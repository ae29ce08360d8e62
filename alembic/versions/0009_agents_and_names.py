"""The subagents of sessions, and names that a person gave in the tool."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_AGENT = "id of the subagent whose session it is; empty: none; null: not known"
_RANKS = "whose the title is: 0 nobody's, 1 the first prompt's, 2 the tool's, 3 a person's"
_NEW_RANKS = f"{_RANKS} in the tool, 4 a person's in Ash"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("agent_id", sa.Text(), comment=_AGENT))
    op.create_index(
        "sessions_parent_idx", "sessions", ["parent_id"], postgresql_where=sa.text("parent_id IS NOT NULL")
    )
    op.execute("UPDATE sessions SET title_rank = 4 WHERE title_rank = 3")
    op.alter_column("sessions", "title_rank", comment=_NEW_RANKS, existing_comment=_RANKS)


def downgrade() -> None:
    op.alter_column("sessions", "title_rank", comment=_RANKS, existing_comment=_NEW_RANKS)
    op.execute(
        "UPDATE sessions SET title_rank = CASE title_rank WHEN 4 THEN 3 ELSE 2 END WHERE title_rank > 2"
    )
    op.drop_index("sessions_parent_idx", "sessions")
    op.drop_column("sessions", "agent_id")
