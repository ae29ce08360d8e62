"""The packages, and how their names of records become records that a provider reads."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tools.wire.download import Package
from tools.wire.literals import Extractor, cases, matches, printed_schema, schema, table_keys, union

Record = dict[str, Any]

CLAUDE_CODE = Package("npm", "@anthropic-ai/claude-code", has_program=True)
CLAUDE_SDK = Package("npm", "@anthropic-ai/claude-agent-sdk")
CLAUDE_SDK_PYTHON = Package("PyPI", "claude-agent-sdk")
CODEX = Package("npm", "@openai/codex", has_program=True)
CODEX_SDK = Package("npm", "@openai/codex-sdk")
OPENCODE = Package("npm", "opencode-ai", has_program=True)
OPENCODE_SDK = Package("npm", "@opencode-ai/sdk")
GEMINI_CLI = Package("npm", "@google/gemini-cli-core")
COPILOT_SDK = Package("npm", "@github/copilot-sdk")
CURSOR_SDK = Package("npm", "@cursor/sdk")

NOT_COMPARED = {
    "Copilot's program": "`@github/copilot` contains it compressed; its SDK has the types of its log",
    "Cursor's command line": "in no registry; `@cursor/sdk` reads the same agent",
    "Gemini CLI's program": "`@google/gemini-cli` is the compiled form of `@google/gemini-cli-core`",
    "Antigravity": "in no registry, and the program has no types or schema",
    "Claude Agent SDK's programs": "its optional packages contain the program of `@anthropic-ai/claude-code`",
}
"""Programs, and the reason why no package of theirs is compared."""


class NameList(NamedTuple):
    """Names of one kind in a package."""

    title: str
    package: Package
    files: str
    """Pattern of the file that has them."""
    extract: Extractor
    source: str
    """The provider."""
    to_record: Callable[[str], Record]
    """Return the record of a name, with only the keys that the provider needs to see its type."""


def _claude_record(name: str) -> Record:
    type_, _, subtype = name.partition("/")
    return {"type": type_, **({"subtype": subtype} if subtype else {})}


def copilot_event(name: str) -> Record:
    return {"type": name, "data": {}, "timestamp": "", "parentId": None}


def claude_python_record(name: str) -> Record:
    return _claude_record(f"system/{name}" if name in _PYTHON_SUBTYPES else name)


_PYTHON_SUBTYPES = frozenset(
    {
        "hook_response",
        "hook_started",
        "mirror_error",
        "task_notification",
        "task_progress",
        "task_started",
        "task_updated",
    }
)
"""Names that the Python SDK compares with the subtype, not with the type."""


def _codex_line(name: str) -> Record:
    type_, _, inner = name.partition("/")
    any_inner = "warning" if type_ == "event_msg" else "message"
    return {"timestamp": "", "type": type_, "payload": {"type": inner or any_inner}}


def _codex_turn_item(name: str) -> Record:
    item = {"type": name.rpartition("/")[2]}
    return {"timestamp": "", "type": "event_msg", "payload": {"type": "item_completed", "item": item}}


def _codex_rollout(
    title: str, definition: str, to_record: Callable[[str], Record], name: str = "{}"
) -> NameList:
    command = ["app-server", "generate-internal-json-schema"]
    extract = printed_schema(command, "RolloutLine.json", schema(definition, name))
    return NameList(title, CODEX, _CODEX_PROGRAM, extract, "codex", to_record)


def _gemini_event(name: str) -> Record:
    return {"type": name, "timestamp": "", **_GEMINI_EVENT_KEYS.get(name, {})}


_GEMINI_EVENT_KEYS: Mapping[str, Record] = {
    "error": {"severity": "error", "message": ""},
    "init": {"session_id": "", "model": ""},
    "message": {"role": "user", "content": ""},
    "result": {"status": "success"},
    "tool_result": {"tool_id": "", "status": "success"},
    "tool_use": {"tool_name": "", "tool_id": "", "parameters": {}},
}
"""Keys that the provider needs to recognize the events."""

_CODEX_PROGRAM = "package/vendor/*/bin/codex"
_CODEX_APP_SCHEMA = "codex_app_server_protocol.v2.schemas.json"
_OPENCODE_COLUMNS = {
    **dict.fromkeys(("aggregate_id", "content", "directory", "id", "message_id", "project_id"), ""),
    **dict.fromkeys(("prompt", "seq", "session_id", "status", "worktree"), ""),
    "data": '{"type": "text"}',
}
"""Columns that the provider needs to recognize the rows of its tables."""


def _opencode_row(table: str) -> Record:
    known_type = "session.updated.1" if table == "event" else "user"
    return {"table": table, "key": "k1", "columns": {**_OPENCODE_COLUMNS, "type": known_type}}


_OPENCODE_TYPES = "package/dist/v2/gen/types.gen.d.ts"
_OPENCODE_EARLIER_TYPES = "package/dist/gen/types.gen.d.ts"

LISTS: list[NameList] = [
    NameList(
        "Claude Code: records of a transcript",
        CLAUDE_CODE,
        "package/claude",
        table_keys("custom-title"),
        "claude",
        _claude_record,
    ),
    NameList(
        "Claude Code: records that functions build",
        CLAUDE_CODE,
        "package/claude",
        matches(r'[{(]type:"([a-z][a-z-]*)",(?:v:\w+,)?sessionId:', '{{type:"{}",sessionId:'),
        "claude",
        _claude_record,
    ),
    NameList(
        "Claude Code: records outside of the tables",
        CLAUDE_CODE,
        "package/claude",
        matches(
            r'\w==="([a-z]+(?:-[a-z]+)+)"(?=(?:\|\|\w==="[a-z-]+")*\?"(?:boundary-cleared|last-wins|repeat)")',
            '==="{}"',
        ),
        "claude",
        _claude_record,
    ),
    NameList(
        "Claude Code: system records",
        CLAUDE_CODE,
        "package/claude",
        matches(r'type:"system",subtype:"(\w+)"', 'type:"system",subtype:"{}"', "system/{}"),
        "claude",
        _claude_record,
    ),
    NameList(
        "Claude Code: system records with keys in another order",
        CLAUDE_CODE,
        "package/claude",
        matches(
            r'type:"system",(?:\w+:[\w$().!]{1,40},)+subtype:"(\w+)"',
            'type:"system",...,subtype:"{}"',
            "system/{}",
        ),
        "claude",
        _claude_record,
    ),
    NameList(
        "Claude Code: schemas of system records",
        CLAUDE_CODE,
        "package/claude",
        matches(
            r'type:\w+\("system"\),subtype:\w+\("(\w+)"\)', 'type:x("system"),subtype:x("{}")', "system/{}"
        ),
        "claude",
        _claude_record,
    ),
    NameList(
        "Claude Code: schemas of output lines",
        CLAUDE_CODE,
        "package/claude",
        matches(
            r'\{type:\w+\("([a-z_]+)"\),(?:(?!\{type:).){0,1500}?uuid:\w+\(\)(?:\.optional\(\))?,session_id:',
            "schema of `{}` with uuid and session_id",
        ),
        "claude",
        _claude_record,
    ),
    NameList(
        "Claude Code: output lines that functions build",
        CLAUDE_CODE,
        "package/claude",
        matches(r'[{(]type:"([a-z]+(?:_[a-z]+)+)",(?:uuid|command_uuid|session_id):', '{{type:"{}",uuid:'),
        "claude",
        _claude_record,
    ),
    NameList(
        "Claude Agent SDK: lines of the output",
        CLAUDE_SDK,
        "package/sdk.d.ts",
        union("StdoutMessage", "type", "subtype"),
        "claude",
        _claude_record,
    ),
    NameList(
        "Claude Agent SDK for Python: messages",
        CLAUDE_SDK_PYTHON,
        "claude_agent_sdk/_internal/message_parser.py",
        cases,
        "claude",
        claude_python_record,
    ),
    _codex_rollout("Codex: lines of a rollout", "", _codex_line),
    _codex_rollout("Codex: events", "EventMsg", _codex_line, "event_msg/{}"),
    _codex_rollout("Codex: response items", "ResponseItem", _codex_line, "response_item/{}"),
    _codex_rollout("Codex: items of a turn", "TurnItem", _codex_turn_item, "item_completed/{}"),
    _codex_rollout("Codex: realtime items", "RealtimeItem", _codex_line, "realtime_item/{}"),
    NameList(
        "Codex: items of the app server",
        CODEX,
        _CODEX_PROGRAM,
        printed_schema(["app-server", "generate-json-schema"], _CODEX_APP_SCHEMA, schema("ThreadItem")),
        "codex",
        lambda name: {"method": "item/completed", "params": {"item": {"type": name}}},
    ),
    NameList(
        "Codex SDK: events of `codex exec`",
        CODEX_SDK,
        "package/dist/index.d.ts",
        union("ThreadEvent"),
        "codex",
        lambda name: {"type": name},
    ),
    NameList(
        "Codex SDK: items of `codex exec`",
        CODEX_SDK,
        "package/dist/index.d.ts",
        union("ThreadItem"),
        "codex",
        lambda name: {"type": "item.completed", "item": {"type": name}},
    ),
    NameList(
        "OpenCode: events of the program",
        OPENCODE,
        "package/bin/opencode",
        matches(r'\bdefine\(\{type:"([\w.-]+)"', 'define({{type:"{}"'),
        "opencode",
        lambda name: {"id": "e1", "type": name, "data": {}},
    ),
    NameList(
        "OpenCode: tables of its store",
        OPENCODE,
        "package/bin/opencode",
        matches(r"CREATE TABLE `(\w+)`", "CREATE TABLE `{}`"),
        "opencode",
        _opencode_row,
    ),
    NameList(
        "OpenCode: events of the server",
        OPENCODE_SDK,
        _OPENCODE_TYPES,
        union("Event"),
        "opencode",
        lambda name: {"id": "e1", "type": name, "properties": {}},
    ),
    NameList(
        "OpenCode: events of its store",
        OPENCODE_SDK,
        _OPENCODE_TYPES,
        union("GlobalEvent", "payload.syncEvent.type"),
        "opencode",
        lambda name: {"type": "sync", "id": "e1", "syncEvent": {"type": name, "data": {}}},
    ),
    NameList(
        "OpenCode: parts",
        OPENCODE_SDK,
        _OPENCODE_TYPES,
        union("Part"),
        "opencode",
        lambda name: {"id": "p1", "messageID": "m1", "sessionID": "s1", "type": name},
    ),
    NameList(
        "OpenCode: parts of the earlier API",
        OPENCODE_SDK,
        _OPENCODE_EARLIER_TYPES,
        union("Part"),
        "opencode",
        lambda name: {"id": "p1", "messageID": "m1", "sessionID": "s1", "type": name},
    ),
    NameList(
        "Gemini CLI: messages of a session",
        GEMINI_CLI,
        "package/dist/src/services/chatRecordingTypes.d.ts",
        union("MessageRecord"),
        "gemini_cli",
        lambda name: {"id": "m1", "timestamp": "", "type": name, "content": ""},
    ),
    NameList(
        "Gemini CLI: lines of the output",
        GEMINI_CLI,
        "package/dist/src/output/types.d.ts",
        union("JsonStreamEvent"),
        "gemini_cli",
        _gemini_event,
    ),
    NameList(
        "Copilot SDK: events",
        COPILOT_SDK,
        "package/dist/generated/session-events.d.ts",
        union("SessionEvent"),
        "copilot_cli",
        copilot_event,
    ),
    NameList(
        "Cursor SDK: messages of a run",
        CURSOR_SDK,
        "package/dist/esm/messages.d.ts",
        union("SDKMessage"),
        "cursor",
        lambda name: {"type": name, "agent_id": "a1", "run_id": "r1"},
    ),
]
