"""Codes that sign a phone in once, and the scopes of its sign-in."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

Moment = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "sign_in_codes",
        sa.Column("digest", sa.LargeBinary, nullable=False, comment="HMAC-SHA256 of the code"),
        sa.Column("key_id", sa.Uuid, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="sign_in_codes_pkey"),
        sa.ForeignKeyConstraint(["key_id"], ["keys.id"], name="sign_in_codes_key_id_fkey"),
    )
    op.add_column("sign_ins", sa.Column("scopes", sa.ARRAY(sa.Text), comment="null: the scopes of the key"))


def downgrade() -> None:
    op.execute("DELETE FROM sign_ins WHERE scopes IS NOT NULL")
    op.drop_column("sign_ins", "scopes")
    op.drop_table("sign_in_codes")
