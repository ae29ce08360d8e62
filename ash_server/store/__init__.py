"""The store: its Python API, and all modules that know PostgreSQL."""

from ash_server.store.store import Store

__all__ = ["Store"]
