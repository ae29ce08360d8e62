"""Archives of old sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

_TENANT = "coalesce(nullif(current_setting('ash.tenant', true), '')::integer, 1)"
_CURRENT = "(SELECT current_setting('ash.tenant')::integer)"

# Citus requires it for new shards and their changes in one transaction.
_SEQUENTIAL = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"

# In a Citus cluster, the new tables are placed like the sessions, before their foreign keys.
_DISTRIBUTE = """
    DO $$
    BEGIN
        IF to_regclass('pg_dist_partition') IS NULL THEN
            RETURN;
        END IF;
        IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'sessions'::regclass) THEN
            RETURN;
        END IF;
        ALTER POLICY tenant ON cold_sessions USING (tenant = current_setting('ash.tenant')::integer);
        ALTER POLICY tenant ON cold_archives USING (tenant = current_setting('ash.tenant')::integer);
        PERFORM create_distributed_table('cold_sessions', 'session_id', colocate_with := 'sessions');
        PERFORM create_distributed_table('cold_archives', 'session_id', colocate_with := 'sessions');
    END
    $$
"""

_COLD_TEXT = """
CREATE FUNCTION cold_text(session_id uuid)
RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1
AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'ASC01',
        MESSAGE = 'the texts of a session are in an archive',
        DETAIL = session_id,
        HINT = 'Restore them with `ash cold restore`.';
END
$$
"""

_COMMENT = "raises an error: the session has a text in cold_archives instead of its row"

_VIEW = """
    CREATE OR REPLACE VIEW events_full WITH (security_invoker = true) AS
    SELECT session_id, sequence, type, message_sequence, origin, explicit_id AS given_id, chunk_group AS piece_of,
        convert_from(CASE WHEN event.text_ranges IS NULL THEN event_json(
        event.session_id, event.type, event.event_id, event.event_time, convert_to({json}, 'UTF8'), NULL, NULL
    ) ELSE coalesce(
        (
            SELECT event_json(
                event.session_id, event.type, event.event_id, event.event_time, bytes.stored_json, event.text_ranges,
                bytes.text
            )
            FROM (
                SELECT convert_to({json}, 'UTF8') AS stored_json, convert_to({text}, 'UTF8') AS text
                FROM messages
                WHERE messages.session_id = event.session_id AND messages.sequence = event.message_sequence
                OFFSET 0
            ) AS bytes
        ),
        event_json(
        event.session_id, event.type, event.event_id, event.event_time, convert_to({json}, 'UTF8'), NULL, NULL
    )
    ) END, 'UTF8') AS content
    FROM events AS event
"""

Moment = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.execute(_SEQUENTIAL)
    op.create_table(
        "cold_policies",
        sa.Column("tenant", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("age", sa.Text, nullable=False, comment="such as 180d"),
        sa.Column("set_at", Moment, nullable=False, server_default=sa.func.now()),
        sa.Column("checked_at", Moment, comment="last run; null: none yet"),
        sa.Column("leased_until", Moment, comment="end of the time in which one process runs the policy"),
        sa.PrimaryKeyConstraint("tenant", name="cold_policies_pkey"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.number"], name="cold_policies_tenant_fkey"),
    )
    op.create_table(
        "cold_sessions",
        sa.Column("session_id", sa.Uuid, nullable=False),
        sa.Column("archived_at", Moment, nullable=False, server_default=sa.func.now()),
        sa.Column("restored_at", Moment, comment="null: the texts are in cold_archives"),
        sa.Column("tenant", sa.Integer, nullable=False, server_default=sa.text(_TENANT)),
        sa.PrimaryKeyConstraint("session_id", name="cold_sessions_pkey"),
    )
    op.create_table(
        "cold_archives",
        sa.Column("session_id", sa.Uuid, nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column(
            "data", sa.LargeBinary, nullable=False, comment="texts with their sequences, MessagePack in LZMA"
        ),
        sa.Column("digest", sa.LargeBinary, nullable=False, comment="SHA-256 of the data"),
        sa.Column("messages", sa.Integer, nullable=False, comment="number of texts of messages"),
        sa.Column("events", sa.Integer, nullable=False, comment="number of texts of events"),
        sa.Column("size", sa.BigInteger, nullable=False, comment="bytes of the texts"),
        sa.Column("tenant", sa.Integer, nullable=False, server_default=sa.text(_TENANT)),
        sa.PrimaryKeyConstraint("session_id", "part", name="cold_archives_pkey"),
    )
    for table in ("cold_sessions", "cold_archives"):
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenant ON {table} TO ash_app USING (tenant = {_CURRENT})")
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO ash_app")
    op.execute(_DISTRIBUTE)
    for table in ("cold_sessions", "cold_archives"):
        op.create_foreign_key(
            f"{table}_session_id_fkey", table, "sessions", ["session_id"], ["id"], ondelete="CASCADE"
        )
    op.execute(_COLD_TEXT)
    op.execute(f"COMMENT ON FUNCTION cold_text IS '{_COMMENT}'")
    op.execute("GRANT EXECUTE ON FUNCTION cold_text TO ash_app")
    op.alter_column(
        "messages", "content", nullable=True, comment="text exactly as received; null: in cold_archives"
    )
    op.alter_column(
        "events",
        "stored_json",
        nullable=True,
        comment="JSON of the event without sequences; without its first fields if event_id is set, and with "
        "empty values where text_ranges has the value; null: in cold_archives",
    )
    op.execute(
        _VIEW.format(
            json="coalesce(event.stored_json, cold_text(event.session_id))",
            text="coalesce(content, cold_text(messages.session_id))",
        )
    )


def downgrade() -> None:
    op.execute(_SEQUENTIAL)
    op.execute(_VIEW.format(json="event.stored_json", text="content"))
    op.execute("DROP FUNCTION cold_text")
    # Fails while the store has cold sessions: restore them first.
    op.alter_column("events", "stored_json", nullable=False)
    op.alter_column("messages", "content", nullable=False)
    op.drop_table("cold_archives")
    op.drop_table("cold_sessions")
    op.drop_table("cold_policies")
