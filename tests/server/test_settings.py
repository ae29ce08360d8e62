"""Settings from the environment and from files, and their table in docs/settings.md."""

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ash_server import settings
from ash_server.settings import Settings, SettingsError, check_exposure, usable_cores

MEBIBYTE = 2**20
PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; this machine has no secret files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(settings, "_SECRETS", tmp_path / "run-secrets")
    return tmp_path


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        ({"ASH_PORT": "", "ASH_HOME": "", "PORT": "1"}, {}),
        ({"ASH_DATABASE_URL": "postgresql://db/ash"}, {"database_url": "postgresql://db/ash"}),
        ({"ASH_DATABASE_URL": "postgres://db/ash"}, {"database_url": "postgres://db/ash"}),
        ({"ASH_DIRECT_URL": "postgresql://db"}, {"direct_url": "postgresql://db"}),
        ({"ASH_HOME": "/srv/ash"}, {"home": Path("/srv/ash")}),
        ({"ASH_HOME": "~/ash"}, {"home": Path.home() / "ash"}),
        ({"ASH_HOST": "0.0.0.0", "ASH_PORT": "0"}, {"host": "0.0.0.0", "port": 0}),
        ({"ASH_PUBLIC_URL": "https://ash.example/"}, {"public_url": "https://ash.example/"}),
        ({"ASH_ALLOW_UNAUTHENTICATED": "1"}, {"allow_unauthenticated": True}),
        ({"ASH_ALLOW_UNAUTHENTICATED": "0"}, {}),
        (
            {"ASH_MAX_MESSAGE_BYTES": "5", "ASH_MAX_BODY_BYTES": "6"},
            {"max_message_bytes": 5, "max_body_bytes": 6},
        ),
        (
            {"ASH_CORS_ORIGINS": "https://App.example/, http://localhost:5173"},
            {"cors_origins": ("https://app.example", "http://localhost:5173")},
        ),
        ({"ASH_RATE_LIMIT": "0.5"}, {"rate_limit": 0.5}),
        (
            {"ASH_POOL_SIZE": "20", "ASH_STATEMENT_TIMEOUT": "30", "ASH_PREPARE_THRESHOLD": "0"},
            {"pool_size": 20, "statement_timeout": 30, "prepare_threshold": 0},
        ),
        ({"ASH_PREPARE_THRESHOLD": "never"}, {"prepare_threshold": "never"}),
        ({"ASH_WORKERS": "3"}, {"workers": 3}),
        ({"ASH_READ_URL": "postgresql://copy/ash"}, {"read_url": "postgresql://copy/ash"}),
        ({"ASH_WORKERS": "cores"}, {"workers": usable_cores()}),
    ],
)
def test_reads_the_environment(environ: dict[str, str], expected: dict[str, Any]) -> None:
    assert Settings.load(environ) == Settings(**expected)


