"""The local time zone of `ash usage`."""

from pathlib import Path
from zoneinfo import TZPATH

import pytest

from ash_server.cli.usage.zones import local_zone_name


@pytest.mark.parametrize(
    ("variable", "link", "file", "name"),
    [
        ("Europe/Berlin", None, None, "Europe/Berlin"),
        (":Europe/Berlin", None, None, "Europe/Berlin"),
        ("/usr/share/zoneinfo/Europe/Berlin", None, None, "Europe/Berlin"),
        ("", "Asia/Kathmandu", None, "Asia/Kathmandu"),
        ("CET-1CEST,M3.5.0", "Asia/Kathmandu", None, "Asia/Kathmandu"),
        ("Nowhere/City", None, "Asia/Tokyo\n", "Asia/Tokyo"),
        ("../../etc/passwd", None, None, "UTC"),
        ("Europe", None, None, "UTC"),
        ("", None, None, "UTC"),
    ],
)
def test_local_zone(tmp_path: Path, variable: str, link: str | None, file: str | None, name: str) -> None:
    localtime, timezone = tmp_path / "localtime", tmp_path / "timezone"
    if link:
        localtime.symlink_to(Path(TZPATH[0], link))
    if file:
        timezone.write_text(file)
    assert local_zone_name({"TZ": variable}, localtime, timezone) == name
