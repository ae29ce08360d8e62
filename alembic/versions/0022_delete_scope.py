"""Scope `delete`, previously part of `write`, and counted entries of the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_CONSTRAINT = "keys_scopes_check"


def upgrade() -> None:
    _allow("read", "write", "delete", "admin")
    op.execute("UPDATE keys SET scopes = scopes || ARRAY['delete'] WHERE 'write' = ANY(scopes)")
    op.alter_column("audit", "target", comment="id of the session or of the key, or address of a client")
    op.add_column(
        "audit", sa.Column("count", sa.Integer, comment="number of refused sign-ins within a minute")
    )


def downgrade() -> None:
    op.execute("DELETE FROM audit WHERE count IS NOT NULL")
    op.drop_column("audit", "count")
    op.alter_column("audit", "target", comment="id of the session or of the key")
    op.execute("UPDATE keys SET scopes = array_remove(scopes, 'delete')")
    _allow("read", "write", "admin")


def _allow(*scopes: str) -> None:
    op.drop_constraint(op.f(_CONSTRAINT), "keys")
    names = ", ".join(f"'{scope}'" for scope in scopes)
    op.create_check_constraint(op.f(_CONSTRAINT), "keys", f"scopes <@ ARRAY[{names}]")
