"""`ash open`: prints an address, opens it on a desktop, and serves it if no server runs."""

import json
import os
import pty
import re
import signal
import webbrowser
from pathlib import Path
from subprocess import PIPE, Popen
from urllib.request import Request, urlopen

import pytest

from ash_client import AshClient
from ash_server.cli.common.output import browser
from ash_server.cli.open import NotImported, _find_page
from ash_server.store.sessions import session_id_for
from tests.conftest import at_database, new_database
from tests.server.cli.test_cli import COMMAND, ran_here
from tests.server.cli.test_cli_serve import answer, running, stopped
from tests.server.opencode_database import PARENT, write_database
from tests.shared.records import claude

LINE = '{"type":"user","message":{"role":"user","content":"Why is it late?"}}\n'
UNKNOWN = "ash: no file and no session matches 'nothing'; `ash sessions` lists the sessions\n"
OWN = "No server was running, so this command runs one. Ctrl-C stops it; stored sessions are kept.\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "late.jsonl"
    file.write_text(LINE)
    return file


def opened(*arguments: str | Path, home: Path, **variables: str) -> tuple[int, str, str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), **variables}
    return ran_here(["open", *map(str, arguments)], environment, home)


def id_of(file: Path) -> str:
    return str(session_id_for("claude", str(file)))


def page(url: str) -> str:
    with urlopen(Request(url, headers={"Accept": "text/html"})) as response:
        assert response.status == 200
        text: str = response.read().decode()
        return text


@pytest.mark.slow
def test_opens_pages_of_a_running_server(database_url: str, tmp_path: Path, file: Path) -> None:
    store = {"ASH_HOME": str(tmp_path / "ash"), "ASH_DATABASE_URL": database_url}
    id = id_of(file)
    in_database = write_database(tmp_path / "shop.db") / PARENT
    with running("serve", "--port", "0", home=tmp_path, ASH_DATABASE_URL=database_url) as ash:
        here = {**store, "ASH_URL": ash.address}
        at = f"{ash.address}/sessions/{id}\n"
        at_other = f"{ash.address}/sessions/{session_id_for('opencode', str(in_database))}\n"
        cases: list[tuple[tuple[str | Path, ...], tuple[int, str, str]]] = [
            ((), (0, f"{ash.address}/\n", "")),
            (("nothing",), (1, "", UNKNOWN)),
            ((file,), (0, at, "")),
            ((file,), (0, at, "")),
            ((id,), (0, at, "")),
            ((id[:8],), (0, at, "")),
            ((file.name,), (0, at, "")),
            ((in_database,), (0, at_other, "")),
            ((in_database.parent,), (0, f"{ash.address}/\n", "")),
        ]
        for arguments, expected in cases:
            assert opened(*arguments, home=tmp_path, **here) == expected, arguments
        assert opened("--url", ash.address, id, home=tmp_path, **store) == (0, at, "")
        assert answer(f"{ash.address}/api/sessions/{id}")["messageCount"] == 1


@pytest.mark.slow
def test_code_for_a_phone(database_url: str, tmp_path: Path, file: Path) -> None:
    store = {"ASH_HOME": str(tmp_path / "ash"), "ASH_DATABASE_URL": database_url, "ASH_SECRET": "s" * 16}
    public = {"ASH_PUBLIC_URL": "https://ash.example/"}
    _, out, _ = ran_here(["keys", "create", "laptop"], store, tmp_path)
    key = {"ASH_KEY": out.split()[-1]}
    stopped_server = opened("--qr", home=tmp_path, ASH_PORT="1", **store)
    with running("serve", "--port", "0", home=tmp_path, **store) as ash:
        here = {**store, **key, "ASH_URL": ash.address}
        opened(file, home=tmp_path, **here)
        (tmp_path / ".env").write_text("ASH_PUBLIC_URL=https://other.example\n")
        hidden = opened("--qr", home=tmp_path, **here)
        shown = opened("--qr", id_of(file)[:8], home=tmp_path, **here, **public)

    assert (stopped_server[0], "start it with `ash serve`" in stopped_server[2]) == (1, True)
    assert (hidden[0], "which only this machine reaches" in hidden[2]) == (1, True)
    drawn, _, address = shown[1].rstrip("\n").rpartition("\n")
    link = rf"https://ash\.example/login/code\?next=/sessions/{id_of(file)}#[A-Za-z0-9]{{43}}"
    assert re.fullmatch(link, address), shown
    assert set(drawn) <= set(" \n▀▄█")
    assert "The phone can then read what the key laptop reads" in shown[2]


