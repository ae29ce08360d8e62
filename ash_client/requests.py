"""The requests of both clients as values: what to send, and how to read the answer."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Generic, Required, TypeAlias, TypedDict, TypeVar, Unpack
from urllib.parse import quote
from uuid import UUID, uuid4

import msgspec
from pydantic import BaseModel

from ash_client.errors import NOT_ASH, OTHER_VERSION, ApiError, not_ash_error
from ash_shared.model.health import API_VERSION, Health
from ash_shared.model.keywords import check_keywords
from ash_shared.model.message import Message, Role
from ash_shared.model.pages import (
    AppendedMessage,
    AppendedMessages,
    EventPage,
    MessageComparison,
    MessagePage,
    SearchPage,
    TranscriptClaim,
)
from ash_shared.model.reports.changes import SessionChanges
from ash_shared.model.reports.comparison import SessionComparison
from ash_shared.model.reports.facts import SessionFacts
from ash_shared.model.reports.projects import ProjectPage
from ash_shared.model.reports.session_counts import SessionCounts
from ash_shared.model.session import Session, SessionPage, SessionResume, TagList
from ash_shared.model.shares import FindingList
from ash_shared.model.usage.budgets import BudgetPage
from ash_shared.model.usage.report import CostMode, Dimension, UsageReport
from ash_shared.parsing.parse import describe_message

MAX_BATCH = 500
MAX_BATCH_BYTES = 1024 * 1024
"""A batch ends with the message that exceeds this size."""
MAX_BATCHED_BYTES = 512 * 1024
"""A longer message is sent alone, as the body of a request: the server limits the messages of a batch to 1 MiB."""

_HEALTH = "/health/live"
_OTHER_API = frozenset({NOT_ASH, "not_found", "method_not_allowed"})

T = TypeVar("T")

SessionId: TypeAlias = UUID | str


@dataclass(frozen=True)
class Request(Generic[T]):
    method: str
    path: str
    read: Callable[[bytes], T]
    """Raises ValueError for a body that is not the answer of Ash."""
    query: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    media_type: str = "application/json"
    is_repeatable: bool = True
    """False if a repetition would have another effect."""
    changes_session: bool = False
    """True if the request may change more than the messages of a session."""

    @property
    def headers(self) -> dict[str, str]:
        content_type = {} if self.body is None else {"Content-Type": self.media_type}
        return {"Accept": "application/json", **content_type}

    @property
    def params(self) -> dict[str, str | list[str]]:
        """The values of the query as texts; a parameter with several values is repeated."""
        present = {name: value for name, value in self.query.items() if value is not None}
        return {name: _parameters(value) for name, value in present.items()}

    def answer(self, body: bytes) -> T:
        try:
            return self.read(body)
        except ValueError as error:
            raise not_ash_error() from error


class MessageToAppend(TypedDict, total=False):
    content: Required[str]
    id: str
    """Makes the append idempotent. Default: derived from the provider's own id in the text, else random."""
    role: Role
    source: str


Texts: TypeAlias = str | Sequence[str] | None
"""One value or several."""


class SessionQuery(TypedDict, total=False):
    after: str | None
    limit: int
    sort: str
    """`activity` (the default), `start`, `duration`, `cost` or `errors`."""
    source: Texts
    project: Texts
    """The root of a repository or another folder, with the folders below: by path or only by name."""
    branch: Texts
    machine: Texts
    key: UUID | str | Sequence[UUID | str] | None
    person: Texts
    """The name of the key that stored the session."""
    cause: Texts
    """`person`, `schedule` or `program`."""
    model: Texts
    tool: Texts
    edited: Texts
    """The path of a changed file, the end of its path, or a folder above."""
    q: str | None
    """Text in the title, external id, tags or note, or the beginning of the id."""
    parent_id: SessionId | None
    provider_session_id: str | None
    external_id: str | None
    external_id_prefix: str | None
    since: datetime | None
    until: datetime | None
    errors: bool | None
    reference: str | None
    """An external id or path, else an id or its first digits, else the provider's session id."""
    tag: Texts
    """All of these tags."""
    starred: bool | None
    archived: str | None
    """`exclude`, `only` or `include`."""
    usage: bool
    """With the tokens and costs of each session."""
    activity: bool
    """With the current activity of sessions that changed within 10 minutes."""


class CountQuery(TypedDict, total=False):
    source: Texts
    project: Texts
    branch: Texts
    model: Texts
    machine: Texts
    person: Texts
    tag: Texts
    starred: bool | None
    archived: str | None
    """`exclude`, `only` or `include`."""
    errors: bool | None
    since: datetime | None
    until: datetime | None


