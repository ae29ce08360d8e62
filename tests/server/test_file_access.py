"""Only regular files below the folders are opened, never through links, even if something is replaced meanwhile."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ash_server import file_access
from ash_server.file_access import ANY_FILE, FileAccess, current_user


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, next to a file and a folder that must not be read."""
    folder = tmp_path / "projects"
    (folder / "shop").mkdir(parents=True)
    (folder / "shop" / "1.jsonl").write_text("inside")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "1.jsonl").write_text("outside")
    return folder


def read(access: FileAccess, path: Path) -> str:
    """Return the content, or the reason why the file is not read."""
    try:
        with access.open(path) as file:
            return file.read().decode()
    except OSError as error:
        return str(error.strerror) if error.filename == str(path) else f"another file: {error}"


def test_reads_below_folders_only(folder: Path, tmp_path: Path) -> None:
    private = tmp_path / "private"
    (folder / "within.jsonl").symlink_to(folder / "shop" / "1.jsonl")
    (folder / "out.jsonl").symlink_to(private / "1.jsonl")
    (folder / "out").symlink_to(private)
    (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")
    (tmp_path / "link").symlink_to(folder)
    os.mkfifo(folder / "pipe.jsonl")
    access = FileAccess.below([tmp_path / "link"])
    outside = f"leads to {private / '1.jsonl'}, outside of the folders to read"

    assert {path: read(access, folder / path) for path in os.listdir(folder) if path != "shop"} == {
        "within.jsonl": "inside",
        "out.jsonl": outside,
        "out": f"leads to {private}, outside of the folders to read",
        "loop.jsonl": "replaced by a link meanwhile",
        "pipe.jsonl": "not a regular file",
    }
    assert read(access, folder / "out" / "1.jsonl") == outside
    assert read(access, folder / "shop" / ".." / ".." / "private" / "1.jsonl") == outside
    assert read(access, tmp_path / "link" / "shop" / "1.jsonl") == "inside"
    assert read(access, folder / "shop") == "not a regular file"
    assert read(access, folder / "missing.jsonl") == "No such file or directory"
    assert read(FileAccess.below([private / "1.jsonl"]), private / "1.jsonl") == "outside"


def test_without_folders_reads_every_regular_file(folder: Path, tmp_path: Path) -> None:
    (folder / "out.jsonl").symlink_to(tmp_path / "private" / "1.jsonl")
    os.mkfifo(folder / "pipe.jsonl")

    assert read(ANY_FILE, folder / "out.jsonl") == "outside"
    assert read(ANY_FILE, folder / "pipe.jsonl") == read(ANY_FILE, Path("/dev/zero")) == "not a regular file"


def test_reads_files_of_one_user(folder: Path) -> None:
    user = current_user()
    assert user is not None
    owners = {user: "inside", user + 1: "belongs to another user"}
    path = folder / "shop" / "1.jsonl"
    (folder / "hard.jsonl").hardlink_to(path)

    for place in (path, folder / "hard.jsonl"):
        assert {owner: read(FileAccess.below([folder], owner), place) for owner in owners} == owners


def replace_file(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "private" / "1.jsonl")
    (folder / "link").replace(folder / "shop" / "1.jsonl")


def replace_folder(folder: Path) -> None:
    (folder / "shop").rename(folder / "moved")
    (folder / "shop").symlink_to(folder.parent / "private")


def replace_root(folder: Path) -> None:
    folder.rename(folder.parent / "moved")
    folder.symlink_to(folder.parent / "elsewhere")
    (folder.parent / "elsewhere").mkdir()
    (folder.parent / "elsewhere" / "shop").symlink_to(folder.parent / "private")


def replace_by_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "pipe").replace(folder / "shop" / "1.jsonl")


@pytest.mark.parametrize(
    ("replace", "reason"),
    [
        (replace_file, "replaced by a link meanwhile"),
        (replace_folder, "replaced by a link meanwhile"),
        (replace_root, "replaced by a link meanwhile"),
        (replace_by_pipe, "not a regular file"),
    ],
)
def test_reads_nothing_that_was_replaced_after_the_check(
    folder: Path, monkeypatch: pytest.MonkeyPatch, replace: Callable[[Path], None], reason: str
) -> None:
    """Something is replaced after the path is resolved and before the file is opened."""
    access, resolve = FileAccess.below([folder]), file_access.real_path

    def resolve_and_replace(path: Path) -> Path:
        resolved = resolve(path)
        replace(folder)
        return resolved

    monkeypatch.setattr(file_access, "real_path", resolve_and_replace)

    assert read(access, folder / "shop" / "1.jsonl") == reason


def test_reads_where_the_system_opens_by_path_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_access, "_OPENS_IN_FOLDERS", False)
    monkeypatch.setattr(file_access, "_NO_FOLLOW", 0)

    assert read(FileAccess.below([folder]), folder / "shop" / "1.jsonl") == "inside"
