"""Plain names of columns, comments and the fields of the normaliser's state; the JSON of an event as a function."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

Names: TypeAlias = Mapping[str, str]
Sql: TypeAlias = Callable[[str], str]
"""Returns SQL for the JSON that replaces the JSON of an SQL expression."""

# Every writer uses at least one of the old names, so a server of the version before stops instead of misreading a
# state.
_COLUMNS = {
    "sessions.unterminated": "lacks_final_newline",
    "sessions.title_rank": "title_priority",
    "session_counters.events_dropped": "last_dropped_sequence",
    "session_counters.has_chunks": "may_have_chunks",
    "messages.role_given": "has_explicit_role",
    "messages.source_given": "has_explicit_source",
    "events.given_id": "explicit_id",
    "events.piece_of": "chunk_group",
    "events.fields": "stored_json",
    "events.places": "text_ranges",
    "search_progress.events_dropped": "last_dropped_sequence",
}

_NEW_COLUMNS = [f"{name.partition('.')[0]}.{new}" for name, new in _COLUMNS.items()]

_INDEXES = {
    "events_given_id_idx": "events_explicit_id_idx",
    "events_whole_idx": "events_chunk_group_idx",
    "search_said_idx": "search_conversation_idx",
    "search_rest_idx": "search_results_idx",
}

_COMMENTS = {
    "sessions.parent_id": "id of the parent session, which may be deleted or not stored yet",
    "sessions.parent_external_id": "external id of the parent session, which may not be stored",
    "sessions.updated_at": "time of the last activity",
    "sessions.first_at": "earliest timestamp in the messages",
    "sessions.last_at": "latest timestamp in the messages",
    "sessions.title_priority": "origin of the title: 0 none, 1 the first prompt, 2 the client, "
    "3 a person in the client, 4 a person in Ash; a title never replaces one with a higher number",
    "sessions.file_modified_at": "modification time of the imported file",
    "sessions.client_version": "last client version in the messages",
    "sessions.provider_session_id": "last session id in the messages",
    "sessions.first_prompt": "beginning of the first prompt of a person",
    "sessions.path": "last known path of the imported transcript",
    "sessions.lineage": "digests of names in the transcript, the same in all its copies",
    "sessions.copy_of": "session with the same first messages; it may be deleted",
    "sessions.copied_messages": "number of first messages shared with the session copy_of",
    "sessions.agent_id": "id of the subagent that wrote the session; empty: a main session; null: unknown",
    "session_counters.normalizer_state": "state of the normaliser, as JSON; null: the initial state",
    "session_counters.last_dropped_sequence": "last event dropped by a rebuild; the log starts with the next one",
    "session_counters.normalizer_version": "version of the normaliser that derived the events; null: none derived yet",
    "session_counters.errors": "number of events of type error and of failed tool results",
    "session_counters.unrecognised": "number of events of type raw",
    "session_counters.may_have_chunks": "false: the log has no chunks, and its derived events have no chunk_group",
    "messages.content": "text exactly as received",
    "messages.block_types": "types of the blocks, derived by the parser",
    "messages.digest": "digest of the parsed message, to detect changes of the parser; null: not computed yet",
    "messages.has_explicit_role": "true: the writer set the role; false: the parser derived it; null: unknown",
    "messages.has_explicit_source": "true: the writer set the source; false: the parser derived it; null: unknown",
    "messages.blocks_start": "byte offset of the blocks in the content; null: the parser does not copy them",
    "messages.blocks_size": "size of the blocks in the content, in bytes",
    "events.message_sequence": "message that the event was derived from; otherwise the last message stored before it",
    "events.origin": "line: derived from a message; posted: sent by a writer; end: closes open turns, calls and texts",
    "events.explicit_id": "id set by the writer; null: the id is derived from the position",
    "events.chunk_group": "digest shared by the chunks of a text and the complete event that supersedes them",
    "events.stored_json": "JSON of the event without sequences; without its first fields if event_id is set, and with "
    "empty values where text_ranges has the value",
    "events.text_ranges": "values in messages.content: offset in stored_json, offset in the content, size, in bytes",
    "events.event_id": "id of the event, unless stored_json has it",
    "events.event_time": "Unix time in milliseconds, unless stored_json has it",
    "open_texts.number": "number of the text in its session",
    "open_texts.start": "offset of the content in the text, in characters",
    "open_texts.content": "part of the text, as a JSON string",
    "drift.raw_type": "type of the block in the message; empty if it has none",
    "drift.client_version": "client version in the message",
    "drift.seen_at": "timestamp of the message, or the time when it was stored",
    "search.sequence": "sequence of the event",
    "search.part": "number of the part, since long texts are split",
    "search.weight": "A: messages, B: reasoning, C: tool calls, D: tool results and everything else",
    "search.role": "role of the author",
    "search.at": "time of the event, but not after the time of indexing",
    "search.readers": "clients that find the words: all of them, or only those that see redacted or unredacted texts",
    "search_progress.event_sequence": "last indexed event",
    "search_progress.last_dropped_sequence": "last event dropped by a rebuild for which the words were deleted",
    "search_progress.version": "version of the indexer that wrote the words",
    "keys.prefix": "first characters of the key",
    "audit.key_id": "null: a command run on the database",
    "audit.target": "id of a session or key, or address of a client",
}

_STATE = {
    "answers": "emitted_answers",
    "copied": "copy_digests",
    "costs": "session_cost",
    "counted": "last_usage_digest",
    "held": "held_copies",
    "lag": "clock_lag",
    "nameless": "calls_without_id",
    "once": "once_digests",
    "paid_by": "cost_session",
    "pieced": "streamed_responses",
    "results": "pending_results",
    "said": "original_digests",
    "sent": "sent_counts",
    "speakers": "roles_by_key",
    "streamed": "last_streamed",
    "told": "emitted_revisions",
}
_TURN = {
    "added_up": "totalled_counts",
    "checksum": "streamed_checksum",
    "costs": "cost_by_answer",
    "ends_by_word": "has_explicit_end",
    "pieces": "streamed_length",
    "usage": "usage_by_answer",
}
_RESPONSE = {
    "is_begun": "is_explicit",
    "is_pieced": "was_streamed",
    "outputs": "calls_by_output_slot",
    "said": "block_digests",
    "told": "emitted_slots",
}
_SLOT = {
    "given": "arguments",
    "is_built": "has_built_arguments",
    "is_named": "has_call_id",
    "is_whole": "is_complete",
    "lane": "parent_call",
    "more": "fields",
}
_HELD_COPY = {"lane": "parent_call"}
_STREAMED_ANSWER = {"said": "block_digests"}


# PostgreSQL 18 names constraints NOT NULL after their column, and keeps the names when the column is renamed. Citus
# renames no constraints.
_RENAME_CONSTRAINTS = f"""
    DO $$
    DECLARE
        old record;
    BEGIN
        FOR old IN
            SELECT conrelid::regclass AS "table", conname AS name,
                format('%s_%s_not_null', relname, attname) AS new_name
            FROM pg_constraint
            JOIN pg_class ON pg_class.oid = conrelid
            JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
            WHERE contype = 'n' AND connamespace = current_schema()::regnamespace
              AND relname || '.' || attname = ANY ('{{{",".join(_NEW_COLUMNS)}}}')
              AND to_regclass('pg_dist_partition') IS NULL
        LOOP
            CONTINUE WHEN old.name = old.new_name;
            EXECUTE format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I', old.table, old.name, old.new_name);
        END LOOP;
    END
    $$