class NewSessionFields(TypedDict, total=False):
    source: str
    external_id: str | None
    parent_id: SessionId | None
    title: str | None
    metadata: Mapping[str, Any] | None


class SessionUpdate(TypedDict, total=False):
    title: str | None
    metadata: Mapping[str, Any]


class LabelUpdate(TypedDict, total=False):
    starred: bool
    archived: bool
    """Also of the sessions of subagents."""
    tags: Sequence[str]
    """Replaces all tags, before others are added and removed."""
    add_tags: Sequence[str]
    remove_tags: Sequence[str]
    note: str
    """Markdown; empty: no note."""


class MessageQuery(TypedDict, total=False):
    after: int
    before: int | None
    limit: int
    parsed: bool
    """With the typed blocks; the default."""
    content: bool
    """With the stored text; the default."""
    kind: str
    role: Role | None
    type: str | None


class EventQuery(TypedDict, total=False):
    after: int
    before: int | None
    at: int | None
    message: int | None
    limit: int
    collapse: bool
    type: str | None
    agent: str | None


class ChangesQuery(TypedDict, total=False):
    turn: int | None
    path: str | None
    diffs: bool


class SearchQuery(TypedDict, total=False):
    place: str
    """`said`, `conversation`, `results` or `everything`."""
    source: Texts
    project: Texts
    """Only sessions in this folder or below, by path or only by name."""
    branch: Texts
    machine: Texts
    person: Texts
    """Only sessions stored with a key of this name."""
    model: Texts
    tool: Texts
    """Only sessions that called this tool."""
    edited: Texts
    """Only sessions that changed this file: its path, the end of its path, or a folder above."""
    tag: Texts
    """Sessions with each tag."""
    starred: bool | None
    archived: str
    """`include` (the default), `only` or `exclude`."""
    errors: bool | None
    """Only sessions with errors, or without."""
    role: Role | None
    session_id: SessionId | None
    since: datetime | None
    until: datetime | None
    per_session: int | None
    after: str | None
    limit: int


class UsageQuery(TypedDict, total=False):
    by: Sequence[Dimension]
    """At most two dimensions; `["day"]` by default."""
    timezone: str
    """The IANA name of the time zone of days, weeks and months; `UTC` by default."""
    since: datetime | None
    until: datetime | None
    project: str | None
    model: str | None
    source: str | None
    machine: str | None
    agent: str | None
    """The program that wrote the sessions."""
    key: UUID | str | None
    session: SessionId | None
    """This session and its subagents."""
    cost: CostMode
    limit: int


def get_health() -> Request[Health]:
    return Request("GET", _HEALTH, _model(Health))


def may_be_other_version(request: Request[Any], error: ApiError) -> bool:
    """True if a server of another version may lack the route, or answer in another form."""
    return error.code in _OTHER_API and request.path != _HEALTH


def check_version(health: Health) -> None:
    """Raises ApiError if the server has another version of the API."""
    if health.api == API_VERSION:
        return
    age, advice = ("older", "update the server") if health.api < API_VERSION else ("newer", "update this one")
    raise ApiError(
        OTHER_VERSION,
        f"the server is {age} than this program: it runs Ash {health.version} with version {health.api} of the API, "
        f"not {API_VERSION}; {advice}",
    )


def list_sessions(**query: Unpack[SessionQuery]) -> Request[SessionPage]:
    check_keywords("list_sessions", query, SessionQuery)
    return Request("GET", "/api/sessions", _model(SessionPage), _camel(query))


def count_sessions(**query: Unpack[CountQuery]) -> Request[SessionCounts]:
    check_keywords("count_sessions", query, CountQuery)
    return Request("GET", "/api/sessions/counts", _model(SessionCounts), _camel(query))


def get_session(session: SessionId) -> Request[Session]:
    return Request("GET", _session(session), _model(Session))


def get_resume(session: SessionId) -> Request[SessionResume]:
    return Request("GET", f"{_session(session)}/resume", _model(SessionResume))


def list_findings(session: SessionId) -> Request[FindingList]:
    return Request("GET", f"{_session(session)}/findings", _model(FindingList))


def get_facts(session: SessionId) -> Request[SessionFacts]:
    return Request("GET", f"{_session(session)}/facts", _model(SessionFacts))


def get_changes(session: SessionId, **query: Unpack[ChangesQuery]) -> Request[SessionChanges]:
    check_keywords("get_changes", query, ChangesQuery)
    return Request("GET", f"{_session(session)}/changes", _model(SessionChanges), query)


