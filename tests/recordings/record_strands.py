"""Record sessions of Strands Agents while a scripted model answers: `python record_strands.py FOLDER`.

Needs `strands-agents` in an environment of its own. Version 1.62.0 wrote the files in `strands/`. A bundle has a line
for each file of a session, with its path.
"""

# mypy: ignore-errors

import asyncio
import json
import sys
from pathlib import Path
from tempfile import mkdtemp

from strands import Agent, tool
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.models import Model
from strands.multiagent import GraphBuilder
from strands.session import FileSessionManager
from strands.types.session import encode_bytes_values

ANSWERS = {
    "Which berth": ["I look at the list.", "I list the berths.", ("list_berths", {"size": "small"})],
    "berth-2": ["Berth 2 is free."],
    "open the gate": [("open_gate", {"gate": 3})],
    "rusty": ["The gate did not open: it is rusty."],
    "Let another agent": [("rope_counter", {"input": "Count the ropes in the store."})],
    "ropes in the store": ["Seven ropes."],
    "Seven ropes": ["There are seven."],
    "Watch the harbour": ["I see two ships."],
    "ummarize": ["The user asked for a berth: berth 2 is free."],
}


@tool
def list_berths(size: str) -> dict:
    """List the free berths."""
    return {"status": "success", "content": [{"text": "berth-2"}, {"json": {"berths": [2], "size": size}}]}


@tool
def open_gate(gate: int) -> str:
    """Open a gate."""
    raise OSError(f"Gate {gate} is rusty.")


class Scripted(Model):
    """A model that answers with the text or calls for the first key in the last message."""

    count = 0

    def update_config(self, **_):
        pass

    def get_config(self):
        return {"model_id": "reef-1"}

    async def structured_output(self, *_, **__):
        yield {}

    async def stream(self, messages, *_, **__):
        Scripted.count += 1
        last = json.dumps(messages[-1]["content"])
        parts = next((parts for words, parts in ANSWERS.items() if words in last), ["Yes."])
        yield {"messageStart": {"role": "assistant"}}
        for number, part in enumerate(parts):
            if isinstance(part, tuple):
                use = {"name": part[0], "toolUseId": f"tooluse_{Scripted.count}"}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(part[1])}}}}
            elif number == 0 and len(parts) > 1:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"reasoningContent": {"text": part}}}}
                yield {"contentBlockDelta": {"delta": {"reasoningContent": {"signature": "c2lnbmVk"}}}}
            else:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": part}}}
            yield {"contentBlockStop": {}}
        has_calls = any(isinstance(part, tuple) for part in parts)
        yield {"messageStop": {"stopReason": "tool_use" if has_calls else "end_turn"}}
        counts = {"inputTokens": 200 + Scripted.count, "outputTokens": 20 + Scripted.count}
        usage = {**counts, "totalTokens": sum(counts.values()) + 1000, "cacheReadInputTokens": 1000}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 5}}}


def bundle(folder, file):
    """Write the files of a session, in the order of their paths."""
    paths = sorted(folder.rglob("*.json"), key=lambda path: (len(path.name), path.name))
    lines = [{"path": path.relative_to(folder).as_posix(), "text": path.read_text()} for path in paths]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def main():
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    sessions = Path(mkdtemp())
    counter = Agent(model=Scripted(), name="rope_counter", agent_id="rope_counter", callback_handler=None)
    manager = FileSessionManager(session_id="s-1", storage_dir=str(sessions))
    harbour = Agent(
        model=Scripted(),
        agent_id="harbour",
        system_prompt="You run a harbour.",
        tools=[list_berths, open_gate, counter.as_tool(name="rope_counter", description="Counts ropes.")],
        session_manager=manager,
        callback_handler=None,
        conversation_manager=SummarizingConversationManager(summary_ratio=0.5, preserve_recent_messages=2),
    )
    for prompt in ("Which berth is free?", "Please open the gate.", "Let another agent count the ropes."):
        harbour(prompt)
    harbour.conversation_manager.reduce_context(harbour)
    manager.sync_agent(harbour)
    harbour("Are the sails dry?")
    bundle(sessions / "session_s-1", folder / "s-1.bundle.jsonl")
    snapshot = encode_bytes_values(harbour.take_snapshot(preset="session").to_dict())
    (folder / "s-1.snapshot.json").write_text(json.dumps(snapshot))

    graph = GraphBuilder()
    for name in ("north", "south"):
        graph.add_node(Agent(model=Scripted(), agent_id=name, name=name, callback_handler=None), name)
    graph.add_edge("north", "south")
    graph.set_session_manager(FileSessionManager(session_id="s-2", storage_dir=str(sessions)))
    asyncio.run(graph.build().invoke_async("Watch the harbour."))
    bundle(sessions / "session_s-2", folder / "s-2.bundle.jsonl")


main()
