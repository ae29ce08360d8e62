"""Query parameters of several routes."""

from typing import Annotated

from litestar.params import QueryParameter

PageCursor = Annotated[
    str | None, QueryParameter(min_length=1, description="The `nextAfter` of the previous page.")
]

REDACT_DESCRIPTION = (
    "Replace tokens, keys and passwords of known forms, for example by `[redacted: github token]`."
)
Redact = Annotated[bool, QueryParameter(description=REDACT_DESCRIPTION)]
"""For routes that must know it; elsewhere the response is redacted, and the parameter is documented, for all routes."""
