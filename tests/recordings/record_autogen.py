"""Record a team of AutoGen while a scripted model answers: `python record_autogen.py FOLDER`.

Needs `autogen-agentchat` and `autogen-ext` in an environment of its own. Version 0.7.5 wrote the files in `autogen/`.
"""

# mypy: ignore-errors

import asyncio
import json
import sys
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelFamily, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

INFO = {"vision": False, "function_calling": True, "json_output": False, "structured_output": False}


def list_berths(size: str) -> str:
    """List the free berths."""
    return "berth-2"


def open_gate(gate: int) -> str:
    """Open a gate."""
    raise OSError(f"Gate {gate} is rusty.")


def answer(content, number, thought=None):
    usage = RequestUsage(prompt_tokens=200 + number, completion_tokens=20 + number)
    reason = "stop" if isinstance(content, str) else "function_calls"
    return CreateResult(finish_reason=reason, content=content, usage=usage, cached=False, thought=thought)


def call(number, name, **arguments):
    return FunctionCall(id=f"call_{number}", name=name, arguments=json.dumps(arguments))


def model(*answers):
    info = {**INFO, "family": ModelFamily.UNKNOWN}
    return ReplayChatCompletionClient(list(answers), model_info=info)


async def record(folder):
    harbour = AssistantAgent(
        "harbour",
        model_client=model(
            answer([call(1, "list_berths", size="small")], 1, thought="I look at the list."),
            "Berth 2 is free.",
            answer([call(3, "open_gate", gate=3)], 3),
            answer("The gate did not open. DONE", 4),
        ),
        tools=[list_berths, open_gate],
        system_message="You run a harbour.",
        reflect_on_tool_use=True,
        model_client_stream=True,
    )
    keeper = AssistantAgent("rope_keeper", model_client=model(answer("There are seven ropes.", 5)))
    team = RoundRobinGroupChat([harbour, keeper], termination_condition=TextMentionTermination("DONE"))
    run = team.run_stream(task="Which berth is free? Open the gate, too.")
    lines = [message.model_dump_json() async for message in run]
    (folder / "team.messages.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "team.state.json").write_text(json.dumps(await team.save_state()))
    (folder / "agent.state.json").write_text(json.dumps(await harbour.save_state()))

    guide = AssistantAgent(
        "guide",
        model_client=model(answer([call(6, "transfer_to_counter")], 6)),
        handoffs=[Handoff(target="counter")],
    )
    counter = AssistantAgent("counter", model_client=model(answer("Four sails.", 7), answer("Four.", 8)))
    swarm = Swarm([guide, counter], termination_condition=MaxMessageTermination(4))
    result = await swarm.run(task="Count the sails.")
    (folder / "swarm.result.json").write_text(result.model_dump_json())


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(record(folder))


main()
