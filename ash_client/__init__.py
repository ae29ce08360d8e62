"""Client of an Ash server, sync and async, typed by the models of `ash_shared`.

```python
from ash_client import AshClient

with AshClient.from_env() as ash:  # ASH_URL and ASH_KEY
    session = ash.create_session(source="claude", external_id="run-7")
    ash.append(session.id, ['{"type": "user", ...}'])
    for message in ash.messages(session.id):
        print(message.parsed)
    for event in ash.follow(session.id):
        ...
```

Both clients build requests with the functions of `requests` and differ only in how they send them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ash_client.async_client import AsyncAshClient
    from ash_client.errors import ApiError
    from ash_client.requests import MessageToAppend
    from ash_client.retry import Retry
    from ash_client.sync_client import AshClient

__all__ = ["ApiError", "AshClient", "AsyncAshClient", "MessageToAppend", "Retry"]

_MODULES = {
    "ApiError": "errors",
    "AshClient": "sync_client",
    "AsyncAshClient": "async_client",
    "MessageToAppend": "requests",
    "Retry": "retry",
}
"""Loaded when they are used: commands with a local store need only `ash_client.machine`, not the HTTP client."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
