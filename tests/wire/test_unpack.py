"""Packages are unpacked with limits, and only files at paths below the folder."""

import gzip
import io
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tools.wire import unpack as unpacking
from tools.wire.unpack import UnsafeArchive, unpack


def tar_of(path: Path, *members: tuple[str, bytes], **properties: Any) -> Path:
    """Write a package with these files; `properties` are set on the last one."""
    with tarfile.open(path, "w:gz") as tar:
        for number, (name, data) in enumerate(members, 1):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in (properties if number == len(members) else {}).items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return path


def zip_of(path: Path, name: str, data: bytes, mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        zipped.writestr(info, data)
    return path


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_writes_only_wanted_files(tmp_path: Path) -> None:
    archive = tar_of(
        tmp_path / "p.tgz", ("package/types/a.d.ts", b"a"), ("package/b.js", b"b"), ("package/c.d.ts", b"c")
    )
    wheel = zip_of(tmp_path / "w.whl", "module/parser.py", b"p", stat.S_IFREG | 0o644)

    written = unpack(archive, tmp_path / "out", ["package/*.d.ts"])
    unpack(wheel, tmp_path / "out", ["module/parser.py"])

    assert [path.name for path in written] == ["a.d.ts", "c.d.ts"]
    assert files_below(tmp_path / "out") == {
        "package/types/a.d.ts": b"a",
        "package/c.d.ts": b"c",
        "module/parser.py": b"p",
    }


PATHS = ["../evil", "package/../../evil", "/evil", "C:/evil", "..\\evil", "package/a\\..\\..\\evil"]


@pytest.mark.parametrize("name", PATHS)
def test_refuses_paths_outside_of_the_folder(tmp_path: Path, name: str) -> None:
    archives = [
        tar_of(tmp_path / "p.tgz", ("package/a", b"a"), (name, b"x")),
        zip_of(tmp_path / "w.whl", name, b"x"),
    ]

    for archive in archives:
        with pytest.raises(UnsafeArchive, match="is not a relative path"):
            unpack(archive, tmp_path / "out", ["*"])
    assert files_below(tmp_path).keys() <= {"p.tgz", "w.whl", "out/package/a"}


LINKS = [
    {"type": tarfile.SYMTYPE, "linkname": "/etc"},
    {"type": tarfile.LNKTYPE, "linkname": "package/a"},
    {"type": tarfile.FIFOTYPE},
    {"type": tarfile.CHRTYPE},
]


@pytest.mark.parametrize("properties", LINKS)
def test_refuses_links_and_devices(tmp_path: Path, properties: dict[str, Any]) -> None:
    archive = tar_of(tmp_path / "p.tgz", ("package/a", b"a"), ("package/b", b""), **properties)

    with pytest.raises(UnsafeArchive, match="'package/b' is not a file"):
        unpack(archive, tmp_path / "out", ["*"])


def test_refuses_links_in_wheels(tmp_path: Path) -> None:
    wheel = zip_of(tmp_path / "w.whl", "module/a", b"/etc/passwd", stat.S_IFLNK | 0o777)

    with pytest.raises(UnsafeArchive, match="'module/a' is not a file"):
        unpack(wheel, tmp_path / "out", ["*"])


def test_refuses_too_many_bytes_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of files that are not wanted."""
    zeros = bytes(50_000)
    archives = [tar_of(tmp_path / "p.tgz", ("package/a", zeros)), zip_of(tmp_path / "w.whl", "a", zeros)]
    many = tar_of(tmp_path / "many.tgz", *((f"package/{number}", b"") for number in range(5)))
    monkeypatch.setattr(unpacking, "MAX_BYTES", 40_000)
    monkeypatch.setattr(unpacking, "MAX_FILES", 4)

    for archive in [*archives, many]:
        with pytest.raises(UnsafeArchive, match="has more than 4 files or 40000 bytes"):
            unpack(archive, tmp_path / "out", ["none"])


def test_refuses_a_bomb_in_a_header(tmp_path: Path) -> None:
    """The extended header of a tar is read into memory before its file is known."""
    header = tarfile.TarInfo("bomb")
    header.type, header.size = tarfile.XHDTYPE, 64 * 1024**2
    bomb = tmp_path / "p.tgz"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        file.write(header.tobuf())
        for _ in range(64):
            file.write(bytes(1024**2))

    with pytest.raises(UnsafeArchive, match="a header is larger than 1048576 bytes"):
        unpack(bomb, tmp_path / "out", ["*"])


def test_refuses_an_archive_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_MAX_INFLATED_BYTES", 100_000)
    archive = tar_of(tmp_path / "p.tgz", *((f"package/{number}", bytes(10_000)) for number in range(20)))

    with pytest.raises(UnsafeArchive, match="the archive has more than 100000 bytes"):
        unpack(archive, tmp_path / "out", ["none"])


def test_overwrites_no_file(tmp_path: Path) -> None:
    archive = tar_of(tmp_path / "p.tgz", ("package/a", b"first"), ("package/a", b"second"))

    with pytest.raises(FileExistsError):
        unpack(archive, tmp_path / "out", ["*"])
    assert files_below(tmp_path / "out") == {"package/a": b"first"}
