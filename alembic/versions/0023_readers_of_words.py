"""Readers in the search index, so that clients that see redacted texts cannot find the words of secrets."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_COLUMNS = "session_id, sequence, weight, role, at, words"
_VIEW = "VIEW tenant_search AS SELECT {} FROM search WHERE tenant = {}"
_CURRENT = "(SELECT current_setting('ash.tenant')::integer)"


def upgrade() -> None:
    # Existing rows may contain words of secrets until they are indexed again.
    readers = sa.Column(
        "readers",
        sa.Text,
        nullable=False,
        server_default="unredacted",
        comment="clients that find these words; those that see redacted texts must not find words of secrets",
    )
    op.add_column("search", readers)
    op.create_check_constraint(
        op.f("search_readers_check"), "search", "readers IN ('all', 'redacted', 'unredacted')"
    )
    op.execute(f"CREATE OR REPLACE {_VIEW.format(f'{_COLUMNS}, readers', _CURRENT)}")


def downgrade() -> None:
    op.execute("DROP VIEW tenant_search")
    op.execute("DELETE FROM search WHERE readers = 'redacted'")
    op.drop_column("search", "readers")
    op.execute(f"CREATE {_VIEW.format(_COLUMNS, _CURRENT)}")
    op.execute("GRANT SELECT ON tenant_search TO ash_app")
