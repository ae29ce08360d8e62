"""A home folder with one transcript of every agent, in the folder where that agent stores it."""

import json
from collections.abc import Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from zstandard import ZstdCompressor

from tests.server.cursor_databases import write_chat_database, write_editor_database
from tests.server.opencode_database import START, changing, creating, insert, insert_session
from tests.server.transcripts import write_home
from tests.shared.records import claude, codex
from tests.shared.records.antigravity import prompt, response

LINES = list[Any]


def _claude(session: str) -> LINES:
    return [
        claude.line(
            "user",
            f"Sort the shelves of {session}",
            uuid=f"{session}-1",
            parentUuid=None,
            sessionId=session,
            cwd="/work/shop",
            timestamp="2026-03-02T09:00:00.000Z",
        )
    ]


def _codex(session: str) -> LINES:
    return [
        codex.line(
            "session_meta", id=session, cwd="/work/shop", originator="codex-tui", cli_version="0.200.1"
        ),
        codex.event("user_message", message=f"Sort the shelves of {session}"),
    ]


def _antigravity(session: str) -> LINES:
    return [prompt(0, f"Sort the shelves of {session}"), response(2, "Sorted.")]


def _pi(session: str) -> LINES:
    return [
        {
            "type": "session",
            "version": 3,
            "id": session,
            "timestamp": "2026-03-02T09:00:00.000Z",
            "cwd": "/work",
        },
        {
            "type": "message",
            "id": "a1",
            "parentId": None,
            "timestamp": "2026-03-02T09:00:01.000Z",
            "message": {
                "role": "user",
                "content": f"Sort the shelves of {session}",
                "timestamp": 1772442001000,
            },
        },
    ]


def _trajectory(session: str) -> LINES:
    return [
        {
            "schema_version": "ATIF-v1.7",
            "session_id": session,
            "agent": {"name": "sorter", "version": "1.0"},
            "steps": [
                {
                    "step_id": 1,
                    "timestamp": "2026-03-02T09:00:00Z",
                    "source": "user",
                    "message": f"Sort the shelves of {session}",
                }
            ],
        }
    ]


def _copilot(session: str) -> LINES:
    return [
        {
            "type": "session.start",
            "data": {"sessionId": session, "copilotVersion": "1.0.102", "context": {"cwd": "/work"}},
            "id": "5c1d0f00-0000-4000-8000-000000000001",
            "timestamp": "2026-03-02T09:00:00.000Z",
            "parentId": None,
        },
        {
            "type": "user.message",
            "data": {"content": f"Sort the shelves of {session}"},
            "id": "5c1d0f00-0000-4000-8000-000000000002",
            "timestamp": "2026-03-02T09:00:01.000Z",
            "parentId": "5c1d0f00-0000-4000-8000-000000000001",
        },
    ]


def _qwen(session: str) -> LINES:
    return [
        {
            "uuid": f"{session}-1",
            "parentUuid": None,
            "sessionId": session,
            "timestamp": "2026-03-02T09:00:00.000Z",
            "type": "user",
            "cwd": "/work/shop",
            "version": "0.21.0",
            "message": {"role": "user", "parts": [{"text": f"Sort the shelves of {session}"}]},
        }
    ]


def _grok(session: str) -> LINES:
    return [
        {"type": "system", "content": "You sort."},
        {
            "type": "user",
            "content": [{"type": "text", "text": f"Sort the shelves of {session}"}],
            "prompt_index": 0,
        },
    ]


def _kimi(session: str) -> LINES:
    message = {"role": "user", "content": [{"type": "text", "text": f"Sort the shelves of {session}"}]}
    return [
        {"type": "metadata", "protocol_version": "1.5", "created_at": 1772442000000},
        {
            "type": "context.append_message",
            "agentId": "main",
            "message": {**message, "toolCalls": [], "origin": {"kind": "user"}},
            "time": 1772442001000,
        },
    ]


def _mini(session: str) -> LINES:
    messages = [{"role": "user", "content": f"Sort the shelves of {session}"}]
    return [{"info": {}, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}]


def _hermes(session: str) -> LINES:
    return [
        {
            "session_id": session,
            "model": "h1",
            "platform": "cli",
            "session_start": "2026-03-02T09:00:00",
            "messages": [{"role": "user", "content": f"Sort the shelves of {session}"}],
        }
    ]


