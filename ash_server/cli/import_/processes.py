"""Import of files in several processes, each with its own connection.

Every file is a session of its own, so the order of the files does not matter: the largest begin first.
"""

import asyncio
import sys
from asyncio import IncompleteReadError, TaskGroup
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ash_server.cli.import_ import worker
from ash_server.cli.import_.one_file import UnreadFile
from ash_server.cli.import_.pipe import ImportJob, encode, receive
from ash_server.transfer.importing.file_import import ImportedFile

_STOP_SECONDS = 3.0
"""Time for a process to stop by itself, which it does after the line that it is reading."""

AddOutcome = Callable[[Path, ImportedFile | UnreadFile], None]


async def import_in_processes(
    job: ImportJob, files: Iterable[Path], count: int, add: AddOutcome, advance: Callable[[int], None]
) -> None:
    """Import the files, in this order, in `count` processes, and pass each outcome to `add`."""
    pending = deque(files)
    async with TaskGroup() as group:
        for _ in range(count):
            group.create_task(_import_pending(job, pending, add, advance))


async def _import_pending(
    job: ImportJob, pending: deque[Path], add: AddOutcome, advance: Callable[[int], None]
) -> None:
    """Import files in one process; a process that ends within a file, such as a huge one, is replaced."""
    while pending:
        async with _started_process(job) as process:
            while pending and process.returncode is None:
                path = pending.popleft()
                add(path, await _import_file(process, path, advance))


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
    """End the input of the process, at which it stops. PostgreSQL rolls back what a killed one has not committed."""
    assert process.stdin
    process.stdin.close()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
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
