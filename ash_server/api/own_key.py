"""Read the tenant and the scopes of the key of a request."""

from litestar import Controller, get
from litestar.types import Scope

from ash_server.api.http.guards.access import client_of, needs
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_shared.model.keys import OwnKey


class OwnKeyController(Controller):
    path = "/api/key"
    tags = ("keys",)

    @get(
        opt=needs(),
        operation_id="getKey",
        response_description="The key.",
        responses=error_responses(*READ_ERRORS),
    )
    async def read(self, scope: Scope) -> OwnKey:
        """Get the key of the request.

        Returns the tenant and the scopes of the key, with any scope. A server without keys answers everyone as the
        tenant `default` with all scopes.
        """
        client = client_of(scope)
        key = client.key
        return OwnKey(
            tenant=client.tenant.name,
            name=key.name if key else None,
            scopes=sorted(client.scopes),
            redacts=key is not None and key.redacts,
        )
