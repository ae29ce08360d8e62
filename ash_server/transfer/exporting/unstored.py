"""A transcript that is not stored, as it would be if it were: without any database."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from ash_server.db.event_writer import PreparedEvent, columns, derive, milliseconds
from ash_server.db.events import StoredEvent
from ash_server.db.session_facts import SessionFacts, facts_of
from ash_server.db.sessions import Session, session_id_for
from ash_server.ingest import line_id, prepare_message
from ash_server.transfer.importing.lines import Line
from ash_server.transfer.importing.parents import read_head
from ash_server.transfer.importing.report import Problem, Tally, text_of
from ash_server.transfer.load import transcript_at
from ash_shared.conversation.standard_messages import transform_messages
from ash_shared.eventlog import FIRST_LINES, Normalizer
from ash_shared.model.events import CHUNKS
from ash_shared.projections import RECENT_LINES, SessionSummary, count_models, to_session_summary


class Unstored(NamedTuple):
    session: Session
    events: list[str]
    """In wire form, without the pieces of what has become whole: the same under the same ids as of a stored one."""
    summary: SessionSummary
    refused: Tally


def read_unstored(path: Path, name: str, source: str | None = None) -> Unstored:
    """`name` is what the session is called. Raises OSError."""
    transcript = transcript_at(path)
    source = source or transcript.source
    session_id = session_id_for(read_head(transcript.texts(), source).source, name)
    normalizer, facts, refused = Normalizer(), SessionFacts(), Tally()
    new, count, now = list[PreparedEvent](), 0, milliseconds()
    messages = (
        prepare_message(session_id, text, id=line_id(session_id, line.name), source=source)
        for line, text in _readable(transcript.texts(), refused)
    )
    first = list(islice(messages, FIRST_LINES))
    normalizer.expect((message.line for message in first), now)
    recent = deque[str](maxlen=RECENT_LINES)
    for count, message in enumerate(chain(first, messages), 1):
        recent.append(message.content)
        new += derive(normalizer, session_id, count, message.line, now)
        facts = facts.then(facts_of([message.described]))
    written = columns(new)
    counts = {"message_count": count, "event_count": len(new), **_counts(written)}
    session = _session({"id": session_id, "external_id": name, **counts}, facts)
    models = count_models(transform_messages(recent, source))
    told = (each.event for each in new)
    summary = to_session_summary(told, open_turn=normalizer.open_turn(), models=models)
    return Unstored(session, list(_collapsed(written)), summary, refused)


def _readable(lines: Iterable[Line], refused: Tally) -> Iterator[tuple[Line, str]]:
    seen = set[str]()
    for line in lines:
        text = text_of(line)
        if isinstance(text, Problem):
            refused.report(text)
        elif line.name not in seen:
            seen.add(line.name)
            yield line, text


def _collapsed(written: Mapping[str, Any]) -> Iterator[str]:
    """Without the pieces behind which their whole follows."""
    columns = ("types", "message_sequences", "contents", "pieces")
    rows = list(enumerate(zip(*(written[name] for name in columns), strict=True), 1))
    wholes = {piece: sequence for sequence, (type, _, _, piece) in rows if type not in CHUNKS}
    for sequence, (type, message_sequence, content, piece) in rows:
        if type not in CHUNKS or piece is None or wholes.get(piece, 0) < sequence:
            yield StoredEvent(sequence, type, message_sequence, content).wire()


def _counts(written: Mapping[str, Any]) -> dict[str, int]:
    return {"error_count": written["errors"], "unrecognised_count": written["unrecognised"]}


def _session(told: Mapping[str, Any], facts: SessionFacts) -> Session:
    """As its row would tell it, if it were stored just now."""
    now = datetime.now(UTC)
    row = {
        **told,
        "source": facts.source,
        "title": facts.title,
        "prompt": None if facts.first_prompt == facts.title else facts.first_prompt,
        "created_at": now,
        "updated_at": now,
        "first_at": facts.first_at,
        "last_at": facts.last_at,
    }
    metadata = {"sessionId": facts.provider_session_id, "cliVersion": facts.client_version}
    return Session.model_validate({**_known(row), "metadata": _known(metadata)})


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
