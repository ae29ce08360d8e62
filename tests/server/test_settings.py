"""Settings from the environment."""

from pathlib import Path
from typing import Any

import pytest

from ash_server.settings import Settings, SettingsError, check_exposure

MEBIBYTE = 2**20


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        ({"ASH_PORT": "", "ASH_HOME": "", "PORT": "1"}, {}),
        ({"ASH_DATABASE_URL": "postgresql://db/ash"}, {"database_url": "postgresql://db/ash"}),
        ({"ASH_DATABASE_URL": "postgres://db/ash"}, {"database_url": "postgres://db/ash"}),
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
    ],
)
def test_reads_the_environment(environ: dict[str, str], expected: dict[str, Any]) -> None:
    assert Settings.from_environment(environ) == Settings(**expected)


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
    ],
)
def test_errors_do_not_contain_the_value(name: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.from_environment({name: value})

    assert str(error.value) == message


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
