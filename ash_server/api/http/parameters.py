"""Query parameters of several routes."""

from typing import Annotated

from litestar.params import QueryParameter

PageCursor = Annotated[
    str | None, QueryParameter(min_length=1, description="The `nextAfter` of the previous page.")
]