def compare_sessions(a: SessionId, b: SessionId) -> Request[SessionComparison]:
    return Request("GET", "/api/compare", _model(SessionComparison), {"a": str(a), "b": str(b)})


def create_session(**fields: Unpack[NewSessionFields]) -> Request[Session]:
    check_keywords("create_session", fields, NewSessionFields)
    body = _json({name: value for name, value in _camel(fields).items() if value is not None})
    is_named = fields.get("external_id") is not None
    return Request("POST", "/api/sessions", _model(Session), body=body, is_repeatable=is_named)


def update_session(session: SessionId, **changes: Unpack[SessionUpdate]) -> Request[Session]:
    check_keywords("update_session", changes, SessionUpdate)
    return Request("PATCH", _session(session), _model(Session), body=_json(changes))


def update_labels(session: SessionId, **changes: Unpack[LabelUpdate]) -> Request[Session]:
    check_keywords("update_labels", changes, LabelUpdate)
    return Request("PATCH", f"{_session(session)}/labels", _model(Session), body=_json(_camel(changes)))


def list_projects(after: str | None, limit: int, *, usage: bool) -> Request[ProjectPage]:
    query = {"after": after, "limit": limit, "usage": usage}
    return Request("GET", "/api/projects", _model(ProjectPage), query)


def list_tags() -> Request[TagList]:
    return Request("GET", "/api/tags", _model(TagList))


def delete_session(session: SessionId, expected_sequence: int | None) -> Request[None]:
    query = {"expectedSequence": expected_sequence}
    return Request("DELETE", _session(session), _nothing, query, is_repeatable=False)


def end_session(session: SessionId) -> Request[None]:
    return Request("POST", f"{_session(session)}/end", _nothing)


def append(
    session: SessionId,
    messages: Iterable[str | bytes | MessageToAppend],
    source: str | None = None,
    written_at: datetime | None = None,
) -> Iterator[Request[list[AppendedMessage]]]:
    """Return requests that each store a batch as a whole. Each message gets an id, so that a retry stores it once."""
    for batch in batched(_with_id(message, source) for message in messages):
        if _length(batch[0]) > MAX_BATCHED_BYTES:
            yield append_text(session, batch[0], written_at)
        else:
            yield append_batch(session, batch, written_at)


