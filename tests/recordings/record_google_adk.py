"""Record sessions of Google ADK while a scripted model answers: `python record_google_adk.py FOLDER`.

Needs `google-adk[db]` in an environment of its own. Version 2.13.0 wrote the files in `google_adk/`, and version 1.14.1
`columns.sql`, whose table has the fields of an event in columns.
"""

# mypy: ignore-errors

import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import urllib.request
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from threading import Thread

AGENT = '''
from google.adk.agents import LlmAgent, ParallelAgent
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool


def list_berths(size: str) -> dict:
    """List the free berths."""
    return {"result": "berth-2"}


def open_gate(gate: int) -> dict:
    """Open a gate."""
    return {"error": f"Gate {gate} is rusty."}


def count_ropes(store: str) -> dict:
    """Count the ropes."""
    return {"ropes": 7, "store": store}


def break_gate() -> dict:
    """Break a gate."""
    raise OSError("The gate fell into the water.")


def ask_master(question: str) -> dict:
    """Ask the harbour master."""
    return {"status": "pending"}


keeper = LlmAgent(
    name="rope_keeper",
    model="gemini-2.5-flash",
    description="Counts ropes.",
    instruction="You count ropes.",
    tools=[count_ropes],
)
reader = LlmAgent(
    name="tide_reader",
    model="gemini-2.5-flash",
    description="Reads the tide table.",
    instruction="You read the tide table.",
)
helper = LlmAgent(
    name="sail_counter",
    model="gemini-2.5-flash",
    description="Counts sails.",
    instruction="You count sails.",
    mode="task",
)
watchers = [
    LlmAgent(name=name, model="gemini-2.5-flash", description="Watches.", instruction=f"You watch the {name}.")
    for name in ("north", "south")
]
lookout = ParallelAgent(name="lookout", sub_agents=watchers, description="Watches both sides.")
root_agent = LlmAgent(
    name="harbour",
    model="gemini-2.5-pro",
    instruction="You run a harbour.",
    tools=[list_berths, open_gate, break_gate, AgentTool(reader), LongRunningFunctionTool(ask_master)],
    sub_agents=[keeper, lookout, helper],
    output_key="last_answer",
)
app = App(
    name="harbour",
    root_agent=root_agent,
    events_compaction_config=EventsCompactionConfig(compaction_interval=3, overlap_size=0),
)
'''

PROMPTS = [
    "Which berth is free?",
    "Please open the gate.",
    "When is high water?",
    "Say something forbidden.",
    "Nothing works.",
    "Count the ropes.",
]


def text(words, **more):
    return {"text": words, **more}


def call(name, **arguments):
    return {"functionCall": {"name": name, "args": arguments}}


ANSWERS = {
    "Which berth": [
        [text("I look at the list.", thought=True)],
        [text("I list the berths.")],
        [call("list_berths", size="small")],
    ],
    "open the gate": [[call("open_gate", gate=3)]],
    "Count the ropes": [[call("transfer_to_agent", agent_name="rope_keeper")]],
    "high water": [[call("tide_reader", request="When is high water?")]],
    "Look around": [[call("transfer_to_agent", agent_name="lookout")]],
    "Count the sails": [[call("sail_counter", request="Count the sails in the loft.")]],
    "Ask the master": [[call("ask_master", question="May we sail?")]],
    "Break the gate": [[call("break_gate")]],
}
RESULTS = {
    "list_berths": [[text("Berth 2 ")], [text("is free.")]],
    "open_gate": [[text("The gate did not open: it is rusty.")]],
    "count_ropes": [[text("There are ")], [text("seven ropes.")]],
    "tide_reader": [[text("High water is at ten past nine.")]],
    "sail_counter": [[text("There are four sails.")]],
    "ask_master": [[text("I wait for the master.")]],
}
SYSTEMS = {
    "read the tide table": [[text("09:10")]],
    "watch the north": [[text("Two ships in the north.")]],
    "watch the south": [[text("No ship in the south.")]],
    "count sails": [[call("finish_task", result="Four sails.")]],
}


def answer(body):
    """Return the chunks of an answer, each a list of parts; or the name of a failure."""
    everything = json.dumps(body)
    system = json.dumps(body.get("systemInstruction", {}))
    last = body["contents"][-1]["parts"]
    result = next((part["functionResponse"]["name"] for part in last if "functionResponse" in part), None)
    if "summar" in everything and "conversation history" in everything:
        return [[text("The user asked for a berth, a gate and the ropes: berth 2 is free.")]]
    if "count ropes" in system:
        return RESULTS["count_ropes"] if result else [[call("count_ropes", store="north")]]
    for words, parts in SYSTEMS.items():
        if words in system:
            return parts
    if result in RESULTS:
        return RESULTS[result]
    words = " ".join(part.get("text", "") for part in last)
    failure = next((each for each in ("forbidden", "Nothing works") if each in words), None)
    return failure or next((parts for key, parts in ANSWERS.items() if key in words), [[text("Yes.")]])


