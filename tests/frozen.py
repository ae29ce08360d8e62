"""PostgreSQL whose processes are stopped: connections to it stay open, and nothing answers."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
from psutil import NoSuchProcess

from ash_server.db.embedded.server import EmbeddedPostgres


@contextmanager
def frozen(server: EmbeddedPostgres) -> Iterator[None]:
    """Stop all processes of a server that the test has started, and continue them at the end."""
    postmaster = server._postmaster()
    assert postmaster
    processes = [psutil.Process(postmaster.pid)]
    processes[0].suspend()  # it forks no others from now on
    try:
        for process in processes[0].children(recursive=True):
            with suppress(NoSuchProcess):
                process.suspend()
                processes.append(process)
        yield
    finally:
        for process in processes:
            with suppress(NoSuchProcess):  # it ends when the first ones continue
                process.resume()
