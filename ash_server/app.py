"""The server: the one place where its parts are put together."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.plugins.pydantic import PydanticPlugin

from ash_server.api.docs import DocumentController
from ash_server.api.drift import DriftController
from ash_server.api.event_stream import Frame, Refusals, StreamController
from ash_server.api.events import Ended, EventController, EventPage, NewEvent, PostedEvents
from ash_server.api.export import ExportController
from ash_server.api.health import Health, HealthController
from ash_server.api.http.connections import provide_pool, provide_store
from ash_server.api.http.headers import add_headers
from ash_server.api.http.openapi import DocumentConfig, ModelNames
from ash_server.api.http.origin_guard import admission
from ash_server.api.http.problems import HANDLERS, Problem
from ash_server.api.http.query_guard import check_address
from ash_server.api.http.write_connections import SessionWriters, provide_writers
from ash_server.api.messages import AppendedMessages, MessageController, MessagePage
from ash_server.api.parse import ParseController, ParseRequest
from ash_server.api.projections import ProjectedMessages, ProjectionController
from ash_server.api.search import SearchController
from ash_server.api.sessions import NewSession, SessionController, SessionPatch
from ash_server.api.sessions_stream import WatchController
from ash_server.api.standard_messages import StandardMessageController, StandardMessagePage
from ash_server.api.viewer_pages import AssetController, PageController
from ash_server.db.drift import DriftReport
from ash_server.db.search.query import SearchPage, SearchResult
from ash_server.db.sessions import Session, SessionPage
from ash_server.ingest import NewMessage
from ash_server.live.search_indexer import Indexer
from ash_server.live.session_feed import Board
from ash_server.settings import Settings
from ash_server.store import Store
from ash_shared.conversation.cli_result import ExecutionResponse
from ash_shared.model.message import Message, Reading
from ash_shared.projections import SessionSummary

_ROUTES = (
    SessionController,
    WatchController,
    MessageController,
    StandardMessageController,
    EventController,
    StreamController,
    ProjectionController,
    ExportController,
    SearchController,
    DriftController,
    ParseController,
    HealthController,
    DocumentController,
    PageController,
    AssetController,
)

_MODELS = (
    AppendedMessages,
    DriftReport,
    Ended,
    EventPage,
    ExecutionResponse,
    Frame,
    Health,
    Message,
    MessagePage,
    NewEvent,
    NewMessage,
    NewSession,
    ParseRequest,
    PostedEvents,
    Problem,
    ProjectedMessages,
    Reading,
    SearchPage,
    SearchResult,
    Session,
    SessionPage,
    SessionPatch,
    SessionSummary,
    StandardMessagePage,
)

Beside = Callable[[Litestar], AbstractAsyncContextManager[None]]
"""What runs beside the server, from when its database is open until it ends."""


def create_app(settings: Settings, *, database_url: str, beside: Beside | None = None) -> Litestar:
    """It begins to serve whether the database answers or not, and is ready (`/health/ready`) once it does."""
    app = Litestar(
        route_handlers=_ROUTES,
        guards=[admission(settings), check_address],
        dependencies={
            "store": Provide(provide_store, sync_to_thread=False),
            "pool": Provide(provide_pool, sync_to_thread=False),
            "writers": Provide(provide_writers, sync_to_thread=False),
        },
        exception_handlers=HANDLERS,
        before_send=[add_headers],
        lifespan=[lambda app: _database(app, database_url), *([beside] if beside else ())],
        state=State({"settings": settings}),
        openapi_config=DocumentConfig(_MODELS),
        plugins=[ModelNames(), PydanticPlugin(prefer_alias=True)],
        request_max_body_size=settings.max_body_bytes,
        logging_config=None,
        debug=False,
    )
    app.asgi_handler = Refusals()(app.asgi_handler)
    return app


def openapi_json() -> str:
    """The document as it is kept in the repository. It needs no database."""
    document = create_app(Settings(), database_url="postgresql://").openapi_schema.to_schema()
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _database(app: Litestar, url: str) -> AbstractAsyncContextManager[None]:
    @asynccontextmanager
    async def opened() -> AsyncGenerator[None, None]:
        async with (
            Store.connect(url) as store,
            Indexer(store.hub, store.connections.pool) as indexer,
            Board(store.hub) as board,
        ):
            pool = store.connections.pool
            lent = {
                "pool": pool,
                "export_pool": store.connections.stream_pool,
                "writers": SessionWriters(pool),
            }
            app.state.update({**lent, "store": store, "hub": store.hub, "indexer": indexer, "board": board})
            yield

    return opened()
