"""Preparing texts for storage."""

from typing import Any
from uuid import UUID, uuid5

import pytest
from psycopg import AsyncConnection

from ash_server.errors import InvalidUtf8, NulByte
from ash_server.store.messages import append
from ash_server.store.prepare import PreparedMessage, line_id, prepare_message
from ash_shared.eventlog import parse_line
from ash_shared.model.message import Description, Drift, RecordHeader
from ash_shared.parsing.parse import describe_message, find_blocks

SESSION = UUID("00000000-0000-4000-8000-000000000001")
OTHER = UUID("00000000-0000-4000-8000-000000000002")

LINE = '{"type":"user","uuid":"u-1","message":{"role":"user","content":"hi"}}'
ANSWER = (
    '{"type":"assistant","uuid":"u-2","message":{"role":"assistant","content":'
    '[{"type":"text","text":"ok"},{"type":"tool_use","id":"t","name":"Bash","input":{}},{"type":"text","text":"."}]}}'
)


def id_of(raw: str, session_id: UUID = SESSION, **fields: Any) -> str:
    return prepare_message(session_id, raw, **fields).id


def test_describes_text_by_reading_it() -> None:
    digest = describe_message(ANSWER).digest
    described = Description(
        "claude", "message", "assistant", ("text", "tool_use"), RecordHeader(uuid="u-2"), None, (), digest
    )

    assert prepare_message(SESSION, ANSWER, id="mine") == PreparedMessage(
        "mine", True, ANSWER, described, line=parse_line(ANSWER), blocks=find_blocks(ANSWER, "claude")
    )


def test_given_role_and_source_take_precedence() -> None:
    prepared = prepare_message(SESSION, ANSWER, id="mine", role="system", source="house")

    assert (prepared.has_explicit_role, prepared.has_explicit_source) == (True, True)
    assert prepared.described == describe_message(ANSWER, "house")._replace(role="system")
    assert (prepared.described.role, prepared.described.source) == ("system", "house")


def test_plain_text_is_user_message() -> None:
    plain = "[INFO] started"
    digest = describe_message(plain).digest
    described = Description(
        "unknown", "message", "user", ("text",), RecordHeader(), plain, (), digest, cause="person"
    )

    assert prepare_message(SESSION, plain, id="mine") == PreparedMessage(
        "mine", True, plain, described, line=parse_line(plain)
    )


def test_reports_drift() -> None:
    strange = '{"type":"user","message":{"role":"user","content":[{"type":"holo_frame"}]}}'

    assert prepare_message(SESSION, strange).described.drift == (Drift("unknown_type", "holo_frame", 1),)


def test_line_with_provider_id_has_stable_id() -> None:
    assert prepare_message(SESSION, LINE).has_explicit_id is False
    assert id_of(LINE) == "df4e778b-c458-52fe-842b-56140df7d0b4"
    assert id_of(LINE) != id_of(LINE + " ")
    assert id_of(LINE) != id_of(LINE.replace("u-1", "u-2"))
    assert id_of(LINE) != id_of(LINE, OTHER)


def test_line_without_provider_id_has_random_id() -> None:
    for raw in ("hello", "", '{"type":"user","message":{"role":"user","content":"hi"}}', '{"uuid":'):
        assert id_of(raw) != id_of(raw)
        assert UUID(id_of(raw)).version == 7


def test_fallback_id_is_for_texts_without_provider_id() -> None:
    assert id_of("hello", fallback_id="mine") == "mine"
    assert id_of(LINE, fallback_id="mine") == id_of(LINE)
    assert id_of("hello", id="given", fallback_id="mine") == "given"


def test_keeps_given_id() -> None:
    assert [id_of(LINE, id=id) for id in ("x", "", " ü ")] == ["x", "", " ü "]


def test_file_lines_have_ids_by_line_number() -> None:
    assert line_id(SESSION, 1) == "8d4035dc-2470-5da4-8dfe-3942ac4f1762"
    for name in ("2", "message/ses_1/msg_1.json", "ü" * 200, ""):
        assert line_id(SESSION, name) == str(uuid5(SESSION, name))
    assert len({line_id(session, number) for session in (SESSION, OTHER) for number in (1, 2, 11)}) == 6


UNSTORABLE = [
    ("a\0b", NulByte),
    (LINE.replace("hi", "\0"), NulByte),
    ("a\ud800b", InvalidUtf8),
    (LINE.replace("hi", "\udc00"), InvalidUtf8),
    (LINE.replace("u-1", "\udc00"), InvalidUtf8),
]


async def test_append_rejects_text_that_cannot_be_stored(
    connection: AsyncConnection, session_id: UUID
) -> None:
    for raw, refusal in UNSTORABLE:
        with pytest.raises(refusal) as refused:
            await append(connection, session_id, [prepare_message(session_id, text) for text in (LINE, raw)])
        assert refused.value.index == 1


async def test_deduplicates_lines_with_provider_id(connection: AsyncConnection, session_id: UUID) -> None:
    first, second = [
        await append(
            connection, session_id, [prepare_message(session_id, raw) for raw in (LINE, ANSWER, "hello")]
        )
        for _ in range(2)
    ]

    assert [(each.sequence, each.created) for each in first] == [(1, True), (2, True), (3, True)]
    assert [(each.sequence, each.created) for each in second] == [(1, False), (2, False), (4, True)]
