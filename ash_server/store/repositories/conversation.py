"""Sessions as standard messages, projections and summaries."""

from collections.abc import AsyncGenerator
from uuid import UUID

from ash_server.store.borrowed import Connections
from ash_server.store.conversation import item_counts, projection_inputs, standard_pages
from ash_server.store.conversation.item_counts import ItemCounts
from ash_server.store.conversation.standard_pages import Conversation
from ash_server.store.log.events import StoredEvent
from ash_shared.eventlog import Event
from ash_shared.model.message import StandardMessage
from ash_shared.projections import OtelAttributes, SessionSummary


class ConversationReader:
    """Reads the conversation of a session in forms that are the same for every provider."""

    def __init__(self, connections: Connections) -> None:
        self._connect = connections.connection

    async def get_page(self, session_id: UUID, *, after: int = 0, limit: int = 1000) -> Conversation:
        """Return a page of standard messages: as many whole turns as fit into `limit` stored messages, at least one.

        `next_after` is the cursor of the next page; an empty page may have one, too. Raises SessionNotFound.
        """
        return await standard_pages.get_conversation(self._connect, session_id, after=after, limit=limit)

    def stream_pages(self, session_id: UUID) -> AsyncGenerator[list[StandardMessage], None]:
        """Yield all standard messages in pages, holding no connection between them. Raises SessionNotFound.

        A session without stored messages yields the messages of its posted events.
        """
        return standard_pages.get_pages(self._connect, session_id)

    def stream_event_pages(
        self, session_id: UUID, *, limit: int, max_bytes: int
    ) -> AsyncGenerator[list[StoredEvent], None]:
        """Yield all events without completed chunks, in pages, holding no connection between them."""
        return standard_pages.get_event_pages(self._connect, session_id, limit=limit, max_bytes=max_bytes)

    async def read_events(
        self, session_id: UUID, *, whole: bool = False, redacts: bool = False
    ) -> list[Event]:
        """Return the events that projections to requests and prompts need; `whole`: those that all projections need.

        `redacts`: without secrets. Raises SessionNotFound, SessionTooLarge.
        """
        read = projection_inputs.read_whole_events if whole else projection_inputs.read_conversation
        return await read(self._connect, session_id, redacts=redacts)

    async def read_summary(self, session_id: UUID) -> SessionSummary:
        """Raises SessionNotFound, SessionTooLarge."""
        return await projection_inputs.read_summary(self._connect, session_id)

    async def read_otel_genai(self, session_id: UUID) -> OtelAttributes:
        """Return the attributes of `to_otel_genai`. Raises SessionNotFound, SessionTooLarge."""
        return await projection_inputs.read_otel_genai(self._connect, session_id)

    async def count_items(self, session_id: UUID) -> ItemCounts:
        """Return the number of items that each filter of the viewer hides. Raises SessionNotFound."""
        return await item_counts.count_items(self._connect, session_id)
