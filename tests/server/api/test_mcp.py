"""Tools of the Model Context Protocol: the same content as the REST API, bounded, and with the rights of the key."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from litestar import Litestar
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent
from pydantic.alias_generators import to_camel

from ash_client import AsyncAshClient
from ash_server.cli.common.server_keys import save_key
from ash_server.history_tools import MAX_PAGE, MAX_TEXT
from ash_server.settings import Settings
from ash_server.store import Store
from ash_shared.model.reports.changes import SessionChanges
from ash_shared.model.reports.facts import SessionFacts
from ash_shared.model.usage.report import UsageReport
from ash_shared.projections.session_summary import SessionSummary
from tests.server.api.conftest import SECRET, bearer, create_key, served
from tests.server.api.test_keys import Team, create_team
from tests.server.cli.test_cli_serve import COMMAND
from tests.shared.records import claude
from tests.waiting import TIMEOUT

TOOLS = [
    "list_sessions",
    "list_projects",
    "search",
    "read_messages",
    "read_session_summary",
    "read_session_facts",
    "read_changes",
    "get_usage",
]
TOKEN = "ghp_" + "a1B2" * 9
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
PROTOCOL_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@asynccontextmanager
async def connected(server: str, key: str | None = None) -> AsyncIterator[Client]:
    headers = bearer(key) if key else {}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{server}/mcp", http_client=http)) as client,
    ):
        yield client


async def read(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    [content] = result.content
    assert isinstance(content, TextContent)
    if result.is_error:
        return f"error: {content.text}"
    assert result.structured_content == json.loads(content.text)  # the client validates it with the schema
    return result.structured_content


def user_line(text: str) -> str:
    return json.dumps(claude.line("user", text, uuid=str(uuid4())))


@pytest.fixture
def server(shared_server: str) -> str:
    return shared_server


@pytest.fixture
def own_server(app: Litestar) -> Iterator[str]:
    with served(app) as address:
        yield address


@pytest.fixture
async def session_id(server: str) -> str:
    return await create_history(server)


async def create_history(server: str) -> str:
    async with AsyncAshClient(server) as ash:
        session = await ash.create_session(source="claude", external_id="history")
        await ash.append(session.id, [user_line("Which tests fail?"), user_line("And why?")])
    return str(session.id)


async def test_tools_only_read_and_warn_of_their_content(server: str) -> None:
    async with connected(server) as client:
        tools = (await client.list_tools()).tools

    assert [tool.name for tool in tools] == TOOLS
    assert {tool.annotations.read_only_hint for tool in tools if tool.annotations} == {True}
    assert [tool.name for tool in tools if "never instructions" not in (tool.description or "")] == []


async def test_announces_only_tools(server: str) -> None:
    async with connected(server) as client:
        capabilities = client.server_capabilities.model_dump(exclude_none=True)

    assert capabilities == {"tools": {"list_changed": False}}


async def test_tools_describe_their_arguments_and_results(server: str) -> None:
    async with connected(server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

    properties = {name: {*(tool.output_schema or {})["properties"]} for name, tool in tools.items()}
    assert properties["list_sessions"] == {"sessions", "nextAfter", "pricesError", "costsOutdated"}
    assert properties["search"] == {"results", "nextAfter", "pending", "suggestions", "coldSessions"}
    assert properties["read_messages"] == {"messages", "nextAfter", "prevBefore"}
    assert properties["read_session_summary"] == {
        field.alias for field in SessionSummary.model_fields.values()
    }
    assert properties["read_session_facts"] == {to_camel(name) for name in SessionFacts.model_fields}
    assert properties["read_changes"] == {to_camel(name) for name in SessionChanges.model_fields}
    assert properties["get_usage"] == {
        field.alias or name for name, field in UsageReport.model_fields.items()
    }
    assert {tool.input_schema["additionalProperties"] for tool in tools.values()} == {False}
    assert '"null"' not in str([tool.input_schema for tool in tools.values()])


@pytest.mark.slow
async def test_finds_sessions_as_the_commands_do(own_server: str) -> None:
    async with AsyncAshClient(own_server) as ash:
        first = await ash.create_session(source="claude", external_id="projects/site/1.jsonl")
        for source in ("codex", "cursor"):
            await ash.create_session(source=source, external_id="twice")
        await ash.append(first.id, [user_line("Which tests fail?")])
    references = [str(first.id), str(first.id)[:9], first.id.hex[:12].upper(), "projects/site/1.jsonl"]
    async with connected(own_server) as client:
        pages = [await read(client, "read_messages", session_id=each) for each in references]
        summary = await read(client, "read_session_summary", session_id=references[1])
        results = await read(client, "search", q="tests", session_id=references[1])
        refused = [await read(client, "read_messages", session_id=each) for each in ("twice", "projects")]

    assert [page["messages"][0]["sessionId"] for page in pages] == [str(first.id)] * 4
    assert (summary["sessionId"], len(results["results"])) == (str(first.id), 1)
    assert refused[0].startswith("error: several sessions match 'twice': ")
    assert refused[1] == "error: No session has this id or name; list_sessions lists them."


NO_KEY = "00000000-0000-0000-0000-000000000001"


@pytest.mark.slow
async def test_tools_return_what_the_api_returns(own_server: str) -> None:
    session_id = await create_history(own_server)
    path = f"/api/sessions/{session_id}"
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("list_sessions", {}, "/api/sessions"),
        ("list_projects", {}, "/api/projects"),
        ("list_sessions", {"q": "tests", "source": "claude"}, "/api/sessions"),
        ("list_sessions", {"q": "absent"}, "/api/sessions?q=absent"),
        ("search", {"q": "fail"}, "/api/search?q=fail"),
        ("search", {"q": "fail", "place": "results"}, "/api/search?q=fail&in=results"),
        ("read_messages", {"session_id": session_id}, f"{path}/messages?parsed=true&content=false"),
        ("read_messages", {"session_id": session_id, "after": 1}, f"{path}/messages/2"),
        (
            "read_messages",
            {"session_id": session_id, "limit": 1},
            f"{path}/messages?limit=1&parsed=true&content=false",
        ),
        ("read_session_summary", {"session_id": session_id}, f"{path}/projections/session-summary"),
        ("read_session_facts", {"session_id": session_id}, f"{path}/facts"),
        ("list_sessions", {"usage": True}, "/api/sessions?usage=true"),
        ("read_changes", {"session_id": session_id}, f"{path}/changes?diffs=false"),
        ("read_changes", {"session_id": session_id, "turn": 9, "diffs": True}, f"{path}/changes?turn=9"),
        ("get_usage", {}, "/api/usage"),
        ("get_usage", {"by": [], "session_id": "history"}, f"/api/usage?by=&session={session_id}"),
        (
            "get_usage",
            {"by": ["month", "model"], "timezone": "Asia/Tokyo", "limit": 1},
            "/api/usage?by=month,model&timezone=Asia/Tokyo&limit=1",
        ),
        ("get_usage", {"machine": "laptop", "limit": 1}, "/api/usage?machine=laptop&limit=1"),
        (
            "get_usage",
            {"agent": "openclaude", "key": NO_KEY},
            f"/api/usage?agent=openclaude&key={NO_KEY}",
        ),
    ]
    async with connected(own_server) as client, httpx2.AsyncClient(base_url=own_server) as http:
        for tool, arguments, address in cases:
            expected = (await http.get(address)).json()
            if "sequence" in expected:
                expected = {"messages": [{key: expected[key] for key in expected if key != "content"}]}
            assert await read(client, tool, **arguments) == expected, (tool, arguments)


async def test_cuts_long_texts_and_pages(server: str) -> None:
    texts = [f"{number} {'x' * MAX_TEXT * 2}" for number in range(30)]
    async with AsyncAshClient(server) as ash:
        session = await ash.create_session(source="claude")
        await ash.append(session.id, map(user_line, texts))
    pages: list[Any] = []
    async with connected(server) as client:
        while not pages or "nextAfter" in pages[-1]:
            after = pages[-1]["nextAfter"] if pages else 0
            pages.append(
                await read(client, "read_messages", session_id=str(session.id), after=after, limit=100)
            )

    shown = [message["parsed"][0]["text"] for page in pages for message in page["messages"]]
    assert shown == [f"{text[:MAX_TEXT]}… [{len(text) - MAX_TEXT} more characters]" for text in texts]
    assert [len(json.dumps(page)) > MAX_PAGE * 1.1 for page in pages] == [False] * len(pages)


async def test_leaves_out_blocks_of_a_large_message(server: str) -> None:
    blocks = [{"type": "text", "text": f"{number} {'x' * 900}"} for number in range(60)]
    async with AsyncAshClient(server) as ash, connected(server) as client:
        session = await ash.create_session(source="claude")
        await ash.append(session.id, [json.dumps({"role": "user", "content": blocks})])
        page = await read(client, "read_messages", session_id=str(session.id))

    message = page["messages"][0]
    shown = len(message["parsed"])
    assert message["parsed"] == blocks[:shown]
    assert (0 < shown < 60, message["omittedBlocks"]) == (True, 60 - shown)
    assert len(json.dumps(page)) < MAX_PAGE * 1.1


async def test_long_changes_have_no_edits(server: str) -> None:
    async with AsyncAshClient(server) as ash, connected(server) as client:
        session = await ash.create_session(source="claude")
        content = [claude.call(f"t{number}", "Write", file_path="/a", content="a") for number in range(300)]
        await ash.append(session.id, [json.dumps(claude.line("assistant", content))])
        whole = await ash.get_changes(session.id)
        page = await read(client, "read_changes", session_id=str(session.id))

    assert [len(file.edits) for file in whole.files] == [300]
    assert page["files"][0]["edits"] == []
    assert (page["notCounted"], page["commands"]) == (300, [])


async def test_long_facts_have_fewer_files(server: str) -> None:
    async with AsyncAshClient(server) as ash, connected(server) as client:
        session = await ash.create_session(source="claude")
        content = [claude.call(f"t{number}", "Read", file_path=f"/{number:0200}") for number in range(300)]
        results = [claude.tool_result(each["id"], "a") for each in content]
        lines = [claude.line("assistant", content), claude.line("user", results)]
        await ash.append(session.id, [json.dumps(line) for line in lines])
        whole = json.loads((await ash.get_facts(session.id)).model_dump_json())
        page = await read(client, "read_session_facts", session_id=str(session.id))

    shown = len(page["files"])
    assert page == {**whole, "files": whole["files"][:shown], "moreFiles": True}
    assert 100 < shown < len(whole["files"]) == 300
    assert len(json.dumps(page)) < MAX_PAGE * 1.1


async def test_reports_errors_of_the_api(server: str) -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("read_messages", {"session_id": str(uuid4())}, "No session has this id or name"),
        ("read_session_summary", {"session_id": str(uuid4())}, "No session has this id or name"),
        ("search", {"q": ""}, "`q`: String should have at least 1 character."),
        ("search", {"q": "-"}, "q needs a word that is not excluded"),
        ("search", {}, "search needs the argument `q`."),
        (
            "read_session_summary",
            {"session_id": "a", "limit": 1},
            "read_session_summary has no argument `limit`; it accepts `session_id`.",
        ),
        ("list_sessions", {"after": "x"}, "cursor"),
        ("list_sessions", {"limit": 1000}, "less than or equal to 100"),
        ("get_usage", {"by": ["day", "model", "source"]}, "at most 2 items"),
        ("get_usage", {"by": ["year"]}, "'hour', 'day'"),
        ("get_usage", {"timezone": "Mars"}, "The time zone is not an IANA name"),
    ]
    async with connected(server) as client:
        answers = [(tool, await read(client, tool, **arguments), text) for tool, arguments, text in cases]

    assert [each for each in answers if not each[1].startswith("error: ") or each[2] not in each[1]] == []


async def test_unknown_tool_is_an_error_of_the_protocol(server: str) -> None:
    async with connected(server) as client:
        with pytest.raises(MCPError, match="No tool is named 'read'; there are `list_sessions`"):
            await client.call_tool("read", {})


async def test_answers_messages_at_the_same_time(server: str) -> None:
    async with httpx2.AsyncClient(base_url=server, headers=PROTOCOL_HEADERS) as http:
        answers = await asyncio.gather(*(http.post("/mcp", json=HELLO) for _ in range(20)))

    counts = {(each.status_code, len(each.json()["result"]["tools"])) for each in answers}
    assert counts == {(200, len(TOOLS))}


async def test_accepts_only_messages_of_the_protocol(server: str) -> None:
    async with httpx2.AsyncClient(base_url=server, headers=PROTOCOL_HEADERS) as http:
        statuses = {
            "GET": (await http.get("/mcp")).status_code,
            "DELETE": (await http.delete("/mcp")).status_code,
            "not JSON": (await http.post("/mcp", content="{")).status_code,
            "other origin": (
                await http.post("/mcp", json=HELLO, headers={"Origin": "https://elsewhere.example"})
            ).status_code,
            "other host": (await http.post("/mcp", json=HELLO, headers={"Host": "elsewhere"})).status_code,
            "too large": (await http.post("/mcp", content=b" " * 5_000_000)).status_code,
            "a message": (await http.post("/mcp", json=HELLO)).status_code,
        }

    assert statuses == {
        "GET": 405,
        "DELETE": 405,
        "not JSON": 400,
        "other origin": 403,
        "other host": 421,
        "too large": 413,
        "a message": 200,
    }


class TestWithKeys:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(secret=SECRET)

    @pytest.fixture
    def server(self, own_server: str) -> str:
        return own_server

    @pytest.fixture
    async def red(self, store: Store) -> Team:
        return await create_team(store, "red")

    async def test_needs_a_key_that_may_read(self, server: str, red: Team) -> None:
        async with httpx2.AsyncClient(base_url=server, headers=PROTOCOL_HEADERS) as http:
            statuses = {
                name: (await http.post("/mcp", json=HELLO, headers=bearer(key) if key else {})).status_code
                for name, key in {"none": None, **red.keys}.items()
            }

        refused = dict.fromkeys(["none", "wrong", "revoked", "expired"], 401)
        refused |= dict.fromkeys(["write", "delete", "share", "admin"], 403)
        assert statuses == {**refused, "read": 200, "all": 200}

    @pytest.mark.slow
    async def test_shows_the_sessions_of_the_tenant(self, server: str, red: Team, store: Store) -> None:
        blue = await create_team(store, "blue")
        async with connected(server, red.keys["read"]) as client:
            listed = await read(client, "list_sessions")
            found = await read(client, "search", q="canary")
            others = [await read(client, tool, session_id=blue.session_id) for tool in TOOLS[2:]]
            unknown = [await read(client, tool, session_id=str(uuid4())) for tool in TOOLS[2:]]

        assert [each["id"] for each in listed["sessions"]] == [red.session_id]
        assert {each["sessionId"] for each in found["results"]} == {red.session_id}
        assert others == unknown

    @pytest.mark.slow
    async def test_redacts_for_a_key_that_redacts(self, app: Litestar, server: str, store: Store) -> None:
        key = await create_key(store, "redacted", "red", "read", redacts=True)
        theirs = store.for_tenant(await store.get_tenant("red"))
        session = await theirs.sessions.create(source="claude")
        await theirs.messages.append(session.id, [user_line(f"Use {TOKEN}.")])
        async with connected(server, key) as client:
            page = await read(client, "read_messages", session_id=str(session.id))

        assert page["messages"][0]["parsed"][0]["text"] == "Use [redacted: github token]."

    @pytest.mark.slow
    async def test_command_serves_the_same_tools_with_the_saved_key(
        self, server: str, red: Team, tmp_path: Path
    ) -> None:
        key = red.keys["read"]
        save_key(tmp_path, server, key)
        environment = {"PATH": os.environ["PATH"], "ASH_URL": server, "ASH_HOME": str(tmp_path)}
        command = StdioServerParameters(command=str(COMMAND), args=["mcp"], env=environment)
        async with Client(stdio_client(command)) as client, connected(server, key) as over_http:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            listed = await read(client, "list_sessions")
            page = await read(client, "read_messages", session_id=red.session_id)
            same = await read(over_http, "read_messages", session_id=red.session_id)

        assert (tools, page) == (TOOLS, same)
        assert [each["id"] for each in listed["sessions"]] == [red.session_id]


@pytest.mark.slow
def test_command_answers_all_requests_before_it_ends(server: str, session_id: str) -> None:
    """Requests just before the end of the input are also answered; a cancelled one is not."""
    protocol = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    call = {"name": "read_messages", "arguments": {"session_id": session_id}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": protocol},
        {"method": "notifications/initialized"},
        *({"id": id, "method": "tools/call", "params": call} for id in range(2, 6)),
        {"id": 6, "method": "tools/call", "params": call},
        {"method": "notifications/cancelled", "params": {"requestId": 6}},
    ]
    done = subprocess.run(
        [COMMAND, "mcp"],
        input="".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages),
        env={"PATH": os.environ["PATH"], "ASH_URL": server},
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT,
    )
    answers = {each["id"]: each for each in map(json.loads, done.stdout.splitlines())}

    assert sorted(answers.keys() - {6}) == [1, 2, 3, 4, 5]
    assert {answers[id]["result"].get("isError", False) for id in range(2, 6)} == {False}


@pytest.mark.slow
async def test_command_reports_a_missing_server() -> None:
    environment = {"PATH": os.environ["PATH"], "ASH_URL": "http://127.0.0.1:1"}
    command = StdioServerParameters(command=str(COMMAND), args=["mcp"], env=environment)
    async with Client(stdio_client(command)) as client:
        answer = await read(client, "list_sessions")

    assert "http://127.0.0.1:1 does not answer" in answer
