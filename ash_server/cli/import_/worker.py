"""A process of `ash import`: receives paths on standard input, and sends the progress and outcome of each file.

Newer snapshots may come between two paths.

It ends with its standard input, even within a file, so that it does not outlive the command.
"""

import asyncio
import os
import sys
from asyncio import IncompleteReadError, Queue, StreamReader, StreamReaderProtocol
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

from ash_server.cli.common.store import run_with_store
from ash_server.cli.import_.one_file import import_one_file
from ash_server.cli.import_.pipe import ImportJob, encode, receive
from ash_server.garbage import rare_collections
from ash_server.store import Store
from ash_server.transfer.importing.databases.sessions import SharedSnapshots, share_snapshots


def main() -> None:
    with suppress(BrokenPipeError):
        asyncio.run(_import_until_input_ends())


async def _import_until_input_ends() -> None:
    reader = await _open_input()
    job: ImportJob = await receive(reader)
    received = Queue[Path | SharedSnapshots]()
    importing = asyncio.create_task(
        run_with_store(job.database_url, partial(_import_files, job=job, received=received))
    )
    reading = asyncio.create_task(_read_values(reader, received))
    await asyncio.wait({importing, reading}, return_when=asyncio.FIRST_COMPLETED)
    importing.cancel()
    with suppress(asyncio.CancelledError):
        await importing


async def _import_files(store: Store, job: ImportJob, received: Queue[Path | SharedSnapshots]) -> None:
    flushing = store.flushing_once() if job.defers_flushes else nullcontext()
    with share_snapshots(job.snapshots), rare_collections():
        async with flushing:
            while True:
                value = await received.get()
                if isinstance(value, SharedSnapshots):
                    job.snapshots.replace(value)
                else:
                    _send(await import_one_file(store, value, job.homes, job.options, advance=_send))


async def _open_input() -> StreamReader:
    reader = StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _read_values(reader: StreamReader, received: Queue[Path | SharedSnapshots]) -> None:
    with suppress(IncompleteReadError):
        while True:
            received.put_nowait(await receive(reader))


def _send(value: object) -> None:
    os.write(sys.stdout.fileno(), encode(value))


if __name__ == "__main__":
    main()
