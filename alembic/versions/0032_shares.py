"""Share links of sessions, and the scope of keys that create them."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

Moment = sa.TIMESTAMP(timezone=True)

_CONSTRAINT = "keys_scopes_check"


def upgrade() -> None:
    op.create_table(
        "shares",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("tenant", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False, comment="HMAC-SHA256 of the secret in the link"),
        sa.Column("session_id", sa.Uuid, nullable=False),
        sa.Column(
            "session_created_at",
            Moment,
            nullable=False,
            comment="the link ends if the session is deleted and created again",
        ),
        sa.Column(
            "title_digest",
            sa.LargeBinary,
            nullable=False,
            comment="SHA-256 of the id of the link and the title of the session when it was shared",
        ),
        sa.Column("last_message", sa.BigInteger, comment="last shared message; null: also later ones"),
        sa.Column("last_event", sa.BigInteger, nullable=False, comment="last event when it was shared"),
        sa.Column(
            "last_dropped_event",
            sa.BigInteger,
            nullable=False,
            comment="last_dropped_sequence of the session when it was shared: another one means another log",
        ),
        sa.Column("with_subagents", sa.Boolean, nullable=False),
        sa.Column("redacts", sa.Boolean, nullable=False),
        sa.Column("key_id", sa.Uuid, comment="key that created the link; null: a command on the database"),
        sa.Column("created_at", Moment, nullable=False, server_default=sa.func.now()),
        sa.Column("expires_at", Moment, nullable=False),
        sa.Column("revoked_at", Moment),
        sa.PrimaryKeyConstraint("id", name="shares_pkey"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.number"], name="shares_tenant_fkey"),
        sa.UniqueConstraint("digest", name="shares_digest_key"),
    )
    op.create_index("shares_session_idx", "shares", ["tenant", "session_id"])
    _allow("read", "write", "delete", "share", "admin")


def downgrade() -> None:
    op.execute("UPDATE keys SET scopes = array_remove(scopes, 'share')")
    _allow("read", "write", "delete", "admin")
    op.drop_table("shares")


def _allow(*scopes: str) -> None:
    op.drop_constraint(op.f(_CONSTRAINT), "keys")
    names = ", ".join(f"'{scope}'" for scope in scopes)
    op.create_check_constraint(op.f(_CONSTRAINT), "keys", f"scopes <@ ARRAY[{names}]")
