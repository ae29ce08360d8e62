"""Build the session that a transcript file would be stored as, without a database."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from ash_server.store.log.derived import Derived
from ash_server.store.log.events import StoredEvent
from ash_server.store.log.writer import PreparedEvent, columns, derive
from ash_server.store.prepare import line_id, prepare_message
from ash_server.store.session_facts import RecordFacts, collect_facts, to_milliseconds
from ash_server.store.sessions import session_id_for
from ash_server.store.usage.answers import AnswerUsages
from ash_server.transfer.exporting.page_changes import PageChanges
from ash_server.transfer.importing.lines import FileLine
from ash_server.transfer.importing.parents import line_bytes, read_head
from ash_server.transfer.importing.result import ImportResult, LineProblem, decode_line
from ash_server.transfer.importing.transcript import open_transcript
from ash_shared.conversation.standard_messages import transform_messages
from ash_shared.eventlog import FIRST_LINES, Normalizer
from ash_shared.model.event_types import CHUNKS
from ash_shared.model.session import Session
from ash_shared.projections import SessionSummary, count_models, to_session_summary
from ash_shared.records.inherited import InheritedRecords


class InMemorySession(NamedTuple):
    session: Session
    events: list[str]
    """In wire form, without superseded chunks, and with the ids that they have in the store."""
    summary: SessionSummary
    changes: PageChanges
    answers: AnswerUsages
    result: ImportResult


def load_in_memory(path: Path, name: str, source: str | None = None) -> InMemorySession:
    """Read a transcript into a session with external id `name`. Raises OSError."""
    transcript = open_transcript(path)
    source = source or transcript.source
    session_id = session_id_for(read_head(map(line_bytes, transcript.lines()), source).source, name)
    normalizer, facts, result = Normalizer(), RecordFacts(), ImportResult()
    modified_at = transcript.modified_at()
    new_events, count, now = list[PreparedEvent](), 0, to_milliseconds(modified_at)
    derived = Derived()
    messages = (
        prepare_message(session_id, text, id=line_id(session_id, line.name), source=source)
        for line, text in _decode_lines(transcript.lines(), result)
    )
    first = list(islice(messages, FIRST_LINES))
    normalizer.expect((message.line for message in first), now)
    texts, inherited, copied = list[str](), InheritedRecords(), 0
    for count, message in enumerate(chain(first, messages), 1):
        texts.append(message.content)
        new_events += derive(normalizer, session_id, count, message.line, now, derived=derived)
        facts = facts.merge(collect_facts([message.described], inherited))
        copied = count if inherited else copied
    written = columns(new_events)
    counts = {"message_count": count, "event_count": len(new_events), **_event_counts(written)}
    fields = {"id": session_id, "external_id": name, "file_modified_at": modified_at, **counts}
    session = _build_session(fields, facts, derived)
    own = (each for each in transform_messages(texts, source) if not each.metadata.inherited)
    models = count_models(own)
    events = ({**each.event, "messageSequence": each.message_sequence} for each in new_events)
    summary = to_session_summary(
        events,
        open_turn=normalizer.open_turn(),
        models=models,
        copied_messages=copied,
        is_subagent=True,
    )
    stored, changes = list(_collapsed(written)), PageChanges(session)
    changes.add(stored)
    shown = [event.wire() for event in stored]
    return InMemorySession(session, shown, summary, changes, derived.answers, result)


def _decode_lines(lines: Iterable[FileLine], result: ImportResult) -> Iterator[tuple[FileLine, str]]:
    names = set[str]()
    for line in lines:
        text = decode_line(line)
        if isinstance(text, LineProblem):
            result.add_problem(text)
        elif line.name not in names:
            names.add(line.name)
            yield line, text


def _collapsed(written: Mapping[str, Any]) -> Iterator[StoredEvent]:
    """Yield the events, without chunks that are followed by their complete event."""
    columns = ("types", "message_sequences", "stored_jsons", "chunk_groups")
    rows = list(enumerate(zip(*(written[name] for name in columns), strict=True), 1))
    complete = {piece: sequence for sequence, (type, _, _, piece) in rows if type not in CHUNKS}
    for sequence, (type, message_sequence, content, piece) in rows:
        if type not in CHUNKS or piece is None or complete.get(piece, 0) < sequence:
            yield StoredEvent(sequence, type, message_sequence, content.encode())


def _event_counts(written: Mapping[str, Any]) -> dict[str, int]:
    return {"error_count": written["errors"], "unrecognised_count": written["unrecognised"]}


def _build_session(fields: Mapping[str, Any], facts: RecordFacts, derived: Derived) -> Session:
    """Build the session as if it had been stored just now."""
    now = datetime.now(UTC)
    row = {
        **fields,
        "source": facts.source,
        "title": facts.title,
        "agent_id": facts.agent_id or None,
        "prompt": None if facts.first_prompt == facts.title else facts.first_prompt,
        "created_at": now,
        "updated_at": now,
        "first_at": facts.first_at,
        "last_at": facts.last_at,
        "project": facts.project,
        "folder": facts.folder,
        "branch": facts.branch,
        "commit": facts.git_commit,
        "cause": None if facts.agent_id else facts.cause,
        "models": sorted({each.usage.model for each in derived.answers if each.usage.model}) or None,
        "prompt_count": derived.facts.prompts,
        "turn_count": derived.facts.turns,
        **derived.facts.counts()._asdict(),
        **_durations(facts, derived.facts.active_ms),
    }
    metadata = {"sessionId": facts.provider_session_id, "cliVersion": facts.client_version}
    return Session.model_validate({**_without_none(row), "metadata": _without_none(metadata)})


def _durations(facts: RecordFacts, active_ms: int) -> dict[str, int]:
    if facts.first_at is None or facts.last_at is None:
        return {}
    duration = round((facts.last_at - facts.first_at).total_seconds() * 1000)
    return {"duration_ms": duration, "active_ms": active_ms}


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
