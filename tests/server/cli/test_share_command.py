"""`ash share` and `ash scan`: secrets are counted, never printed, and links are created, listed and revoked."""

import json
import re
from pathlib import Path
from uuid import UUID

import pytest

from ash_server.store import Store
from ash_server.store.access.shares import ShareNotFound
from tests.server.cli.test_cli import Ran, ran_here
from tests.shared.records import claude

TOKEN = "xoxb-" + "2718281828-31415926535897932384626433"
"""A token in the format of Slack."""
GITHUB = "ghp_" + "a1B2c3D4e5" * 4


@pytest.fixture
def environment(tmp_path: Path, database_url: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path), "ASH_DATABASE_URL": database_url}


@pytest.fixture
async def secrets(store: Store) -> None:
    """A session with secrets, and one without."""
    session = await store.sessions.create(source="claude", external_id="secrets", title=f"Use {TOKEN}")
    texts = [f"{TOKEN} and {GITHUB}", "nothing", f"again {GITHUB} {GITHUB[:-1]}0"]
    lines = [json.dumps(claude.line("user", text)) for text in texts]
    await store.messages.append(session.id, lines)
    await store.sessions.update_labels(session.id, note=f"from {TOKEN}", archived=True)
    await store.sessions.create(external_id="clean")


def run(environment: dict[str, str], *arguments: str) -> Ran:
    return ran_here(arguments, environment, Path(environment["HOME"]))


@pytest.mark.usefixtures("secrets")
def test_secrets_are_listed_by_kind_and_place(environment: dict[str, str]) -> None:
    table, document, clean = [
        run(environment, *arguments) for arguments in (("scan",), ("scan", "--json"), ("scan", "clean"))
    ]
    [session] = json.loads(document.out)["sessions"]

    assert session["secrets"] == [
        {"kind": "slack token", "count": 1, "field": "title"},
        {"kind": "slack token", "count": 1, "field": "note"},
        {"kind": "github token", "count": 1, "message": 1},
        {"kind": "slack token", "count": 1, "message": 1},
        {"kind": "github token", "count": 2, "message": 3},
    ]
    assert [line.split() for line in table.out.splitlines()[2:]] == [
        ["slack", "token", "3", "title,", "note,", "message", "1"],
        ["github", "token", "3", "message", "1,", "message", "3"],
    ]
    assert table.err == "ash: 6 secrets in 1 session; secrets of unknown forms are not found\n"
    assert clean == Ran(0, "", "ash: 0 secrets in 0 sessions; secrets of unknown forms are not found\n")
    for secret in (TOKEN, GITHUB):
        assert secret not in table.out + table.err + document.out


@pytest.mark.usefixtures("secrets")
async def test_links_are_created_listed_and_revoked(store: Store, environment: dict[str, str]) -> None:
    refused = run(environment, "share", "secrets")
    run(environment, "keys", "create", "laptop")
    created = run(environment, "share", "secrets", "--expires", "2d")
    clean = run(environment, "share", "clean")
    public = run(environment | {"ASH_PUBLIC_URL": "https://ash.example/"}, "share", "clean")
    listed = run(environment, "share", "secrets", "--list")
    match = re.fullmatch(r"http://127\.0\.0\.1:4100/shares/(\S{36})#[A-Za-z0-9]{43}\n", created.out)
    assert match is not None, created
    revoked = run(environment, "share", "secrets", "--revoke", match[1])
    unknown = run(environment, "share", "secrets", "--revoke", match[1])
    too_long = run(environment, "share", "secrets", "--expires", "91d")

    assert (refused.code, "Create a key first" in refused.err) == (1, True)
    assert "6 secrets found, hidden by the link; secrets of unknown forms are not found" in created.err
    assert TOKEN not in created.err
    assert clean.err.splitlines() == [
        "ash: no secrets found; secrets of unknown forms are not found",
        "ash: the link begins with http://127.0.0.1:4100; set ASH_PUBLIC_URL if others reach the server at "
        "another address",
    ]
    assert public.out.startswith("https://ash.example/shares/")
    assert public.err == "ash: no secrets found; secrets of unknown forms are not found\n"
    assert match[1] in listed.out
    assert "up to message 3" in listed.out
    assert (revoked.out, unknown.code, too_long.code) == ("revoked\n", 1, 2)
    assert run(environment, "share", "secrets", "--list").out == "no links\n"
    with pytest.raises(ShareNotFound):
        await store.shares.get(UUID(match[1]))
