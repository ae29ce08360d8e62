"""From files to sessions and back."""

from ash_server.transfer.load import load_session

__all__ = ["load_session"]
