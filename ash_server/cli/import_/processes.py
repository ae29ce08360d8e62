"""Import of files in other processes, each with its own connection."""

import asyncio
import sys
from asyncio import IncompleteReadError
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from ash_server.cli.import_ import worker
from ash_server.cli.import_.one_file import UnreadFile
from ash_server.cli.import_.pipe import ImportJob, encode, receive
from ash_server.transfer.importing.file_import import ImportedFile

_STOP_SECONDS = 3.0
"""Time for a process to stop by itself, which it does after the line that it is reading."""


class PendingFiles(Protocol):
    """Files to import; false if none is left."""

    def __bool__(self) -> bool: ...

    def pop(self) -> Path: ...


async def import_in_process(
    job: ImportJob,
    pending: deque[Path] | PendingFiles,
    finish: Callable[[Path, ImportedFile | UnreadFile], None],
    advance: Callable[[int], None],
) -> None:
    """Import pending files in another process, from the last one, until none is left.

    A process that ends within a file, for example for lack of memory, is replaced.
    """
    while pending:
        path = pending.pop()
        async with _started_process(job) as process:
            version = job.snapshots.version
            finish(path, await _import_file(process, path, advance))
            while pending and process.returncode is None:
                path = pending.pop()
                if job.snapshots.version != version:
                    version = job.snapshots.version
                    _send(process, job.snapshots)
                finish(path, await _import_file(process, path, advance))


async def _import_file(
    process: Process, path: Path, advance: Callable[[int], None]
) -> ImportedFile | UnreadFile:
    _send(process, path)
    try:
        while isinstance(value := await _receive(process), int):
            advance(value)
    except IncompleteReadError:
        return UnreadFile(str(path), f"the process that imported it {_describe_end(await process.wait())}")
    outcome: ImportedFile | UnreadFile = value
    return outcome


@asynccontextmanager
async def _started_process(job: ImportJob) -> AsyncGenerator[Process, None]:
    """Start a process and stop it on exit.

    It has a process group of its own, so that Ctrl-C stops it only through this process. Without `-P`, it would import
    modules from the current folder.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", worker.__name__, stdin=PIPE, stdout=PIPE, process_group=0
    )
    try:
        _send(process, job)
        yield process
    finally:
        await _stop(process)


async def _stop(process: Process) -> None:
    """Close the input of the process, which then exits. PostgreSQL rolls back the transactions of a killed process."""
    assert process.stdin
    process.stdin.close()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):  # it has just stopped
            process.kill()
        await process.wait()


def _send(process: Process, value: object) -> None:
    assert process.stdin
    process.stdin.write(encode(value))


async def _receive(process: Process) -> Any:
    assert process.stdout
    return await receive(process.stdout)


def _describe_end(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
