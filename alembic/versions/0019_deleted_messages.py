"""The kind of the places of deleted messages."""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _set_kinds("'message', 'record', 'chunk', 'deleted'")


def downgrade() -> None:
    # An older version reads them as empty records.
    op.execute("UPDATE messages SET kind = 'record' WHERE kind = 'deleted'")
    _set_kinds("'message', 'record', 'chunk'")


def _set_kinds(kinds: str) -> None:
    op.drop_constraint(op.f("messages_kind_check"), "messages", type_="check")
    op.create_check_constraint(op.f("messages_kind_check"), "messages", f"kind IN ({kinds})")
