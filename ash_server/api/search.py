"""Searching what was said and done, over all sessions."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from litestar import Controller, get
from litestar.datastructures import State
from litestar.params import QueryParameter

from ash_server.api.http.bodies import JSON
from ash_server.api.http.connections import Pool
from ash_server.api.http.operations import ONE_LINE, json_of, operation
from ash_server.api.http.problems import READS, refusals
from ash_server.db.search.query import MOST_RESULTS, Place, SearchPage, find
from ash_server.errors import NulByte, SessionNotFound
from ash_shared.model.message import Role

_EXAMPLE = {
    "results": [
        {
            "sessionId": "0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60",
            "title": "Fix the path test on Windows",
            "source": "claude",
            "sequence": 12,
            "eventId": "0b1c6f0e-50a5-5d70-9a52-3b1f7f0c8a11",
            "eventSequence": 19,
            "type": "assistant_done",
            "role": "assistant",
            "createdAt": "2026-11-02T09:14:07.130000Z",
            "snippet": "Only test_paths fails: it compares with a backslash.",
            "marks": [[5, 15]],
            "matches": 3,
        }
    ]
}


class SearchController(Controller):
    path = "/api/search"
    tags = ("search",)

    @get(
        operation_id="search",
        summary="Search what was said and done",
        description="Every word of `q` is looked for as the beginning of a word, whatever its case; those that are "
        'typed without blanks between them, such as a path, follow each other. `"these words"` is a phrase, word for '
        "word; `-word` excludes; `or` stands between two wishes. Other signs only separate words. All words stand in "
        "one event (in one piece of some thousand words, where it is longer).\n\n"
        "The newest is first. `nextAfter` of one page is the `after` of the next; large texts make a page shorter. "
        "What was just stored is found; where there is more than can be read at once, `pending` says how much of it "
        "is not found yet.",
        response_description="A page of what was found.",
        responses=refusals(*READS, SessionNotFound, NulByte),
        operation_class=operation(answers={200: {JSON: json_of(SearchPage, page=_EXAMPLE)}}),
    )
    async def search(  # noqa: PLR0913  # one argument per parameter
        self,
        state: State,
        pool: Pool,
        *,
        q: Annotated[
            str,
            QueryParameter(
                min_length=1,
                max_length=1000,
                pattern=ONE_LINE,
                description="What to look for: at most 32 words, and at least one that is not excluded.",
            ),
        ],
        place: Annotated[
            Place,
            QueryParameter(
                name="in",
                description="`said`: what the user and the assistant said. `conversation`: also what was thought, and "
                "the calls of tools. `results`: what tools gave, and every other text. `everything`: all of that.",
            ),
        ] = "conversation",
        source: Annotated[
            str | None, QueryParameter(pattern=ONE_LINE, description="Only in sessions of this format.")
        ] = None,
        role: Annotated[Role | None, QueryParameter(description="Only what is theirs.")] = None,
        session_id: Annotated[
            UUID | None, QueryParameter(name="sessionId", description="Only in this session.")
        ] = None,
        since: Annotated[
            datetime | None,
            QueryParameter(description="Only what was said then or later. Without a zone it is UTC."),
        ] = None,
        until: Annotated[datetime | None, QueryParameter(description="Only what was said before.")] = None,
        per_session: Annotated[
            int | None,
            QueryParameter(
                name="perSession",
                ge=1,
                le=MOST_RESULTS,
                description="Only so many of each session, its newest; `matches` says how many there are.",
            ),
        ] = None,
        after: Annotated[
            str | None, QueryParameter(min_length=1, description="The `nextAfter` of a page.")
        ] = None,
        limit: Annotated[
            int, QueryParameter(ge=1, le=MOST_RESULTS, description="The most results to answer.")
        ] = 20,
    ) -> SearchPage:
        pending = await state.indexer.catch_up()
        async with pool.connection() as conn:
            page = await find(
                conn,
                q,
                place=place,
                source=source,
                role=role,
                session_id=session_id,
                since=since,
                until=until,
                per_session=per_session,
                after=after,
                limit=limit,
            )
        return page.model_copy(update={"pending": pending}) if pending else page