def test_defaults() -> None:
    assert Settings() == Settings(
        database_url=None,
        home=Path.home() / ".ash",
        host="127.0.0.1",
        port=4100,
        allow_unauthenticated=False,
        max_message_bytes=MEBIBYTE,
        max_body_bytes=8 * MEBIBYTE,
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ASH_PORT", "http", "ASH_PORT must be a port from 0 to 65535."),
        ("ASH_PORT", "65536", "ASH_PORT must be a port from 0 to 65535."),
        ("ASH_PORT", "-1", "ASH_PORT must be a port from 0 to 65535."),
        *(
            (
                "ASH_PUBLIC_URL",
                url,
                "ASH_PUBLIC_URL must be a URL such as https://ash.example, without a path.",
            )
            for url in (
                "ash.example",
                "ftp://ash.example",
                "https://ash.example/ash",
                "https://a@b",
                "https://",
            )
        ),
        ("ASH_ALLOW_UNAUTHENTICATED", "yes", "ASH_ALLOW_UNAUTHENTICATED must be 1 or 0."),
        ("ASH_MAX_BODY_BYTES", "0", "ASH_MAX_BODY_BYTES must be a number of bytes from 1 to 1073741824."),
        (
            "ASH_MAX_MESSAGE_BYTES",
            "1MB",
            "ASH_MAX_MESSAGE_BYTES must be a number of bytes from 1 to 1073741824.",
        ),
        (
            "ASH_DATABASE_URL",
            "mysql://ada:secret@db/ash",
            "ASH_DATABASE_URL must be a URL that starts with postgresql://.",
        ),
        *(
            (
                "ASH_CORS_ORIGINS",
                origins,
                "ASH_CORS_ORIGINS must be origins such as https://app.example, separated by commas.",
            )
            for origins in ("*", "https://*.example", "https://a.example,", "null", "app.example")
        ),
        *(
            (
                "ASH_RATE_LIMIT",
                rate,
                "ASH_RATE_LIMIT must be a number of requests per second from 0.01 to 100000.",
            )
            for rate in ("0", "-1", "nan", "inf", "10/s")
        ),
        ("ASH_READ_URL", "copy", "ASH_READ_URL must be a URL that starts with postgresql://."),
        ("ASH_WORKERS", "0", "ASH_WORKERS must be a number of processes from 1 to 64, or cores."),
        ("ASH_POOL_SIZE", "2", "ASH_POOL_SIZE must be a number of connections from 3 to 1000."),
        (
            "ASH_STATEMENT_TIMEOUT",
            "30s",
            "ASH_STATEMENT_TIMEOUT must be a number of seconds from 1 to 86400.",
        ),
        (
            "ASH_PREPARE_THRESHOLD",
            "none",
            "ASH_PREPARE_THRESHOLD must be a number of executions from 0 to 1000, or never.",
        ),
    ],
)
def test_errors_do_not_contain_the_value(name: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.load({name: value})

    assert str(error.value) == message


def test_the_environment_precedes_dotenv_and_dotenv_secret_files(folder: Path) -> None:
    dotenv = ["# comment", 'export ASH_PORT="5000"', "ASH_HOST=", "ASH_TENANT=red", "OTHER=1", "ASH_OTHER=2"]
    (folder / ".env").write_text("\n".join(dotenv))
    write_files(folder / "secrets", ash_secret="secret\n", ASH_TENANT="blue", ash_port="1", ash_home="")

    loaded = Settings.load({"ASH_SECRETS_DIR": "secrets", "ASH_PORT": "6000"})

    assert loaded == Settings(port=6000, tenant="red", secret="secret")


def test_clients_of_a_server_read_no_files(folder: Path) -> None:
    (folder / ".env").write_text("ASH_PORT=5000\nASH_HOME=/tmp\n")

    assert Settings.from_environment({"ASH_TENANT": "red"}) == Settings(tenant="red")


def test_secret_files_of_containers_need_no_setting(folder: Path) -> None:
    secrets = folder / "run-secrets"
    write_files(secrets, ash_database_url="postgresql://ada:pw@db/ash\n", other="x")
    (secrets / "key.der").write_bytes(b"\xff")
    (secrets / "ash_home").mkdir()

    assert Settings.load({}) == Settings(database_url="postgresql://ada:pw@db/ash")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ASH_PORT=http", "ASH_PORT must be a port from 0 to 65535."),
        (b"ASH_SECRET=\xff", "the settings in FOLDER/.env cannot be read: they are not text in UTF-8"),
    ],
)
def test_errors_in_files(folder: Path, content: bytes, message: str) -> None:
    (folder / ".env").write_bytes(content)

    with pytest.raises(SettingsError) as error:
        Settings.load({})

    assert str(error.value) == message.replace("FOLDER", str(folder))


def test_errors_in_secret_files(folder: Path) -> None:
    """The message names the folder with the error, not the readable file beside it."""
    (folder / ".env").write_text("ASH_PORT=5000")
    write_files(folder / "run-secrets")
    (folder / "run-secrets" / "ash_secret").write_bytes(b"\xff")

    with pytest.raises(SettingsError) as error:
        Settings.load({})

    reason = "cannot be read: they are not text in UTF-8"
    assert str(error.value) == f"the settings in {folder / 'run-secrets'} {reason}"


def test_a_named_folder_of_secret_files_must_exist() -> None:
    with pytest.raises(SettingsError, match="ASH_SECRETS_DIR must be a folder with a file for each secret"):
        Settings.load({"ASH_SECRETS_DIR": "missing"})


def write_files(folder: Path, **texts: str) -> None:
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)


OTHER_VARIABLES = {"ASH_KEY", "ASH_NO_BROWSER", "ASH_SECRETS_DIR", "ASH_URL"}
"""Read elsewhere, and not from files."""


def test_the_page_lists_all_settings_with_their_defaults() -> None:
    rows = re.findall(r"^\| `(ASH_\w+)` \| (.+?) \| .+ \|$", PAGE.read_text(), re.MULTILINE)
    documented: Mapping[str, str] = {name: default.strip("`") for name, default in rows}
    defaults = {f"ASH_{field.name.upper()}": getattr(Settings(), field.name) for field in fields(Settings)}

    assert len(rows) == len(documented)
    assert documented.keys() == defaults.keys() | OTHER_VARIABLES
    stated = {name: str(value) for name, value in defaults.items() if value and name != "ASH_HOME"}
    assert {name: documented[name] for name in stated} == stated


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_hosts_are_allowed(host: str) -> None:
    check_exposure(Settings(host=host), has_keys=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "ash.example", "127.0.0.1.example"])
def test_other_hosts_require_a_key_or_an_explicit_setting(host: str) -> None:
    check_exposure(Settings(host=host), has_keys=True)
    check_exposure(Settings(host=host, allow_unauthenticated=True), has_keys=False)
    with pytest.raises(SettingsError, match=r"ash keys create NAME.*ASH_ALLOW_UNAUTHENTICATED=1"):
        check_exposure(Settings(host=host), has_keys=False)


def test_a_proxy_for_other_machines_requires_a_key() -> None:
    check_exposure(Settings(public_url="http://localhost:8080"), has_keys=False)
    check_exposure(Settings(public_url="https://ash.example"), has_keys=True)
    with pytest.raises(
        SettingsError, match=r"ASH_PUBLIC_URL=https://ash.example lets .* or unset ASH_PUBLIC_URL"
    ):
        check_exposure(Settings(public_url="https://ash.example"), has_keys=False)
