"""A PostgreSQL with stopped processes: its connections stay open, but nothing answers."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
from psutil import NoSuchProcess

from ash_server.store.embedded.server import EmbeddedPostgres


@contextmanager
def frozen(server: EmbeddedPostgres) -> Iterator[None]:
    """Stop all processes of a server started by the test, and continue them on exit."""
    postmaster = server._postmaster()
    assert postmaster
    processes = [psutil.Process(postmaster.pid)]
    processes[0].suspend()  # so that it forks no others
    try:
        for process in processes[0].children(recursive=True):
            with suppress(NoSuchProcess):
                process.suspend()
                processes.append(process)
        yield
    finally:
        for process in processes:
            with suppress(NoSuchProcess):  # it may end when the first ones continue
                process.resume()
