"""The calls of the sample files: how many change files, and which tools look like it without being known."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ash_shared.conversation.transcript import split_transcript
from ash_shared.parsing.changes import facts_of_call, kind_of_call
from tests.shared.sample_files import CORPUS, sample_folders
from tests.viewer.logs import log_of

CALLS_WITH_CHANGES = {
    "acp": 1,
    "agent_sdk_stream": 3,
    "anthropic_api": 3,
    "antigravity_cli": 10,
    "atif": 1,
    "claude_code_2_1_2xx": 7,
    "claude_code_jsonl": 142,
    "claude_stream_json": 1,
    "cline_session": 7,
    "cline_task": 5,
    "codex_exec": 3,
    "codex_rollout": 2,
    "codex_rollout_0_14x": 5,
    "copilot_cli": 6,
    "cursor_cli": 1,
    "gemini_cli_session": 9,
    "gptme": 1,
    "kimi": 1,
    "langchain_messages": 2,
    "openai_responses_stream": 1,
    "openclaw": 1,
    "opencode_export_2026": 20,
    "opencode_sqlite": 1,
    "otel_genai": 1,
    "pi_stream": 1,
    "pydantic_ai": 1,
    "qwen_code": 4,
    "vercel_uimessage_stream": 1,
}
"""By folder; the others have none."""
CONTENT = {"content", "new_string", "new_str", "newString", "patch", "diff", "edits", "file_text"}
PATHS = {"path", "file_path", "filePath", "filename", "TargetFile", "notebook_path"}


def calls_of(folder: Path) -> Iterator[tuple[str, Any, Any]]:
    for path in sorted(folder.iterdir()):
        text = path.read_bytes().decode(errors="replace")
        log = log_of(line for line in split_transcript(text) if line.strip())
        results = {
            event["payload"]["toolCallId"]: event["payload"]
            for event in log
            if event["type"] == "tool_result"
        }
        for event in log:
            if event["type"] == "tool_call":
                call = event["payload"]
                result: Mapping[str, Any] = results.get(call["toolCallId"], {})
                yield call["toolName"], call["args"], result.get("structured", result.get("result"))


def is_like_an_editor(call_input: Any) -> bool:
    return isinstance(call_input, dict) and bool(CONTENT & call_input.keys() and PATHS & call_input.keys())


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no ../shared/corpus next to the repository")
def test_calls_of_samples() -> None:
    changing, unknown = Counter[str](), Counter[str]()
    for folder in sample_folders():
        for tool, call_input, structured in calls_of(folder):
            has_changes = bool(facts_of_call(tool, call_input, structured).changes)
            changing[folder.name] += has_changes
            is_known = has_changes or kind_of_call(tool, call_input) == "read"
            unknown[tool] += not is_known and is_like_an_editor(call_input)

    assert {name: count for name, count in changing.items() if count} == CALLS_WITH_CHANGES
    assert not +unknown
