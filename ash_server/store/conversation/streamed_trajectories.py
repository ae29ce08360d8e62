"""The trajectory of a session and its subagents, encoded while they are read for the second time.

The first reading finds what the document contains before the steps: the agents, the calls that started subagents, and
whether there are recordings; and also the steps with late results.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, nullcontext, suppress
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from ash_server.errors import SessionChanged, SessionNotFound, SessionTooLarge
from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.projection_inputs import MAX_BYTES, read_requests
from ash_server.store.conversation.redacted_rows import json_encoder, redact_standard_messages
from ash_server.store.conversation.repeated_pages import MAX_KEPT_BYTES, RepeatedPages
from ash_server.store.conversation.standard_pages import get_pages, size_of
from ash_server.store.session_rows import TreeSession, get_session, get_tree
from ash_shared.model.message import StandardMessage
from ash_shared.projections.atif import AtifDocument, SessionSurvey, TrajectoryFold, is_standing

MAX_SUBAGENTS = 10_000
"""Subagents with messages in the transcript of the main agent."""
MAX_OWN_MESSAGES = 500_000
"""Messages after those that a session has copied from another one."""

_Encode: TypeAlias = Callable[[Any], bytes]


async def stream_atif(
    connect: Connect, session_id: UUID, *, redacts: bool = False
) -> AsyncGenerator[bytes, None]:
    """Yield the JSON of `to_atif` in parts, with the trajectories of the stored sessions of subagents.

    `redacts`: without secrets. Raises SessionNotFound, SessionChanged, and before the first part SessionTooLarge for
    very many subagents, or own messages of a copy.
    """
    encode = json_encoder(redacts=redacts)
    sessions = await _read_sessions(connect, session_id, redacts=redacts)
    main = sessions.pop(str(session_id))
    document = AtifDocument(
        main.survey,
        {name: session.survey for name, session in sessions.items()},
        session_id=str(session_id),
        records=await read_requests(connect, session_id, redacts=redacts),
    )
    agents = [agent for agent in document.agents if agent not in sessions]
    own = _SessionWriter(main, document, encode, agents=agents)
    async with aclosing(own.write(None)) as parts:
        async for part in parts:
            yield part
    separator = b', "subagent_trajectories": ['
    for agent in document.agents:
        yield separator
        stored = sessions.get(agent)
        writer = own if stored is None else _SessionWriter(stored, document, encode, name=agent)
        async with aclosing(writer.write(agent)) as parts:
            async for part in parts:
                yield part
        yield b"}"
        separator = b", "
    yield (b"]" if document.agents else b"") + own.late_metrics + b"}"


async def _read_sessions(connect: Connect, session_id: UUID, *, redacts: bool) -> "dict[str, _Session]":
    """Read the session and the stored sessions of its subagents for the first time; return them by trajectory."""
    async with connect() as conn:
        await get_session(conn, session_id)
        tree = await get_tree(conn, session_id)
    sessions: dict[str, _Session] = {}
    kept = 0
    for each in sorted(tree, key=lambda each: each.id != session_id):
        is_main = each.id == session_id
        has_other_name = is_main or each.agent_id is None or each.agent_id in sessions
        session = _Session(connect, each, redacts=redacts, is_main=is_main, keeps=kept <= MAX_KEPT_BYTES)
        with nullcontext() if is_main else suppress(SessionNotFound):  # deleted meanwhile
            await session.read_first()
            sessions[str(each.id if has_other_name else each.agent_id)] = session
            kept += session.total_size if session.total_size <= MAX_KEPT_BYTES else 0
    return sessions


class _NumberedMessage(NamedTuple):
    number: int
    message: StandardMessage
    is_copy: bool
    """True if it was copied from another stored session."""


class _Session:
    """A session that is read more than once."""

    def __init__(
        self, connect: Connect, session: TreeSession, *, redacts: bool, is_main: bool, keeps: bool
    ) -> None:
        self.survey = SessionSurvey(is_subagent=not is_main)
        self.total_size = 0
        self._connect, self._session, self._redacts = connect, session, redacts
        self._pages = RepeatedPages(connect, session.id, redacts=redacts, keeps=keeps)
        self._own_ids: set[bytes] | None = None
        """Digests of the ids of the messages that were not copied; None if none was."""
        self._digest = _Digest()

    async def read_first(self) -> None:
        """Raises SessionNotFound, SessionTooLarge."""
        if self._session.copied_messages:
            self._own_ids = await self._read_own_ids(self._session.copied_messages)
        await self._pages.read_first(self)
        if (repeated := self.survey.repeated()) is not None:
            self.survey = repeated
            async with aclosing(self.read_again()) as parts:
                async for messages in parts:
                    await asyncio.to_thread(self._survey, messages)

    def add(self, message: StandardMessage, size: int = 0) -> None:
        """Add a message of the first reading. Raises SessionTooLarge."""
        self._digest.add(message)
        self.total_size += size
        self.survey.add(message, size, is_copy=self._is_copy(message))
        if self.survey.subagents > MAX_SUBAGENTS:
            raise SessionTooLarge

    def size(self) -> int:
        """Return 0: the survey keeps no texts of messages."""
        return 0

    async def read_again(self) -> AsyncGenerator[list[_NumberedMessage], None]:
        """Yield the messages of the first reading. Raises SessionChanged if they have changed meanwhile."""
        digest = _Digest()
        try:
            async with aclosing(self._pages.read_again()) as pages:
                async for messages in pages:
                    yield [
                        _NumberedMessage(digest.add(message), message, self._is_copy(message))
                        for message in messages
                    ]
        except SessionNotFound as error:
            raise SessionChanged from error
        if digest != self._digest:
            raise SessionChanged

    def _survey(self, messages: Iterable[_NumberedMessage]) -> None:
        for each in messages:
            self.survey.add(each.message, size_of(each.message), is_copy=each.is_copy)

    def _is_copy(self, message: StandardMessage) -> bool:
        return self._own_ids is not None and _digest_of(message) not in self._own_ids

    async def _read_own_ids(self, copied: int) -> set[bytes]:
        own = set[bytes]()
        async with aclosing(get_pages(self._connect, self._session.id, after=copied)) as pages:
            async for page in pages:
                shown = await asyncio.to_thread(redact_standard_messages, page) if self._redacts else page
                own.update(map(_digest_of, shown))
                if len(own) > MAX_OWN_MESSAGES:
                    raise SessionTooLarge
        return own


class _Digest:
    """A digest of the messages of a reading: deletions and retractions between two readings change it."""

    def __init__(self) -> None:
        self._count = 0
        self._hash = blake2b(digest_size=16)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Digest) and self._hash.digest() == other._hash.digest()

    def add(self, message: StandardMessage) -> int:
        """Add a message and return its number."""
        self._count += 1
        self._hash.update(_digest_of(message) + bytes([is_standing(message)]))
        return self._count


def _digest_of(message: StandardMessage) -> bytes:
    return blake2b(message.id.encode("utf-8", "surrogatepass"), digest_size=8).digest()


class _SessionWriter:
    """Writes the trajectories of a session, each without its last brace.

    `name`: the name of its own trajectory, None for the main agent. `agents`: the subagents in the session, in the
    order of their trajectories; while one is written, up to `MAX_BYTES` of the next ones are kept.
    """

    def __init__(
        self,
        session: _Session,
        document: AtifDocument,
        encode: _Encode,
        *,
        name: str | None = None,
        agents: Sequence[str] = (),
    ) -> None:
        self._session, self._document, self._encode = session, document, encode
        self._name, self._agents = name, deque(agents)
        self._kept: dict[str | None, bytearray] = {}
        self.late_metrics = b""
        """The metrics of the main agent, written after all trajectories if only its subagents have costs."""

    async def write(self, agent: str | None) -> AsyncGenerator[bytes, None]:
        """Yield a trajectory in parts. Raises SessionChanged."""
        if agent in self._kept:
            yield bytes(self._kept.pop(agent))
            return
        batch = await asyncio.to_thread(self._batch, [agent, *self._next_agents(agent)])
        async with aclosing(self._session.read_again()) as parts:
            async for messages in parts:
                if text := await asyncio.to_thread(batch.add, messages):
                    yield text
        yield await asyncio.to_thread(batch.end)
        self._kept |= batch.kept
        if agent is None:
            self.late_metrics = batch.first.late_metrics()

    def _next_agents(self, agent: str | None) -> list[str]:
        """Return the next agents to keep, and remove them and `agent` from those to read."""
        if agent is not None and self._agents:
            self._agents.popleft()
        size, taken = 0, list[str]()
        while self._agents and (size := size + self._document.agents[self._agents[0]].size) <= MAX_BYTES:
            taken.append(self._agents.popleft())
        return taken

    def _batch(self, agents: Iterable[str | None]) -> "_Batch":
        session, document = self._session, self._document
        writers = {each: _TrajectoryWriter(document, each, session, self._encode) for each in agents}

        def name_of(message: StandardMessage) -> str | None:
            agent = session.survey.agent_of(message)
            return self._name if agent is None else agent

        return _Batch(writers, name_of)


class _Batch:
    """The trajectories that are written in one reading of a session; all but the first are kept."""

    def __init__(
        self,
        writers: "dict[str | None, _TrajectoryWriter]",
        name_of: Callable[[StandardMessage], str | None],
    ) -> None:
        self.first, *_ = writers.values()
        self.kept = {name: bytearray() for name, writer in writers.items() if writer is not self.first}
        self._writers, self._name_of = writers, name_of

    def add(self, messages: Iterable[_NumberedMessage]) -> bytes:
        """Add messages; return the next part of the first trajectory."""
        for each in messages:
            writer = self._writers.get(self._name_of(each.message))
            if writer is not None:
                writer.add(each)
        for name, text in self.kept.items():
            text += self._writers[name].take()
        return self.first.take()

    def end(self) -> bytes:
        for name, text in self.kept.items():
            text += self._writers[name].end()
        return self.first.end()


class _TrajectoryWriter:
    """Writes a trajectory without its last brace."""

    def __init__(self, document: AtifDocument, agent: str | None, session: _Session, encode: _Encode) -> None:
        self._document, self._agent, self._encode = document, agent, encode
        self._fold = TrajectoryFold(last_results=session.survey.last_results, max_size=MAX_BYTES)
        self._separator = encode(document.start(agent)).removesuffix(b"}") + b', "steps": ['

    def add(self, each: _NumberedMessage) -> None:
        self._fold.add(each.message, each.number, size_of(each.message), is_copy=each.is_copy)

    def take(self) -> bytes:
        return self._written(self._fold.take())

    def end(self) -> bytes:
        text = self._written(self._fold.end()) + b"]"
        metrics = self._fold.totals.metrics(self._fold.steps)
        if metrics is not None and self._agent is None:
            metrics = self._document.total_metrics(metrics, self._fold.steps)
        return text + self._final_metrics(metrics)

    def late_metrics(self) -> bytes:
        if self._fold.totals.metrics(self._fold.steps) is not None:
            return b""
        return self._final_metrics(self._document.total_metrics(None, self._fold.steps))

    def _final_metrics(self, metrics: Any) -> bytes:
        return b"" if metrics is None else b', "final_metrics": ' + self._encode(metrics)

    def _written(self, steps: list[Any]) -> bytes:
        if not steps:
            return b""
        text = self._separator + b", ".join(map(self._encode, self._document.linked(steps)))
        self._separator = b", "
        return text