"""  # noqa: S608  # constant SQL

# A function without a table, so that PostgreSQL inlines it and the workers of a cluster can run it.
_EVENT_JSON = """
    CREATE FUNCTION event_json(
        session_id uuid, type text, event_id uuid, event_time bigint, stored_json bytea, text_ranges integer[],
        text bytea
    )
    RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE
    RETURN
        coalesce(convert_to('{"id":"' || event_id || '","timestamp":' || event_time
            || ',"sessionId":"' || session_id || '","type":"' || type || '",', 'UTF8'), '')
        || CASE WHEN text_ranges IS NULL OR text IS NULL THEN stored_json ELSE
            substr(stored_json, 1, text_ranges[1][1])
            || substr(text, text_ranges[1][2] + 1, text_ranges[1][3])
            || coalesce(
                substr(stored_json, text_ranges[1][1] + 3, text_ranges[2][1] - text_ranges[1][1] - 2)
                || substr(text, text_ranges[2][2] + 1, text_ranges[2][3])
                || substr(stored_json, text_ranges[2][1] + 3),
                substr(stored_json, text_ranges[1][1] + 3)
            )
        END
"""
_COMMENT_ON_EVENT_JSON = """
    COMMENT ON FUNCTION event_json IS
        'JSON of an event, in UTF-8, from the columns of its row and from the text of its message, both in UTF-8'
