"""Sessions of prompts alone that the session of their transcript replaces."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

_CURRENT = "(SELECT current_setting('ash.tenant')::integer)"

# Citus requires it for changes of a distributed table after others in one transaction.
_SEQUENTIAL = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"

_SEARCH = (
    "CREATE OR REPLACE VIEW tenant_search AS "  # noqa: S608  # constants
    "SELECT session_id, sequence, weight, role, at, words, readers FROM search "
    f"WHERE tenant = {_CURRENT}"
)
_SESSIONS = (
    "CREATE OR REPLACE VIEW tenant_sessions AS "  # noqa: S608  # constants
    "SELECT id, source, external_id, parent_id, metadata, created_at, updated_at, first_at, last_at, "
    "file_modified_at, provider_session_id, machine, key_id, project, folder, branch, cause FROM sessions "
    f"WHERE tenant = {_CURRENT}"
)
_REPLACED = f"SELECT id FROM sessions WHERE tenant = {_CURRENT} AND replaced_by IS NOT NULL"  # noqa: S608  # a constant


def upgrade() -> None:
    op.execute(_SEQUENTIAL)
    comment = "session with the transcript; lists leave this session of prompts out"
    op.add_column("sessions", sa.Column("replaced_by", sa.Uuid, comment=comment))
    op.create_index(
        "sessions_replaced_idx",
        "sessions",
        ["tenant", "id"],
        postgresql_where=sa.text("replaced_by IS NOT NULL"),
    )
    op.execute(f"{_SEARCH} AND session_id NOT IN ({_REPLACED})")
    op.execute(f"{_SESSIONS} AND replaced_by IS NULL")


def downgrade() -> None:
    op.execute(_SEARCH)
    op.execute(_SESSIONS)
    op.drop_index("sessions_replaced_idx")
    op.drop_column("sessions", "replaced_by")
