"""Usage and cost of all sessions."""

from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any, TypeVar
from uuid import UUID

from litestar import Controller, Request, Response, get
from litestar.datastructures import State
from litestar.openapi import ResponseSpec
from litestar.params import QueryParameter

from ash_server.api.http.bodies import JSON
from ash_server.api.http.caching import cache_headers, has_current, not_modified
from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.openapi.operations import documents, text
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.api.http.redaction import compared, is_redacted
from ash_server.errors import InvalidReport, NulByte
from ash_server.prices.errors import PricesError
from ash_server.redaction import redact_name
from ash_server.store.session_facts import MAX_PROJECT
from ash_server.store.text import ONE_LINE
from ash_server.store.usage.answers import MAX_NAME
from ash_shared.model.usage.report import (
    DIMENSIONS,
    MAX_DIMENSIONS,
    CostMode,
    UsageCounts,
    UsageReport,
    UsageRow,
)
from ash_shared.projections.usage_csv import to_csv
from ash_shared.projections.usage_report import MAX_ROWS

CSV = "text/csv"

T = TypeVar("T", bound=UsageCounts)

_NAME = {"min_length": 1, "max_length": 1000, "pattern": ONE_LINE}

UsageBy = Annotated[
    str,
    QueryParameter(
        max_length=100,
        pattern="^([a-z]+(,[a-z]+)*)?$",
        description=f"At most {MAX_DIMENSIONS} dimensions, separated by commas; empty for totals only: "
        f"{', '.join(DIMENSIONS)}.",
    ),
]
TimeZone = Annotated[
    str,
    QueryParameter(
        min_length=1,
        max_length=100,
        pattern=ONE_LINE,
        description="The IANA name of the time zone of hours, days, weeks and months.",
    ),
]
UsageSince = Annotated[
    datetime | None,
    QueryParameter(
        description="Only usage at or after this time, rounded down to a quarter of an hour. A time without an offset "
        "is in `timezone`."
    ),
]
UsageUntil = Annotated[
    datetime | None,
    QueryParameter(description="Only usage before this time, rounded up to a quarter of an hour."),
]
OfProject = Annotated[
    str | None,
    QueryParameter(
        **_NAME,
        description="Only this project or folder and those below it: a path, or the name of a folder.",
    ),
]
OfModel = Annotated[str | None, QueryParameter(**_NAME, description="Only this model, as in the records.")]
OfSource = Annotated[str | None, QueryParameter(**_NAME, description="Only sessions in this format.")]
OfMachine = Annotated[str | None, QueryParameter(**_NAME, description="Only sessions stored by this host.")]
OfAgent = Annotated[str | None, QueryParameter(**_NAME, description="Only sessions written by this program.")]
OfKey = Annotated[
    UUID | None, QueryParameter(description="Only sessions stored with the key that has this id.")
]
OfSession = Annotated[UUID | None, QueryParameter(description="Only this session and its subagents.")]
UsageCostMode = Annotated[
    CostMode,
    QueryParameter(
        description="`costUsd`: `reported` by the records, `computed` from tokens at API prices, or `auto`: the "
        "reported cost of answers that have one, and the computed cost of others."
    ),
]
RowLimit = Annotated[
    int,
    QueryParameter(
        ge=1, le=MAX_ROWS, description="Maximum number of rows: the newest or the most expensive."
    ),
]


class UsageController(Controller):
    path = "/api/usage"
    tags = ("usage",)

    @get(
        opt=documents(
            answer={JSON: UsageReport, CSV: text("The rows, with the names and numbers of the JSON.")}
        ),
        operation_id="getUsage",
        response_description="The report.",
        responses={
            304: ResponseSpec(None, description="`If-None-Match` matches the current `ETag`."),
            **error_responses(*READ_ERRORS, InvalidReport, NulByte, PricesError),
        },
    )
    async def report(  # noqa: PLR0913  # one argument per parameter
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        state: State,
        *,
        by: UsageBy = "day",
        timezone: TimeZone = "UTC",
        since: UsageSince = None,
        until: UsageUntil = None,
        project: OfProject = None,
        model: OfModel = None,
        source: OfSource = None,
        machine: OfMachine = None,
        agent: OfAgent = None,
        key: OfKey = None,
        session: OfSession = None,
        cost: UsageCostMode = "auto",
        limit: RowLimit = MAX_ROWS,
    ) -> Response[Any]:
        """Report usage and cost.

        Returns tokens and costs by day, or by other dimensions. Costs are at API prices; a subscription costs
        something else. Models without a price are in `unpriced`, with their tokens. Messages of copied sessions
        count once. With `Accept: text/csv`, the response is a table of the rows.
        """
        scope, redacts = request.scope, is_redacted(request.scope)
        prices = await state.prices.get()
        names: Any = by.split(",") if by else ()
        report = await reader(
            lambda store: store.usage.report(
                prices=prices,
                by=names,
                timezone=timezone,
                since=since,
                until=until,
                project=project,
                model=compared(scope, model),
                source=compared(scope, source),
                machine=compared(scope, machine),
                agent=compared(scope, agent),
                key=key,
                session=session,
                cost=cost,
                limit=limit,
                redact=redacts,
            )
        )
        return _to_response(request, _redacted(report) if redacts else report)


def _to_response(request: Request[Any, Any, Any], report: UsageReport) -> Response[Any]:
    """Return the report in the requested format, unless the client has it."""
    media_type = request.accept.best_match([JSON, CSV], JSON) or JSON
    body = _WRITERS[media_type](report).encode()
    tag = _tag(body, media_type)
    headers = cache_headers(request.scope, tag)
    if has_current(request, tag):
        return not_modified(headers, media_type)
    return Response(body, media_type=media_type, headers=headers)


def _redacted(report: UsageReport) -> UsageReport:
    """Redact names before CSV escapes them. The store cuts long ones, so the rest of a secret may be at their end."""
    return report.model_copy(
        update={
            "rows": list(map(_redacted_row, report.rows)),
            "unpriced": list(map(_redacted_names, report.unpriced)),
            "estimated": list(map(_redacted_names, report.estimated)),
        }
    )


def _redacted_row(row: UsageRow) -> UsageRow:
    if row.session is None or row.session.title is None:
        return _redacted_names(row)
    session = row.session.model_copy(update={"title": redact_name(row.session.title)})
    return _redacted_names(row.model_copy(update={"session": session}))


def _redacted_names(counts: T) -> T:
    texts = {name: getattr(counts, name, None) for name in _MAX_LENGTHS}
    changes = {
        name: redact_name(text, _MAX_LENGTHS[name]) for name, text in texts.items() if text is not None
    }
    return counts.model_copy(update=changes)


_MAX_LENGTHS = {
    **dict.fromkeys(("model", "source", "machine", "agent"), MAX_NAME),
    "project": MAX_PROJECT,
}

_WRITERS: Mapping[str, Callable[[UsageReport], str]] = {JSON: UsageReport.model_dump_json, CSV: to_csv}


def _tag(body: bytes, media_type: str) -> str:
    return f'W/"{blake2b(body, digest_size=16, person=media_type.encode()).hexdigest()}"'
