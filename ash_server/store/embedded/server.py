"""The embedded PostgreSQL: one server per data directory.

A process id does not prove that a server is running: it may belong to a zombie or to a later process. Instead, three
files next to the data directory are locked; the kernel releases a lock when the last process that holds it ends:

- `.lock` is locked while a process starts or stops the server,
- `.users` is locked in shared mode by every started `EmbeddedPostgres`: if one can lock it exclusively, it is the last,
- the lock of `.server` is inherited by PostgreSQL and all its children: if it can be taken, no process is running.

Needs a POSIX system. The server listens on a unix socket only, which only its own user can open.
"""

import contextlib
import fcntl
import glob
import hashlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from ash_server.store.embedded.binaries import EmbeddedPostgresError, error_line, find_binaries, major_version
from ash_server.store.statements import statements

SQL = statements(__file__)

# Messages are private: the log must not contain statements, values or details of errors.
_SETTINGS = {
    "autovacuum_naptime": "5s",  # a first import has no statistics until then
    "port": "5432",
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_error_verbosity": "terse",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
}
_UNSAFE_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum_naptime": "1min",  # for many short-lived databases
}
_MAX_LOG_BYTES = 4_000_000

_INITDB = (
    "--username=postgres",
    "--auth=trust",
    "--encoding=UTF8",
    f"--locale={'C' if sys.platform == 'darwin' else 'C.UTF-8'}",
    "--no-instructions",
)

# A socket address has at most 103 bytes on macOS (107 on Linux); `/.s.PGSQL.5432` takes 14.
_SOCKET = ".s.PGSQL.5432"
_MAX_SOCKET_DIR = 88
# Paths that need no quoting in the `host` of a URL and in `unix_socket_directories`, which are both lists.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]+")

# PostgreSQL refuses to run as root, or as a user without a name. In a user namespace, it runs as `nobody` while its
# files belong to root. Where namespaces are forbidden (most containers), it runs as the real `nobody`, with root's
# capability to enter any folder (dac_override), so that no folder's mode or owner has to change.
_NOBODY = 65534
_NAMESPACE = ("unshare", "--user", f"--map-user={_NOBODY}", f"--map-group={_NOBODY}")
_DROP_ROOT = (
    "setpriv",
    f"--regid={_NOBODY}",
    "--clear-groups",
    "--inh-caps=+dac_override",
    "--ambient-caps=+dac_override",
)
_UNUSED_PROCESS_ID = 2**31 - 1  # larger than the process ids of any system
# Length and code of the message SSLRequest in PostgreSQL's protocol.
_SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)
_ANSWER_TIMEOUT = 10.0


class _Postmaster(NamedTuple):
    """The `postmaster.pid` of a running or killed server."""

    pid: int
    socket_dir: Path
    status: str

    def answers(self) -> bool:
        """True if the server answers a request for encryption.

        Connecting alone proves nothing: a child of a killed server can hold the socket for a moment.
        """
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_ANSWER_TIMEOUT)
            try:
                probe.connect(str(self.socket_dir / _SOCKET))
                probe.sendall(_SSL_REQUEST)
                return probe.recv(1) != b""
            except OSError:
                return False


