"""PostgreSQL and a server with keys of two tenants, as processes that can be killed and started again."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID, uuid4

import psutil

from ash_client import AsyncAshClient, Retry
from ash_server.keys.digests import digest, new_key_text, shown_prefix
from ash_server.store import Store
from ash_server.store.access.keys import KeyScope, NewKey
from ash_server.store.connections.tenants import DEFAULT
from ash_server.store.embedded.server import EmbeddedPostgres
from benchmarks.database import cluster
from benchmarks.proxy import RoundRobinProxy

TENANTS = ("red", "blue")
METRICS = DEFAULT.name
"""The tenant of the key that reads the metrics."""
COMMAND = Path(sys.executable).with_name("ash")

SECRET = "the secret of the benchmark"
_ADDRESS = re.compile(r"http://([\w.]+):(\d+)")


class ServerProcess:
    """`ash serve`, on the same port each time it is started."""

    def __init__(self, url: str, home: Path, **variables: str) -> None:
        self.host, self.port = "127.0.0.1", 0
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ASH_")}
        self._environment = {**inherited, "ASH_HOME": str(home), "ASH_DATABASE_URL": url, **variables}
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def start(self) -> None:
        """Return when the server answers."""
        command = [str(COMMAND), "serve", "--port", str(self.port)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self._environment
        )
        assert self._process.stdout
        answer = next(filter(None, map(_ADDRESS.search, self._process.stdout)), None)
        assert answer, "the server did not start"
        self.host, self.port = answer[1], int(answer[2])

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(by)
            self._process.communicate(timeout=60)
            self._process = None


class Deployment:
    """A database and its servers: one, or several behind a proxy."""

    def __init__(
        self, folder: Path, database: EmbeddedPostgres, keys: Mapping[str, str], servers: int = 1
    ) -> None:
        self.folder = folder
        self.keys = keys
        """By tenant."""
        self.url = database.url("ash")
        self.servers = [ServerProcess(self.url, folder / "server", ASH_SECRET=SECRET) for _ in range(servers)]
        self.server = self.servers[0]
        self.address = ""
        """The address of the only server, or of the proxy."""
        self._database = database

    def client(self, tenant: str) -> AsyncAshClient:
        """Return a client that repeats its requests until they succeed."""
        return AsyncAshClient(self.address, self.keys[tenant], retry=Retry(seconds=None))

    def database_processes(self) -> list[psutil.Process]:
        """Return the processes of PostgreSQL, the postmaster first."""
        lines = (self.folder / "pg" / "postmaster.pid").read_text().splitlines()
        postmaster = psutil.Process(int(lines[0]))
        return [postmaster, *postmaster.children(recursive=True)]

    def kill_database(self) -> None:
        for process in self.database_processes():
            with suppress(psutil.NoSuchProcess):  # connections end
                process.kill()

    async def start_database(self) -> None:
        await asyncio.to_thread(self._database.start)

    def kill_server(self) -> None:
        self.server.stop(signal.SIGKILL)

    async def start_server(self) -> None:
        await asyncio.to_thread(self.server.start)

    @asynccontextmanager
    async def running_servers(self) -> AsyncIterator[None]:
        """Start the servers, and stop them on exit."""
        try:
            await asyncio.gather(*(asyncio.to_thread(server.start) for server in self.servers))
            async with RoundRobinProxy([server.address for server in self.servers]) as proxy:
                self.address = proxy.address if len(self.servers) > 1 else self.server.address
                yield
        finally:
            for server in self.servers:
                server.stop()


@asynccontextmanager
async def deployed(servers: int = 1) -> AsyncIterator[Deployment]:
    with cluster() as (folder, database):
        async with Store.open(database.url("ash")) as store:
            keys = {tenant: await create_key(store, tenant, ("read", "write")) for tenant in TENANTS}
            keys[METRICS] = await create_key(store, METRICS, ("admin",))
        deployment = Deployment(folder, database, keys, servers)
        async with deployment.running_servers():
            yield deployment


async def create_key(store: Store, tenant: str, scopes: tuple[KeyScope, ...]) -> str:
    """Create a key for the servers started here, and its tenant."""
    text = new_key_text()
    new = NewKey(shown_prefix(text), shown_prefix(text), digest(SECRET.encode(), text), scopes, None)
    await store.keys.create(tenant, new)
    return text


async def new_session(client: AsyncAshClient) -> UUID:
    """Create a session with a random name."""
    return (await client.create_session(source="claude", external_id=str(uuid4()))).id
