"""A browser on this desktop, if there is one and nobody minds."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from threading import Thread

_ELSEWHERE = ("ASH_NO_BROWSER", "CI", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
"""Set where nobody sits in front of this machine, or where somebody does not want it."""


def has_desktop(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    if any(map(environ.get, _ELSEWHERE)):
        return False
    return platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def show(address: str) -> Thread | None:
    """Whoever calls has printed the address. What begins the browser, which may take a while, is answered, if any."""
    if not has_desktop():
        return None
    opening = Thread(target=webbrowser.open, args=[address], daemon=True)
    opening.start()
    return opening
