"""The command that continues a session in the agent that wrote it."""

from typing import Any
from uuid import UUID

from litestar import Controller, Request, get
from litestar.params import FromPath

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.errors import SessionNotFound
from ash_server.redaction import redact
from ash_shared.model.resume import SessionResume


class ResumeController(Controller):
    path = "/api/sessions/{session_id:uuid}/resume"
    tags = ("sessions",)

    @get(
        operation_id="getResume",
        response_description="The command, or the reason why there is none.",
        responses=error_responses(*READ_ERRORS, SessionNotFound),
    )
    async def get(
        self, request: Request[Any, Any, Any], reader: InjectedReader, session_id: FromPath[UUID]
    ) -> SessionResume:
        """Get the command that continues a session.

        The command continues the session in its folder, with the agent that wrote it. The server does not
        run it and does not check the folder, which is on the `machine` that stored the session.
        """
        resume = await reader(lambda store: store.sessions.get_resume(session_id), session_id)
        return _without_secret(resume) if is_redacted(request.scope) else resume


def _without_secret(resume: SessionResume) -> SessionResume:
    """Return no command with a folder that redaction changes: the quotes of a shell would hide the secret from it."""
    folder = resume.folder
    if folder is None or redact(folder) == folder:
        return resume
    return SessionResume(reason="The name of its folder contains a secret.")
