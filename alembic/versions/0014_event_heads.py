"""Derived events without the beginning of their JSON, which follows from columns."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0012"
branch_labels = None
depends_on = None

HEAD = """
    coalesce('{"id":"' || event_id || '","timestamp":' || event_time || ',"sessionId":"' || session_id
        || '","type":"' || type || '",', '')
"""
FILLED = """
    CASE WHEN entry.places IS NULL THEN entry.{fields} ELSE coalesce((
        SELECT convert_from(
            substr(fields, 1, places[1][1]) || substr(text, places[1][2] + 1, places[1][3]) || coalesce(
                substr(fields, places[1][1] + 3, places[2][1] - places[1][1] - 2)
                    || substr(text, places[2][2] + 1, places[2][3]) || substr(fields, places[2][1] + 3),
                substr(fields, places[1][1] + 3)), 'UTF8')
        FROM (
            SELECT convert_to(entry.{fields}, 'UTF8') AS fields, convert_to(messages.content, 'UTF8') AS text
            FROM messages
            WHERE messages.session_id = entry.session_id AND messages.sequence = entry.message_sequence
            OFFSET 0
        ) AS bytes
    ), entry.{fields}) END
"""
VIEW = """
    CREATE VIEW events_full AS
    SELECT session_id, sequence, type, message_sequence, origin, given_id, piece_of, {content} AS content
    FROM events AS entry
"""
COMMENT = "COMMENT ON VIEW events_full IS 'events with their JSON in full'"


def upgrade() -> None:
    op.execute("DROP VIEW events_full")
    # The new name makes older versions fail instead of reading events without their beginning.
    op.alter_column(
        "events",
        "body",
        new_column_name="fields",
        comment="the event as JSON, without its sequences, and without its beginning if `event_id` is set; "
        "empty where `places` names a value",
    )
    op.alter_column(
        "events",
        "places",
        comment="values in the text of the message: offset in `fields`, offset in the text, size, in bytes",
    )
    op.add_column("events", sa.Column("event_id", sa.Uuid(), comment="the id, if `fields` does not have it"))
    op.add_column(
        "events",
        sa.Column(
            "event_time", sa.BigInteger(), comment="the time in milliseconds, if `fields` does not have it"
        ),
    )
    op.execute(VIEW.format(content=HEAD + "||" + FILLED.format(fields="fields")))
    op.execute(COMMENT)


def downgrade() -> None:
    op.execute("DROP VIEW events_full")
    # With the beginning, the offsets in `fields` are larger.
    op.execute(f"""
        UPDATE events SET fields = {HEAD} || fields, places = (
            SELECT array_agg(ARRAY[places[n][1] + octet_length({HEAD}), places[n][2], places[n][3]] ORDER BY n)
            FROM generate_subscripts(places, 1) AS n
        )
        WHERE event_id IS NOT NULL
    """)  # noqa: S608
    op.drop_column("events", "event_time")
    op.drop_column("events", "event_id")
    op.alter_column(
        "events",
        "fields",
        new_column_name="body",
        comment="the event as JSON, without its sequences; empty where `places` names a value",
    )
    op.alter_column(
        "events",
        "places",
        comment="values in the text of the message: offset in `body`, offset in the text, size, in bytes",
    )
    op.execute(VIEW.format(content=FILLED.format(fields="body")))
    op.execute(COMMENT)
