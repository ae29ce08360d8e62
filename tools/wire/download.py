"""Download the newest version of a package with the client of its registry, without its scripts."""

import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

_TIMEOUT = 1800
"""Seconds for a package; some have 200 MB."""
_NPM_SYSTEMS = {"Darwin": "darwin", "Linux": "linux", "Windows": "win32"}
_NPM_MACHINES = {"aarch64": "arm64", "amd64": "x64", "arm64": "arm64", "x86_64": "x64"}
_NAME = re.compile(r"(?:@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]*")


class Package(NamedTuple):
    registry: Literal["npm", "PyPI"]
    name: str
    has_program: bool = False
    """True if the program is in an optional dependency for each platform."""


class Downloaded(NamedTuple):
    version: str
    archive: Path


class DownloadFailed(Exception):
    """The registry's client failed, or its answer is not as expected."""


def download(package: Package, folder: Path) -> Downloaded:
    """Download the archive into an empty folder. Raises DownloadFailed."""
    return (
        _download_from_pypi(package, folder)
        if package.registry == "PyPI"
        else _download_from_npm(package, folder)
    )


def _download_from_npm(package: Package, folder: Path) -> Downloaded:
    manifest = json.loads(
        _run(["npm", "view", "--json", f"{package.name}@latest", "version", "optionalDependencies"], folder)
    )
    fields: dict[str, Any] = {"version": manifest} if isinstance(manifest, str) else manifest
    spec = _program_spec(fields.get("optionalDependencies", {})) if package.has_program else ""
    name, _, version = (spec or f"{package.name}@{fields['version']}").rpartition("@")
    if not (_NAME.fullmatch(name) and _VERSION.fullmatch(version)):
        raise DownloadFailed(f"{name}@{version} is not the name and version of a package")
    _run(["npm", "pack", "--ignore-scripts", "--silent", f"{name}@{version}"], folder)
    return Downloaded(fields["version"], _only_file(folder))


def _program_spec(dependencies: dict[str, str]) -> str:
    """Return `name@version` of the program for this machine; the version may be `npm:` and a name of its own."""
    system, machine = _NPM_SYSTEMS[platform.system()], _NPM_MACHINES[platform.machine().lower()]
    endings = (f"-{system}-{machine}", f"-{system.replace('win32', 'windows')}-{machine}")
    for name, version in dependencies.items():
        if name.endswith(endings):
            return version.removeprefix("npm:") if version.startswith("npm:") else f"{name}@{version}"
    raise DownloadFailed(f"no program for {system}-{machine} in {', '.join(dependencies) or 'the package'}")


def _download_from_pypi(package: Package, folder: Path) -> Downloaded:
    """Download a wheel: pip would run the build script of a source distribution."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--no-deps", "--only-binary", ":all:", "--dest", ".", package.name], folder)
    archive = _only_file(folder)
    return Downloaded(archive.name.split("-")[1], archive)


def _run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadFailed(f"{command[0]}: {error}") from error
    if done.returncode:
        raise DownloadFailed(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _only_file(folder: Path) -> Path:
    files = list(folder.iterdir())
    if len(files) != 1:
        raise DownloadFailed(f"{len(files)} files instead of one archive")
    return files[0]
