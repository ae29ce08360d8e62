"""Write a session in the format of another agent, which continues it there.

A writer is a pure function from the messages to carry to one file. It writes no usage, no permissions and no settings:
the agent adds its own when it continues. The file begins with the id of the stored session, and says where its
messages end (`records.inherited`).
"""

from collections.abc import Callable, Mapping

from ash_shared.projections._conversation import Item
from ash_shared.projections.native.carried import Carried, carry
from ash_shared.projections.native.claude import to_claude
from ash_shared.projections.native.codex import to_codex
from ash_shared.projections.native.opencode import to_opencode
from ash_shared.projections.native.pi import to_pi
from ash_shared.projections.native.transcript import NativeSession, NewTranscript

WRITERS: Mapping[str, Callable[[list[Item], NewTranscript], NativeSession]] = {
    "claude": to_claude,
    "codex": to_codex,
    "opencode": to_opencode,
    "pi": to_pi,
}
"""By the source of the written session."""

NOT_CARRIED = (
    "system prompts",
    "permissions and allowed tools",
    "hooks",
    "MCP settings",
    "environment variables",
)
"""Settings that no writer carries."""

__all__ = ["NOT_CARRIED", "WRITERS", "Carried", "NativeSession", "NewTranscript", "carry"]
