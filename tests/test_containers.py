"""The Dockerfile and the compose file match the repository and each other; no engine is needed."""

import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from ash_server.cli import db, serve
from ash_server.settings import Settings

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
SETTINGS = fields(Settings)
TEAM = yaml.safe_load((ROOT / "deploy" / "team.yml").read_text())


def instructions() -> list[tuple[str, str]]:
    """Return each instruction of the Dockerfile with its arguments, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = filter(str.strip, text.replace("\\\n", " ").splitlines())
    return [(line.split(None, 1)[0], " ".join(line.split()[1:])) for line in lines]


def arguments_of(name: str) -> list[str]:
    return [arguments for instruction, arguments in instructions() if instruction == name]


def copied_paths() -> list[str]:
    """Return the paths of the repository that the image copies."""
    return [path for each in arguments_of("COPY") if "--from" not in each for path in each.split()[:-1]]


def test_services_start_in_order() -> None:
    assert {name: service.get("depends_on") for name, service in SERVICES.items()} == {
        "db": None,
        "migrate": {"db": {"condition": "service_healthy"}},
        "api": {"migrate": {"condition": "service_completed_successfully"}},
    }


def test_ports_are_bound_to_localhost() -> None:
    assert {name: service.get("ports") for name, service in SERVICES.items()} == {
        "db": None,
        "migrate": None,
        "api": ["127.0.0.1:${ASH_PORT:-4100}:4100"],
    }


def test_database_data_is_in_a_volume() -> None:
    db = SERVICES["db"]

    assert (db["image"], db["volumes"]) == ("postgres:18", ["db:/var/lib/postgresql"])
    assert COMPOSE["volumes"].keys() == {"db"}
    assert db["healthcheck"]["test"] == ["CMD-SHELL", "pg_isready --username ash --dbname ash"]


@pytest.mark.parametrize("name", ["migrate", "api"])
def test_services_connect_to_the_database(name: str) -> None:
    db, environment = SERVICES["db"]["environment"], SERVICES[name]["environment"]

    assert environment == {
        "ASH_DATABASE_URL": f"postgresql://{db['POSTGRES_USER']}@db:5432/{db['POSTGRES_DB']}",
        "PGPASSWORD": db["POSTGRES_PASSWORD"],
        "ASH_ALLOW_UNAUTHENTICATED": "1",
        "ASH_SECRET": "${ASH_SECRET:-}",
    }


def test_commands_exist() -> None:
    [command] = arguments_of("CMD")

    assert command == '["ash", "serve", "--host", "0.0.0.0", "--port", "4100"]'
    assert SERVICES["migrate"]["command"] == ["ash", "db", "upgrade"]
    assert "upgrade" in db.command.commands
    assert {"--host", "--port"} <= {name for option in serve.command.params for name in option.opts}


def test_server_has_time_to_stop() -> None:
    api = SERVICES["api"]

    assert (api["init"], api["stop_grace_period"], api.get("command")) == (True, "15s", None)


def test_images_are_pinned_and_run_without_root() -> None:
    assert arguments_of("FROM") == ["python:3.12-slim-bookworm AS build", "python:3.12-slim-bookworm"]
    assert [each for each in instructions() if each[0] in ("FROM", "USER")][-1] == ("USER", "ash")
    assert "useradd" in arguments_of("RUN")[-1]


def test_installed_packages_are_pinned() -> None:
    installs = [step for run in arguments_of("RUN") for step in run.split("&&") if "pip install" in step]

    assert [{"--require-hashes", "--no-deps"} & set(shlex.split(step)) for step in installs] == [
        {"--require-hashes", "--no-deps"},
        {"--require-hashes", "--no-deps"},
        {"--no-deps"},
    ]


def test_image_contains_no_build_tools() -> None:
    """Only /opt/ash is copied to the image."""
    steps = [step for run in arguments_of("RUN") for step in run.split("&&")]
    pips = {
        name: step.split()[0]
        for name in ("build.txt", "server.txt", ".whl")
        for step in steps
        if name in step
    }

    assert pips == {
        "build.txt": "/opt/build/bin/pip",
        "server.txt": "/opt/ash/bin/pip",
        ".whl": "/opt/ash/bin/pip",
    }
    assert [each for each in arguments_of("COPY") if "--from" in each] == ["--from=build /opt/ash /opt/ash"]


def test_copied_paths_exist_and_are_in_the_build_context() -> None:
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]

    assert [path for path in copied_paths() if not (ROOT / path).exists()] == []
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied_paths())


def test_wheel_is_built_from_copied_files() -> None:
    """Files named by pyproject.toml are copied before the project is installed."""
    project: Any = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    sources = {
        *wheel["packages"],
        *wheel["force-include"],
        project["project"]["readme"],
        "LICENSE",
        "pyproject.toml",
    }

    assert sources <= set(copied_paths())


def test_health_check_requests_the_server() -> None:
    [check] = arguments_of("HEALTHCHECK")

    assert "http://127.0.0.1:4100/health/live" in check
    assert arguments_of("EXPOSE") == ["4100"]


@pytest.mark.parametrize("page", ["README.md", "docs/operations.md", "deploy/check-image.sh"])
def test_one_volume_has_the_data(page: str) -> None:
    """The user of the image owns the folder of the volume, so that a new volume belongs to it."""
    text = (ROOT / page).read_text().replace("\\\n", " ")
    [command] = re.findall(r"docker run .*--init .*", text)

    assert "ASH_HOME=/data" in arguments_of("ENV")[-1]
    assert arguments_of("RUN")[-1].endswith("install --directory --owner ash --mode 700 /data")
    assert re.search(r"(-v|--volume) [\w-]+:/data ", command)
    assert re.search(r"(-p|--publish) 127\.0\.0\.1:4100:4100 ", command)
    assert re.search(r"(-e|--env) ASH_ALLOW_UNAUTHENTICATED=1 ", command)


def test_team_needs_keys_and_tls() -> None:
    """The additions for a team close the server, and name services and volumes that exist."""
    services = TEAM["services"]
    api, proxy = services["api"]["environment"], services["proxy"]

    assert services.keys() == {"migrate", "api", "proxy"}
    assert services.keys() - {"proxy"} <= SERVICES.keys()
    assert {name for name in api if name.startswith("ASH_")} <= {
        f"ASH_{each.name.upper()}" for each in SETTINGS
    }
    assert (api["ASH_ALLOW_UNAUTHENTICATED"], api["ASH_SECRET"]) == (
        "",
        services["migrate"]["environment"]["ASH_SECRET"],
    )
    assert api["ASH_PUBLIC_URL"] == f"https://{proxy['environment']['ASH_DOMAIN']}"
    assert proxy["volumes"] == ["./deploy/Caddyfile:/etc/caddy/Caddyfile:ro", "certificates:/data"]
    assert TEAM["volumes"].keys() == {"certificates"}
    required = re.findall(r"\$\{(\w+):\?", (ROOT / "deploy" / "team.yml").read_text())
    assert set(required) == {"ASH_SECRET", "ASH_DOMAIN"}


def test_proxy_passes_requests_to_the_server() -> None:
    caddyfile = (ROOT / "deploy" / "Caddyfile").read_text()

    [port] = arguments_of("EXPOSE")
    assert set(re.findall(r"\{\$([^}]+)\}", caddyfile)) == {"ASH_DOMAIN", f"ASH_UPSTREAM:api:{port}"}
