"""Keep a conversation of pydantic-ai in Ash, and fork it: `python examples/pydantic_ai_conversation_store.py`.

Needs a server (`ash serve`) at ASH_URL, `pip install 'pydantic-ai-slim[anthropic]'`, and ANTHROPIC_API_KEY. AGENT_MODEL
names another model.
"""

import asyncio
import os

from pydantic_ai import Agent, Conversation

from ash_stores import AshConversationStore

store = AshConversationStore(os.environ.get("ASH_URL", "http://127.0.0.1:4100"), os.environ.get("ASH_KEY"))
agent = Agent(os.environ.get("AGENT_MODEL", "anthropic:claude-sonnet-5"), instructions="Answer in one word.")


async def main() -> None:
    conversation = await store.load("tests-of-the-site") or Conversation(conversation_id="tests-of-the-site")
    for question in ("Which tests fail?", "Why?"):
        result = await agent.run(question, conversation=conversation)
        await store.save(result)
        conversation = result.conversation
        print(result.output)
    fork = await store.fork("tests-of-the-site", at=2)
    print(len(fork.messages), "of", len(conversation.messages), "messages")
    await store.close()


asyncio.run(main())
