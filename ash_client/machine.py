"""The name of this machine."""

import socket

from ash_shared.model.session import MAX_MACHINE

MACHINE_HEADER = "Ash-Machine"
"""The host that a session comes from, in the request that creates it."""


def machine_name() -> str | None:
    """Return the host name; None if a header cannot contain it."""
    name = socket.gethostname()
    return name[:MAX_MACHINE] if name.isascii() and name.isprintable() and name.strip() else None
