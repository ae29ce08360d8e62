"""PgBouncer and HAProxy in front of PostgreSQL. `python -m tests.pooler [ARGUMENT…]` runs pytest through it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ash_server.store.embedded.server import EmbeddedPostgres
from tests.conftest import at_database, embedded_server
from tests.waiting import wait_until

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"

ABSENT = "no PgBouncer on this machine (Debian: apt install pgbouncer)"

_CONFIGURATION = """
[databases]
* = {connection}

[pgbouncer]
unix_socket_dir = {folder}
listen_port = 6432
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 2000
"""

_PROXY = """
defaults
  mode tcp
  timeout connect 10s
  timeout client 10m
  timeout server 10m

listen postgres
  bind unix@{socket}
  server postgres {server}
"""


def has_pgbouncer() -> bool:
    return shutil.which("pgbouncer", path=PATH) is not None


@contextmanager
def pgbouncer(direct: str, *, mode: str = "transaction", size: int = 4) -> Iterator[str]:
    """Run PgBouncer for all databases of the server at this URL, and yield the URL of the one with the same name.

    `size` is the number of its connections to each database.
    """
    parts = conninfo_to_dict(direct)
    database = parts.pop("dbname", "postgres")
    with tempfile.TemporaryDirectory(prefix="ash-pgbouncer-") as name:
        folder = Path(name)
        configuration = _CONFIGURATION.format(
            connection=" ".join(f"{key}={value}" for key, value in parts.items()),
            folder=folder,
            mode=mode,
            size=size,
        )
        (folder / "pgbouncer.ini").write_text(configuration)
        program = shutil.which("pgbouncer", path=PATH) or "pgbouncer"
        prefix = EmbeddedPostgres(folder / "none")._unprivileged_prefix()
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*prefix, program, "--quiet", folder / "pgbouncer.ini"], stdout=log, stderr=log
            )
        try:
            url = f"postgresql://{parts.get('user', 'postgres')}@/{database}?host={folder}&port=6432"
            wait_until(lambda: process.poll() is not None or _is_listening(folder / ".s.PGSQL.6432"))
            assert process.poll() is None, (folder / "log").read_text()
            psycopg.connect(url).close()
            yield url
        finally:
            process.terminate()
            process.wait()


@contextmanager
def haproxy(direct: str) -> Iterator[str]:
    """Run HAProxy in front of the server at this URL, and yield its URL."""
    parts = conninfo_to_dict(direct)
    host, port = str(parts["host"]), parts.get("port", 5432)
    with tempfile.TemporaryDirectory(prefix="ash-haproxy-") as folder:
        server = f"unix@{host}/.s.PGSQL.{port}" if host.startswith("/") else f"{host}:{port}"
        configuration = _PROXY.format(socket=f"{folder}/.s.PGSQL.5432", server=server)
        Path(folder, "haproxy.cfg").write_text(configuration)
        command = [shutil.which("haproxy", path=PATH) or "", "-q", "-db", "-f", f"{folder}/haproxy.cfg"]
        process = subprocess.Popen(command)
        try:
            wait_until(lambda: process.poll() is not None or _is_listening(Path(folder, ".s.PGSQL.5432")))
            yield f"postgresql://{parts.get('user', 'postgres')}@/postgres?host={folder}&port=5432"
        finally:
            process.terminate()
            process.wait()


def _is_listening(path: Path) -> bool:
    """False also between the creation of the socket and `listen`."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def main(arguments: list[str]) -> int:
    with embedded_server(Path()) as direct, pgbouncer(direct) as url:
        addresses = {"ASH_TEST_DATABASE_URL": url, "ASH_DIRECT_URL": at_database(direct, "")}
        command = [sys.executable, "-m", "pytest", *arguments]
        return subprocess.run(command, env={**os.environ, **addresses}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
