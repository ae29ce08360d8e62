"""The log of the server, on standard error: a line of text or of JSON for each entry."""

import logging
import os
import re
import sys
import traceback
from multiprocessing import parent_process
from typing import Any

import structlog
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name
from structlog.types import EventDict, Processor

from ash_server.api.http.requests import request_id
from ash_server.settings import Settings


def configure_logging(settings: Settings) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(settings.log_format == "json"))
    logging.basicConfig(handlers=[handler], level=settings.log_level.upper(), force=True)
    level = max(logging.getLogger().level, logging.INFO)
    logging.getLogger("uvicorn").setLevel(level)  # below, it logs the headers and frames of WebSockets


def _formatter(is_json: bool) -> logging.Formatter:
    common: list[Processor] = [
        add_log_level,
        add_logger_name,
        ExtraAdder(),
        _add_process,
        _add_request_id,
        _format_exception,
        _shorten_context,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if is_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    return ProcessorFormatter(
        foreign_pre_chain=common, processors=[ProcessorFormatter.remove_processors_meta, renderer]
    )


def is_worker() -> bool:
    """True in one of several processes of a server."""
    return parent_process() is not None


def _add_process(_logger: Any, _method: str, entry: EventDict) -> EventDict:
    if is_worker():
        entry["pid"] = os.getpid()
    return entry


def _add_request_id(_logger: Any, _method: str, entry: EventDict) -> EventDict:
    if (id := request_id.get()) is not None:
        entry["request_id"] = id
    return entry


def _format_exception(_logger: Any, _method: str, entry: EventDict) -> EventDict:
    """Replace an exception by its type and its stack. Its message may contain row values from PostgreSQL."""
    if exc_info := entry.pop("exc_info", None):
        kind, _, stack = exc_info
        entry["exception"] = f"{kind.__name__}\n{''.join(traceback.format_tb(stack))}"
    return entry


def _shorten_context(_logger: Any, _method: str, entry: EventDict) -> EventDict:
    """Keep the beginning of an entry of asyncio. Its arguments and next lines show values."""
    if entry.get("logger") == "asyncio":
        entry["event"] = re.split(r"[\n(]", entry["event"], maxsplit=1)[0]
    return entry
