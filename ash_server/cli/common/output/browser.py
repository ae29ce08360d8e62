"""Open addresses in the desktop's browser."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from threading import Thread

_NO_DESKTOP_VARIABLES = ("ASH_NO_BROWSER", "CI", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
"""Set on remote or unattended machines, or to disable opening a browser."""


def has_desktop(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    if any(map(environ.get, _NO_DESKTOP_VARIABLES)):
        return False
    return platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def open_browser(address: str) -> Thread | None:
    """Open an address if there is a desktop, and return the thread that does, since it may take a while."""
    if not has_desktop():
        return None
    opening = Thread(target=webbrowser.open, args=[address], daemon=True)
    opening.start()
    return opening
