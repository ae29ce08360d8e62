"""List projects."""

from typing import Annotated

from litestar import Controller, get
from litestar.datastructures import State
from litestar.params import QueryParameter

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.parameters import PageCursor
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.store.lists.projects import MAX_PROJECTS
from ash_shared.model.reports.projects import ProjectPage


class ProjectController(Controller):
    path = "/api/projects"
    tags = ("sessions",)

    @get(
        operation_id="listProjects",
        response_description="A page of projects.",
        responses=error_responses(*READ_ERRORS),
    )
    async def list(
        self,
        reader: InjectedReader,
        state: State,
        *,
        after: PageCursor = None,
        limit: Annotated[
            int, QueryParameter(ge=1, le=MAX_PROJECTS, description="Maximum number of projects.")
        ] = 100,
        usage: Annotated[
            bool, QueryParameter(description="Include `usage`, the tokens and costs of each project.")
        ] = False,
    ) -> ProjectPage:
        """List projects.

        A project is the root of a repository, or the folder that a session began in. Projects are sorted by most recent
        activity. For the sessions of a project, pass its `path` to `GET /api/sessions?project=…`; for its messages, to
        `GET /api/search?project=…`. Sessions of earlier versions have a project after `ash reindex`.
        """
        prices = await state.prices.get() if usage else None
        return await reader(
            lambda store: store.sessions.list_projects(after=after, limit=limit, prices=prices)
        )
