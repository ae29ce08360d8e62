"""Events refer to the text of their message instead of copying it."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

FILLED = """
    CASE WHEN entry.places IS NULL THEN entry.body ELSE coalesce((
        SELECT convert_from(
            substr(body, 1, places[1][1]) || substr(text, places[1][2] + 1, places[1][3]) || coalesce(
                substr(body, places[1][1] + 3, places[2][1] - places[1][1] - 2)
                    || substr(text, places[2][2] + 1, places[2][3]) || substr(body, places[2][1] + 3),
                substr(body, places[1][1] + 3)), 'UTF8')
        FROM (
            SELECT convert_to(entry.body, 'UTF8') AS body, convert_to(messages.content, 'UTF8') AS text
            FROM messages
            WHERE messages.session_id = entry.session_id AND messages.sequence = entry.message_sequence
            OFFSET 0
        ) AS bytes
    ), entry.body) END
"""

VIEW = f"""
    CREATE VIEW events_full AS
    SELECT session_id, sequence, type, message_sequence, origin, given_id, piece_of, {FILLED} AS content
    FROM events AS entry
"""  # noqa: S608


def upgrade() -> None:
    # The new name makes older versions, and queries that expect whole events, fail instead of reading empty values.
    op.alter_column(
        "events",
        "content",
        new_column_name="body",
        comment="the event as JSON, without its sequences; empty where `places` names a value",
    )
    op.add_column(
        "events",
        sa.Column(
            "places",
            sa.ARRAY(sa.Integer()),
            comment="values in the text of the message: offset in `body`, offset in the text, size, in bytes",
        ),
    )
    op.execute(VIEW)
    op.execute("COMMENT ON VIEW events_full IS 'events with their JSON in full'")


def downgrade() -> None:
    op.execute("DROP VIEW events_full")
    op.execute(f"UPDATE events AS entry SET body = {FILLED} WHERE places IS NOT NULL")  # noqa: S608
    op.drop_column("events", "places")
    op.alter_column(
        "events",
        "body",
        new_column_name="content",
        comment="the event as JSON, without its sequences",
    )
