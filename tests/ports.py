"""Ports of servers: their address must be known before they start, or kept while they are down."""

import socket
from random import SystemRandom

_PORTS = range(20_000, 32_000)
"""Below the ephemeral ports, which any other process may be given at any time."""


def free_port() -> int:
    """Return an unused port."""
    choose = (
        SystemRandom()
    )  # test processes run in parallel, and would choose the same ports with a fixed seed
    while True:
        port = choose.choice(_PORTS)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