def _vibe(session: str) -> LINES:
    return [{"role": "user", "content": f"Sort the shelves of {session}", "message_id": "m1"}]


def _gptme(session: str) -> LINES:
    return [
        {
            "role": "user",
            "content": f"Sort the shelves of {session}",
            "timestamp": "2026-03-02T09:00:00.500000",
        }
    ]


def _continue(session: str) -> LINES:
    prompt = {"message": {"role": "user", "content": f"Sort the shelves of {session}"}, "contextItems": []}
    return [{"sessionId": session, "title": "", "workspaceDirectory": "/work/shop", "history": [prompt]}]


def _cline(session: str) -> LINES:
    content = [{"type": "text", "text": f'<user_input mode="act">Sort the shelves of {session}</user_input>'}]
    return [
        {
            "version": 1,
            "updated_at": "2026-03-02T09:00:00.000Z",
            "agent": "lead",
            "sessionId": session,
            "messages": [{"id": "m1", "role": "user", "ts": 1772442000000, "content": content}],
        }
    ]


def _task(id: str) -> LINES:
    return [[{"ts": 1772442000000, "type": "say", "say": "text", "text": f"Sort the shelves of {id}"}]]


def _junie(id: str) -> LINES:
    prompt = {"kind": "UserPromptEvent", "prompt": f"Sort the shelves of {id}"}
    return [{**prompt, "timestampMs": 1772442000000}]


def _codebuff(id: str) -> LINES:
    time = "2026-03-02T09:00:00.000Z"
    return [[{"id": id, "variant": "user", "content": f"Sort the shelves of {id}", "timestamp": time}]]


def _copilot_chat(session: str) -> LINES:
    request = {
        "requestId": "r1",
        "message": {"text": f"Sort the shelves of {session}"},
        "response": [],
        "timestamp": 1772442000000,
    }
    return [{"version": 3, "sessionId": session, "creationDate": 1772442000000, "requests": [request]}]


def _amp(id: str) -> LINES:
    content = [{"type": "text", "text": f"Sort the shelves of {id}"}]
    return [
        {
            "v": 1,
            "id": id,
            "created": 1772442000000,
            "messages": [{"role": "user", "content": content}],
        }
    ]


def _droid(session: str) -> LINES:
    content = [{"type": "text", "text": f"Sort the shelves of {session}"}]
    return [
        {"type": "session_start", "id": session, "cwd": "/work/shop", "version": "0.81.0"},
        {
            "type": "message",
            "id": "m1",
            "parentId": session,
            "timestamp": "2026-03-02T09:00:00Z",
            "message": {"role": "user", "content": content},
        },
    ]


def _openhands(id: str) -> LINES:
    return [
        {
            "id": id,
            "agent": {"llm": {"model": "o1"}},
            "workspace": {"working_dir": "/work/shop"},
            "persistence_dir": "/work/.openhands",
            "execution_status": "finished",
            "stats": {"usage_to_metrics": {}},
        }
    ]


def _strands(agent: str) -> LINES:
    times = {"created_at": "2026-03-02T09:00:00+00:00", "updated_at": "2026-03-02T09:00:00+00:00"}
    summary = {"role": "user", "content": [{"text": f"Sort the shelves of {agent}"}]}
    state = {"removed_message_count": 2, "summary_message": summary}
    return [{"agent_id": agent, "state": {}, "conversation_manager_state": state, **times}]


_COWORK = "Library/Application Support/Claude/local-agent-mode-sessions/account/space"

_TASKS = ".config/Code/User/globalStorage"
_CHATS = ".config/Code/User/workspaceStorage/1/chatSessions"

_BRAIN = ".gemini/antigravity-cli/brain/antigravity-1"

