"""The API reference page: complete, unmodified and self-contained."""

import re
from hashlib import sha256
from pathlib import Path

import pytest
from httpx2 import AsyncClient

import ash_server.api.pages
from ash_server.viewer import viewer

FOLDER = Path(ash_server.api.pages.__file__).parent / "swagger"


def test_vendored_files_are_unchanged() -> None:
    recorded = dict(
        re.findall(r"^\| (\S+) \| ([0-9a-f]{64}) \|$", (FOLDER / "VENDORED.md").read_text(), re.MULTILINE)
    )
    own = {"VENDORED.md", "docs.css", "index.html", "start.js"}

    files = {
        path.name: sha256(path.read_bytes()).hexdigest() for path in FOLDER.iterdir() if path.name not in own
    }

    assert files == recorded


async def test_page_and_assets(client: AsyncClient) -> None:
    page = await client.get("/docs")
    parts = [part.replace(viewer().root, "") for part in re.findall(r'(?:src|href)="([^"]+)"', page.text)]

    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert parts == [
        "/icon.svg",
        "/bundled.css",
        "/docs/swagger-ui.css",
        "/docs/docs.css",
        "/bundled/plain-page.js",
        "/docs/swagger-ui-bundle.js",
        "/docs/start.js",
        "/",
        "/openapi.json",
    ]
    for part in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        assert (await client.get(part)).status_code == 200


async def test_page_loads_nothing_from_other_hosts(client: AsyncClient) -> None:
    policy = (await client.get("/docs")).headers["content-security-policy"]

    sources = {source for directive in policy.split("; ") for source in directive.split(" ")[1:]}
    assert sources == {"'none'", "'self'", "data:"}
    assert "frame-ancestors 'none'" in policy
    assert "validatorUrl: null" in (FOLDER / "start.js").read_text()


@pytest.mark.parametrize("name", ["VENDORED.md", "index.html", "..%2fdocuments.py", "%2e%2e", "nothing.js"])
async def test_serves_no_other_files(client: AsyncClient, name: str) -> None:
    assert (await client.get(f"/docs/{name}")).status_code == 404