class EmbeddedPostgres:
    """One user of the server of a data directory. The first user starts the server, the last one stops it.

    Without `durable` (for tests), a crash of the machine may corrupt the cluster. The value of the user that starts the
    server applies.
    """

    def __init__(
        self,
        data_dir: str | Path,
        *,
        bin_dir: Path | None = None,
        durable: bool = True,
        start_timeout: float = 120,
    ) -> None:
        self._data = Path(data_dir).expanduser().resolve()
        with self._accessing():
            self._bin = bin_dir or find_binaries(self._cluster_version())
        self._durable = durable
        self._timeout = start_timeout
        self._socket_dir = _socket_dir(self._data)
        # Not a file object, which would release the lock if this object were discarded without `stop`.
        self._users_lock: int | None = None

    def start(self) -> Self:
        """Start the server unless it is running, and return when it answers. Repeat to restart a killed server."""
        with self._mutex():
            self._start_server()
            if self._users_lock is None:
                self._users_lock = _open(self._sibling("users"))
                fcntl.flock(self._users_lock, fcntl.LOCK_SH)
        return self

    def stop(self) -> bool:
        """Stop the server if this is its last user, and return True then."""
        if self._users_lock is None:
            return False
        with self._mutex():
            is_last = _try_lock(self._users_lock)
            os.close(self._users_lock)
            self._users_lock = None
            if is_last:
                self._stop_server()
        return is_last

    def url(self, database: str = "postgres") -> str:
        """Return the URL in libpq's form. It contains the port, so that PGPORT has no effect."""
        return f"postgresql://postgres@/{quote(database, safe='')}?host={self._socket_dir}&port=5432"

    def ensure_database(self, name: str) -> None:
        """Create the database if it is missing; several processes may do so at once."""
        with self._mutex(), psycopg.connect(self.url(), autocommit=True) as connection:
            existing = connection.execute(SQL.has_database, [name])
            if not existing.rowcount:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _sibling(self, suffix: str) -> Path:
        return self._data.with_name(f"{self._data.name}.{suffix}")

    def _failure(self, problem: str) -> EmbeddedPostgresError:
        return EmbeddedPostgresError(f"PostgreSQL in {self._data} {problem}")

    @contextlib.contextmanager
    def _mutex(self) -> Iterator[None]:
        """Exclude other processes that start, stop or create, and translate OSError to EmbeddedPostgresError."""
        with self._accessing():
            self._data.parent.mkdir(parents=True, exist_ok=True)
            with _opened(self._sibling("lock")) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield

    @contextlib.contextmanager
    def _accessing(self) -> Iterator[None]:
        """Translate OSError to EmbeddedPostgresError."""
        try:
            yield
        except OSError as error:
            raise self._failure(
                f"cannot be accessed ({error}): choose another ASH_HOME or set ASH_DATABASE_URL"
            ) from error

    def _start_server(self) -> None:
        log_start: int | None = None
        deadline = time.monotonic() + self._timeout
        while not self._is_ready():
            with _opened(self._sibling("server")) as lock:
                if _try_lock(lock):
                    if log_start is not None:
                        raise self._failure(f"did not start: {self._log_since(log_start)}")
                    log_start = self._launch(lock)
            if time.monotonic() > deadline:
                raise self._failure(f"is not ready after {self._timeout:g} s: see {self._sibling('log')}")
            time.sleep(0.01)

    def _is_ready(self) -> bool:
        server = self._postmaster()
        if server is None or server.status != "ready" or not server.answers():
            return False
        self._socket_dir = server.socket_dir  # another if the starting process has another temporary folder
        return True

    def _postmaster(self) -> _Postmaster | None:
        try:
            lines = os.fsdecode((self._data / "postmaster.pid").read_bytes()).splitlines()
            return _Postmaster(int(lines[0]), Path(lines[4]), lines[7].strip())
        except (FileNotFoundError, IndexError, ValueError):  # missing or incomplete
            return None

    def _launch(self, lock: int) -> int:
        """Launch a server and return the size of the log before it."""
        self._prepare_cluster()
        self._prepare_socket_dir()
        self._remove_stale_state()
        with _opened(self._rotated_log()) as log:
            log_start = os.lseek(log, 0, os.SEEK_END)
            # The shell exits at once, so that the server is independent of the launching process and its terminal.
            subprocess.run(
                ["/bin/sh", "-c", '"$@" &', "sh", *self._server_command()],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
                start_new_session=True,
                check=True,
            )
        return log_start

    def _server_command(self) -> list[str]:
        settings = {**_SETTINGS, "unix_socket_directories": self._socket_dir}
        if not self._durable:
            settings |= _UNSAFE_SETTINGS
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [*self._unprivileged_prefix(), str(self._bin / "postgres"), "-D", str(self._data), *options]

    def _prepare_cluster(self) -> None:
        major = major_version(self._bin)
        if self._cluster_version() is None:
            self._create_cluster()
        if (created_by := self._cluster_version()) != major:
            raise self._failure(
                f"was created by version {created_by} but {self._bin} is version {major}: set ASH_PG_BIN to the bin "
                f"folder of version {created_by}. To move to version {major}, run `ash backup FILE` with that, "
                f"`mv {self._data} {self._data}-{created_by}`, and `ash restore FILE` without"
            )

    def _cluster_version(self) -> int | None:
        """Return the major version of the cluster; None if there is no cluster."""
        try:
            return int((self._data / "PG_VERSION").read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _create_cluster(self) -> None:
        """Create the cluster under a temporary name, so that a killed initdb leaves no partial cluster."""
        if self._data.exists() and any(self._data.iterdir()):
            raise self._failure("cannot be created, because the folder contains other files: move them away")
        folder, prefix = self._data.parent, f".{self._data.name}-init-"
        for abandoned in folder.glob(f"{glob.escape(prefix)}*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=prefix, dir=folder) as temporary:
            cluster = Path(temporary, "cluster")
            self._initdb(cluster)
            cluster.rename(self._data)
            _sync_folder(folder)

    def _initdb(self, cluster: Path) -> None:
        process = subprocess.run(
            [
                *self._unprivileged_prefix(),
                self._bin / "initdb",
                *_INITDB,
                *([] if self._durable else ["--no-sync"]),
                cluster,
            ],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            check=False,
        )
        if process.returncode:
            raise self._failure(f"cannot be created: {error_line(process.stdout)}")

    def _unprivileged_prefix(self) -> tuple[str, ...]:
        """Return the prefix that runs a command of root as another user; empty for other users."""
        if os.geteuid() != 0:
            return ()
        owner = self._data.stat().st_uid if self._data.exists() else 0
        drop = (*_DROP_ROOT, f"--reuid={owner or _NOBODY}")
        for prefix in (drop,) if owner else (_NAMESPACE, drop):
            if _works(prefix):
                return prefix
        raise self._failure(
            "cannot run as root, and unshare and setpriv both fail: use another user or set ASH_DATABASE_URL"
        )

    def _prepare_socket_dir(self) -> None:
        self._socket_dir = _socket_dir(self._data)
        if self._socket_dir == self._data:
            return
        self._socket_dir.mkdir(mode=0o700, exist_ok=True)
        status = self._socket_dir.lstat()
        if status.st_uid != os.geteuid() or status.st_mode != stat.S_IFDIR | 0o700:
            raise self._failure(
                f"needs {self._socket_dir} as a private folder of this user: remove the existing file or folder"
            )

    def _remove_stale_state(self) -> None:
        """Remove the process ids that a killed server left: PostgreSQL refuses to start if they are in use again.

        The rest of `postmaster.pid` is kept: by the shared memory named there, PostgreSQL detects a server that was
        started by hand.
        """
        for name in (_SOCKET, f"{_SOCKET}.lock"):
            (self._socket_dir / name).unlink(missing_ok=True)
        pid_file = self._data / "postmaster.pid"
        if pid_file.exists():
            _, _, rest = pid_file.read_bytes().partition(b"\n")
            pid_file.write_bytes(b"%d\n%b" % (_UNUSED_PROCESS_ID, rest))

    def _rotated_log(self) -> Path:
        log = self._sibling("log")
        if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
            log.replace(self._sibling("log.1"))
        return log

    def _log_since(self, start: int) -> str:
        with self._sibling("log").open("rb") as log:
            log.seek(start)
            return error_line(log.read().decode(errors="replace"))

    def _stop_server(self) -> None:
        server = self._postmaster()
        if server and server.answers():
            os.kill(server.pid, signal.SIGINT)  # PostgreSQL's fast shutdown
        deadline = time.monotonic() + self._timeout
        with _opened(self._sibling("server")) as lock:
            while not _try_lock(lock):
                if time.monotonic() > deadline:
                    raise self._failure(
                        f"has not stopped after {self._timeout:g} s: see {self._sibling('log')}"
                    )
                time.sleep(0.01)
        if self._socket_dir == _socket_dir(self._data) != self._data:
            shutil.rmtree(self._socket_dir, ignore_errors=True)


def _socket_dir(data: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(data)).hexdigest()[:12]
    short = Path(tempfile.gettempdir(), f"ash-{os.geteuid()}-{digest}")
    for folder in (data, short):
        if len(str(folder)) <= _MAX_SOCKET_DIR and _PLAIN_PATH.fullmatch(str(folder)):
            return folder
    raise EmbeddedPostgresError(
        f"{short} cannot contain a socket: set TMPDIR to a short path of letters, digits and ./_-"
    )


def _environment() -> dict[str, str]:
    """Return the environment without PG… variables, which the server would use as defaults."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


def _works(prefix: tuple[str, ...]) -> bool:
    return (
        bool(shutil.which(prefix[0]))
        and not subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode
    )


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = _open(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Take the exclusive lock; return False if another process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
