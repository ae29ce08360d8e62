"""`ash hooks`: its changes to the settings of CLIs, and the installed command, run as a CLI runs it."""

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ash_client import AshClient
from ash_server.app import create_app
from ash_server.cli.common.client import key_for
from ash_server.cli.common.server_keys import save_key
from ash_server.cli.hooks.agents import AGENTS
from ash_server.cli.hooks.settings_file import HooksMember, SettingsFileInvalid
from ash_server.settings import Settings
from ash_server.store import Store
from tests.conftest import POOLER
from tests.server.api.conftest import SECRET, create_key, served
from tests.server.cli.test_cli import ran_here
from tests.server.cli.test_cli_serve import COMMAND
from tests.server.cli.test_push_command import SESSION, TRANSCRIPT, said, stored_messages, write
from tests.waiting import TIMEOUT, until, wait_until

FORM = HooksMember()
EVENTS = ["Stop", "SubagentStop", "PreCompact", "SessionEnd"]
ENTRY = {"type": "command", "command": "/opt/ash/bin/ash hooks run claude || true"}
OTHER = {"type": "command", "command": "notify-send done"}

PLAIN = """{
  "model": "opus",
  "permissions": {"allow": ["Bash(ls:*)"], "deny": []}
}
"""
WITH_HOOKS = """{
    "hooks": {
        "Stop": [
            {
                "matcher": "",
                "hooks": [
                    {
                        "type": "command",
                        "command": "notify-send done"
                    }
                ]
            }
        ]
    },
    "été": 1.50,   "a": [1,2]
}
"""