TRANSCRIPTS: Mapping[str, tuple[str, LINES]] = {
    "antigravity": (
        f"{_BRAIN}/.system_generated/logs/transcript_full.jsonl",
        _antigravity("antigravity-1"),
    ),
    "copilot_cli": (".copilot/session-state/copilot-1/events.jsonl", _copilot("copilot-1")),
    "pi": (".pi/agent/sessions/--work--/2026-03-02_pi-1.jsonl", _pi("pi-1")),
    "qwen_code": (".qwen/projects/-work-shop/chats/qwen-1.jsonl", _qwen("qwen-1")),
    "grok_build": (".grok/sessions/%2Fwork%2Fshop/grok-1/chat_history.jsonl", _grok("grok-1")),
    "kimi": (".kimi-code/sessions/wd_shop_1/session_1/agents/main/wire.jsonl", _kimi("kimi-1")),
    "hermes": (".hermes/sessions/session_hermes-1.json", _hermes("hermes-1")),
    "mini_swe_agent": (".config/mini-swe-agent/last_mini_run.traj.json", _mini("mini-1")),
    "gptme": (".local/share/gptme/logs/gptme-1/conversation.jsonl", _gptme("gptme-1")),
    "continue": (".continue/sessions/continue-1.json", _continue("continue-1")),
    "mistral_vibe": (".vibe/logs/session/session_20260302_vibe-1/messages.jsonl", _vibe("vibe-1")),
    "cowork": (f"{_COWORK}/local_1/.claude/projects/-work/cowork-1.jsonl", _claude("cowork-1")),
    "openclaude": (".openclaude/projects/-work-shop/openclaude-1.jsonl", _claude("openclaude-1")),
    "iflow": (".iflow/projects/-work-shop/session-iflow-1.jsonl", _claude("iflow-1")),
    "commandcode": (".commandcode/projects/work-shop/commandcode-1.jsonl", _claude("commandcode-1")),
    "traex": (".trae/cli/sessions/2026/03/02/rollout-2026-03-02T09-00-00-traex-1.jsonl", _codex("traex-1")),
    "omp": (".omp/agent/sessions/--work--/2026-03-02_omp-1.jsonl", _pi("omp-1")),
    "prime": (".prime/agent/sessions/prime-1.jsonl", _pi("prime-1")),
    "openclaw": (".openclaw/agents/main/sessions/openclaw-1.jsonl", _pi("openclaw-1")),
    "qclaw": (".qclaw/agents/main/sessions/qclaw-1.jsonl", _pi("qclaw-1")),
    "cline_session": (".cline/data/sessions/cline-1/cline-1.messages.json", _cline("cline-1")),
    "cline_task": (f"{_TASKS}/saoudrizwan.claude-dev/tasks/1/ui_messages.json", _task("cline-task-1")),
    "roo": (f"{_TASKS}/rooveterinaryinc.roo-cline/tasks/1/ui_messages.json", _task("roo-1")),
    "kilo_code": (f"{_TASKS}/kilocode.kilo-code/tasks/1/ui_messages.json", _task("kilo-code-1")),
    "vscode_copilot_chat": (f"{_CHATS}/copilot-chat-1.json", _copilot_chat("copilot-chat-1")),
    "amp_thread": (".local/share/amp/threads/T-amp-1.json", _amp("T-amp-1")),
    "droid": (".factory/sessions/-work-shop/droid-1.jsonl", _droid("droid-1")),
    "openhands": (".openhands/conversations/openhands-1/base_state.json", _openhands("openhands-1")),
    "strands": (
        ".strands/sessions/session_strands-1/agents/agent_strands-1/agent.json",
        _strands("strands-1"),
    ),
    "junie": (".junie/sessions/session-260302-090000-1/events.jsonl", _junie("junie-1")),
    "codebuff": (
        ".config/manicode/projects/shop/chats/2026-03-02/chat-messages.json",
        _codebuff("codebuff-1"),
    ),
    "devin": (".local/share/devin/cli/transcripts/devin-1.json", _trajectory("devin-1")),
    "vtcode": (".vtcode/sessions/atif-trajectory-vtcode-1.json", _trajectory("vtcode-1")),
}
"""Path and lines of a transcript, by the id of its agent."""

DATABASES = {id: f".local/share/{id}/{id}.db" for id in ("kilo", "mimocode", "icodemate")}
"""The databases of agents with the store of OpenCode, each with one session."""

_GOOSE = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, session_type TEXT, working_dir TEXT, created_at TIMESTAMP,
    parent_session_id TEXT, model_config_json TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT, role TEXT,
    content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, created_timestamp INTEGER,
    model TEXT, input_tokens INTEGER, output_tokens INTEGER, cost REAL);
