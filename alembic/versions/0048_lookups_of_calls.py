"""The index of tools begins with the tool.

Without statistics, PostgreSQL 18 looked up a call of a session in it, and read all calls of the session.
"""

from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("tool_calls_tool_idx")
    op.create_index("tool_calls_tool_idx", "tool_calls", ["tool", "tenant", "session_id"])


def downgrade() -> None:
    op.drop_index("tool_calls_tool_idx")
    op.create_index("tool_calls_tool_idx", "tool_calls", ["tenant", "tool", "session_id"])