def batched(messages: Iterable[MessageToAppend]) -> Iterator[list[MessageToAppend]]:
    """Yield batches that one request can append; a long message is alone in its batch."""
    batch: list[MessageToAppend] = []
    size = 0
    for message in messages:
        length = _length(message)
        is_long = length > MAX_BATCHED_BYTES
        if batch and (is_long or len(batch) == MAX_BATCH or size + length > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        if is_long:
            yield [message]
        else:
            batch.append(message)
            size += length
    if batch:
        yield batch


def _length(message: MessageToAppend) -> int:
    return len(message["content"].encode("utf-8", "surrogatepass"))


def append_batch(
    session: SessionId, batch: Sequence[MessageToAppend], written_at: datetime | None = None
) -> Request[list[AppendedMessage]]:
    """`written_at` is the time for events if their record has none."""
    query = {"writtenAt": written_at}
    return Request("POST", f"{_session(session)}/messages", _appended, query, _messages_json(batch))


def append_text(
    session: SessionId, message: MessageToAppend, written_at: datetime | None = None
) -> Request[list[AppendedMessage]]:
    """Return the request that appends a message of up to 64 MiB."""
    query = {"writtenAt": written_at, **{key: value for key, value in message.items() if key != "content"}}
    path = f"{_session(session)}/messages"
    return Request("POST", path, _appended, query, _utf8(message["content"]), "text/plain")


def commit(
    session: SessionId,
    messages: Iterable[MessageToAppend],
    metadata: Mapping[str, Any] | None,
    expected_sequence: int | None,
) -> Request[list[AppendedMessage]]:
    changes = {} if metadata is None else {"metadata": metadata}
    new = [_with_id(message, None) for message in messages]
    others = _json({"expectedSequence": expected_sequence, **changes})
    body = b'{"messages":' + _messages_json(new) + b"," + others[1:]
    is_repeatable = bool(new) or expected_sequence is None
    return Request(
        "POST",
        f"{_session(session)}/messages",
        _appended,
        body=body,
        is_repeatable=is_repeatable,
        changes_session=True,
    )


def compare_messages(session: SessionId, contents: Mapping[str, bytes]) -> Request[MessageComparison]:
    """Compare texts, by message id, with the stored ones; only their digests are sent."""
    digests = [{"id": id, "sha256": sha256(text).hexdigest()} for id, text in contents.items()]
    path = f"{_session(session)}/messages/compare"
    return Request("POST", path, _model(MessageComparison), body=_json(digests))


def claim_transcript(transcript: Mapping[str, Any]) -> Request[TranscriptClaim]:
    return Request("POST", "/api/transcripts", _model(TranscriptClaim), body=_json(transcript))


def complete_transcript(session: SessionId, completed: Mapping[str, Any]) -> Request[Session]:
    path = f"/api/transcripts/{quote(str(session), safe='')}/complete"
    return Request("POST", path, _model(Session), body=_json(completed))


def list_messages(session: SessionId, **query: Unpack[MessageQuery]) -> Request[MessagePage]:
    check_keywords("list_messages", query, MessageQuery)
    parameters: Mapping[str, Any] = {"parsed": True, **query}
    return Request("GET", f"{_session(session)}/messages", _model(MessagePage), parameters)


def delete_message(session: SessionId, sequence: int) -> Request[None]:
    return Request("DELETE", f"{_session(session)}/messages/{sequence}", _nothing)


def pop_message(session: SessionId) -> Request[Message]:
    return Request("POST", f"{_session(session)}/messages/pop", _model(Message), is_repeatable=False)


def list_events(session: SessionId, **query: Unpack[EventQuery]) -> Request[EventPage]:
    check_keywords("list_events", query, EventQuery)
    return Request("GET", f"{_session(session)}/events", _model(EventPage), query)


def post_events(session: SessionId, events: Sequence[Mapping[str, Any]]) -> Request[None]:
    """Events without an id get one, so that a retry stores them once."""
    body = _json([{"id": str(uuid4()), **event} for event in events])
    return Request("POST", f"{_session(session)}/events", _nothing, body=body)


def search(q: str, **query: Unpack[SearchQuery]) -> Request[SearchPage]:
    check_keywords("search", query, SearchQuery)
    parameters = {"in" if name == "place" else name: value for name, value in _camel(query).items()}
    return Request("GET", "/api/search", _model(SearchPage), {"q": q, **parameters})


def get_usage(**query: Unpack[UsageQuery]) -> Request[UsageReport]:
    check_keywords("get_usage", query, UsageQuery)
    by = {"by": ",".join(query["by"])} if "by" in query else {}
    return Request("GET", "/api/usage", _model(UsageReport), {**query, **by})


def list_budgets() -> Request[BudgetPage]:
    return Request("GET", "/api/budgets", _model(BudgetPage))


def follow(session: SessionId, after: int, *, collapse: bool) -> Request[None]:
    return Request(
        "GET", f"{_session(session)}/events/stream", _nothing, {"after": after, "collapse": collapse}
    )


def export(session: SessionId, format: str) -> Request[None]:
    return Request("GET", f"{_session(session)}/export", _nothing, {"format": format})


M = TypeVar("M", bound=BaseModel)


def _model(model: type[M]) -> Callable[[bytes], M]:
    return model.model_validate_json


def _nothing(_: bytes) -> None:
    return None


def _appended(body: bytes) -> list[AppendedMessage]:
    return AppendedMessages.model_validate_json(body).messages


def _session(session: SessionId) -> str:
    return f"/api/sessions/{quote(str(session), safe='')}"


def _with_id(message: str | bytes | MessageToAppend, source: str | None) -> MessageToAppend:
    if isinstance(message, bytes):
        message = message.decode()
    new: MessageToAppend = {"content": message} if isinstance(message, str) else {**message}
    if source is not None:
        new.setdefault("source", source)
    if "id" not in new and describe_message(new["content"], new.get("source")).header.uuid is None:
        new["id"] = str(uuid4())
    return new


def _camel(query: Mapping[str, Any]) -> dict[str, Any]:
    return {_camel_case(name): value for name, value in query.items()}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _parameters(value: Any) -> str | list[str]:
    is_single = isinstance(value, str) or not isinstance(value, Sequence)
    return _parameter(value) if is_single else [_parameter(each) for each in value]


def _parameter(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value)


def _messages_json(messages: Sequence[MessageToAppend]) -> bytes:
    """Return the same as `_json`, but faster: all fields of messages are texts."""
    try:
        return _encode_messages(messages)
    except UnicodeEncodeError:
        return _json(messages)


_encode_messages = msgspec.json.Encoder(enc_hook=str).encode


def _json(value: Any) -> bytes:
    return _utf8(json.dumps(value, ensure_ascii=False, default=str))


def _utf8(text: str) -> bytes:
    """Encode a text. Undecodable bytes of a command line become invalid UTF-8, which the server rejects."""
    return text.encode(errors="surrogateescape")
