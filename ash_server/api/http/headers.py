"""Default response headers (no sniffing, referrer, framing or caching) and reading request headers."""

from litestar import Litestar
from litestar.datastructures import Headers, MutableScopeHeaders
from litestar.types import Message, Scope

_DEFAULT_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store, private",
}


def get_header(headers: Headers, name: str) -> str | None:
    """Return the value of a header. Values of a repeated header are joined, so that validation rejects them."""
    return ", ".join(headers.getall(name, [])) if name in headers else None


async def add_default_headers(message: Message, scope: Scope) -> None:
    """Add the default headers, except those that the response sets itself, such as the policy of a page."""
    if message["type"] != "http.response.start":
        return
    headers = MutableScopeHeaders.from_message(message)
    for name, value in _DEFAULT_HEADERS.items():
        headers.setdefault(name, value)
    if scope.get("method") == "OPTIONS" and "allow" in headers:
        headers["Allow"] = _allowed_methods(scope["litestar_app"], scope["path_template"])


def _allowed_methods(app: Litestar, path: str) -> str:
    """Return all methods of a path. The framework only lists the methods of the first handler."""
    return ", ".join(
        sorted(method for route in app.routes if route.path_format == path for method in route.methods)
    )
