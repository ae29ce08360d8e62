"""Session stores of agent SDKs, which keep the sessions in Ash.

```python
from ash_stores import AshSessionStore

options = ClaudeAgentOptions(session_store=AshSessionStore("http://127.0.0.1:4100"))
```

A store imports its SDK when it is used, so only that one has to be installed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ash_stores.claude_agent import AshSessionStore
    from ash_stores.openai_agents import AshSession
    from ash_stores.pydantic_ai import AshConversationStore

__all__ = ["AshConversationStore", "AshSession", "AshSessionStore"]

_MODULES = {
    "AshConversationStore": "pydantic_ai",
    "AshSession": "openai_agents",
    "AshSessionStore": "claude_agent",
}


def __getattr__(name: str) -> Any:
    """Import a store on first use."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