def test_code_of_a_server_without_keys_is_its_address(database_url: str, tmp_path: Path, file: Path) -> None:
    store = {"ASH_HOME": str(tmp_path / "ash"), "ASH_DATABASE_URL": database_url}
    with running("serve", "--port", "0", home=tmp_path, ASH_DATABASE_URL=database_url) as ash:
        here = {**store, "ASH_URL": ash.address, "ASH_PUBLIC_URL": "https://ash.example"}
        code, out, err = opened("--qr", home=tmp_path, **here)

    assert (code, out.splitlines()[-1], err) == (0, "https://ash.example/", "")


@pytest.mark.slow
def test_serves_if_no_server_runs(database_url: str, tmp_path: Path, file: Path) -> None:
    own = {"ASH_DATABASE_URL": database_url, "ASH_PORT": "0"}
    with running("open", str(file), home=tmp_path, **own) as ash:
        address, _, stderr = ash.output.partition("\n")

        assert (address, stderr) == (f"{ash.address}/sessions/{id_of(file)}", OWN)
        assert "Why is it late?" in page(address)
        assert stopped(ash.process, signal.SIGINT) == (0, "", "")
    with running("open", id_of(file)[:8], home=tmp_path, **own) as ash:
        assert ash.output == f"{ash.address}/sessions/{id_of(file)}\n{OWN}"
        assert stopped(ash.process, signal.SIGTERM) == (0, "", "")
    with running("open", home=tmp_path, **own) as ash:
        assert ash.output == f"{ash.address}/\n{OWN}"
    assert opened("nothing", home=tmp_path, **own)[::2] == (
        1,
        "ash: no session matches 'nothing'; `ash sessions` lists them\n",
    )


def test_an_explicit_server_must_answer(tmp_path: Path, file: Path) -> None:
    nowhere = "http://127.0.0.1:1"

    for arguments, variables in (((file, "--url", nowhere), {}), ((file,), {"ASH_URL": nowhere})):
        code, stdout, stderr = opened(*arguments, home=tmp_path, **variables)
        assert (code, stdout) == (1, "")
        assert stderr.startswith(f"ash: {nowhere} does not answer: ")


def test_rejects_a_server_with_another_store(
    database_url: str, server_url: str, template: str, tmp_path: Path, file: Path
) -> None:
    with (
        new_database(server_url, f"TEMPLATE {template} STRATEGY FILE_COPY") as name,
        running("serve", "--port", "0", home=tmp_path, ASH_DATABASE_URL=at_database(server_url, name)) as ash,
    ):
        code, stdout, stderr = opened(file, home=tmp_path, ASH_URL=ash.address, ASH_DATABASE_URL=database_url)

    assert (code, stdout) == (1, "")
    assert stderr.startswith(f"ash: {ash.address} uses another store than this command")


def test_a_file_is_not_imported_for_a_server_of_another_machine(tmp_path: Path, file: Path) -> None:
    with (
        AshClient("https://ash.example.com") as server,
        pytest.raises(NotImported, match="`ash push FILE` sends"),
    ):
        _find_page(server, str(file), file)


def test_writes_a_page_without_a_store(tmp_path: Path, file: Path) -> None:
    nowhere = {"ASH_DATABASE_URL": "postgresql://127.0.0.1:1/nowhere", "ASH_HOME": str(tmp_path / "ash")}
    code, stdout, stderr = opened(file, "--no-store", home=tmp_path, **nowhere)

    shown = Path(stdout.strip().removeprefix("file://"))
    assert (code, stderr) == (0, "")
    assert (shown.parent, shown.suffix, shown.stat().st_mode & 0o777) == (tmp_path, ".html", 0o600)
    text = shown.read_text()
    events = text.split('id="events">')[1].split("</script>")[0]
    assert [event["type"] for event in json.loads(events)] == ["turn_start", "user_message"]
    assert f'data-session-id="{id_of(file)}"' in text
    assert not (tmp_path / "ash").exists()


