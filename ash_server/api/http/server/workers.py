"""Worker processes that accept connections on one address. A worker that exits is replaced.

uvicorn's supervisor runs the class of server of uvicorn only. Workers are forked from a process that has imported the
server, since this one may have threads: a worker starts at once, and shares its memory with the others.
"""

import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from threading import Thread
from types import ModuleType
from typing import Any

from prometheus_client.multiprocess import mark_process_dead

from ash_server.errors import AshError

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable with the folder of the workers' counters, so any worker can report the sums."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_RESTART_SECONDS = 0.2
"""Pause before a worker is replaced."""

_context = multiprocessing.get_context("forkserver")
_log = logging.getLogger(__name__)


class WorkerFailed(AshError):
    status, code, title = 500, "worker_failed", "A worker process cannot start."


def run_workers(
    listeners: Sequence[socket.socket],
    serve: Callable[..., None],
    *arguments: Any,
    on_ready: Callable[[], None],
) -> None:
    """Call `serve(*arguments, listener, on_ready)` in a process for each socket, until SIGINT or SIGTERM.

    A second signal ends them at once. Raises WorkerFailed if one fails before it is ready.
    """
    with _metrics_folder(), _caught_signals() as signals:
        _context.set_forkserver_preload([serve.__module__])
        starts = [partial(_Worker, serve, (*arguments, listener)) for listener in listeners]
        workers = [start() for start in starts]
        try:
            _supervise(workers, signals, starts, on_ready)
        finally:
            _end(workers, signals)


class _Worker:
    def __init__(self, serve: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._messages, message_end = _context.Pipe(duplex=False)
        self.process = _context.Process(target=_run, args=(serve, arguments, message_end), daemon=True)
        with _without_main_module():
            self.process.start()
        message_end.close()
        self.is_ready = False

    def waited(self) -> tuple[Any, ...]:
        """Return the objects that become readable when the worker is ready and when it exits."""
        return (self.process.sentinel,) if self.is_ready else (self._messages, self.process.sentinel)

    def receive(self) -> None:
        if not self.is_ready and self._messages.poll():
            try:
                self._messages.recv()
                self.is_ready = True
            except EOFError:  # it ends
                self.process.join()

    def check(self) -> None:
        """Log that the worker has ended. Raises WorkerFailed."""
        code = self.process.exitcode
        if not self.is_ready and code is not None and code > 0:
            raise WorkerFailed(f"A worker process ended with {code} before it was ready; the log says why.")
        _log.warning("worker %s ended with %s: another one starts", self.process.pid, code)
        _forget_metrics(self.process.pid)


def _supervise(
    workers: list[_Worker],
    signals: socket.socket,
    starts: Sequence[Callable[[], _Worker]],
    on_ready: Callable[[], None],
) -> None:
    """Replace workers until a signal. Call `on_ready` when all are ready for the first time."""
    is_announced = False
    while True:
        ready = wait([signals, *(each for worker in workers for each in worker.waited())])
        if signals in ready:
            return
        for index, worker in enumerate(workers):
            worker.receive()
            if not worker.process.is_alive():
                worker.check()
                if wait([signals], _RESTART_SECONDS):
                    return
                workers[index] = starts[index]()
        if not is_announced and all(worker.is_ready for worker in workers):
            on_ready()
            is_announced = True


def _end(workers: list[_Worker], signals: socket.socket) -> None:
    """End the workers, at once after another signal."""
    _drain(signals)
    for worker in workers:
        worker.process.terminate()
    while running := [worker.process.sentinel for worker in workers if worker.process.is_alive()]:
        if signals in wait([signals, *running]):
            _drain(signals)
            for worker in workers:
                worker.process.kill()


def _drain(signals: socket.socket) -> None:
    with suppress(BlockingIOError):
        while signals.recv(100):
            pass


def _run(serve: Callable[..., None], arguments: tuple[Any, ...], messages: Connection) -> None:
    """Run a worker until it is signalled or its parent exits."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal also sends it to the parent, which ends this process
    Thread(target=_end_with_parent, daemon=True).start()
    _forget_metrics(os.getppid())  # it has imported the metrics, and serves nothing
    serve(*arguments, lambda: messages.send(None))


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Hide the main script, because workers would run it again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _metrics_folder() -> Iterator[None]:
    """Set the folder of the metrics for the workers."""
    with tempfile.TemporaryDirectory(prefix="ash-metrics-") as folder:
        os.environ[METRICS_FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[METRICS_FOLDER]


def _forget_metrics(process: int | None) -> None:
    with suppress(FileNotFoundError):  # another worker removes the files of the same process
        mark_process_dead(process, os.environ[METRICS_FOLDER])  # type: ignore[no-untyped-call]


@contextmanager
def _caught_signals() -> Iterator[socket.socket]:
    """Yield a socket with a byte for each signal."""
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        before = {each: signal.signal(each, lambda *_: None) for each in _SIGNALS}
        signal.set_wakeup_fd(writer.fileno())
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