"""


def write_goose_database(path: Path, **sessions: str) -> Path:
    """Create a database of Goose with a session per name, each with this prompt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with changing(path) as connection:
        connection.executescript(_GOOSE)
        for number, (id, prompt) in enumerate(sessions.items()):
            insert(connection, "sessions", id=id, name=id, session_type="user", working_dir="/work")
            content = json.dumps([{"type": "text", "text": prompt}])
            insert(
                connection,
                "messages",
                session_id=id,
                role="user",
                content_json=content,
                created_timestamp=1_772_442_000 + number,
            )
    return path


_DEVIN = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, working_directory TEXT, backend_type TEXT, model TEXT, agent_mode TEXT,
    created_at INTEGER, last_activity_at INTEGER, title TEXT, main_chain_id INTEGER);
CREATE TABLE message_nodes (row_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, node_id INTEGER,
    parent_node_id INTEGER, chat_message TEXT, created_at INTEGER, metadata TEXT);
CREATE TABLE subagent_heads (session_id TEXT, agent_id TEXT, chain_node_id INTEGER, updated_at INTEGER,
    PRIMARY KEY (session_id, agent_id));
"""


def write_devin_database(path: Path, **sessions: str) -> Path:
    """Create a database of Devin with a session per name, each with this prompt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with changing(path) as connection:
        connection.executescript(_DEVIN)
        for id, prompt in sessions.items():
            place = {
                "working_directory": "/work",
                "backend_type": "windsurf",
                "agent_mode": "normal",
                "model": "",
            }
            times = {"created_at": 1_772_442_000, "last_activity_at": 1_772_442_000}
            insert(connection, "sessions", id=id, title=id, main_chain_id=1, **place, **times)
            message = {
                "message_id": f"{id}-1",
                "role": "user",
                "content": prompt,
                "metadata": {"is_user_input": True},
            }
            insert_node(connection, id, 1, None, message)
    return path


def insert_node(
    connection: Connection, session: str, node: int, parent: int | None, message: Any, **metadata: Any
) -> None:
    insert(
        connection,
        "message_nodes",
        session_id=session,
        node_id=node,
        parent_node_id=parent,
        chat_message=json.dumps(message),
        created_at=1_772_442_000 + node,
        metadata=json.dumps(metadata or None),
    )


_CRUSH = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT, prompt_tokens INTEGER,
    completion_tokens INTEGER, cost REAL, created_at INTEGER, updated_at INTEGER);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT, model TEXT, created_at INTEGER,
    updated_at INTEGER);
CREATE TABLE files (id TEXT PRIMARY KEY, session_id TEXT, path TEXT, content TEXT, version INTEGER);
"""


def write_crush_database(path: Path, **sessions: str) -> Path:
    """Create a database of Crush with a session per name, each with this prompt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    times = {"created_at": 1_772_442_000, "updated_at": 1_772_442_000}
    counts = {"prompt_tokens": 0, "completion_tokens": 0}
    with changing(path) as connection:
        connection.executescript(_CRUSH)
        for id, prompt in sessions.items():
            insert(connection, "sessions", id=id, title=id, **counts, **times)
            parts = json.dumps([{"type": "text", "data": {"text": prompt}}])
            insert(connection, "messages", id=f"{id}-1", session_id=id, role="user", parts=parts, **times)
    return path


_LLM = """
CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, prompt_json TEXT, response TEXT,
    response_json TEXT, conversation_id TEXT, datetime_utc TEXT, input_tokens INTEGER, output_tokens INTEGER);
CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, forked_from TEXT, datetime_utc TEXT);
CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, tip_message_hash TEXT, model TEXT, response_json TEXT,
    input_tokens INTEGER, output_tokens INTEGER, datetime_utc TEXT);
CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT,
    payload TEXT);
"""