class Model(BaseHTTPRequestHandler):
    """The Gemini API."""

    count = 0

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Model.count += 1
        chunks = answer(body)
        if chunks == "Nothing works":
            error = {"code": 400, "message": "The model is closed today.", "status": "INVALID_ARGUMENT"}
            return self.send(400, "application/json", json.dumps({"error": error}))
        name = re.search("models/([^:]+):", self.path)[1]
        counts = {"promptTokenCount": 1200 + Model.count, "candidatesTokenCount": 20 + Model.count}
        counts |= {"cachedContentTokenCount": 1000, "thoughtsTokenCount": 5}
        counts["totalTokenCount"] = counts["promptTokenCount"] + counts["candidatesTokenCount"] + 5
        if chunks == "forbidden":
            candidates = [{"finishReason": "SAFETY", "finishMessage": "The answer was blocked."}]
        else:
            candidates = [{"content": {"role": "model", "parts": parts}} for parts in chunks]
            candidates[-1]["finishReason"] = "STOP"
        is_stream = "stream" in self.path
        if not is_stream and chunks != "forbidden":
            candidates = candidates[-1:]
            candidates[0]["content"]["parts"] = [part for parts in chunks for part in parts]
        responses = [
            {"candidates": [each], "usageMetadata": counts, "modelVersion": name} for each in candidates
        ]
        if is_stream:
            data = "".join(f"data: {json.dumps(each)}\r\n\r\n" for each in responses)
            return self.send(200, "text/event-stream", data)
        return self.send(200, "application/json", json.dumps(responses[0]))

    def send(self, status, kind, data):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data.encode())))
        self.end_headers()
        self.wfile.write(data.encode())


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    return urllib.request.urlopen(request).read().decode()


def get(url):
    return urllib.request.urlopen(url).read().decode()


def record_server(agents, folder):
    """Run `adk api_server`: streams, sessions as documents, and its database."""
    port = 8942
    command = [str(Path(sys.executable).with_name("adk")), "api_server", "--port", str(port), str(agents)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                get(f"{address}/list-apps")
                break
            except OSError:
                time.sleep(0.2)
        for session, streaming in (("s-1", True), ("s-2", False)):
            place = f"{address}/apps/harbour/users/mate/sessions/{session}"
            post(place, {})
            streams = []
            for prompt in PROMPTS:
                message = {"role": "user", "parts": [{"text": prompt}]}
                run = {"appName": "harbour", "userId": "mate", "sessionId": session, "newMessage": message}
                run["streaming"] = streaming
                streams.append(f"data: {json.dumps(run)}\n\n" + post(f"{address}/run_sse", run))
            (folder / f"{session}.sse.txt").write_text("".join(streams))
            if streaming:
                (folder / f"{session}.session.json").write_text(get(place))
    finally:
        server.terminate()
        server.wait()
    dump(agents / "harbour/.adk/session.db", folder / "api_server.sql")


def dump(database, file):
    """Write a database as SQL."""
    with closing(sqlite3.connect(database)) as connection:
        file.write_text("".join(f"{line}\n" for line in connection.iterdump()))


async def record_runner(agents, folder):
    """Run sessions with the tables of SQLAlchemy: parallel agents, a task, a waiting tool, a rewind."""
    from google.adk.runners import Runner
    from google.adk.sessions import DatabaseSessionService
    from google.genai import types

    sys.path.insert(0, str(agents))
    from harbour.agent import app

    database = agents / "database_service.db"
    service = DatabaseSessionService(f"sqlite+aiosqlite:///{database}")
    runner = Runner(app=app, session_service=service)
    lines = []
    for session, prompts in {
        "s-3": ["Look around."],
        "s-4": ["Count the sails.", "Ask the master.", "Which berth is free?"],
        "s-5": ["Break the gate."],
    }.items():
        await service.create_session(app_name="harbour", user_id="mate", session_id=session)
        for prompt in prompts:
            message = types.Content(role="user", parts=[types.Part(text=prompt)])
            run = runner.run_async(user_id="mate", session_id=session, new_message=message)
            with suppress(OSError):  # the tool has failed
                lines += [event.model_dump_json() async for event in run]
    events = (await service.get_session(app_name="harbour", user_id="mate", session_id="s-4")).events
    berth = next(
        event for event in events if event.content and "Which berth" in str(event.content.parts[0].text)
    )
    await runner.rewind_async(
        user_id="mate", session_id="s-4", rewind_before_invocation_id=berth.invocation_id
    )
    (folder / "runner.events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    stored = await service.get_session(app_name="harbour", user_id="mate", session_id="s-4")
    (folder / "s-4.session.json").write_text(stored.model_dump_json(exclude_none=True))
    dump(database, folder / "database_service.sql")


async def record_columns(folder):
    """Run a session with version 1, which streams events with ids of their own."""
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.runners import Runner
    from google.adk.sessions import DatabaseSessionService
    from google.genai import types

    def list_berths(size: str) -> dict:
        """List the free berths."""
        return {"result": "berth-2"}

    agent = LlmAgent(
        name="harbour", model="gemini-2.5-pro", instruction="You run a harbour.", tools=[list_berths]
    )
    database = folder / "columns.db"
    service = DatabaseSessionService(f"sqlite:///{database}")
    runner = Runner(app_name="harbour", agent=agent, session_service=service)
    await service.create_session(app_name="harbour", user_id="mate", session_id="s-6")
    lines = []
    for prompt in ("Which berth is free?", "Say something forbidden."):
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        run = runner.run_async(user_id="mate", session_id="s-6", new_message=message, run_config=config)
        lines += [event.model_dump_json(exclude_none=True, by_alias=True) async for event in run]
    (folder / "version_1.events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    dump(database, folder / "columns.sql")
    database.unlink()


def main():
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    agents = Path(mkdtemp())
    (agents / "harbour").mkdir()
    (agents / "harbour/__init__.py").write_text("from . import agent\n")
    (agents / "harbour/agent.py").write_text(AGENT)
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Thread(target=model.serve_forever, daemon=True).start()
    os.environ |= {
        "GOOGLE_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{model.server_port}",
        "GOOGLE_GENAI_USE_VERTEXAI": "FALSE",
    }
    if version("google-adk").startswith("1."):
        asyncio.run(record_columns(folder))
    else:
        record_server(agents, folder)
        asyncio.run(record_runner(agents, folder))
    shutil.rmtree(agents)


main()
