"""`ash rename`, `star`, `tag`, `note` and `archive`."""

import json
from pathlib import Path
from typing import Any

import pytest

from ash_server.store import Store
from tests.server.cli.test_cli import Ran, ran_here


@pytest.fixture
def environment(tmp_path: Path, database_url: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path), "ASH_DATABASE_URL": database_url}


def run(environment: dict[str, str], *arguments: str, stdin: bytes = b"") -> Ran:
    return ran_here(arguments, environment, Path(environment["HOME"]), stdin)


async def labels(store: Store, name: str) -> Any:
    session = await store.sessions.find_one(name)
    return session.labels and session.labels.model_dump()


async def test_labels_are_changed_and_printed(store: Store, environment: dict[str, str]) -> None:
    for name in ("one", "two"):
        await store.sessions.create(external_id=name)
    done = [
        run(environment, *arguments, stdin=b"# Why\n\nBroken.\n")
        for arguments in (
            ("rename", "one", "A heron"),
            ("star", "one", "two", "one"),
            ("star", "two", "--remove"),
            ("tag", "one", "add", "flaky", "needs review"),
            ("tag", "one", "remove", "flaky"),
            ("tag", "one"),
            ("note", "one", "-"),
            ("note", "one"),
            ("archive", "one"),
        )
    ]

    assert done == [
        Ran(0, "1 session renamed\n", ""),
        Ran(0, "2 sessions starred\n", ""),
        Ran(0, "1 session without a star\n", ""),
        Ran(0, "1 session tagged\n", ""),
        Ran(0, "1 session without these tags\n", ""),
        Ran(0, "needs review\n", ""),
        Ran(0, "1 session annotated\n", ""),
        Ran(0, "# Why\n\nBroken.\n\n", ""),
        Ran(0, "1 session archived\n", ""),
    ]
    assert (await store.sessions.find_one("one")).title == "A heron"
    assert await labels(store, "one") == {
        "starred": True,
        "archived": True,
        "tags": ["needs review"],
        "note": "# Why\n\nBroken.\n",
    }
    assert await labels(store, "two") is None


async def test_lists_hide_archived_sessions_and_searches_find_them(
    store: Store, environment: dict[str, str]
) -> None:
    for name in ("heron", "kept"):
        await store.sessions.create(external_id=name)
    run(environment, "archive", "heron")
    listed = json.loads(run(environment, "sessions", "--json").out)["sessions"]
    found = json.loads(run(environment, "search", "heron", "--json").out)["sessions"]
    run(environment, "note", "kept", "about herons")
    noted = json.loads(run(environment, "search", "about", "--json").out)["sessions"]
    run(environment, "archive", "heron", "--remove")
    again = json.loads(run(environment, "sessions", "--json").out)["sessions"]

    assert [each["externalId"] for each in listed] == ["kept"]
    assert [each["externalId"] for each in found] == ["heron"]
    assert [each["externalId"] for each in noted] == ["kept"]
    assert {each["externalId"] for each in again} == {"heron", "kept"}


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("tag", "one", "add"), 2, "Name the tags to add"),
        (("tag", "one", "set", "a"), 2, "is not one of"),
        (("tag", "one", "add", "two\nlines"), 1, "a tag is one line"),
        (("star", "nothing"), 1, "no session matches"),
        (("rename", "one", ""), 2, ""),
    ],
)
async def test_problems(
    store: Store, environment: dict[str, str], arguments: tuple[str, ...], code: int, problem: str
) -> None:
    await store.sessions.create(external_id="one")
    done = run(environment, *arguments)

    assert (done.code, done.out) == (code, "")
    assert problem in done.err
    assert await labels(store, "one") is None
