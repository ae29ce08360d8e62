"""The API reference page (`/docs`). It works offline."""

from collections.abc import Mapping
from pathlib import Path
from string import Template

from litestar import Controller, Response, get
from litestar.params import FromPath

from ash_server.api.http.compression import static_file
from ash_server.api.http.guards.access import PUBLIC
from ash_server.api.http.problems import AnyRequest
from ash_server.errors import NotFound
from ash_server.viewer import viewer

_FOLDER = Path(__file__).parent / "swagger"
_MEDIA_TYPES: Mapping[str, str] = {
    "docs.css": "text/css",
    "start.js": "text/javascript",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class DocsController(Controller):
    include_in_schema = False
    opt = PUBLIC

    @get("/docs", sync_to_thread=True)
    def page(self) -> Response[bytes]:
        page = Template((_FOLDER / "index.html").read_text()).substitute(viewer=viewer().root)
        return Response(
            page.encode(), media_type="text/html", headers={"Content-Security-Policy": _PAGE_POLICY}
        )

    @get("/docs/{name:str}", sync_to_thread=True)
    def asset(self, request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        if name not in _MEDIA_TYPES:
            raise NotFound
        content = (_FOLDER / name).read_bytes()
        return static_file(request, content, _MEDIA_TYPES[name], {"Cache-Control": "private, max-age=3600"})