"""
_VIEW = """
    CREATE OR REPLACE VIEW events_full WITH (security_invoker = true) AS
    SELECT session_id, sequence, type, message_sequence, origin, explicit_id AS given_id, chunk_group AS piece_of,
        convert_from(
            CASE WHEN text_ranges IS NULL
            THEN event_json(session_id, type, event_id, event_time, convert_to(stored_json, 'UTF8'), NULL, NULL)
            ELSE coalesce(
                (
                    SELECT event_json(
                        session_id, type, event_id, event_time, bytes.stored_json, text_ranges, bytes.text
                    )
                    FROM (
                        SELECT convert_to(event.stored_json, 'UTF8') AS stored_json,
                            convert_to(content, 'UTF8') AS text
                        FROM messages
                        WHERE messages.session_id = event.session_id AND messages.sequence = event.message_sequence
                        OFFSET 0
                    ) AS bytes
                ),
                event_json(session_id, type, event_id, event_time, convert_to(stored_json, 'UTF8'), NULL, NULL)
            ) END,
            'UTF8'
        ) AS content
    FROM events AS event
"""

# The form in schema 0014.
_VIEW_BEFORE = """
    CREATE OR REPLACE VIEW events_full WITH (security_invoker = true) AS
    SELECT session_id, sequence, type, message_sequence, origin, explicit_id AS given_id, chunk_group AS piece_of,
        coalesce('{"id":"' || event_id || '","timestamp":' || event_time || ',"sessionId":"' || session_id
            || '","type":"' || type || '",', '')
        || CASE WHEN entry.text_ranges IS NULL THEN entry.stored_json ELSE coalesce((
            SELECT convert_from(
                substr(fields, 1, places[1][1]) || substr(text, places[1][2] + 1, places[1][3]) || coalesce(
                    substr(fields, places[1][1] + 3, places[2][1] - places[1][1] - 2)
                        || substr(text, places[2][2] + 1, places[2][3]) || substr(fields, places[2][1] + 3),
                    substr(fields, places[1][1] + 3)), 'UTF8')
            FROM (
                SELECT convert_to(entry.stored_json, 'UTF8') AS fields, entry.text_ranges AS places,
                    convert_to(messages.content, 'UTF8') AS text
                FROM messages
                WHERE messages.session_id = entry.session_id AND messages.sequence = entry.message_sequence
                OFFSET 0
            ) AS bytes
        ), entry.stored_json) END AS content
    FROM events AS entry
"""

# Citus requires it for changes of a function and of distributed tables in one transaction.
_SEQUENTIAL = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"

# Appends lock session_counters first, and other writers the sessions.
_LOCK = "LOCK TABLE sessions, session_counters, messages, events, search_progress IN EXCLUSIVE MODE"

# A loop instead of one UPDATE: it also runs on distributed tables, and a state that is not JSON stays as it is.
# PostgreSQL reads no JSON with the escape \u0000, so tokens that do not occur in the state stand for it and for
# escaped backslashes.
_RENAME = r"""
    DO $$
    DECLARE
        counters record;
        tokens text[];
        state text;
    BEGIN
        FOR counters IN SELECT session_id, normalizer_state FROM session_counters WHERE normalizer_state ~ '{pattern}'
        LOOP
            state := counters.normalizer_state;
            tokens := NULL;
            IF strpos(state, '\u0000') > 0 THEN
                SELECT array_agg(token) INTO tokens FROM (
                    SELECT token FROM generate_series(0, length(state)) AS n, format('<%s>', n) AS token
                    WHERE strpos(state, token) = 0 LIMIT 2
                ) AS unused;
                state := replace(replace(state, '\\', tokens[1]), '\u0000', tokens[2]);
            END IF;
            BEGIN
                state := {renamed};
            EXCEPTION
                WHEN data_exception OR program_limit_exceeded THEN CONTINUE;
            END;
            IF tokens IS NOT NULL THEN
                state := replace(replace(state, tokens[2], '\u0000'), tokens[1], '\\');
            END IF;
            UPDATE session_counters SET normalizer_state = state WHERE session_id = counters.session_id;
        END LOOP;
    END
    $$
