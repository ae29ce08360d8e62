"""The beginnings of open texts apart from the state of the normaliser."""

import json
from collections import defaultdict

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "open_texts",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, comment="number of the text within its session"),
        sa.Column(
            "start",
            sa.BigInteger(),
            nullable=False,
            comment="offset of the content in the text, in characters",
        ),
        sa.Column("content", sa.Text(), nullable=False, comment="a JSON string"),
        sa.PrimaryKeyConstraint("session_id", "number", "start"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], ondelete="CASCADE"),
    )


def downgrade() -> None:
    """Move the beginnings of open texts back into the states."""
    conn = op.get_bind()
    texts: defaultdict[tuple[object, int], str] = defaultdict(str)
    for session_id, number, content in conn.execute(sa.text(_READ)):
        texts[session_id, number] += json.loads(content)
    for session_id in {session_id for session_id, _ in texts}:
        (stored,) = conn.execute(sa.text(_STATE), {"id": session_id}).one()
        state = json.loads(stored)
        for slot in state["slots"]:
            beginning = texts[session_id, slot.pop("text_number", 0)]
            slot["text"] = beginning + slot.get("text", "")
            slot.pop("beginning_length", None)
        conn.execute(sa.text(_WRITE), {"id": session_id, "state": json.dumps(state)})
    op.drop_table("open_texts")


_READ = "SELECT session_id, number, content FROM open_texts ORDER BY session_id, number, start"
_STATE = "SELECT normalizer_state FROM session_counters WHERE session_id = :id"
_WRITE = "UPDATE session_counters SET normalizer_state = :state WHERE session_id = :id"
