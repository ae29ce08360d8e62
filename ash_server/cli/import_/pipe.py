"""Values sent through the pipes between `ash import` and its processes."""

import pickle
from asyncio import StreamReader
from dataclasses import dataclass
from typing import Any

from ash_server.cli.import_.options import ImportOptions
from ash_server.transfer.importing.databases.sessions import SharedSnapshots
from ash_server.transfer.importing.transcript_files import Home

_LENGTH_BYTES = 8


@dataclass(frozen=True)
class ImportJob:
    """The first value that a process receives; paths follow, and snapshots that have changed."""

    database_url: str
    """Not an argument of the process, because other users can list these and it may contain a password."""
    homes: list[Home]
    options: ImportOptions
    snapshots: SharedSnapshots
    """Snapshots of the databases among the files."""
    defers_flushes: bool = False
    """True if the command flushes the commits of its processes to the disk when all files are imported."""


def encode(value: object) -> bytes:
    data = pickle.dumps(value)
    return len(data).to_bytes(_LENGTH_BYTES) + data


async def receive(reader: StreamReader) -> Any:
    """Raises IncompleteReadError at the end of the stream."""
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
    return pickle.loads(await reader.readexactly(length))
