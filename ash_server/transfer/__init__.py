"""Import transcripts into sessions, and export sessions to files."""

from ash_server.transfer.load import load_session, load_sessions

__all__ = ["load_session", "load_sessions"]