PRICED = claude.line(
    "assistant",
    [claude.text("Done.")],
    {"id": "m1", "model": "claude-opus-4-5", "usage": {"input_tokens": 100_000, "output_tokens": 0}},
    timestamp="2026-11-28T09:00:00Z",
)


def test_page_without_a_store_has_the_cost(tmp_path: Path, file: Path) -> None:
    """Opus costs $5 per million input tokens. Without readable prices, the reason is printed."""
    file.write_text(f"{json.dumps(PRICED)}\n")
    shown = {}
    for prices in ("{}", "{"):
        own = tmp_path / "own.json"
        own.write_text(prices)
        code, stdout, stderr = opened(file, "--no-store", home=tmp_path, ASH_PRICES=str(own))
        text = Path(stdout.strip().removeprefix("file://")).read_text()
        usage = json.loads(text.split('id="usage">')[1].split("</script>")[0])
        shown[prices] = code, usage and usage["costUsd"], stderr.partition(": /")[0]

    assert shown == {"{}": (0, 0.5, ""), "{": (0, None, "ash: costs are missing")}


@pytest.mark.slow
def test_deletes_the_page_without_a_store(tmp_path: Path, file: Path) -> None:
    old, recent = tmp_path / "ash-page-old.html", tmp_path / "ash-page-recent.html"
    for page in (old, recent):
        page.touch()
    os.utime(old, (0, 0))
    terminal, stdin = pty.openpty()
    command = [str(COMMAND), "open", str(file), "--no-store"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    with Popen(command, stdin=stdin, stdout=PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        shown = Path(process.stdout.readline().strip().removeprefix("file://"))
        assert (process.stdout.readline(), shown.exists()) == ("Ctrl-C deletes this page.\n", True)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    os.close(terminal)
    os.close(stdin)

    assert [page.name for page in tmp_path.glob("*.html")] == [recent.name]


def test_no_store_reports_unreadable_input_and_bad_usage(tmp_path: Path, file: Path) -> None:
    file.write_bytes(LINE.encode() + b"\xff\n")
    usage = "ash: --no-store needs a FILE and no server (see `ash open --help`)\n"

    code, stdout, stderr = opened(file, "--no-store", home=tmp_path)
    assert (code, stdout.startswith("file://")) == (1, True)
    assert stderr == f"ash: {file}:2: not shown: is not valid UTF-8 (at byte {len(LINE)})\n"
    assert opened("--no-store", home=tmp_path) == (2, "", usage)
    assert opened(file, "--no-store", "--url", "http://127.0.0.1:1", home=tmp_path) == (2, "", usage)
    assert opened("nothing", "--no-store", home=tmp_path) == (
        1,
        "",
        "ash: nothing: No such file or directory\n",
    )
    assert opened(tmp_path, "--no-store", home=tmp_path) == (1, "", f"ash: {tmp_path}: not a regular file\n")
    assert opened("", home=tmp_path)[0] == 2


@pytest.mark.parametrize(
    ("environ", "platform", "has_desktop"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "linux", False),
        ({}, "darwin", True),
        ({"DISPLAY": ""}, "linux", False),
        ({"DISPLAY": ":0", "ASH_NO_BROWSER": "1"}, "linux", False),
        ({"DISPLAY": ":0", "CI": "true"}, "linux", False),
        ({"DISPLAY": ":10", "SSH_CONNECTION": "a 1 b 22"}, "linux", False),
        ({"SSH_TTY": "/dev/ttys001"}, "darwin", False),
        ({"SSH_CLIENT": "a 1 22"}, "darwin", False),
    ],
)
def test_detects_a_desktop(environ: dict[str, str], platform: str, has_desktop: bool) -> None:
    assert browser.has_desktop(environ, platform) is has_desktop


@pytest.mark.parametrize("has_desktop", [True, False])
def test_opens_a_browser_only_on_a_desktop(monkeypatch: pytest.MonkeyPatch, has_desktop: bool) -> None:
    opened = list[str]()
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(browser, "has_desktop", lambda: has_desktop)

    if thread := browser.open_browser("http://127.0.0.1:4100/"):
        thread.join()

    assert opened == ["http://127.0.0.1:4100/"] * has_desktop
