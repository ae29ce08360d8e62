"""List projects."""

from typing import Annotated, Any

from litestar import Controller, Request, get
from litestar.datastructures import State
from litestar.params import QueryParameter

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.parameters import PageCursor
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.redaction import redact
from ash_server.store.lists.projects import MAX_PROJECTS, name_of
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
        request: Request[Any, Any, Any],
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
        page = await reader(
            lambda store: store.sessions.list_projects(after=after, limit=limit, prices=prices)
        )
        return _with_redacted_names(page) if is_redacted(request.scope) else page


def _with_redacted_names(page: ProjectPage) -> ProjectPage:
    """Take the names from redacted paths: the part of a secret after a slash is not recognized."""
    projects = [each.model_copy(update={"name": name_of(redact(each.path))}) for each in page.projects]
    return page.model_copy(update={"projects": projects})
