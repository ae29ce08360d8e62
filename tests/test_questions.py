"""The commands of docs/questions.md answer their questions."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.server.cli.test_cli import SAMPLES, Ash, ash, written
from tests.shared.records import claude

__all__ = ["ash"]

PAGE = Path(__file__).parents[1] / "docs" / "questions.md"
QUESTIONS = {
    question: re.findall("`([^`]*)`", commands)
    for question, commands in re.findall(r"^\| ([^|]*\?) \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE)
}
"""The commands by question."""

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
SECRET = claude.user(f"Use {TOKEN}", uuid="u1")
TODOS = [
    {"content": "Read the table", "status": "completed", "activeForm": "Reading"},
    {"content": "Correct it", "status": "in_progress", "activeForm": "Correcting"},
]
PLAN = claude.assistant(claude.call("toolu_1", "TodoWrite", todos=TODOS), uuid="u2")
VALUES = {"OTHER": "plan", "N": "1", "NAME": "laptop", "7d": "2026-01-01"}
"""Arguments for the placeholders, and a span that contains the samples."""

SESSIONS = {
    "Is there a secret in a session, and how do I delete it?": "secret",
    "What was its last plan, and how far did it get?": "plan",
}
"""The session of a question, unless it is the sample of the tide clock."""

TIDES = "Tide clock an hour late"
ANSWERS = {
    "What did it do, and which files changed?": r"\+2 +-2 +/home/dev/tide-clock/tide_clock/table.py",
    "What did last week cost, by day, project and model?": "tide-clock",
    "Which sessions changed this file?": TIDES,
    "In which session did I fix this?": TIDES,
    "What failed, which tools, how often?": r"2 +Bash +\(1 failed\)",
    "Which sessions had the most failures?": TIDES,
    "How do I share a session?": r"/shares/\S+#\S{43}",
    "How do I go on?": r"cd /home/dev/tide-clock && claude --resume \S+",
    "How long did it take, and how long did it wait for me?": r"0:01:20, active 0:01:02",
    "How do I export everything?": "3 sessions in exported",
    "Is there a secret in a session, and how do I delete it?": "(?s)github token.*1 message deleted",
    "How do I mark a session, and find it again?": TIDES,
    "What did its subagents do?": TIDES,
    "How do I follow it on a phone?": r"/shares/\S+#\S{43}",
    "Which models, tools, skills and MCP servers did it use?": "(?s)claude-sonnet-4-5.*Grep",
    "Which text mentions this, in any case and form?": TIDES,
    "What was its last plan, and how far did it get?": r"(?s)\[x\] Read the table.*\[>\] Correct it",
    "Who did what this week?": r"(?s)unknown.*2026-03-30",
    "How do I compare two sessions?": r"(?s)=  agent +claude +claude.*tide_clock/table\.py +\+2 -2 +-\n.*Prompts",
}
"""A pattern in the output of the commands."""


def test_each_question_has_an_answer() -> None:
    assert list(QUESTIONS) == list(ANSWERS)


@pytest.mark.parametrize("question", ANSWERS)
def test_commands_answer(ash: Ash, tmp_path: Path, question: str) -> None:
    transcripts = {
        "tide": SAMPLES / "tide-clock.jsonl",
        "secret": written(tmp_path / "secret.jsonl", json.dumps(SECRET) + "\n"),
        "plan": written(tmp_path / "plan.jsonl", json.dumps(PLAN) + "\n"),
    }
    for name, file in transcripts.items():
        assert ash("import", str(file), "--as", name).code == 0
    assert ash("keys", "create", "laptop").code == 0
    values = {**VALUES, "SESSION": SESSIONS.get(question, "tide")}

    printed = ""
    for command in QUESTIONS[question]:
        program, *words = (values.get(word, word) for word in shlex.split(command))
        confirmed = ["--yes"] if words[0] == "delete" else []
        ran = ash(*words, *confirmed)
        assert (program, ran.code) == ("ash", 0), ran.err
        printed += ran.out + ran.err

    assert re.search(ANSWERS[question], printed), printed
