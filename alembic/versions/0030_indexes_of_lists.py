"""Indexes for the filters and orders of lists of sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_CURRENT = "(SELECT current_setting('ash.tenant')::integer)"

# Citus requires it for changes of a distributed table after others in one transaction.
_SEQUENTIAL = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"

_KEYS = {
    "start": "COALESCE(first_at, LEAST(file_modified_at, created_at)) DESC",
    "duration": "COALESCE(last_at - first_at, '00:00:00'::interval) DESC",
}
_FILTERS = {
    "project": ("project", "folder"),
    "branch": ("branch",),
    "machine": ("machine",),
    "key": ("key_id",),
    "cause": ("cause",),
}


def upgrade() -> None:
    op.execute(_SEQUENTIAL)
    for name, key in _KEYS.items():
        op.create_index(f"sessions_{name}_idx", "sessions", ["tenant", sa.text(key), sa.text("id DESC")])
    op.create_index("sessions_source_idx", "sessions", ["tenant", "source"])
    for name, columns in _FILTERS.items():
        known = sa.text(f"{columns[0]} IS NOT NULL")
        op.create_index(f"sessions_{name}_idx", "sessions", ["tenant", *columns], postgresql_where=known)
    op.create_index(
        "session_counters_errors_idx",
        "session_counters",
        ["tenant", sa.text("errors DESC"), sa.text("session_id DESC")],
    )
    op.create_index("usage_rollups_model_idx", "usage_rollups", ["tenant", "model", "session_id"])
    op.create_index("tool_calls_tool_idx", "tool_calls", ["tenant", "tool", "session_id"])
    op.create_index(
        "tool_calls_path_end_idx",
        "tool_calls",
        ["tenant", sa.func.reverse(sa.text("path")).label("path_end"), "session_id"],
        postgresql_ops={"path_end": "text_pattern_ops"},
        postgresql_where=sa.text("path <> ''"),
    )
    op.execute(
        "CREATE VIEW tenant_files AS SELECT session_id, path, action, outcome FROM tool_calls "  # noqa: S608  # a constant
        f"WHERE path <> '' AND tenant = {_CURRENT}"
    )
    op.execute("GRANT SELECT ON tenant_files TO ash_app")


def downgrade() -> None:
    op.execute("DROP VIEW tenant_files")
    for name in ("tool_calls_path_end_idx", "tool_calls_tool_idx", "usage_rollups_model_idx"):
        op.drop_index(name)
    op.drop_index("session_counters_errors_idx")
    for name in (*_FILTERS, "source", *_KEYS):
        op.drop_index(f"sessions_{name}_idx")
