"""Assembles the server application."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import NotFoundException
from litestar.handlers import BaseRouteHandler
from litestar.plugins.pydantic import PydanticPlugin

from ash_server.api.audit import AuditController
from ash_server.api.drift import DriftController
from ash_server.api.health import HealthController
from ash_server.api.http.bodies import check_no_body
from ash_server.api.http.dependencies import provide_reader, provide_store
from ash_server.api.http.guards.access import check_key
from ash_server.api.http.guards.origin_guard import AnyConnection, AsyncGuard, cors_config, origin_guard
from ash_server.api.http.guards.query_guard import check_path_and_query
from ash_server.api.http.guards.rate_limit import RateLimit
from ash_server.api.http.headers import add_default_headers
from ash_server.api.http.openapi.document import ModelReferences, OpenApiDocumentConfig
from ash_server.api.http.problems import HANDLERS
from ash_server.api.http.redaction import Redaction
from ash_server.api.http.requests import Requests
from ash_server.api.http.session_filters import provide_filters
from ash_server.api.http.tracing import Tracing
from ash_server.api.http.websocket_errors import WebSocketErrors
from ash_server.api.mcp import McpController
from ash_server.api.metrics import GaugeSetter, MetricsController
from ash_server.api.own_key import OwnKeyController
from ash_server.api.pages.docs_pages import DocsController
from ash_server.api.pages.login import CODE_RATE, CodeController, LoginController, SignInCodeController
from ash_server.api.pages.shared_pages import SHARE_RATE, SharedPageController
from ash_server.api.pages.viewer_pages import AssetController, PageController, handle_unknown_path
from ash_server.api.parse import ParseController
from ash_server.api.policies.budgets import BudgetController
from ash_server.api.policies.cold import ColdController
from ash_server.api.policies.retention import RetentionController
from ash_server.api.projects import ProjectController
from ash_server.api.search import SearchController
from ash_server.api.sessions.answers import AnswerController
from ash_server.api.sessions.chunks import ChunkController
from ash_server.api.sessions.end import EndController
from ash_server.api.sessions.events import EventController
from ash_server.api.sessions.export import ExportController
from ash_server.api.sessions.item_counts import ItemCountController
from ash_server.api.sessions.labels import LabelController, TagController
from ash_server.api.sessions.messages import MessageController
from ash_server.api.sessions.projections import ProjectionController
from ash_server.api.sessions.reports.changes import ChangesController
from ash_server.api.sessions.reports.comparison import ComparisonController
from ash_server.api.sessions.reports.facts import FactsController
from ash_server.api.sessions.session_search import SessionSearchController
from ash_server.api.sessions.sessions import SessionController
from ash_server.api.sessions.standard_messages import StandardMessageController
from ash_server.api.shares import FindingController, ShareController
from ash_server.api.streams.ag_ui_stream import AgUiStreamController
from ash_server.api.streams.events_stream import EventStreamController
from ash_server.api.streams.events_websocket import EventWebSocketController
from ash_server.api.streams.sessions_stream import SessionStreamController
from ash_server.api.streams.ui_stream import UiStreamController
from ash_server.api.telemetry.receiver import TelemetryController
from ash_server.api.transcripts import TranscriptController
from ash_server.api.usage import UsageController
from ash_server.api.usage_status import UsageStatusController
from ash_server.budgets.checker import BudgetChecker
from ash_server.keys.ring import KeyRing
from ash_server.live.heartbeat import Heartbeat
from ash_server.live.replica import open_replica
from ash_server.live.search_indexer import SearchIndexer
from ash_server.live.session_feed import SessionFeeds
from ash_server.live.session_upkeep import SessionUpkeep
from ash_server.live.transcript_check import TranscriptCheck
from ash_server.prices import PriceFiles
from ash_server.retention.cold_runner import ColdRunner
from ash_server.retention.runner import RetentionRunner
from ash_server.settings import READ_TIMEOUT, Settings
from ash_server.store import Store
from ash_server.store.connections.pool import PooledUrl, StatementOptions
from ash_shared.conversation.cli_result import ExecutionResponse

_CONTROLLERS = (
    SessionController,
    LabelController,
    ShareController,
    FindingController,
    TagController,
    ProjectController,
    SessionStreamController,
    MessageController,
    StandardMessageController,
    TranscriptController,
    EventController,
    EventStreamController,
    EventWebSocketController,
    UiStreamController,
    AgUiStreamController,
    ChunkController,
    EndController,
    ProjectionController,
    ChangesController,
    FactsController,
    ComparisonController,
    ItemCountController,
    ExportController,
    SearchController,
    SessionSearchController,
    DriftController,
    UsageController,
    AnswerController,
    ParseController,
    AuditController,
    OwnKeyController,
    BudgetController,
    ColdController,
    RetentionController,
    UsageStatusController,
    SignInCodeController,
    CodeController,
    LoginController,
    SharedPageController,
    McpController,
    TelemetryController,
    HealthController,
    MetricsController,
    DocsController,
    PageController,
    AssetController,
)

Background = Callable[[Litestar], AbstractAsyncContextManager[None]]
"""Context that is entered when the server has opened its database, and left when it stops."""


def create_app(
    settings: Settings,
    *,
    database_url: str,
    background: Background | None = None,
    tracing: Tracing | None = None,
    checks_home: bool = False,
) -> Litestar:
    """Return the application. It starts without a database, and is ready (`/health/ready`) once the database is.

    `checks_home` looks for transcripts of this user that are not stored.
    """
    references = ModelReferences()
    rate_limit = None if settings.rate_limit is None else RateLimit(settings.rate_limit)
    app = Litestar(
        route_handlers=_CONTROLLERS,
        guards=[_in_order(origin_guard(settings), check_key, check_path_and_query, check_no_body)],
        dependencies={
            "store": Provide(provide_store, sync_to_thread=False),
            "reader": Provide(provide_reader, sync_to_thread=False),
            "filters": Provide(provide_filters, sync_to_thread=False),
        },
        exception_handlers={**HANDLERS, NotFoundException: handle_unknown_path},
        before_send=[add_default_headers],
        lifespan=[
            lambda app: _open_store(app, settings, database_url, checks_home=checks_home),
            *([background] if background else ()),
        ],
        state=State(
            {
                "settings": settings,
                "rate_limit": rate_limit,
                "code_limit": RateLimit(CODE_RATE, sender="An address"),
                "share_limit": RateLimit(SHARE_RATE, sender="A link or an address"),
                "prices": PriceFiles(settings),
            }
        ),
        cors_config=cors_config(settings),
        openapi_config=OpenApiDocumentConfig(_CONTROLLERS, references, ExecutionResponse),
        plugins=[references, PydanticPlugin(prefer_alias=True)],
        request_max_body_size=settings.max_body_bytes,
        logging_config=None,
        debug=False,
    )
    app.asgi_handler = Requests(tracing)(Redaction()(WebSocketErrors()(app.asgi_handler)))
    return app


def openapi_json() -> str:
    """Return the OpenAPI document as stored in the repository. Needs no database."""
    document = create_app(Settings(), database_url="postgresql://").openapi_schema.to_schema()
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _in_order(*guards: AsyncGuard) -> AsyncGuard:
    """Return guards as one, because the framework copies the route handler for each."""

    async def check(connection: AnyConnection, handler: BaseRouteHandler) -> None:
        for guard in guards:
            await guard(connection, handler)

    return check


def _open_store(
    app: Litestar, settings: Settings, url: str, *, checks_home: bool
) -> AbstractAsyncContextManager[None]:
    statements = StatementOptions(
        settings.statement_timeout,
        settings.prepare_threshold,
        settings.statement_timeout or READ_TIMEOUT,
    )
    read_url = settings.read_url
    if read_url and isinstance(url, PooledUrl):  # it may be the same pooler; a replica sends no notifications
        read_url = PooledUrl(read_url, read_url)
    connect = partial(Store.connect, pool_size=settings.pool_size, statements=statements)

    @asynccontextmanager
    async def open_store() -> AsyncGenerator[None, None]:
        async with (
            connect(url) as store,
            connect(read_url, is_replica=True) if read_url else nullcontext() as read_store,
            Heartbeat(store, reads_state=read_url is not None) as heartbeat,
            open_replica(read_store, heartbeat) as replica,
            SearchIndexer(store),
            SessionUpkeep(store, app.state.prices),
            BudgetChecker(store, settings),
            RetentionRunner(store),
            ColdRunner(store),
            SessionFeeds() as session_feeds,
            GaugeSetter(store, session_feeds),
            TranscriptCheck(store) if checks_home else nullcontext() as transcript_check,
        ):
            app.state.replica = replica
            key_ring = KeyRing(store.keys, settings)
            app.state.update({"store": store, "session_feeds": session_feeds, "key_ring": key_ring})
            app.state.transcript_check = transcript_check
            yield

    return open_store()
