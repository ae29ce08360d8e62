"""Guarantees of the event log, for every sample file, read at once and in parts."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ash_shared.conversation.transcript import split_transcript
from ash_shared.eventlog import Context, Event, Line, Normalizer, parse_line
from ash_shared.eventlog.state import MAX_OPEN_TEXT, OpenTextMissing
from ash_shared.model.event_types import CHUNKS
from ash_shared.model.events import read_event
from ash_shared.model.message import RecordHeader
from ash_shared.records.steps import Chunk, ChunkEnd, SlotKind, Step
from tests.shared.logs import CONTENT_EVENTS, SavedSession, context
from tests.shared.records import claude
from tests.shared.texts import paths_of

COSTS = ("usage", "usageByAgent", "costUsd")
MAX_STATE = 256 * 1024

PLACEHOLDERS = frozenset({"jnarowski__agentcmd__001.jsonl"})
"""Files with complete texts replaced by shorter ones, so that they differ from their chunks."""


def files_of(folder: Path) -> Iterator[tuple[str, list[Line]]]:
    """Yield each file of a folder as the lines of a session."""
    for path in paths_of(folder):
        if path.suffix in (".json", ".jsonl"):
            text = path.read_bytes().decode(errors="replace")
            yield path.name, [parse_line(raw) for raw in split_transcript(text) if raw.strip()]


def follow(lines: list[Line], cuts: frozenset[int] | None = frozenset()) -> list[Event]:
    """Return the events of a session; the normaliser is restored after the lines in `cuts`, or after each (None)."""
    normalizer, events = Normalizer(), list[Event]()
    for number, line in enumerate(lines):
        events += normalizer.follow(line, context(number))
        if cuts is None or number in cuts:
            state = normalizer.state()
            assert len(state or "") < MAX_STATE
            normalizer = Normalizer(state=state)
    return events + normalizer.close(context("end"))


class Session(NamedTuple):
    """A sample file, and its events with a closed log."""

    name: str
    lines: list[Line]
    events: list[Event]


def test_guarantees_hold_on_every_sample(corpus_folder: Path) -> None:
    for name, lines in files_of(corpus_folder):
        session = Session(name, lines, follow(lines))
        for check in CHECKS:
            check(session)


def check_that_events_do_not_depend_on_where_a_stream_is_split(session: Session) -> None:
    name, lines, events = session
    cuts = frozenset(random.Random(name).sample(range(len(lines)), min(len(lines), 3)))

    assert follow(lines, None) == events, name
    assert follow(lines, cuts) == events, (name, cuts)


def check_that_open_texts_may_be_stored_apart(session: Session) -> None:
    saved, events = SavedSession(), list[Event]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ash_shared.eventlog.state.MAX_OPEN_TEXT", 3)
        for number, line in enumerate(session.lines):
            events += saved.follow(line, number)
            has_stored_text = '"text_number"' in (saved.state or "")
            assert bool(saved.texts) == has_stored_text, session.name
        events += saved.close()

    assert events == session.events, session.name
    assert not saved.texts, session.name


def check_that_open_turn_has_the_costs_of_its_end(session: Session) -> None:
    normalizer = Normalizer()
    for number, line in enumerate(session.lines):
        normalizer.follow(line, context(number))
    open_turn, ended = normalizer.open_turn(), normalizer.close(context("end"))

    costs = [
        (event["turnId"], {key: event["payload"][key] for key in COSTS if key in event["payload"]})
        for event in ended
        if event["type"] == "turn_end"
    ]
    spent = [(open_turn.id, open_turn.spent)] if open_turn and open_turn.spent else []
    assert [each for each in costs if each[1]] == spent, session.name
    assert normalizer.open_turn() is None, session.name


def check_that_events_match_their_schemas(session: Session) -> None:
    for event in session.events:
        assert read_event(event).model_dump(mode="json") == json.loads(json.dumps(event)), session.name
    assert len({event["id"] for event in session.events}) == len(session.events), session.name


def check_that_events_of_a_turn_have_its_id(session: Session) -> None:
    turn = None
    for event in session.events:
        if event["type"] == "turn_start":
            assert turn is None, session.name
            turn = event["turnId"]
        elif event["type"] == "turn_end":
            assert event["turnId"] == turn is not None, session.name
            turn = None
        elif is_conversation(event):
            assert event["turnId"] == turn is not None, (session.name, event)
    assert turn is None, session.name


def is_conversation(event: Event) -> bool:
    """True if the event is part of the conversation, and so of a turn."""
    return event["type"] in CONTENT_EVENTS | CHUNKS and not event["payload"].get("synthetic")


def check_that_results_without_a_call_are_orphans(session: Session) -> None:
    """A call is known until the turn with its result ends; later calls may reuse its id."""
    calls, answered = set[str](), set[str]()
    for event in session.events:
        payload = event["payload"]
        if event["type"] == "tool_call":
            calls.add(payload["toolCallId"])
        elif event["type"] == "tool_result":
            assert ("orphan" in payload) == (payload["toolCallId"] not in calls), (session.name, event)
            answered.add(payload["toolCallId"])
        elif event["type"] == "turn_end":
            calls, answered = calls - answered, set()


def check_that_chunks_are_contained_in_the_complete_text(session: Session) -> None:
    """The chunks of an answer are contained in its complete text, each once."""
    chunk_lengths, text_lengths = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    for event in session.events:
        kind, _, form = event["type"].rpartition("_")
        if kind in ("assistant", "thinking"):
            key = (kind, event["turnId"], event["payload"].get("parentToolCallId"))
            (chunk_lengths if form == "chunk" else text_lengths)[key] += len(event["payload"]["text"])
        elif event["type"] == "tool_input_chunk":
            call = event["turnId"], event["payload"]["toolCallId"]
            assert event["payload"]["offset"] == chunk_lengths[call], (session.name, event)
            chunk_lengths[call] += len(event["payload"]["chunk"])
    for key, length in chunk_lengths.items():
        if key[0] in ("assistant", "thinking") and session.name not in PLACEHOLDERS:
            assert length <= text_lengths[key], (session.name, key)


def check_that_lines_that_are_not_records_do_not_end_a_stream(session: Session) -> None:
    """A malformed line becomes a raw event and does not affect the others."""
    name, lines, events = session
    if not any(line.source != "unknown" for line in lines):
        return
    middle = len(lines) // 2
    broken = parse_line('{"type":"assi', "claude")
    others = follow([*lines[:middle], broken, *lines[middle:]])

    pairs = [(event["type"], event["payload"]) for event in others]
    raw = ("raw", {"source": "claude", "raw": '{"type":"assi'})
    assert raw in pairs, name
    assert [kind for kind, _ in pairs if kind in CONTENT_EVENTS] == [
        event["type"] for event in events if event["type"] in CONTENT_EVENTS
    ], name


CHECKS: Sequence[Callable[[Session], None]] = (
    check_that_events_do_not_depend_on_where_a_stream_is_split,
    check_that_open_texts_may_be_stored_apart,
    check_that_open_turn_has_the_costs_of_its_end,
    check_that_events_match_their_schemas,
    check_that_events_of_a_turn_have_its_id,
    check_that_results_without_a_call_are_orphans,
    check_that_chunks_are_contained_in_the_complete_text,
    check_that_lines_that_are_not_records_do_not_end_a_stream,
)


@pytest.mark.parametrize("kind", ["text", "thinking", "input"])
def test_state_does_not_grow_with_an_open_text(kind: SlotKind) -> None:
    """Each chunk of a long text changes a small state and adds at most itself to the stored text."""
    session, events, added = SavedSession(), list[Event](), 0
    for number in range(200):
        before = sum(map(len, session.texts.values()))
        events += session.follow(line_with(Chunk(kind, f'"{number}ä\0', "0", _CALL)), number)
        added = max(added, sum(map(len, session.texts.values())) - before)
        assert len(session.state or "") < MAX_OPEN_TEXT * 3
    events += session.follow(line_with(ChunkEnd("0")), "end")

    *chunks, last = [event["payload"] for event in events if event["type"] != "turn_start"]
    assert "".join(chunk.get("text") or chunk["chunk"] for chunk in chunks) == last.get(
        "text", last.get("args")
    )
    assert (len(chunks), session.texts, added < MAX_OPEN_TEXT + 10) == (200, {}, True)


def test_state_does_not_grow_with_built_input() -> None:
    session, events = SavedSession(), list[Event]()
    values = [("$.names[0]", "ä" * 10)] * 200 + [("$.names[1]", '"' * 10)] * 200 + [("$.n", 1)]
    for number, (path, value) in enumerate(values):
        chunk = Chunk("input", "", "0", {**_CALL, "input": value}, path)
        events += session.follow(line_with(chunk), number)
        assert len(session.state or "") < MAX_OPEN_TEXT * 3
    events += session.follow(line_with(ChunkEnd("0")), "end")

    *chunks, call = [event["payload"] for event in events if event["type"] != "turn_start"]
    assert call["args"] == {"names": ["ä" * 2000, '"' * 2000], "n": 1}
    assert json.loads("".join(chunk["chunk"] for chunk in chunks) + "}") == call["args"]


def test_continues_a_state_with_whole_texts() -> None:
    """Earlier versions stored such a state, and `state` returns one."""
    chunks = [line_with(Chunk("text", "x" * 900, "0")) for _ in range(5)]
    lines = [*chunks, line_with(ChunkEnd("0"))]
    normalizer, session = Normalizer(), SavedSession()
    events = [event for number in range(3) for event in normalizer.follow(lines[number], context(number))]
    session.state = normalizer.state()
    events += [event for number in range(3, 6) for event in session.follow(lines[number], number)]

    assert events == follow(lines)[: len(events)]
    assert events[-1]["payload"] == {"text": "x" * 4500}


@pytest.mark.parametrize(
    ("steps", "is_missing"),
    [
        ([Chunk("text", "b", "0")], False),
        ([ChunkEnd("1")], False),
        ([ChunkEnd("0", wait_for_part=True)], False),
        ([ChunkEnd("0", text="whole")], False),
        ([ChunkEnd(kinds=("thinking",))], False),
        ([ChunkEnd(kinds=("text",))], True),
        ([ChunkEnd()], True),
        ([Chunk("text", "b", "0"), ChunkEnd("0")], True),
    ],
)
def test_missing_texts_are_known_before_the_lines(steps: list[Step], is_missing: bool) -> None:
    """No event is derived in vain if one of many lines ends a text."""
    session = SavedSession()
    session.follow(line_with(Chunk("text", "x" * (MAX_OPEN_TEXT + 1), "0")), 1)
    lines = list(map(line_with, steps))

    Normalizer(state=session.state, open_texts=session.texts).check_open_texts(lines)
    expected = pytest.raises(OpenTextMissing) if is_missing else nullcontext()
    with expected:
        Normalizer(state=session.state).check_open_texts(lines)


_CALL = {"id": "c", "name": "Write"}


def line_with(step: Step) -> Line:
    return Line([step], RecordHeader(), "claude")


@pytest.mark.parametrize("state", ["", "null", "[]", "{", '{"turn": 5}', '{"slots": [1]}', "x" * 100])
def test_ignores_a_state_that_cannot_be_decoded(state: str) -> None:
    line = parse_line('{"type":"user","message":{"role":"user","content":"hi"}}')

    assert Normalizer(state=state).follow(line, context(1)) == Normalizer().follow(line, context(1))


def event_times(now: int, *records: dict[str, Any]) -> list[int]:
    """Return the timestamps of the events, with a stopped clock."""
    normalizer = Normalizer()
    stopped = Context("s", iter(map(str, range(99))).__next__, lambda: now)
    lines = [parse_line(json.dumps(record)) for record in records]
    return [event["timestamp"] for line in lines for event in normalizer.follow(line, stopped)]


def test_events_of_a_recording_have_its_time() -> None:
    prompt = claude.line("user", "Hi", timestamp=1_700_000_000_000)
    answer = claude.line("assistant", "Hello")

    assert event_times(1_700_000_000_400, answer, prompt, answer) == [
        *[1_700_000_000_400] * 2,
        *[1_700_000_000_000] * 3,
        1_700_000_000_400,
    ]
    assert event_times(1_790_000_000_000, prompt, answer) == [1_700_000_000_000] * 3


def test_events_before_the_first_timestamp_get_it() -> None:
    now, recorded = 1_790_000_000_000, 1_700_000_000_000
    timed, later = line_at(recorded), line_at(recorded + 90_000)
    logs = {
        "a timestamp follows": [line_at(), line_at(), timed, line_at(), later],
        "no timestamp": [line_at(), line_at()],
        "a timestamp beyond the first lines": [*[line_at()] * 50, timed],
        "a current timestamp": [line_at(), line_at(now - 5)],
    }

    assert {name: first_time(lines, now) for name, lines in logs.items()} == {
        "a timestamp follows": recorded,
        "no timestamp": now,
        "a timestamp beyond the first lines": now,
        "a current timestamp": now,
    }


def line_at(timestamp: int | None = None) -> Line:
    record = claude.line("user", "Hi", timestamp=timestamp)
    return parse_line(json.dumps(record))


def first_time(lines: list[Line], now: int) -> int:
    normalizer = Normalizer()
    normalizer.expect(lines, now)
    first: int = normalizer.follow(lines[0], context(1)._replace(timestamp=lambda: now))[0]["timestamp"]
    return first


def test_drops_the_copy_of_a_posted_prompt() -> None:
    normalizer = Normalizer()
    payload = {"text": "Hi"}
    normalizer.observe({"id": "u", "type": "user_message", "turnId": "t", "payload": payload})
    line = parse_line('{"type":"user","message":{"role":"user","content":"Hi"}}')

    assert normalizer.follow(line, context(1)) == []
    assert [event["type"] for event in normalizer.follow(line, context(2))] == ["user_message"]
