"""The facts of a session."""

from typing import Any
from uuid import UUID

from litestar import Controller, Request, get
from litestar.params import FromPath

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.redaction import redact_name
from ash_server.store.log.tool_calls import MAX_TOOL
from ash_shared.model.reports.facts import NameCount, SessionFacts, ToolFacts


class FactsController(Controller):
    path = "/api/sessions/{session_id:uuid}/facts"
    tags = ("sessions",)

    @get(
        operation_id="getFacts",
        response_description="The facts.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS),
    )
    async def get(
        self, request: Request[Any, Any, Any], reader: InjectedReader, session_id: FromPath[UUID]
    ) -> SessionFacts:
        """Get the facts of a session.

        Returns where the session ran, the calls of each tool, the MCP servers and skills it used, the files it
        read and changed, and its last plan.
        """
        facts = await reader(lambda store: store.sessions.get_facts(session_id), session_id)
        return _redacted(facts) if is_redacted(request.scope) else facts


def _redacted(facts: SessionFacts) -> SessionFacts:
    """Redact names that the store may have cut; the response is redacted as a whole."""
    return facts.model_copy(
        update={
            "tools": [*map(_redacted_tool, facts.tools)],
            "mcp_servers": [*map(_redacted_name, facts.mcp_servers)],
            "skills": [*map(_redacted_name, facts.skills)],
        }
    )


def _redacted_tool(tool: ToolFacts) -> ToolFacts:
    server = None if tool.mcp_server is None else redact_name(tool.mcp_server, MAX_TOOL)
    return tool.model_copy(update={"tool": redact_name(tool.tool, MAX_TOOL), "mcp_server": server})


def _redacted_name(count: NameCount) -> NameCount:
    return count.model_copy(update={"name": redact_name(count.name, MAX_TOOL)})
