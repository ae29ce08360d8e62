"""The viewer's pages and assets: strict content policy, one address per session, no other files."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from httpx2 import AsyncClient, Response

import ash_server.viewer
from ash_server.api.pages import viewer_pages
from ash_server.api.pages.viewer_pages import PAGE_POLICY
from ash_server.app import create_app
from ash_server.settings import Settings
from ash_server.transfer.exporting.html import frame
from ash_server.viewer import viewer
from tests.server.app_client import app_client
from tests.shared.records import claude

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PROVIDERS_ID = "5e1f7c92-4a0b-4f37-9d25-8c1a6f3e0b74"
LINES = (
    f'{{"type":"user","uuid":"u-1","sessionId":"{PROVIDERS_ID}",'
    '"message":{"role":"user","content":"Why </script>?"}}',
    '{"type":"assistant","uuid":"u-2","message":{"role":"assistant","content":[{"type":"text","text":"Because."}]}}',
)

Named = dict[str, str]


@pytest.fixture
async def session_id(client: AsyncClient, request: pytest.FixtureRequest) -> str:
    """The id of a session that has every kind of reference."""
    name = f"pages/{request.node.name}.md"
    created = await client.post(
        "/api/sessions", json={"source": "claude", "externalId": name, "title": "<b>A & B</b>"}
    )
    id: str = created.json()["id"]
    await append(client, id)
    return id


async def append(client: AsyncClient, id: str) -> None:
    sent = await client.post(
        f"/api/sessions/{id}/messages",
        content="\n".join(LINES),
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert sent.status_code == 201


def parts(page: Response) -> list[str]:
    return re.findall(r'(?:src|href)="([^"]+)"', page.text)


async def test_list_page(client: AsyncClient) -> None:
    page = await client.get("/", headers=BROWSER)

    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert f'<script defer src="{viewer().root}/bundled/sessions-page.js"></script>' in page.text


async def test_usage_page(client: AsyncClient) -> None:
    page = await client.get("/usage", params={"since": "7d", "by": "model"}, headers=BROWSER)

    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert f'<script defer src="{viewer().root}/bundled/usage-page.js"></script>' in page.text


async def test_session_page_contains_its_id(client: AsyncClient, session_id: str) -> None:
    page = await client.get(f"/sessions/{session_id}", headers=BROWSER)

    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert f'<script defer src="{viewer().root}/bundled/session-page.js"></script>' in page.text
    assert f'<body data-session-id="{session_id}">' in page.text
    assert "<title>&lt;b&gt;A &amp; B&lt;/b&gt; · Ash</title>" in page.text


async def test_page_title_defaults_to_the_external_id(client: AsyncClient) -> None:
    created = await client.post("/api/sessions", json={"externalId": "bird-counter"})

    page = await client.get(f"/sessions/{created.json()['id']}", headers=BROWSER)

    assert "<title>bird-counter · Ash</title>" in page.text


@pytest.mark.parametrize("address", ["/", "/sessions/{id}"])
async def test_referenced_files_exist(client: AsyncClient, session_id: str, address: str) -> None:
    page = await client.get(address.format(id=session_id))

    for part in parts(page):
        assert (await client.get(part)).status_code == 200, part


@pytest.mark.parametrize("address", ["/", "/sessions/{id}", "/sessions/nothing"])
async def test_pages_have_no_inline_code(client: AsyncClient, session_id: str, address: str) -> None:
    page = (await client.get(address.format(id=session_id), headers=BROWSER)).text

    assert re.findall(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=|javascript:", page) == []
    assert re.findall(r'<html lang="en">|<meta name="(viewport|color-scheme|theme-color)"', page) == [
        "",
        "viewport",
        "color-scheme",
        "theme-color",
        "theme-color",
    ]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/", 200),
        ("/sessions", 307),
        ("/sessions/{id}", 200),
        ("/sessions/nothing", 404),
        ("/sessions/%00", 404),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_page_headers(
    client: AsyncClient, session_id: str, method: str, address: str, status: int
) -> None:
    page = await client.request(
        method, address.format(id=session_id), headers=BROWSER, follow_redirects=False
    )

    assert page.status_code == status
    assert {name: page.headers.get(name) for name in HEADERS} == HEADERS


HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": PAGE_POLICY,
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store, private",
}


def test_policy_blocks_everything_else() -> None:
    directives = dict(directive.split(" ", 1) for directive in PAGE_POLICY.split("; "))

    assert directives == {
        "default-src": "'none'",
        **dict.fromkeys(("script-src", "style-src", "font-src", "connect-src", "form-action"), "'self'"),
        "img-src": "'self' data:",
        **dict.fromkeys(("base-uri", "frame-ancestors", "object-src"), "'none'"),
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("address", ["/", "/sessions/{id}", "/sessions/{id}.md", "/viewer/x/session-page.js"])
async def test_pages_reject_other_methods(
    client: AsyncClient, session_id: str, method: str, address: str
) -> None:
    refused = await client.request(method, address.format(id=session_id))

    assert (refused.status_code, refused.json()["code"]) == (405, "method_not_allowed")


@pytest.mark.parametrize(
    "address", ["/", "/sessions/{id}", "/sessions/{id}.html", "{viewer}/session-page.js"]
)
async def test_pages_reject_other_hosts(client: AsyncClient, session_id: str, address: str) -> None:
    refused = await client.get(
        address.format(id=session_id, viewer=viewer().root), headers={"Host": "evil.example", "Accept": "*/*"}
    )

    assert (refused.status_code, refused.json()["code"]) == (421, "host_not_allowed")


@pytest.mark.parametrize("query", ["?at=7&preset=read", "?x=%ff", "?a=1&a=2", "?%"])
async def test_pages_accept_any_query(client: AsyncClient, session_id: str, query: str) -> None:
    for address in ("/", f"/sessions/{session_id}"):
        assert (await client.get(address + query, headers=BROWSER)).status_code == 200


async def test_references_redirect_to_the_address(own_client: AsyncClient) -> None:
    created = await own_client.post(
        "/api/sessions", json={"source": "claude", "externalId": "pages/named.md"}
    )
    id = created.json()["id"]
    await append(own_client, id)
    endings = {
        "pages/named.md": "",
        "pages%2Fnamed.md": "",
        "pages/named.md.json": ".json",
        id[:13]: "",
        f"{id[:13]}.html": ".html",
        id.upper(): "",
        id.replace("-", ""): "",
        PROVIDERS_ID: "",
        f"{PROVIDERS_ID}.md": ".md",
    }
    query = "?at=7&q=%C3%A9"

    redirects = {
        reference: await own_client.get(f"/sessions/{reference}{query}", follow_redirects=False)
        for reference in endings
    }

    assert {
        reference: (redirect.status_code, redirect.headers["location"])
        for reference, redirect in redirects.items()
    } == {reference: (307, f"/sessions/{id}{ending}{query}") for reference, ending in endings.items()}


async def test_reference_prefers_the_parent_of_subagents(own_client: AsyncClient) -> None:
    created = (await own_client.post("/api/sessions", json={})).json()["id"]
    subagent = (await own_client.post("/api/sessions", json={"parentId": created})).json()["id"]
    for id in (created, subagent):
        await append(own_client, id)

    redirect = await own_client.get(f"/sessions/{PROVIDERS_ID}", follow_redirects=False)

    assert redirect.headers["location"] == f"/sessions/{created}"


async def test_ambiguous_reference(own_client: AsyncClient) -> None:
    ids = [(await own_client.post("/api/sessions", json={})).json()["id"] for _ in range(2)]
    for id in ids:
        await append(own_client, id)

    refused = await own_client.get(f"/sessions/{PROVIDERS_ID}")
    page = await own_client.get(f"/sessions/{PROVIDERS_ID}", headers=BROWSER)

    assert (refused.status_code, refused.json()["code"]) == (409, "ambiguous_session")
    assert (page.status_code, page.headers["content-type"]) == (409, "text/html; charset=utf-8")
    assert all(id in page.text for id in ids)


UNKNOWN = [
    "nothing",
    "samples/nothing.jsonl",
    "0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60",
    "0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60.md",
    ".md",
    "a%00b",
    "<script>alert(1)</script>",
    "%2e%2e/%2e%2e/etc/passwd",
    "x" * 300,
]


@pytest.mark.parametrize("name", UNKNOWN)
async def test_unknown_session(client: AsyncClient, name: str) -> None:
    refused = await client.get(f"/sessions/{name}")
    page = await client.get(f"/sessions/{name}", headers=BROWSER)

    assert (refused.status_code, refused.headers["content-type"]) == (404, "application/problem+json")
    assert refused.json()["code"] == "session_not_found"
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "<h1>No session has this name or id</h1>" in page.text
    assert 'href="/">All sessions</a>' in page.text
    assert "<script>alert(1)" not in page.text


async def test_unknown_path(client: AsyncClient) -> None:
    answers = [
        await client.get(path, headers=headers)
        for path, headers in (("/nothing", BROWSER), ("/nothing", {}), ("/api/nothing", BROWSER))
    ]

    assert [each.status_code for each in answers] == [404, 404, 404]
    assert "<h1>Page not found</h1>" in answers[0].text
    assert [each.json()["code"] for each in answers[1:]] == ["not_found", "not_found"]


async def test_unknown_suffix(client: AsyncClient, session_id: str) -> None:
    for ending in (".xml", ".MD", ".json.md", ".md.", "/events"):
        assert (await client.get(f"/sessions/{session_id}{ending}")).status_code == 404, ending


@pytest.mark.slow
async def test_error_page_without_database() -> None:
    app = create_app(Settings(), database_url="postgresql://127.0.0.1:1/nowhere")
    async with app_client(app, raise_app_exceptions=False) as client:
        page = await client.get("/sessions/nothing", headers=BROWSER)

    assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert page.headers["retry-after"]
    assert 'href="">Try again</a>' in page.text


FORMS = {
    ".md": "text/markdown; charset=utf-8",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".html": "text/html; charset=utf-8",
}


async def test_link_header_lists_the_formats(client: AsyncClient, session_id: str) -> None:
    page = await client.get(f"/sessions/{session_id}", headers=BROWSER)

    linked = re.findall(r'<link rel="alternate" href="([^"]+)" type="([^"]+)"', page.text)
    alternates = re.findall(r'<([^>]+)>; rel="alternate"; type="([^"]+)"', page.headers["link"])
    assert (
        linked
        == alternates
        == [(f"/sessions/{session_id}{form}", type.partition(";")[0]) for form, type in FORMS.items()]
    )


@pytest.mark.parametrize(
    ("query", "is_at_end"), [("", True), ("?preset=read", True), ("?message=1", False), ("?at=1", False)]
)
async def test_link_header_preloads_the_first_requests(
    client: AsyncClient, session_id: str, query: str, is_at_end: bool
) -> None:
    page = await client.get(f"/sessions/{session_id}{query}", headers=BROWSER)

    preloads = re.findall("<([^>]+)>; rel=preload; as=fetch; crossorigin", page.headers["link"])
    session = f"/api/sessions/{session_id}"
    newest = f"{session}/events?before=9007199254740991&limit=150&collapse=true"
    assert preloads == [session, *[newest] * is_at_end]


async def test_link_header_preloads_the_beginning_of_a_finished_session(client: AsyncClient) -> None:
    line = json.dumps(claude.line("user", "Go on.", uuid="u1", timestamp="2026-03-10T11:00:00Z"))
    created = await client.post("/api/sessions", json={"source": "claude"})
    session = f"/api/sessions/{created.json()['id']}"
    body = {"Content-Type": "application/x-ndjson"}
    stored = await client.post(f"{session}/messages", content=line, headers=body)
    assert stored.status_code == 201, stored.text

    page = await client.get(session.removeprefix("/api"), headers=BROWSER)

    assert f"<{session}/events?after=0&limit=150&collapse=true>" in page.headers["link"]
    assert "before=" not in page.headers["link"]


@pytest.mark.parametrize("form", FORMS)
async def test_formats(client: AsyncClient, session_id: str, form: str) -> None:
    response = await client.get(f"/sessions/{session_id}{form}")
    head = await client.head(f"/sessions/{session_id}{form}")

    assert (response.status_code, response.headers["content-type"]) == (200, FORMS[form])
    assert response.headers["content-disposition"] == f'inline; filename="{session_id}{form}"'
    assert "Because." in response.text
    names = ("content-type", "content-disposition", "link", "content-security-policy", "cache-control")
    assert (head.status_code, head.content) == (200, b"")
    assert [head.headers[name] for name in names] == [response.headers[name] for name in names]


async def test_standalone_page_has_its_own_policy(client: AsyncClient, session_id: str) -> None:
    page = await client.get(f"/sessions/{session_id}.html")

    assert page.headers["content-security-policy"] == f"{frame().policy}; frame-ancestors 'none'"


async def test_head_request_does_not_read_the_session(
    client: AsyncClient, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> NoReturn:
        pytest.fail("the session is read")

    formats = {suffix: format._replace(write=write) for suffix, format in viewer_pages.FORMATS.items()}
    monkeypatch.setattr(viewer_pages, "FORMATS", formats)

    for form in FORMS:
        assert (await client.head(f"/sessions/{session_id}{form}")).status_code == 200


@pytest.mark.parametrize(
    ("accept", "type"),
    [
        (None, "text/html"),
        ("*/*", "text/html"),
        (BROWSER["Accept"], "text/html"),
        ("image/png", "text/html"),
        ("application/json", "application/json"),
        ("text/markdown", "text/markdown"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("text/markdown;q=0.5, application/json", "application/json"),
        ("text/markdown, text/html;q=0.1", "text/markdown"),
    ],
)
async def test_accept_header_selects_the_format(
    client: AsyncClient, session_id: str, accept: str | None, type: str
) -> None:
    response = await client.get(
        f"/sessions/{session_id}", headers={} if accept is None else {"Accept": accept}
    )

    assert (response.headers["content-type"].partition(";")[0], response.headers["vary"]) == (type, "Accept")


async def test_jsonl_equals_stored_messages(client: AsyncClient, session_id: str) -> None:
    lines = await client.get(f"/sessions/{session_id}.jsonl")
    export = await client.get(f"/api/sessions/{session_id}/export")

    assert lines.content == export.content == "".join(f"{line}\n" for line in LINES).encode()


async def test_json_document(client: AsyncClient, session_id: str) -> None:
    document = (await client.get(f"/sessions/{session_id}.json")).json()

    assert document == {
        "session": (await client.get(f"/api/sessions/{session_id}")).json(),
        "messages": (await client.get(f"/api/sessions/{session_id}/standard-messages")).json()["messages"],
    }
    assert len(document["messages"]) == 2


async def test_formats_of_an_empty_session(client: AsyncClient) -> None:
    id = (await client.post("/api/sessions", json={})).json()["id"]
    documents = {form: (await client.get(f"/sessions/{id}{form}")).text for form in FORMS}

    assert json.loads(documents[".json"])["messages"] == []
    assert documents[".jsonl"] == ""
    assert documents[".md"].startswith(f"# {id}\n")
    assert '<script type="application/json" id="events">[\n\n]</script>' in documents[".html"]


async def test_viewer_assets(client: AsyncClient) -> None:
    now = viewer()

    assert now.assets
    for path, asset in now.assets.items():
        got = await client.get(f"{now.root}/{path}")
        assert (got.status_code, got.content) == (200, asset.content), path
        assert {name: got.headers[name] for name in ASSET_HEADERS} == ASSET_HEADERS
        assert got.headers["content-type"].partition(";")[0] == TYPES[Path(path).suffix]


ASSET_HEADERS = {
    "cache-control": "private, max-age=31536000, immutable",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}
TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        (None, None),
        ("identity", None),
        ("gzip", "gzip"),
        ("br, GZIP;q=0.5", "gzip"),
        ("*", "gzip"),
        ("*;q=0", None),
        ("gzip;q=0, *", None),
        ("gzip;q=x", None),
        ("gzip;level=9", None),
        ("br, gzip2", None),
    ],
)
async def test_assets_are_compressed_if_accepted(
    client: AsyncClient, accepted: str | None, encoding: str | None
) -> None:
    addresses = [f"{viewer().root}/bundled/session-page.js", "/docs/swagger-ui.css"]

    plain = [(await client.get(each, headers={"Accept-Encoding": "identity"})).content for each in addresses]
    got = [await client.get(each, headers={"Accept-Encoding": accepted or ""}) for each in addresses]

    assert [each.headers.get("content-encoding") for each in got] == [encoding] * 2
    assert [each.headers["vary"] for each in got] == ["Accept-Encoding"] * 2
    assert [each.content for each in got] == plain
    sizes = [int(each.headers["content-length"]) for each in got]
    is_smaller = [size * 3 < len(content) for size, content in zip(sizes, plain, strict=True)]
    assert is_smaller == [encoding is not None] * 2


async def test_api_answers_and_small_files_are_not_compressed(client: AsyncClient, session_id: str) -> None:
    addresses = [
        f"/api/sessions/{session_id}/events",
        f"{viewer().root}/icon.svg",
        f"/sessions/{session_id}.md",
    ]

    got = [await client.get(each, headers={"Accept-Encoding": "gzip"}) for each in addresses]

    assert [each.headers.get("content-encoding") for each in got] == [None] * 3


@pytest.mark.parametrize(
    "path",
    [
        "__init__.py",
        "bundle.py",
        "session.html",
        "vendor/vendor.json",
        "nothing.js",
        "styles",
        "styles/",
        "",
        "SESSION-PAGE.JS",
        "%73ession-page.js%00",
        "session-page.js%00.css",
        "%2e%2e/app.py",
        "..%2fviewer%2fsession-page.js",
        "styles/%2e%2e/session-page.js",
        "./%2e/session-page.js",
        "%2fetc/passwd",
        "%5c..%5capp.py",
        "session-page%2ejs?x=1",
    ],
)
async def test_serves_no_other_files(client: AsyncClient, path: str) -> None:
    refused = await client.get(f"{viewer().root}/{path}")

    assert refused.status_code in (400, 404)
    assert refused.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("digest", ["x", "0" * 16, "..", "%2e%2e", "%00", "*", ""])
async def test_rejects_other_digests(client: AsyncClient, digest: str) -> None:
    assert (await client.get(f"/viewer/{digest}/session-page.js")).status_code == 404


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("chat-renderer.js", "text/javascript"), ("chat-renderer.css", "text/css")],
)
async def test_renderer_for_pages_of_others(client: AsyncClient, name: str, media_type: str) -> None:
    """Any origin may load it, at a fixed address, so browsers ask each time if it has changed."""
    got = await client.get(f"/viewer/{name}", headers={"Origin": "https://other.example"})
    again = await client.get(f"/viewer/{name}", headers={"If-None-Match": got.headers["etag"]})

    assert (got.status_code, got.headers["content-type"]) == (200, f"{media_type}; charset=utf-8")
    assert {each: got.headers[each] for each in FOR_OTHERS} == FOR_OTHERS
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", got.headers["etag"])
    assert (await client.get(f"/viewer/{name}", headers={"If-None-Match": 'W/"x"'})).status_code == 200


FOR_OTHERS = {
    "access-control-allow-origin": "*",
    "cross-origin-resource-policy": "cross-origin",
    "cache-control": "no-cache",
    "content-encoding": "gzip",
}


async def test_renderer_module_imports_nothing(client: AsyncClient) -> None:
    script = (await client.get("/viewer/chat-renderer.js")).text

    assert re.findall(r"^(?:import|export)\b.*", script, re.MULTILINE) == [
        f"export const {{ ChatRenderer }} = $exports[{script.count('$exports.push(') - 1}];"
    ]


async def test_no_other_file_has_a_fixed_address(client: AsyncClient) -> None:
    names = ["session-page.js", "chat-renderer.html", "bundle.py", viewer().digest]

    assert [(await client.get(f"/viewer/{name}")).status_code for name in names] == [404] * 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a small viewer."""
    folder = tmp_path / "viewer"
    (folder / "styles").mkdir(parents=True)
    (folder / "log.js").write_text("export const one = 1;")
    (folder / "styles" / "tokens.css").write_text("")
    (folder / "sessions.html").write_text("$viewer")
    monkeypatch.setattr(ash_server.viewer, "FOLDER", folder)
    yield folder
    ash_server.viewer._load.cache_clear()


