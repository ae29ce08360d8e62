"""The Chromium that `make test` installs shows pages."""

import shutil
from pathlib import Path

import pytest
from playwright.async_api import async_playwright

from tests.viewer.browser import INSTALLED
from tools.install_chromium import SHA512, InstallationError, check_package, install_package

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed"),
]


async def test_installed_program_shows_a_page(tmp_path: Path) -> None:
    install_package(tmp_path / "chromium")

    program = tmp_path / "chromium" / INSTALLED.name
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = await browser.new_page()
        await page.set_content("<p>It opens.</p>")
        assert await page.inner_text("p") == "It opens."
        await browser.close()


def test_changed_package_is_refused(tmp_path: Path) -> None:
    package = tmp_path / "package.tgz"
    package.write_bytes(b"another build")

    with pytest.raises(InstallationError, match="have changed"):
        check_package(package, SHA512)
