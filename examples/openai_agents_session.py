"""Keep a conversation of openai-agents in Ash, and continue it: `python examples/openai_agents_session.py`.

Needs a server (`ash serve`) at ASH_URL, `pip install openai-agents`, and OPENAI_API_KEY.
"""

import asyncio
import os

from agents import Agent, Runner, set_tracing_disabled

from ash_stores import AshSession

URL = os.environ.get("ASH_URL", "http://127.0.0.1:4100")


async def main() -> None:
    set_tracing_disabled(True)
    session = AshSession("tests-of-the-site", url=URL, key=os.environ.get("ASH_KEY"))
    agent = Agent(name="tester", instructions="Answer in one word.")
    for question in ("Which tests fail?", "Why?"):
        result = await Runner.run(agent, question, session=session)
        print(result.final_output)
    print(len(await session.get_items()), "items")
    await session.close()


asyncio.run(main())
