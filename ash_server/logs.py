"""The server log on standard error, one line of text or JSON per entry.

No entry contains an id, a key, a search word or a text, at any level. Libraries log their arguments, so their entries
below the level of warnings are dropped, and only the fixed part of the others is shown.
"""

import logging
import os
import re
import sys
import traceback
from contextvars import ContextVar
from multiprocessing import parent_process
from typing import Any

import structlog
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name
from structlog.types import EventDict, Processor

from ash_server.settings import Settings

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the current request, from its header or else a new one."""


def configure_logging(settings: Settings) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(settings.log_format == "json"))
    handler.addFilter(_is_shown)
    logging.basicConfig(handlers=[handler], level=settings.log_level.upper(), force=True)


_OWN = ("ash_server", "ash_shared", "ash_client")
_WITH_FIXED_MESSAGES = ("uvicorn", "psycopg")
"""Libraries that pass all variable parts as logging arguments."""
_LEFT_OUT = "a message of this library, hidden because it may contain ids or texts"


def _library(record: logging.LogRecord) -> str:
    return record.name.partition(".")[0]


def _is_shown(record: logging.LogRecord) -> bool:
    library = _library(record)
    return library in _OWN or record.levelno >= logging.WARNING or _is_lifecycle(record)


def _is_lifecycle(record: logging.LogRecord) -> bool:
    """True for starts and stops of the server; uvicorn also logs the address of each WebSocket."""
    is_info = record.name == "uvicorn.error" and record.levelno == logging.INFO
    return is_info and "WebSocket" not in str(record.msg) and "connection" not in str(record.msg)


def _formatter(is_json: bool) -> logging.Formatter:
    common: list[Processor] = [
        add_log_level,
        add_logger_name,
        ExtraAdder(),
        _add_process,
        _add_request_id,
        _format_exception,
        _hide_arguments,
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


def _hide_arguments(_logger: Any, _method: str, entry: EventDict) -> EventDict:
    """Keep only the fixed part of library entries."""
    record: logging.LogRecord = entry["_record"]
    library = _library(record)
    if library == "asyncio":  # call arguments and further lines contain values
        entry["event"] = re.split(r"[\n(]", str(record.msg), maxsplit=1)[0]
    elif library in _WITH_FIXED_MESSAGES and not _is_lifecycle(record):
        entry["event"] = str(record.msg)
    elif library not in _OWN and not _is_lifecycle(record):
        entry["event"] = _LEFT_OUT
    return entry