async def test_changed_assets_get_a_new_digest(client: AsyncClient, folder: Path) -> None:
    before = viewer()
    (folder / "log.js").write_text("export const one = 11;")
    now = viewer()

    assert before.digest != now.digest == viewer().digest
    assert (await client.get(f"{before.root}/log.js")).status_code == 404
    assert (await client.get(f"{now.root}/log.js")).text == "export const one = 11;"
    assert (await client.get("/")).text.startswith(now.root)


async def test_serves_no_files_outside_the_folder(client: AsyncClient, folder: Path) -> None:
    (folder.parent / "secret.js").write_text("secret")
    (folder.parent / "others").mkdir()
    (folder.parent / "others" / "one.js").write_text("secret")
    (folder / "link.js").symlink_to(folder.parent / "secret.js")
    (folder / "linked").symlink_to(folder.parent / "others", target_is_directory=True)
    for hidden in (".hidden.js", "_private.js", "~"):
        (folder / hidden).write_text("secret")
    (folder / ".git").mkdir()
    (folder / ".git" / "one.js").write_text("secret")

    assert sorted(viewer().assets) == ["bundled.css", "log.js", "styles/tokens.css"]
    for path in ("link.js", "linked/one.js", ".hidden.js", "_private.js", ".git/one.js"):
        assert (await client.get(f"{viewer().root}/{path}")).status_code == 404
