"""Packages come from the registries' clients, and the command fails for a name that nobody reviewed."""

import json
import sys
from pathlib import Path

import pytest

from tests.wire.test_comparison import RECORDS
from tests.wire.test_unpack import tar_of
from tools.wire import __main__ as command
from tools.wire.download import DownloadFailed, Package, download

NPM = """#!/bin/sh
echo "$@" >> calls.log
case $1 in
view) cat "{manifest}" ;;
pack) rm calls.log; echo "$@" > package.tgz ;;
esac
"""


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file with the answer of an `npm view` that needs no network."""
    answer = tmp_path / "manifest.json"
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(NPM.format(manifest=answer))
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}:/usr/bin:/bin")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    (tmp_path / "out").mkdir()
    return answer


PACK = "pack --ignore-scripts --silent"
PROGRAMS = {"a-darwin-x64": "1.2.3", "a-linux-x64-musl": "1.2.3", "a-linux-x64": "1.2.3"}
PACKED = [
    (False, "1.2.3", f"{PACK} @example/agent@1.2.3\n"),
    (False, {"version": "1.2.3", "optionalDependencies": PROGRAMS}, f"{PACK} @example/agent@1.2.3\n"),
    (True, {"version": "1.2.4", "optionalDependencies": PROGRAMS}, f"{PACK} a-linux-x64@1.2.3\n"),
    (
        True,
        {"version": "1.2.3", "optionalDependencies": {"@e/a-linux-x64": "npm:@e/a@1.2.3-linux-x64"}},
        f"{PACK} @e/a@1.2.3-linux-x64\n",
    ),
]


@pytest.mark.parametrize(("has_program", "answer", "call"), PACKED)
def test_downloads_the_newest_version_without_scripts(
    tmp_path: Path, manifest: Path, has_program: bool, answer: object, call: str
) -> None:
    manifest.write_text(json.dumps(answer))

    downloaded = download(Package("npm", "@example/agent", has_program), tmp_path / "out")

    assert downloaded.version == (answer if isinstance(answer, str) else dict(answer)["version"])  # type: ignore[call-overload]
    assert downloaded.archive.read_text() == call


REFUSED = [
    (False, {"version": "--registry=elsewhere"}, "is not the name and version of a package"),
    (True, {"version": "1", "optionalDependencies": {"-x-linux-x64": "1"}}, "is not the name and version"),
    (
        True,
        {"version": "1", "optionalDependencies": {"a-darwin-x64": "1"}},
        "no program for linux-x64 in a-darwin-x64",
    ),
    (True, {"version": "1"}, "no program for linux-x64 in the package"),
]


@pytest.mark.parametrize(("has_program", "answer", "message"), REFUSED)
def test_refuses_names_that_could_be_options(
    tmp_path: Path, manifest: Path, has_program: bool, answer: object, message: str
) -> None:
    manifest.write_text(json.dumps(answer))

    with pytest.raises(DownloadFailed, match=message):
        download(Package("npm", "@example/agent", has_program), tmp_path / "out")


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, types: str) -> int:
    """Run the command for one invented package that is already in the folder."""
    folder = tmp_path / "keep" / "@example-agent"
    (folder / "archive").mkdir(parents=True)
    (folder / "version").write_text("1.2.3")
    tar_of(folder / "archive" / "agent.tgz", ("types.d.ts", types.encode()))
    monkeypatch.setattr(command, "LISTS", [RECORDS])
    monkeypatch.setattr(command, "PAGE", tmp_path / "wire.md")
    monkeypatch.setattr(command, "IGNORED_FILE", tmp_path / "ignored.toml")
    (tmp_path / "ignored.toml").write_text("ignored = []\n")
    monkeypatch.setattr(sys, "argv", ["wire", "--keep", str(tmp_path / "keep")])
    return command.main()


def test_fails_for_an_unknown_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(
        tmp_path, monkeypatch, 'type Line = User | { type: "hologram" }; interface User { type: "user" }'
    )

    assert (code, capsys.readouterr().out) == (
        1,
        "unknown: hologram\tRecords\t1.2.3\tLine\nwrote wire.md: 1 known, 1 unknown\n",
    )
    assert "| `hologram` | Records | 1.2.3 | `Line` |" in (tmp_path / "wire.md").read_text()


def test_fails_if_a_package_has_no_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(tmp_path, monkeypatch, "type Line = Renamed;")

    assert (code, capsys.readouterr().out) == (
        1,
        "no names: Records: the package has another form now\nwrote wire.md: 0 known, 0 unknown\n",
    )


def test_succeeds_if_every_name_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tmp_path, monkeypatch, 'type Line = { type: "user" } | { type: "assistant" };') == 0