"""


def upgrade() -> None:
    op.execute(_SEQUENTIAL)
    op.execute(_LOCK)
    op.execute(_rename_states(dict))
    for name, new in _COLUMNS.items():
        table, _, column = name.partition(".")
        op.alter_column(table, column, new_column_name=new)
    for index, new in _INDEXES.items():
        op.execute(f"ALTER INDEX {index} RENAME TO {new}")
    op.execute(_RENAME_CONSTRAINTS)
    for name, comment in _COMMENTS.items():
        op.execute(f"COMMENT ON COLUMN {name} IS '{comment}'")
    op.execute(_EVENT_JSON)
    op.execute(_COMMENT_ON_EVENT_JSON)
    op.execute("GRANT EXECUTE ON FUNCTION event_json TO ash_app")
    op.execute(_VIEW)


def downgrade() -> None:
    """Rename everything back; the comments stay."""
    op.execute(_LOCK)
    op.execute(_VIEW_BEFORE)
    op.execute("DROP FUNCTION event_json")
    op.execute(_rename_states(_inverse))
    for name, new in _COLUMNS.items():
        table, _, column = name.partition(".")
        op.alter_column(table, new, new_column_name=column)
    for index, new in _INDEXES.items():
        op.execute(f"ALTER INDEX {new} RENAME TO {index}")


def _inverse(names: Names) -> Names:
    return {new: old for old, new in names.items()}


def _rename_states(direction: Callable[[Names], Names]) -> str:
    """Return the statement that renames the fields of all states. `direction` returns the names after those before."""
    parts = {
        "turn": _object(direction(_TURN)),
        "responses": _values(_object(direction(_RESPONSE))),
        "slots": _items(_object(direction(_SLOT))),
        "held": _items(_object(direction(_HELD_COPY))),
        "streamed": _object(direction(_STREAMED_ANSWER)),
    }
    names = direction(_STATE)
    if direction is _inverse:
        parts = {_STATE.get(name, name): rename for name, rename in parts.items()}
    every = {
        *names,
        *(
            name
            for part in (_TURN, _RESPONSE, _SLOT, _HELD_COPY, _STREAMED_ANSWER)
            for name in direction(part)
        ),
    }
    pattern = f'"({"|".join(sorted(every))})" *:'
    return _RENAME.replace("{pattern}", pattern).replace("{renamed}", _object(names, parts)("state::json"))


def _object(names: Names, parts: Mapping[str, Sql] | None = None) -> Sql:
    """Rename the fields of an object and of its parts."""
    cases = "".join(f" WHEN '{name}' THEN {rename('value')}" for name, rename in (parts or {}).items())
    value = f"CASE key{cases} ELSE value END" if cases else "value"
    return partial(_members, f"coalesce('{json.dumps(names)}'::jsonb ->> key, key)", value)


def _values(rename: Sql) -> Sql:
    """Rename the fields of each value of an object."""
    return partial(_members, "key", rename("value"))


def _members(key: str, value: str, of: str) -> str:
    members = f"json_each({of}) WITH ORDINALITY AS members (key, value, place)"
    renamed = f"SELECT coalesce(json_object_agg({key}, {value} ORDER BY place), '{{}}') FROM {members}"  # noqa: S608
    return f"CASE json_typeof({of}) WHEN 'object' THEN ({renamed}) ELSE {of} END"


def _items(rename: Sql) -> Sql:
    """Rename the fields of each item of a list."""

    def renamed(of: str) -> str:
        items = f"json_array_elements({of}) WITH ORDINALITY AS items (value, place)"
        listed = f"SELECT coalesce(json_agg({rename('value')} ORDER BY place), '[]') FROM {items}"  # noqa: S608
        return f"CASE json_typeof({of}) WHEN 'array' THEN ({listed}) ELSE {of} END"

    return renamed