def write_llm_database(path: Path, **threads: str) -> Path:
    """Create a database of `llm` with a thread per name, each with this prompt and an answer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with changing(path) as connection:
        connection.executescript(_LLM)
        for id, prompt in threads.items():
            insert(connection, "threads", id=id, name=id, datetime_utc="2026-03-02 09:00:00+00:00")
            insert_turn(connection, id, prompt, "Four")
    return path


def insert_turn(connection: Connection, thread: str, prompt: str, answer: str) -> None:
    """Insert a prompt with its answer at the end of a thread."""
    [[tip]] = connection.execute("SELECT tip_message_hash FROM threads WHERE id = ?", [thread])
    [[number]] = connection.execute("SELECT count(*) FROM messages")
    for role, text in (("user", prompt), ("assistant", answer)):
        hash, number = f"b2:{number}", number + 1
        insert(connection, "messages", hash=hash, parent_hash=tip, role=role)
        insert(connection, "parts", message_hash=hash, position=0, type="text", text=text)
        tip = hash
    times = {"datetime_utc": f"2026-03-02T09:00:{number:02}+00:00"}
    insert(connection, "turns", id=f"t{number}", thread_id=thread, tip_message_hash=tip, model="m1", **times)
    connection.execute("UPDATE threads SET tip_message_hash = ? WHERE id = ?", [tip, thread])


def write_zed_database(path: Path, **threads: str) -> Path:
    """Create a database of Zed with a thread per name, each with this prompt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with changing(path) as connection:
        connection.execute(
            "CREATE TABLE threads (id TEXT PRIMARY KEY, summary TEXT, updated_at TEXT, data_type TEXT, data BLOB,"
            " parent_id TEXT, folder_paths TEXT)"
        )
        for id, prompt in threads.items():
            insert_thread(connection, id, {"User": {"id": f"{id}-1", "content": [{"Text": prompt}]}})
    return path


def insert_thread(connection: Connection, id: str, *messages: Any, **columns: Any) -> None:
    """Insert a compressed thread."""
    text = json.dumps({"version": "0.3.0", "title": id, "messages": messages}).encode()
    data = {"data_type": "zstd", "data": ZstdCompressor().compress(text)}
    values = {"updated_at": "2026-03-02T09:00:00.5Z", **data, "folder_paths": "/work/shop", **columns}
    insert(connection, "threads", id=id, summary=f"Thread {id}", **values)


_HERMES = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, model TEXT, model_config TEXT, system_prompt_hash TEXT,
    started_at REAL, ended_at REAL, end_reason TEXT, api_call_count INTEGER, title TEXT);
CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, prompt TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content TEXT,
    tool_call_id TEXT, tool_calls TEXT, timestamp REAL, finish_reason TEXT);
CREATE TABLE session_model_usage (session_id TEXT, model TEXT, api_call_count INTEGER, input_tokens INTEGER,
    output_tokens INTEGER, estimated_cost_usd REAL, last_seen REAL, PRIMARY KEY (session_id, model));
"""


def write_hermes_database(path: Path, **sessions: str) -> Path:
    """Create a database of Hermes with a session per name, each with this prompt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    time = 1_772_442_000.5
    counts = {"api_call_count": 1, "input_tokens": 50, "output_tokens": 9, "estimated_cost_usd": 0.25}
    with changing(path) as connection:
        connection.executescript(_HERMES)
        insert(connection, "system_prompts", hash="ab", prompt="You count.")
        for id, prompt in sessions.items():
            values = {"started_at": time, "api_call_count": 1, "system_prompt_hash": "ab"}
            insert(connection, "sessions", id=id, source="cli", model="m1", title=id, **values)
            insert(connection, "messages", session_id=id, role="user", content=prompt, timestamp=time)
            insert(connection, "session_model_usage", session_id=id, model="m1", last_seen=time + 8, **counts)
    return path


COUNTS = {
    "zed": 1,
    "crush": 1,
    "llm": 1,
    "claude": 3,
    "codex": 2,
    "gemini_cli": 2,
    "cursor": 4,
    "opencode": 2,
    **dict.fromkeys(TRANSCRIPTS, 1),
    **dict.fromkeys(DATABASES, 1),
    "devin_cli": 1,
    "goose": 1,
    "hermes": 2,
    "kiro": 1,
}
"""The number of transcripts in the home, by the id of the agent."""

_TITLES = {
    ".copilot/session-state/copilot-1/workspace.yaml": "id: copilot-1\nname: Sort by colour\nuser_named: true\n",
    f"{_COWORK}/local_1.json": json.dumps({"title": "Sort by size"}),
    ".kimi-code/sessions/wd_shop_1/session_1/state.json": json.dumps({"title": "Sort by height"}),
    ".vibe/logs/session/session_20260302_vibe-1/meta.json": json.dumps({"title": "Sort by age"}),
    ".local/share/gptme/logs/gptme-1/config.toml": '[chat]\nname = "Sort by year"\n',
    ".grok/sessions/%2Fwork%2Fshop/grok-1/summary.json": json.dumps({"generated_title": "Sort by weight"}),
}
"""Files with the titles of sessions."""

