"""Tenants with row-level security, keys, sign-ins of browsers, and the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0014"
branch_labels = None
depends_on = None

TENANT_TABLES = (
    "sessions",
    "session_counters",
    "messages",
    "events",
    "open_texts",
    "drift",
    "search",
    "search_progress",
)
ROLE = "ash_app"
CURRENT = "(SELECT current_setting('ash.tenant')::integer)"
"""Fails on a connection that has not set its tenant."""
NEW_ROW = "coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1)"
DEFAULT_TENANT = "36db4084-d553-42c7-8f6e-dc8e38a6a21a"

# Roles belong to the whole server: another database may already have the role, or create it at the same time. The user
# must be a superuser or a member that may set the role, which is a separate option since PostgreSQL 16.
CREATE_ROLE = f"""
    DO $$
    DECLARE
        has_option boolean := current_setting('server_version_num')::integer >= 160000;
        option text := CASE WHEN has_option THEN ' WITH SET TRUE' ELSE '' END;
        membership text := format('GRANT {ROLE} TO %I', current_user) || option;
        missing text := membership;
    BEGIN
        IF to_regrole('{ROLE}') IS NULL THEN
            missing := 'CREATE ROLE {ROLE} NOLOGIN; ' || membership;
            BEGIN
                CREATE ROLE {ROLE} NOLOGIN;
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN NULL;
            END;
        END IF;
        IF NOT pg_has_role('{ROLE}', CASE WHEN has_option THEN 'SET' ELSE 'MEMBER' END) THEN
            EXECUTE membership;
        END IF;
    EXCEPTION
        WHEN insufficient_privilege THEN
            RAISE insufficient_privilege USING
                MESSAGE = format('user %I may not use the role {ROLE}', current_user), HINT = missing || ';';
    END
    $$
"""  # constant SQL

# PostgreSQL evaluates row-level security before other conditions, unless they are leakproof. Comparisons of words and
# of arrays are not, so an index on them would not be used. A view has no such order.
VIEWS = {
    "tenant_search": ("session_id, sequence, weight, role, at, words", "search"),
    "tenant_lineages": ("id, lineage", "sessions"),
}

_ACTIVITY = [
    sa.text("LEAST(COALESCE(last_at, file_modified_at), updated_at) DESC"),
    sa.text("id DESC"),
]


def upgrade() -> None:
    op.execute(CREATE_ROLE)
    _create_tenants()
    _create_keys()
    for table in TENANT_TABLES:
        # First a constant, so that existing rows are not rewritten.
        op.execute(f"ALTER TABLE {table} ADD COLUMN tenant integer NOT NULL DEFAULT 1")
        op.execute(f"ALTER TABLE {table} ALTER COLUMN tenant SET DEFAULT {NEW_ROW}")
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenant ON {table} TO {ROLE} USING (tenant = {CURRENT})")
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")
    op.drop_index("sessions_activity_idx", "sessions")
    op.create_index("sessions_activity_idx", "sessions", ["tenant", *_ACTIVITY])
    op.execute("ALTER VIEW events_full SET (security_invoker = true)")
    for view, (columns, table) in VIEWS.items():
        op.execute(f"CREATE VIEW {view} AS SELECT {columns} FROM {table} WHERE tenant = {CURRENT}")  # noqa: S608
    readable = ", ".join(("alembic_version", "events_full", *VIEWS))
    op.execute(f"GRANT SELECT ON {readable} TO {ROLE}")


def downgrade() -> None:
    """Move all sessions to a single tenant. The role stays: other databases may use it."""
    for view in VIEWS:
        op.execute(f"DROP VIEW {view}")
    op.execute("ALTER VIEW events_full RESET (security_invoker)")
    op.drop_index("sessions_activity_idx", "sessions")
    op.create_index("sessions_activity_idx", "sessions", _ACTIVITY)
    for table in TENANT_TABLES:
        op.execute(f"DROP POLICY tenant ON {table}")
        op.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
        op.drop_column(table, "tenant")
    op.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {ROLE}")
    for table in ("audit", "sign_ins", "keys", "tenants"):
        op.drop_table(table)


def _create_tenants() -> None:
    op.create_table(
        "tenants",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="tenants_pkey"),
        sa.UniqueConstraint("id", name="tenants_id_key"),
        sa.UniqueConstraint("name", name="tenants_name_key"),
    )
    op.execute(f"INSERT INTO tenants (number, id, name) VALUES (1, '{DEFAULT_TENANT}', 'default')")  # noqa: S608


def _create_keys() -> None:
    moment = sa.TIMESTAMP(timezone=True)
    op.create_table(
        "keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False, comment="the first characters of the key"),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="HMAC-SHA256 of the key"),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("created_at", moment, server_default=sa.func.now(), nullable=False),
        sa.Column("expires_at", moment),
        sa.Column("revoked_at", moment),
        sa.Column("last_used_at", moment),
        sa.PrimaryKeyConstraint("id", name="keys_pkey"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.number"], name="keys_tenant_fkey"),
        sa.UniqueConstraint("digest", name="keys_digest_key"),
        sa.CheckConstraint("scopes <@ ARRAY['read', 'write', 'admin']", name=op.f("keys_scopes_check")),
    )
    op.create_index(
        "keys_name_idx",
        "keys",
        ["tenant", "name"],
        unique=True,
        postgresql_where=sa.text("revoked_at IS NULL"),
    )
    op.create_table(
        "sign_ins",
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="HMAC-SHA256 of the cookie"),
        sa.Column("key_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", moment, server_default=sa.func.now(), nullable=False),
        sa.Column("expires_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="sign_ins_pkey"),
        sa.ForeignKeyConstraint(["key_id"], ["keys.id"], name="sign_ins_key_id_fkey"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("at", moment, server_default=sa.func.now(), nullable=False),
        sa.Column("tenant", sa.Integer(), nullable=False),
        sa.Column("key_id", sa.Uuid(), comment="null: a command on the database"),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), comment="id of the session or of the key"),
        sa.PrimaryKeyConstraint("id", name="audit_pkey"),
    )
    op.create_index("audit_tenant_idx", "audit", ["tenant", "id"])
