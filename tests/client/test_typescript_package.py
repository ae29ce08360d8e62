"""clients/typescript against a real server: every method, retries that store once, streams that lose connections."""

import inspect
import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ash_client import AshClient, AsyncAshClient
from ash_server.app import create_app
from ash_server.settings import Settings
from ash_server.store import Store
from ash_shared.model.health import API_VERSION, Health
from tests.client.test_ash_client import proxy, recording_server
from tests.marking import slow_unless
from tests.node_packages import NODE_MODULES, require_node_packages
from tests.ports import free_port
from tests.server.api.conftest import SECRET, create_key, served
from tests.server.cli.test_cli_serve import running
from tests.viewer.browser import ABSENT, browsing, chromium, http_server
from tests.waiting import TIMEOUT

ROOT = Path(__file__).parents[2]
SCENARIOS = Path(__file__).with_name("typescript_client.js")
PAGE = (ROOT / "clients" / "typescript" / "README.md").read_text()
EXAMPLES = re.findall(r"```ts\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)

USER = '{"type":"user","uuid":"u1","message":{"role":"user","content":"Which tests fail?"}}'
ANSWER = '{"type":"assistant","uuid":"a1","message":{"role":"assistant","content":"Two\u2028do."}}'


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built package, as npm packs it."""
    require_node_packages()
    clone = tmp_path_factory.mktemp("clone")
    for folder in ("clients/typescript", "openapi"):
        shutil.copytree(ROOT / folder, clone / folder, ignore=shutil.ignore_patterns("dist"))
    (clone / "node_modules").symlink_to(NODE_MODULES)
    # The processes of the tests do not share a cache: npm may fail while another one writes to it.
    packed = subprocess.run(
        ["npm", "pack", "--offline", f"--cache={clone / 'cache'}", "./clients/typescript"],
        cwd=clone,
        capture_output=True,
        text=True,
    )
    assert packed.returncode == 0, packed.stdout + packed.stderr
    subprocess.run(["tar", "xf", next(clone.glob("*.tgz"))], cwd=clone, check=True)
    return clone / "package"


class TypeScriptClient:
    def __init__(self, package: Path) -> None:
        self._package = package

    def run(self, scenario: str, url: str = "", key: str | None = None, **variables: str) -> list[Any]:
        """Return the values that a scenario prints."""
        with self.running(scenario, url, key, **variables) as process:
            output, errors = process.communicate(timeout=TIMEOUT)
        assert errors == ""
        return [json.loads(line) for line in output.split("\n") if line]

    @contextmanager
    def running(
        self, scenario: str, url: str = "", key: str | None = None, **variables: str
    ) -> Iterator[subprocess.Popen[str]]:
        arguments: list[str | Path] = [
            "node",
            SCENARIOS,
            self._package / "dist",
            scenario,
            url,
            *([key] if key else []),
        ]
        pipes: Any = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(arguments, **pipes, text=True, env={**os.environ, **variables}) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def typescript(package: Path) -> TypeScriptClient:
    return TypeScriptClient(package)


@pytest.fixture(params=slow_unless("with keys".__eq__, ["open", "with keys"]))
async def address(
    request: pytest.FixtureRequest, database_url: str, store: Store
) -> AsyncIterator[tuple[str, str | None]]:
    """The URL of a server, and a key for it."""
    is_open = request.param == "open"
    key = None if is_open else await create_key(store, "agent", "default", "read", "write", "delete")
    settings = Settings() if is_open else Settings(secret=SECRET)
    with served(create_app(settings, database_url=database_url)) as url:
        yield url, key


@pytest.mark.slow
def test_package_has_the_modules_and_the_generated_types(package: Path) -> None:
    modules = {path.stem for path in (ROOT / "clients" / "typescript" / "src").glob("*.ts")}
    files = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}

    assert files == {
        "package.json",
        "README.md",
        "dist/ash.d.ts",
        *(f"dist/{module}{suffix}" for module in modules for suffix in (".js", ".d.ts")),
    }
    assert (package / "dist" / "ash.d.ts").read_bytes() == (ROOT / "openapi" / "ash.d.ts").read_bytes()
    assert "dependencies" not in json.loads((package / "package.json").read_text())


def test_version_of_the_api_is_current() -> None:
    client = (ROOT / "clients" / "typescript" / "src" / "client.ts").read_text()

    assert f"export const API_VERSION = {API_VERSION};" in client


def test_has_the_methods_of_the_python_client(typescript: TypeScriptClient) -> None:
    [methods] = typescript.run("methods")
    without = {"close", "compare_messages", "from_env", "open", "stream_events"}
    names = {
        name for name, _ in inspect.getmembers(AsyncAshClient, inspect.isfunction) if not name.startswith("_")
    } - without

    assert set(methods) == {re.sub(r"_(.)", lambda match: match[1].upper(), name) for name in names}


def test_stores_reads_searches_and_deletes(
    typescript: TypeScriptClient, address: tuple[str, str | None]
) -> None:
    assert typescript.run("stores", *address) == [
        True,
        [1, 2, 3],
        ["Tests"],
        [USER, ANSWER, "plain words"],
        2,
        ["text"],
        f"{USER}\n{ANSWER}\nplain words\n",
        [True],
        [1, 2, 3, 4],
        "Two tests",
        {"starred": True, "archived": False, "tags": ["flaky"], "note": ""},
        [{"name": "flaky", "sessions": 1}],
        True,
        0,
        True,
        ["plain words", USER, None],
        "message_not_found",
        "sequence_mismatch",
        "session_not_found",
    ]


@pytest.mark.slow
def test_commits_messages_with_metadata(typescript: TypeScriptClient, server: str) -> None:
    assert typescript.run("commits", server) == [
        [1],
        False,
        ["sequence_mismatch", 1],
        [{"team": "a", "n": 2}, 1],
    ]


@pytest.mark.slow
def test_long_texts_are_sent_alone_and_equal_texts_stored_each_time(
    typescript: TypeScriptClient, server: str
) -> None:
    assert typescript.run("long and equal texts", server) == [603, 603, True]


@pytest.mark.slow
def test_refusals(typescript: TypeScriptClient, server: str) -> None:
    assert typescript.run("refusals", server) == [
        [422, "nul_byte", 1],
        "invalid_json",
        "not_found",
        ["no_answer", None, False],
        *["bad_address"] * 3,
    ]


@pytest.mark.slow
def test_temporary_errors_are_retried_and_other_answers_explained(typescript: TypeScriptClient) -> None:
    newer = Health(status="ok", version="9", api=API_VERSION + 1)
    with recording_server([429, 502, 503, 504, 200, 200, 404], newer) as (url, requests):
        printed = typescript.run("health", url, "ash_secret")

    assert printed == [newer.model_dump(), "other_version", "other_version"]
    assert {headers["Authorization"] for headers in requests} == {"Bearer ash_secret"}


@pytest.mark.slow
def test_lost_answers_are_asked_for_again_and_nothing_is_stored_twice(
    typescript: TypeScriptClient, server: str
) -> None:
    with AshClient(server) as ash:
        session = ash.create_session()
        with proxy(server, loses=lambda number: number < 3) as url:
            printed = typescript.run("lost answers", url, SESSION=str(session.id))
        with proxy(server, loses=lambda number: number == 0) as url:
            created = typescript.run("lost creation", url)

        assert printed == [[1, 2, 3], ["no_answer"] * 3]
        assert [each.content for each in ash.messages(session.id)] == ["a", "b", USER]
        assert created == ["no_answer"]
        assert len(list(ash.sessions())) == 2


@pytest.mark.slow
def test_follow_resumes_after_every_lost_connection(typescript: TypeScriptClient, server: str) -> None:
    """The proxy cuts each stream after some bytes, also within an event."""
    connections: list[int] = []

    def cuts(number: int) -> int:
        connections.append(number)
        return 500 + 900 * number

    with AshClient(server) as ash, proxy(server, cuts=cuts) as url:
        session = ash.create_session()
        ash.append(session.id, [*(f"line {number}é" for number in range(40)), "last"])
        stored = [each.sequence for each in ash.events(session.id)]

        assert typescript.run("follow", url, SESSION=str(session.id)) == [*stored, "ended"]
    assert len(connections) > 3


@pytest.mark.slow
async def test_follow_continues_when_the_server_was_killed(
    typescript: TypeScriptClient, database_url: str, store: Store, tmp_path: Path
) -> None:
    key = await create_key(store, "agent", "default", "read", "write")
    variables = {"ASH_DATABASE_URL": database_url, "ASH_SECRET": SECRET}
    serve = ("serve", "--port", str(free_port()))
    with running(*serve, home=tmp_path, **variables) as first:
        with AshClient(first.address, key) as ash:
            session = ash.create_session()
            ash.append(session.id, ["one", "two"])
        with typescript.running("follow", first.address, key, SESSION=str(session.id)) as follower:
            assert follower.stdout
            before = [json.loads(next(follower.stdout)) for _ in range(2)]
            first.process.kill()
            first.process.wait()
            with running(*serve, home=tmp_path, **variables) as second:
                with AshClient(second.address, key) as ash:
                    ash.append(session.id, ["three", "last"])
                    stored = [each.sequence for each in ash.events(session.id)]
                after = [json.loads(line) for line in follower.stdout]

    assert [*before, *after] == [*stored, "ended"]


def test_follow_ends(typescript: TypeScriptClient, address: tuple[str, str | None]) -> None:
    assert typescript.run("follow until deleted", *address) == ["turn_start", "session_not_found"]
    assert typescript.run("follow until aborted", *address) == [[1], {"done": True}, [], []]


IN_A_PAGE = """
async ([url, key]) => {
  const { AshClient } = await import("/dist/index.js");
  const ash = new AshClient(url, { key });
  const { id } = await ash.createSession();
  await ash.append(id, ["one", "é😀"]);
  const stop = new AbortController();
  const followed = [];
  for await (const { type, payload } of ash.follow(id, { signal: stop.signal })) {
    if (type === "user_message") followed.push(payload.text);
    if (followed.length === 2) stop.abort();
  }
  await ash.deleteSession(id);
  return [followed, await ash.getSession(id).catch(({ code }) => code)];
}
"""


@pytest.mark.slow
async def test_works_on_a_page_of_another_site(package: Path, database_url: str, store: Store) -> None:
    program = chromium()
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(ABSENT)
    key = await create_key(store, "page", "default", "read", "write", "delete")

    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=package)

        def log_message(self, *_: object) -> None:
            pass

    async with browsing(program) as browser:
        with http_server(Files) as site:
            settings = Settings(secret=SECRET, cors_origins=(site,))
            with served(create_app(settings, database_url=database_url)) as url:
                page = await browser.new_page()
                await page.goto(f"{site}/package.json")
                result = await page.evaluate(IN_A_PAGE, [url, key])

    assert result == [["one", "é😀"], "session_not_found"]


def test_unconfirmed_writes_are_repeated_if_that_changes_nothing(typescript: TypeScriptClient) -> None:
    """Compare the number of requests of each call."""
    assert typescript.run("unconfirmed writes") == [
        {
            "append database_unavailable": 2,
            "popMessage database_unavailable": 2,
            "append write_unconfirmed": 2,
            "popMessage write_unconfirmed": 1,
        }
    ]


def test_requests_name_what_the_client_has_written(typescript: TypeScriptClient) -> None:
    assert typescript.run("own writes") == [
        [None, None, None],
        ["messages=5", None, "current"],
        ["current", "current", "current"],
    ]


def test_server_events_in_any_chunks(typescript: TypeScriptClient) -> None:
    assert typescript.run("server events") == [
        [
            [
                {"sequence": 1, "data": '{"a":"\u2028é\r"}'},
                {"data": "{}"},
            ]
        ]
    ]


@pytest.mark.slow
def test_examples_of_the_page(package: Path, server: str, tmp_path: Path) -> None:
    """They compile in a strict project of a user, and print the shown output."""
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "ash-client").symlink_to(package)
    (tmp_path / "node_modules" / "ajv").symlink_to(NODE_MODULES / "ajv")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "page.ts").write_text("".join(code for code, _ in EXAMPLES))
    options = ["--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom", "--types", ""]
    compiled = subprocess.run(
        [NODE_MODULES / ".bin" / "tsc", *options, "page.ts"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert compiled.stdout == ""

    ran = subprocess.run(
        ["node", "page.js"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "ASH_URL": server},
    )

    assert ran.stderr == ""
    assert ran.stdout == "".join(output for _, output in EXAMPLES)
    assert PAGE.count("```ts\n") == len(EXAMPLES)
