"""The systemd unit and the proxy of `deploy/` work, and name commands and settings that exist."""

import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from ash_server.app import create_app
from ash_server.settings import Settings
from ash_server.store import Store
from tests.ports import free_port
from tests.server.api.conftest import SECRET, create_key, served
from tests.waiting import until

UNIT = Path(__file__).parents[1] / "deploy" / "ash.service"


def values_of(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


@pytest.mark.slow
def test_commands_exist() -> None:
    commands = [*values_of("ExecStartPre"), *values_of("ExecStart")]

    assert commands == ["/opt/ash/bin/ash db upgrade", "/opt/ash/bin/ash serve"]
    program = Path(sys.executable).with_name("ash")
    for command in commands:
        subprocess.run([program, *command.split()[1:], "--help"], check=True, capture_output=True)


def test_settings_exist() -> None:
    names = {name for line in values_of("Environment") for name in re.findall(r"\bASH_(\w+)=", line)}

    assert names
    assert {name.lower() for name in names} <= {field.name for field in fields(Settings)}


def test_unit_names_files_of_the_installation_only() -> None:
    """`/opt/ash` is a virtual environment without documentation."""
    assert {*re.findall(r"/opt/ash\S*", "\n".join(values_of(r"\w+")))} == {"/opt/ash/bin/ash"}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_unit_is_valid() -> None:
    checked = subprocess.run(["systemd-analyze", "verify", UNIT], capture_output=True, text=True, check=False)

    own = [line for line in checked.stderr.splitlines() if "not executable" not in line]
    assert own == []


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("caddy"), reason="Caddy is not installed")
async def test_caddy_adds_tls(tmp_path: Path, database_url: str, store: Store) -> None:
    """Keys, secure cookies, large bodies and streams pass the proxy of `deploy/Caddyfile`."""
    key = await create_key(store, "laptop", "red", "read", "write")
    url = f"https://localhost:{free_port()}"
    app = create_app(Settings(secret=SECRET, public_url=url), database_url=database_url)
    with served(app) as upstream, caddy(tmp_path, url, upstream) as root:
        await until(root.exists)
        async with httpx2.AsyncClient(base_url=url, verify=ssl.create_default_context(cafile=root)) as client:
            await until(lambda: answers(client))
            refused = await client.get("/api/sessions")
            signed_in = await client.post("/login", data={"key": key, "next": "/"}, headers={"Origin": url})
            client.headers["Authorization"] = f"Bearer {key}"
            created = (await client.post("/api/sessions", json={"source": "claude"})).json()
            path = f"/api/sessions/{created['id']}"
            line = "x" * 5_000_000
            stored = await client.post(
                f"{path}/messages", content=line, headers={"Content-Type": "text/plain"}
            )
            async with client.stream("GET", f"{path}/events/stream") as stream:
                first = await anext(aiter(stream.aiter_lines()))

    assert (refused.status_code, refused.headers["Strict-Transport-Security"]) == (401, "max-age=31536000")
    assert (signed_in.status_code, stored.status_code) == (303, 201)
    cookie = signed_in.headers["Set-Cookie"]
    assert cookie.startswith("__Host-")
    assert "Secure" in cookie
    assert first


@contextmanager
def caddy(folder: Path, url: str, upstream: str) -> Iterator[Path]:
    """Run the proxy with its own certificate authority, and yield the path of its root certificate."""
    config = folder / "Caddyfile"
    options = "admin off\nauto_https disable_redirects\nskip_install_trust"
    config.write_text(f"{{\n{options}\n}}\nimport {UNIT.parent / 'Caddyfile'}\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        "ASH_DOMAIN": url,
        "ASH_UPSTREAM": urlsplit(upstream).netloc,
    }
    command = ["caddy", "run", "--config", str(config), "--adapter", "caddyfile"]
    with subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.DEVNULL) as process:
        try:
            yield folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
        finally:
            process.terminate()


async def answers(client: httpx2.AsyncClient) -> bool:
    try:
        return (await client.get("/health/live")).status_code == 200
    except httpx2.TransportError:
        return False
