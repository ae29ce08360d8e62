"""Keep the sessions of the Claude Agent SDK in Ash, and list them: `python examples/claude_agent_session_store.py`.

Needs a server (`ash serve`) at ASH_URL, and `pip install claude-agent-sdk`. CLAUDE_CLI is the
path of the CLI, if it is not the SDK's.
"""

import asyncio
import os

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    TextBlock,
    list_sessions_from_store,
    query,
)

from ash_stores import AshSessionStore

store = AshSessionStore(os.environ.get("ASH_URL", "http://127.0.0.1:4100"), os.environ.get("ASH_KEY"))
options = ClaudeAgentOptions(session_store=store, cli_path=os.environ.get("CLAUDE_CLI"))


async def main() -> None:
    async for message in query(prompt="Which tests fail?", options=options):
        if isinstance(message, AssistantMessage):
            print(*(block.text for block in message.content if isinstance(block, TextBlock)))
    for session in await list_sessions_from_store(store):
        print(session.summary)
    await store.close()


asyncio.run(main())