class Laptop(NamedTuple):
    home: Path
    url: str = ""
    key: str = ""
    database_url: str = ""

    def variables(self) -> dict[str, str]:
        settings = {"ASH_URL": self.url, "ASH_KEY": self.key, "ASH_DATABASE_URL": self.database_url}
        return {**POOLER, "PATH": os.environ["PATH"], "HOME": str(self.home), **settings}

    def hooks(self, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command here, except the ones that a CLI starts: `send` becomes another program."""
        if arguments[0] not in ("run", "send"):
            ran = ran_here(["hooks", *arguments], self.variables(), self.home, answer.encode())
            return subprocess.CompletedProcess(arguments, ran.code, ran.out, ran.err)
        return subprocess.run(
            [COMMAND, "hooks", *arguments],
            input=answer,
            capture_output=True,
            text=True,
            env=self.variables(),
            check=False,
            timeout=TIMEOUT,
        )

    def settings(self, agent: str = "claude") -> Path:
        return self.home / AGENTS[agent].folder / AGENTS[agent].file

    def entries(self, event: str, agent: str = "claude") -> list[Any]:
        hooks = json.loads(self.settings(agent).read_text())["hooks"]
        return [handler for group in hooks[event] for handler in group["hooks"]]

    def run_hook(self, event: str, path: Path, **fields: object) -> subprocess.CompletedProcess[str]:
        """Run the installed command as Claude Code does."""
        [entry] = self.entries(event)
        names = {"session_id": SESSION, "cwd": "/work/shop", "hook_event_name": event}
        return self.run_command(entry["command"], {**names, "transcript_path": str(path), **fields})

    def run_command(self, command: str, document: object) -> subprocess.CompletedProcess[str]:
        """Run an installed command with a shell, and the event as JSON on standard input."""
        return subprocess.run(
            ["bash", "-c", command],
            input=json.dumps(document),
            capture_output=True,
            text=True,
            env=self._replace(url="", key="").variables(),
            check=False,
            timeout=TIMEOUT,
        )

    def log(self) -> str:
        return (self.home / ".ash" / "hooks.log").read_text()


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    return Laptop(tmp_path)


@pytest.fixture
def server(database_url: str) -> Iterator[str]:
    with served(create_app(Settings(secret=SECRET), database_url=database_url)) as address:
        yield address


@pytest.mark.parametrize("text", [None, "", " \n", "{}", '{"hooks": {}}\n', PLAIN, PLAIN.strip(), WITH_HOOKS])
def test_adds_entries_and_keeps_the_rest(text: str | None) -> None:
    added = FORM.add(text, {"Stop": ENTRY, "SessionEnd": ENTRY})
    before = json.loads(text) if text and text.strip() else {}
    others = before.get("hooks", {}).get("Stop", [])

    assert json.loads(added) == {
        **before,
        "hooks": {"Stop": [*others, {"hooks": [ENTRY]}], "SessionEnd": [{"hooks": [ENTRY]}]},
    }
    assert FORM.commands(added) == {"Stop": ENTRY["command"], "SessionEnd": ENTRY["command"]}
    assert FORM.add(added, {"Stop": ENTRY, "SessionEnd": ENTRY}) == added
    assert json.loads(str(FORM.remove(added))) == {name: value for name, value in before.items() if value}


@pytest.mark.parametrize("text", [PLAIN, PLAIN.strip(), WITH_HOOKS])
def test_removed_entries_leave_every_byte(text: str) -> None:
    assert FORM.remove(FORM.add(text, {"Stop": ENTRY, "SessionEnd": ENTRY})) == text
    assert FORM.remove(text) == text


def test_removes_own_entries_from_groups_with_others() -> None:
    hooks = {
        "Stop": [{"hooks": [OTHER, ENTRY]}, {"hooks": []}, "odd"],
        "PreCompact": [{"matcher": "auto", "hooks": [{**ENTRY, "command": "'/a b/ash' hooks run codex"}]}],
        "Notification": [],
    }
    text = json.dumps({"first": 1, "hooks": hooks, "last": {"hooks": 2}})

    assert json.loads(str(FORM.remove(text))) == {
        "first": 1,
        "hooks": {"Stop": [{"hooks": [OTHER]}, {"hooks": []}, "odd"], "Notification": []},
        "last": {"hooks": 2},
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1,}', "it is not valid JSON"),
        ("// comment\n{}", "it is not valid JSON"),
        ("[]", "it has no object 'hooks' with a list per event"),
        ('{"hooks": []}', "it has no object 'hooks' with a list per event"),
        ('{"hooks": {"Stop": {}}}', "it has no object 'hooks' with a list per event"),
    ],
)
def test_rejects_files_that_it_does_not_understand(text: str, reason: str, laptop: Laptop) -> None:
    path = write(laptop.settings(), text)
    ran = laptop.hooks("install", "claude", "--yes")

    assert (ran.returncode, ran.stdout, path.read_text()) == (1, "", text)
    assert f"{path}: {reason}" in ran.stderr.replace("\n", " ")
    assert "nothing was changed" in ran.stderr
    with pytest.raises(SettingsFileInvalid):
        FORM.add(text, {})


@pytest.mark.parametrize("text", [None, '{"hooks": {}}\n', WITH_HOOKS])
def test_remove_restores_the_file(laptop: Laptop, text: str | None) -> None:
    path = laptop.settings()
    if text is not None:
        write(path, text).chmod(0o640)
    installed = [laptop.hooks("install", "claude", "--yes", *each) for each in ((), ("--url", "http://a"))]
    mode = stat.S_IMODE(path.stat().st_mode)
    names = list(json.loads(path.read_text())["hooks"])
    removed = laptop.hooks("remove", "claude", "--yes")

    assert [each.returncode for each in (*installed, removed)] == [0, 0, 0]
    assert names == EVENTS
    assert mode == (0o600 if text is None else 0o640)
    assert (path.read_text() if path.exists() else None) == text
    assert laptop.hooks("remove", "claude", "--yes").stderr.endswith("has no hooks of Ash\n")
    assert [each for each in path.parent.iterdir() if each != path] == []
    assert list((laptop.home / ".ash").iterdir()) == []


def test_remove_keeps_later_changes(laptop: Laptop) -> None:
    path = write(laptop.settings(), PLAIN)
    laptop.hooks("install", "claude", "--yes")
    path.write_text(path.read_text().replace("opus", "sonnet"))
    laptop.hooks("remove", "claude", "--yes")

    assert path.read_text() == PLAIN.replace("opus", "sonnet")


def test_remove_needs_no_record(laptop: Laptop) -> None:
    path = write(laptop.settings(), PLAIN)
    laptop.hooks("install", "claude", "--yes")
    (laptop.home / ".ash" / "hooks-claude.json").write_text("damaged")

    assert laptop.hooks("remove", "claude", "--yes").returncode == 0
    assert path.read_text() == PLAIN


def test_shows_the_change_and_asks(laptop: Laptop) -> None:
    path = write(laptop.settings(), PLAIN)
    ran = laptop.hooks("install", "claude", answer="n\n")

    assert (ran.returncode, path.read_text()) == (130, PLAIN)
    assert '+  "hooks": {' in ran.stdout
    assert "Go on?" in ran.stdout
    assert not (laptop.home / ".ash").exists()


def test_writes_through_a_link(laptop: Laptop, tmp_path: Path) -> None:
    target = write(tmp_path / "dotfiles" / "claude.json", PLAIN)
    laptop.settings().parent.mkdir()
    laptop.settings().symlink_to(target)
    laptop.hooks("install", "claude", "--yes")

    assert laptop.settings().is_symlink()
    assert list(FORM.commands(target.read_text())) == EVENTS


def test_entries_of_each_cli(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, "https://ash.example.com/", "ash_secret")
    ran = {agent: laptop.hooks("install", agent, "--yes") for agent in ("claude", "codex")}
    entries = {agent: [laptop.entries(event, agent) for event in EVENTS] for agent in ran}
    command = f"{COMMAND} hooks run {{}} --url https://ash.example.com || true"
    claude = {"type": "command", "command": command.format("claude"), "async": True, "timeout": 10}
    codex = {"type": "command", "command": command.format("codex"), "timeout": 3}

    assert entries == {"claude": [[claude]] * 4, "codex": [[codex]] * 4}
    assert "/hooks" in ran["codex"].stdout
    saved = tmp_path / ".ash" / "server-keys.json"
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert not any("ash_secret" in each.stdout for each in ran.values())
    assert not any("ash_secret" in laptop.settings(agent).read_text() for agent in ran)
    shown = laptop.hooks("show").stdout
    assert shown.count(" --url https://ash.example.com || true") == 8


@pytest.mark.parametrize(
    ("key", "named", "sent"),
    [
        ("", "", {"a": "one", "b": "two", "c": None}),
        ("mine", "", {"a": "mine", "b": "mine", "c": "mine"}),
        ("mine", "https://a.example/", {"a": "mine", "b": "two", "c": None}),
    ],
)
def test_saved_key_belongs_to_one_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, named: str, sent: dict[str, str | None]
) -> None:
    for name, value in (("ASH_HOME", str(tmp_path)), ("ASH_KEY", key), ("ASH_URL", named)):
        monkeypatch.setenv(name, value)
    save_key(tmp_path, "https://a.example/", "one")
    save_key(tmp_path, "https://b.example", "two")

    assert {name: key_for(f"https://{name}.example") for name in "abc"} == sent


@pytest.mark.slow
async def test_installed_hook_pushes_what_is_new(tmp_path: Path, server: str, store: Store) -> None:
    """Each run takes the new lines, several at a time take each line once, and the end takes the last ones."""
    key = await create_key(store, "laptop", "red", "read", "write")
    laptop = Laptop(tmp_path, server, key)
    before = write(laptop.settings(), WITH_HOOKS.replace("Stop", "Notification")).read_bytes()
    assert laptop.hooks("install", "claude", "--yes").returncode == 0
    path = write(tmp_path / TRANSCRIPT, said(1, "Open the shop."))
    agent = tmp_path / TRANSCRIPT.replace(".jsonl", "/subagents/agent-a1.jsonl")
    with AshClient(server, key) as ash:
        stop = laptop.run_hook("Stop", path)
        await until(lambda: stored_messages(ash) == [1])
        with path.open("a") as file:
            file.write(said(2, "Close it."))
        write(agent, said(9, "Count the tills."))
        together = [
            laptop.run_hook("SubagentStop", path, agent_transcript_path=str(agent)),
            laptop.run_hook("PreCompact", path),
        ]
        await until(lambda: stored_messages(ash) == [1, 2])
        end = laptop.run_hook("SessionEnd", path, reason="exit")
        with path.open("a") as file:
            file.write(said(3, "Sell it."))
        await until(lambda: stored_messages(ash) == [1, 3])
        parent, child = sorted(ash.sessions(), key=lambda each: -each.message_count)
        assert child.parent_id == parent.id
        assert b"".join(ash.export(parent.id)) == path.read_bytes()

    assert [(each.returncode, each.stdout, each.stderr) for each in (stop, *together, end)] == [
        (0, "", "")
    ] * 4
    assert laptop.hooks("remove", "claude", "--yes").returncode == 0
    assert laptop.settings().read_bytes() == before


@pytest.mark.slow
def test_hook_without_a_server_imports(tmp_path: Path, database_url: str) -> None:
    laptop = Laptop(tmp_path, database_url=database_url)
    laptop.hooks("install", "claude", "--yes")
    laptop.run_hook("Stop", write(tmp_path / TRANSCRIPT, said(1, "Open the shop.")))

    wait_until(lambda: "1 session, messages: 1 new" in laptop.log())


@pytest.mark.parametrize("place", ["outside", "link", "folder", "pipe", "missing"])
def test_hook_reads_transcripts_of_its_cli_only(tmp_path: Path, database_url: str, place: str) -> None:
    laptop = Laptop(tmp_path, database_url=database_url)
    folder = write(tmp_path / TRANSCRIPT, said(1, "Open.")).parent
    outside = write(tmp_path / "outside.jsonl", said(2, "A secret."))
    (folder / "link.jsonl").symlink_to(outside)
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.jsonl")
    paths = {
        "outside": outside,
        "link": folder / "link.jsonl",
        "folder": folder / "folder" / "outside.jsonl",
        "pipe": folder / "pipe.jsonl",
        "missing": folder / "missing.jsonl",
    }
    ran = laptop.hooks("send", "claude", str(paths[place]))

    assert (ran.returncode, ran.stderr) == (0, "")
    reason = {"pipe": "not a regular file", "missing": "No such file"}.get(
        place, f"leads to {outside}, outside of"
    )
    assert f"ash: {paths[place]}: {reason}" in laptop.log()


@pytest.mark.slow
def test_hook_reads_what_it_has_checked(tmp_path: Path, database_url: str) -> None:
    """A transcript is not imported if a link replaces it while the hook waits."""
    laptop = Laptop(tmp_path, database_url=database_url)
    laptop.hooks("install", "claude", "--yes")
    path = write(tmp_path / TRANSCRIPT, said(1, "Open."))
    laptop.run_hook("Stop", path)
    link = tmp_path / "link"
    link.symlink_to(write(tmp_path / "outside.jsonl", said(2, "A secret.")))
    link.replace(path)

    wait_until(lambda: "outside of the folders to read" in " ".join(laptop.log().split()))


def test_hook_never_fails(laptop: Laptop) -> None:
    documents = ["", "no JSON", "[]", '{"transcript_path": null}', '{"transcript_path": "x"}']
    ran = [laptop.hooks("run", "claude", answer=document) for document in documents]

    assert [(each.returncode, each.stdout, each.stderr) for each in ran] == [(0, "", "")] * len(documents)
    assert len(laptop.log().splitlines()) == len(documents)


def test_saved_keys_that_are_no_json_are_named(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, "https://ash.example.com/", "ash_secret")
    path = tmp_path / ".ash" / "server-keys.json"
    path.parent.mkdir()
    path.write_text("{")
    ran = laptop.hooks("install", "claude", "--yes")

    assert (ran.returncode, str(path) in ran.stderr, "Traceback" in ran.stderr) == (1, True, False)
    assert path.read_text() == "{"
    assert not laptop.settings("claude").exists()
