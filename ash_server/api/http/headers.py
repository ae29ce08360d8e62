"""What every answer says to a browser (guess no type, send no referrer, frame nothing, keep nothing), and how to read
what a request says.
"""

from litestar import Litestar
from litestar.datastructures import Headers, MutableScopeHeaders
from litestar.types import Message, Scope

_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store, private",
}


def header(headers: Headers, name: str) -> str | None:
    """The value of a header; of one that comes twice both, which is none that anybody accepts."""
    return ", ".join(headers.getall(name, [])) if name in headers else None


async def add_headers(message: Message, scope: Scope) -> None:
    """An answer that sets one of them itself (a page with scripts, a file that may be kept) has its way."""
    if message["type"] != "http.response.start":
        return
    headers = MutableScopeHeaders.from_message(message)
    for name, value in _ALWAYS.items():
        headers.setdefault(name, value)
    if scope.get("method") == "OPTIONS" and "allow" in headers:
        headers["Allow"] = _methods(scope["litestar_app"], scope["path_template"])


def _methods(app: Litestar, path: str) -> str:
    """All methods of an address; the framework names those of the first handler that was registered for it."""
    return ", ".join(
        sorted(method for route in app.routes if route.path_format == path for method in route.methods)
    )
