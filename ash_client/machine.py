"""The name of this machine."""

import socket

MACHINE_HEADER = "Ash-Machine"
"""The host that a session comes from, in the request that creates it."""

MAX_MACHINE = 253
"""Characters of a host name."""


def machine_name() -> str | None:
    """Return the host name; None if a header cannot contain it."""
    name = socket.gethostname()
    return name[:MAX_MACHINE] if name.isascii() and name.isprintable() and name.strip() else None
