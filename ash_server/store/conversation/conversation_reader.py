"""Sessions as standard messages, projections and summaries."""

from uuid import UUID

from ash_server.store.borrowed import Resource, read, read_pages
from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.projection_inputs import read_events, read_summary
from ash_server.store.conversation.session_changes import read_changes
from ash_server.store.conversation.session_comparison import read_comparison
from ash_server.store.conversation.standard_pages import get_conversation, get_event_pages, get_pages
from ash_server.store.conversation.standing_events import stream_standing
from ash_server.store.conversation.streamed_attributes import stream_otel_genai
from ash_server.store.conversation.streamed_traces import stream_otlp
from ash_server.store.conversation.streamed_trajectories import stream_atif
from ash_server.store.log.totals import count_items, list_behind
from ash_shared.projections import SessionSummary
from ash_shared.projections.item_counts import ItemCounts


class ConversationReader(Resource):
    """Reads the conversation of a session in forms that are the same for every provider."""

    get_page = read_pages(get_conversation)
    stream_pages = read_pages(get_pages)
    stream_event_pages = read_pages(get_event_pages)
    read_events = read_pages(read_events)
    stream_standing = read_pages(stream_standing)
    stream_atif = read_pages(stream_atif)
    stream_otel_genai = read_pages(stream_otel_genai)
    stream_otlp = read_pages(stream_otlp)
    read_changes = read_pages(read_changes)
    compare = read_pages(read_comparison)
    list_behind = read(list_behind)

    async def count_items(self, session_id: UUID) -> ItemCounts:
        """Return the number of items that each filter of the viewer hides. Raises SessionNotFound."""
        return await count_items(self._connections.connection, self._save, session_id)

    async def read_summary(
        self, session_id: UUID, *, is_bounded: bool = False, is_priced: bool = True
    ) -> SessionSummary:
        """Return the summary of a session. Raises SessionNotFound.

        `is_bounded`: count only answers with known usage if more than 2,000 messages have not been counted yet. Without
        `is_priced`, there are no costs at API prices.
        """
        connect, save = self._connections.connection, self._save
        return await read_summary(connect, session_id, save, is_bounded=is_bounded, is_priced=is_priced)

    @property
    def _save(self) -> Connect | None:
        return None if self._connections.is_replica else self._connections.changes
