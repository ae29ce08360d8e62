"""A view for lists of sessions, and an index for the agents in their metadata."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

_CURRENT = "(SELECT current_setting('ash.tenant')::integer)"

# Citus requires it for changes of a distributed table after others in one transaction.
_SEQUENTIAL = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"

_COLUMNS = (
    "id, source, external_id, parent_id, metadata, created_at, updated_at, first_at, last_at, file_modified_at, "
    "provider_session_id, machine, key_id, project, folder, branch, cause"
)


def upgrade() -> None:
    op.execute(_SEQUENTIAL)
    op.create_index(
        "sessions_agent_idx",
        "sessions",
        ["tenant", "id"],
        postgresql_where=sa.text("starts_with(metadata, '{\"agent\":')"),
    )
    op.execute(f"CREATE VIEW tenant_sessions AS SELECT {_COLUMNS} FROM sessions WHERE tenant = {_CURRENT}")  # noqa: S608  # constants
    op.execute("GRANT SELECT ON tenant_sessions TO ash_app")


def downgrade() -> None:
    op.execute("DROP VIEW tenant_sessions")
    op.drop_index("sessions_agent_idx")
