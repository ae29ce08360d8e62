"""Record the memory of agents of smolagents while a scripted model answers: `python record_smolagents.py FOLDER`.

Needs `smolagents` in an environment of its own. Version 1.26.0 wrote the files in `smolagents/`.
"""

# mypy: ignore-errors

import json
import sys
from pathlib import Path

from smolagents import ChatMessage, CodeAgent, Model, ToolCallingAgent, tool
from smolagents.models import (
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)
from smolagents.monitoring import TokenUsage
from smolagents.utils import make_json_serializable


@tool
def list_berths(size: str) -> str:
    """List the free berths.

    Args:
        size: The size of the ship.
    """
    return "berth-2"


@tool
def open_gate(gate: int) -> str:
    """Open a gate.

    Args:
        gate: The number of the gate.
    """
    raise OSError(f"Gate {gate} is rusty.")


def call(name, **arguments):
    function = ChatMessageToolCallFunction(name=name, arguments=arguments)
    return ChatMessageToolCall(id=f"call_{name}", type="function", function=function)


class Scripted(Model):
    def __init__(self, *answers):
        super().__init__(model_id="reef-1")
        self.answers = list(answers)

    def generate(self, messages, **_):
        answer = self.answers.pop(0)
        calls = answer if isinstance(answer, list) else None
        text = None if calls else answer
        usage = TokenUsage(input_tokens=200 + len(self.answers), output_tokens=20 + len(self.answers))
        return ChatMessage(role=MessageRole.ASSISTANT, content=text, tool_calls=calls, token_usage=usage)


def write(agent, file):
    steps = make_json_serializable(agent.memory.get_full_steps())
    file.write_text(json.dumps(steps))


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    answers = (
        "I list the berths, then I open the gate.",
        [call("list_berths", size="small")],
        [call("open_gate", gate=3)],
        [call("final_answer", answer="Berth 2 is free.")],
    )
    agent = ToolCallingAgent([list_berths, open_gate], Scripted(*answers), planning_interval=5)
    agent.run("Which berth is free?")
    write(agent, folder / "tools.json")
    code = (
        "I count.\n<code>\nprint(list_berths(size='small'))\n</code>",
        "<code>\nopen_gate(3)\n</code>",
        "Done.\n<code>\nfinal_answer('Berth 2.')\n</code>",
    )
    agent = CodeAgent([list_berths, open_gate], Scripted(*code))
    agent.run("Which berth is free?")
    write(agent, folder / "code.json")


main()
