"""`ash hooks` for agents other than Claude Code and Codex: their files, and the commands, run as each agent does."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ash_client import AshClient
from ash_server.cli.hooks.agents import AGENTS
from ash_server.store import Store
from tests.server.agent_homes import TRANSCRIPTS, write_agent_home
from tests.server.api.conftest import create_key
from tests.server.cli.test_cli_serve import COMMAND
from tests.server.cli.test_hooks_command import Laptop, server
from tests.server.opencode_database import CHILD, PARENT, write_database
from tests.server.transcripts import CURSOR, CURSOR_CHILD, GEMINI, GEMINI_CHILD, write
from tests.waiting import TIMEOUT, until

__all__ = ["server"]

PAGE = Path(__file__).parents[3] / "docs/hooks.md"
GEMINI_CHAT = f".gemini/tmp/0a0a/chats/session-2026-03-04T11-00-{GEMINI[:8]}.jsonl"
OPENCODE = ".local/share/opencode/opencode.db"

_CURSOR_HOOKS = """{
    "version": 1,
    "hooks": {
        "stop": [
            {
                "command": "bell"
            }
        ]
    }
}"""

FILES: Mapping[str, tuple[str | None, str]] = {
    "gemini_cli": ('{"model": {"name": "m-1"}, "theme": "dark"}', "name"),
    "antigravity": ('{"linter": {"Stop": [{"command": "make lint"}]}}\n', "linter"),
    "copilot_cli": (None, ""),
    "cursor": (_CURSOR_HOOKS, "bell"),
    "opencode": (None, ""),
}
"""A settings file of each agent before the installation, and a word in it."""


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    return Laptop(tmp_path)


def hooks_of(laptop: Laptop, agent: str) -> Any:
    return json.loads(laptop.settings(agent).read_text())


def test_entries_of_each_agent(laptop: Laptop) -> None:
    agents = [agent for agent in FILES if agent != "opencode"]
    ran = [laptop.hooks("install", agent, "--yes") for agent in agents]

    def command(agent: str) -> str:
        return f"{COMMAND} hooks run {agent} || echo '{{}}'"

    gemini = {"type": "command", "name": "ash", "timeout": 10_000, "command": command("gemini_cli")}
    antigravity = {"type": "command", "timeout": 10, "command": command("antigravity")}
    copilot = {"type": "command", "timeoutSec": 10, "bash": command("copilot_cli")}
    cursor = {"timeout": 10, "command": command("cursor")}
    assert [each.returncode for each in ran] == [0, 0, 0, 0]
    assert {agent: hooks_of(laptop, agent) for agent in agents} == {
        "gemini_cli": {
            "hooks": {event: [{"hooks": [gemini]}] for event in ("AfterAgent", "PreCompress", "SessionEnd")}
        },
        "antigravity": {"ash": {"Stop": [antigravity]}},
        "copilot_cli": {
            "version": 1,
            "hooks": {event: [copilot] for event in AGENTS["copilot_cli"].events},
        },
        "cursor": {
            "version": 1,
            "hooks": {event: [cursor] for event in AGENTS["cursor"].events},
        },
    }


@pytest.mark.parametrize("agent", FILES)
@pytest.mark.parametrize("changes", [False, True])
def test_remove_leaves_the_file_as_it_was(laptop: Laptop, agent: str, *, changes: bool) -> None:
    """Also if another program has changed it: then only the hooks are removed."""
    text, word = FILES[agent]
    path = laptop.settings(agent)
    if text is not None:
        write(path, text)
    urls = [(), ("--url", "http://a"), ("--url", "http://a")]
    installed = [laptop.hooks("install", agent, "--yes", *url) for url in urls]
    shown = laptop.hooks("show").stdout
    if changes and text is not None:
        path.write_text(path.read_text().replace(word, "other"))
    removed = laptop.hooks("remove", agent, "--yes")

    assert [each.returncode for each in (*installed, removed)] == [0, 0, 0, 0], removed.stderr
    assert "stays as it is" in installed[2].stdout
    assert shown.count("--url http://a") == len(AGENTS[agent].events)
    assert (path.read_text() if path.exists() else None) == (
        text.replace(word, "other") if changes and text else text
    )
    assert laptop.hooks("remove", agent, "--yes").stderr.endswith("has no hooks of Ash\n")


@pytest.mark.parametrize("agent", FILES)
def test_remove_needs_no_record(laptop: Laptop, agent: str) -> None:
    text, _ = FILES[agent]
    path = laptop.settings(agent)
    if text is not None:
        write(path, text)
    laptop.hooks("install", agent, "--yes")
    (laptop.home / ".ash" / f"hooks-{agent}.json").unlink()

    assert laptop.hooks("remove", agent, "--yes").returncode == 0
    assert (path.read_text() if path.exists() else None) == text


@pytest.mark.parametrize(
    ("agent", "text", "reason"),
    [
        ("gemini_cli", '{"hooks": {"AfterAgent": {}}}', "it has no object 'hooks' with a list per event"),
        ("antigravity", '{"ash": {"Stop": [{"command": "ash-tray"}]}}', "its 'ash' does not belong to Ash"),
        ("antigravity", '{"ash": []}', "it has no object 'ash' with a list per event"),
        ("copilot_cli", '{"version": 1, "hooks": []}', "it has no object 'hooks' with a list per event"),
        ("cursor", '{"hooks": {},}', "it is not valid JSON"),
        ("opencode", "export default {}", "it is not the plugin of Ash"),
    ],
)
def test_refuses_files_that_it_does_not_understand(
    laptop: Laptop, agent: str, text: str, reason: str
) -> None:
    path = write(laptop.settings(agent), text)
    ran = laptop.hooks("install", agent, "--yes")

    assert (ran.returncode, path.read_text()) == (1, text)
    assert f"{path}: {reason}" in ran.stderr.replace("\n", " ")


def test_show_names_files_that_it_does_not_understand(laptop: Laptop) -> None:
    write(laptop.settings("gemini_cli"), "// dark\n{}")
    write(laptop.settings("opencode"), "export default {}")
    shown = laptop.hooks("show")

    lines = shown.stdout.splitlines()
    assert shown.returncode == 0
    assert lines[lines.index(f"Gemini CLI  {laptop.settings('gemini_cli')}") + 1].startswith(
        "  it is not valid JSON"
    )
    assert (
        lines[lines.index(f"OpenCode  {laptop.settings('opencode')}") + 1] == "  it is not the plugin of Ash"
    )
    assert lines.count("  no hooks of Ash") == len(AGENTS) - 2


def test_page_lists_the_agents() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    listed = {name.strip().strip("`"): (title.strip(), file) for title, name, file, _ in rows}

    assert [*listed] == [*AGENTS]
    for name, agent in AGENTS.items():
        title, file = listed[name]
        path = "/".join(filter(None, ("~", agent.folder, agent.file)))
        assert (title, path in file, agent.variable is None or agent.variable in file) == (
            agent.title,
            True,
            True,
        )


class Call(NamedTuple):
    """The input of a hook, as its agent writes it."""

    event: str
    document: Mapping[str, Any]
    sessions: tuple[str, ...]
    """External ids of the sessions to store."""


def calls(home: Path) -> Mapping[str, Call]:
    antigravity, _ = TRANSCRIPTS["antigravity"]
    return {
        "gemini_cli": Call(
            "AfterAgent",
            {
                "session_id": GEMINI,
                "transcript_path": str(home / GEMINI_CHAT),
                "cwd": "/work/shop",
                "hook_event_name": "AfterAgent",
                "timestamp": "2026-03-04T11:00:05.000Z",
                "prompt": "Sort",
                "prompt_response": "Sorted.",
                "stop_hook_active": False,
            },
            (GEMINI_CHAT.removeprefix(".gemini/"), f"tmp/0a0a/chats/{GEMINI}/{GEMINI_CHILD}.jsonl"),
        ),
        "antigravity": Call(
            "Stop",
            {
                "executionNum": 1,
                "terminationReason": "model_stop",
                "error": "",
                "fullyIdle": True,
                "conversationId": "antigravity-1",
                "workspacePaths": ["/work/shop"],
                "transcriptPath": str(home / antigravity),
                "artifactDirectoryPath": str(home / ".gemini/antigravity-cli/brain/antigravity-1"),
            },
            ("antigravity-cli/brain/antigravity-1",),
        ),
        "copilot_cli": Call(
            "sessionEnd",
            {"sessionId": "copilot-1", "timestamp": 1_772_442_001_000, "cwd": "/work", "reason": "complete"},
            ("session-state/copilot-1/events.jsonl",),
        ),
        "cursor": Call(
            "stop",
            {
                "conversation_id": CURSOR,
                "generation_id": "g-1",
                "model": "m-1",
                "hook_event_name": "stop",
                "cursor_version": "2026.02.13",
                "workspace_roots": ["/work/shop"],
                "user_email": None,
                "transcript_path": None,
                "status": "completed",
                "loop_count": 0,
            },
            (
                f"projects/work-shop/agent-transcripts/{CURSOR}/{CURSOR}.jsonl",
                f"projects/work-shop/agent-transcripts/{CURSOR}/subagents/{CURSOR_CHILD}.jsonl",
            ),
        ),
    }


def run_plugin(laptop: Laptop, *events: Mapping[str, Any], version: int) -> subprocess.CompletedProcess[str]:
    """Load the plugin as OpenCode does, and send it events."""
    script = """
        const [path, version, text] = process.argv.slice(1), events = JSON.parse(text)
        const plugin = (await import(path)).default
        if (version === "1") {
            const hooks = await plugin.server({ directory: "/work" })
            await plugin.setup({ agent: {} })
            for (const event of events) await hooks.event({ event })
        } else {
            const subscribe = async function* () { yield* events }
            const stop = await plugin.setup({ event: { subscribe } })
            await new Promise((resolve) => setImmediate(resolve))
            stop()
        }
        console.log(plugin.id)
    """
    path = laptop.settings("opencode").rename(laptop.settings("opencode").with_suffix(".mjs"))
    return subprocess.run(
        ["node", "--input-type=module", "--eval", script, str(path), str(version), json.dumps(events)],
        capture_output=True,
        text=True,
        env=laptop._replace(url="", key="").variables(),
        check=False,
        timeout=TIMEOUT,
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
async def test_hooks_push_the_session_of_each_agent(tmp_path: Path, server: str, store: Store) -> None:
    home = write_agent_home(tmp_path / "a home")
    write_database(home / OPENCODE)
    late = home / TRANSCRIPTS["antigravity"][0]  # it is written after the hook has begun
    late.rename(home / "transcript")
    key = await create_key(store, "laptop", "red", "read", "write")
    laptop = Laptop(home, server, key)
    ran = {}
    for agent, call in calls(home).items():
        assert laptop.hooks("install", agent, "--yes").returncode == 0
        commands = AGENTS[agent].form.commands(laptop.settings(agent).read_text())
        ran[agent] = laptop.run_command(commands[call.event], call.document)
    (home / "transcript").rename(late)
    laptop.hooks("install", "opencode", "--yes")
    idle = {"type": "session.idle", "properties": {"sessionID": PARENT}}
    plugin = run_plugin(laptop, idle, {"type": "session.created", "properties": {"info": {}}}, version=1)

    assert {
        agent: (each.returncode, each.stdout, each.stderr) for agent, each in ran.items()
    } == dict.fromkeys(ran, (0, "{}", ""))
    assert (plugin.returncode, plugin.stdout, plugin.stderr) == (0, "ash\n", "")
    expected = {*(id for call in calls(home).values() for id in call.sessions), f"opencode.db/{PARENT}"}
    with AshClient(server, key) as ash:
        await until(lambda: len(list(ash.sessions())) == len(expected))
        assert {session.external_id for session in ash.sessions()} == expected


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize(
    ("version", "event", "field"),
    [
        (1, "session.idle", "properties"),
        pytest.param(1, "session.compacted", "properties", marks=pytest.mark.slow),
        (2, "session.execution.succeeded", "data"),
        pytest.param(2, "session.execution.interrupted", "data", marks=pytest.mark.slow),
    ],
)
async def test_plugin_reports_the_session(laptop: Laptop, version: int, event: str, field: str) -> None:
    laptop.hooks("install", "opencode", "--yes")
    other = {"type": "session.updated", field: {"sessionID": CHILD}}
    ran = run_plugin(laptop, other, {"type": event, field: {"sessionID": PARENT}}, version=version)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ash\n", "")

    def headings() -> list[str]:
        log = laptop.home / ".ash/hooks.log"
        return re.findall(r"Z (opencode .*)\n", laptop.log()) if log.exists() else []

    await until(lambda: bool(headings()))
    assert headings() == [f"opencode {event}: session {PARENT}"]


@pytest.mark.parametrize(
    "id", ["../../etc/passwd", "*", "a/b", "-x", "", 1, None, "x" * 300], ids=lambda id: f"{id!s:.9}"
)
def test_ids_of_sessions_are_no_paths(laptop: Laptop, id: object) -> None:
    document = {"sessionId": id, "hook_event_name": "sessionEnd"}
    ran = laptop.hooks("run", "copilot_cli", answer=json.dumps(document))

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "{}", "")
    assert laptop.log().endswith("Z copilot_cli sessionEnd: no transcript\n")


@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent != "opencode"])
def test_hooks_never_fail(laptop: Laptop, agent: str) -> None:
    ran = [laptop.hooks("run", agent, answer=document) for document in ("", "no JSON", "[]", "{}")]

    assert [(each.returncode, each.stdout, each.stderr) for each in ran] == [
        (0, AGENTS[agent].output, "")
    ] * 4