_OTHER_FILES = (
    f"{_BRAIN}/.system_generated/logs/transcript.jsonl",
    f"{_BRAIN}/.system_generated/messages/1.json",
    f"{_BRAIN}/plan.md.metadata.json",
    ".gemini/antigravity-cli/oauth_creds.json",
    ".gemini/antigravity-ide/settings.json",
    f"{_COWORK}/local_1/audit.jsonl",
    f"{_COWORK}/local_1/.claude/settings.json",
    f"{_COWORK}/local_1/.cache/1.jsonl",
    ".openclaw/agents/main/agent/models.json",
    ".openclaw/credentials/1.json",
    ".openclaude/settings.json",
    ".local/share/devin/cli/credentials.json",
    ".vtcode/sessions/history.json",
    ".trae/cli/auth.json",
    ".cline/settings.json",
    ".factory/settings.json",
    f"{_TASKS}/saoudrizwan.claude-dev/settings/mcp.json",
    ".config/Code/User/workspaceStorage/1/state.json",
    ".local/share/amp/secrets.json",
    ".qwen/settings.json",
    ".strands/sessions/session_strands-1/session.json",
    ".vibe/config.json",
    ".continue/sessions/sessions.json",
    ".junie/sessions/index.jsonl",
    ".local/share/gptme/logs/gptme-1/events.jsonl",
    ".local/share/gptme/logs/gptme-1/branches/main-1.jsonl",
    ".config/mini-swe-agent/other.json",
    ".grok/auth.json",
    ".hermes/auth.json",
    ".hermes/sessions/sessions.json",
    ".kimi-code/credentials/kimi.json",
    ".kimi-code/session_index.jsonl",
    ".grok/sessions/%2Fwork%2Fshop/grok-1/updates.jsonl",
)


def write_agent_home(home: Path) -> Path:
    write_home(home)
    texts = {path: "".join(f"{json.dumps(line)}\n" for line in lines) for path, lines in TRANSCRIPTS.values()}
    for name, text in {**dict.fromkeys(_OTHER_FILES, "{}"), **texts, **_TITLES}.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for id, name in DATABASES.items():
        with creating(home / name) as connection:
            insert_session(connection, f"ses_{id}", f"Sort the shelves of {id}", START)
    with creating(home / ".local/share/kiro-cli/data.sqlite3") as connection:
        connection.executescript("DROP TABLE session; DROP TABLE message; DROP TABLE part")
        connection.execute(
            "CREATE TABLE conversations_v2 (key TEXT, conversation_id TEXT, value TEXT, created_at INTEGER,"
            " updated_at INTEGER, PRIMARY KEY (key, conversation_id))"
        )
        prompt = {"user": {"content": {"Prompt": {"prompt": "Sort the shelves of kiro"}}}}
        value = json.dumps({"conversation_id": "k1", "history": [prompt]})
        times = {"created_at": START, "updated_at": START}
        insert(connection, "conversations_v2", key="/work", conversation_id="k1", value=value, **times)
    write_hermes_database(home / ".hermes/state.db", hermes_2="Sort the shelves of hermes")
    write_editor_database(home / ".config/Cursor/User/globalStorage/state.vscdb")
    write_chat_database(
        home / ".cursor/chats/1/chat-1/store.db", {"role": "user", "content": "Sort"}, id="chat-1"
    )
    write_crush_database(home / ".crush/crush.db", crush_1="Sort the shelves of crush")
    write_llm_database(home / ".config/io.datasette.llm/logs.db", llm_1="Sort the shelves of llm")
    write_devin_database(home / ".local/share/devin/cli/sessions.db", devin_2="Sort the shelves of devin")
    write_zed_database(home / ".local/share/zed/threads/threads.db", zed_1="Sort the shelves of zed")
    write_goose_database(
        home / ".local/share/goose/sessions/sessions.db", goose_1="Sort the shelves of goose"
    )
    return home
