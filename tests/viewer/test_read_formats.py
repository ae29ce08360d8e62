"""Sessions of ten formats: the page shows the content of the files.

The tables were written from the files in `formats/`, never from a result of Ash.
"""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from playwright.async_api import Page, expect

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from tests.viewer.browser import until_true

FORMATS = Path(__file__).parent / "formats"
_OPENHANDS = "openhands/conversations/8e000000000040008000000000000001"


class Call(NamedTuple):
    name: str
    result: str
    """A text in the result; empty if the file contains none."""
    state: str = "done"


@dataclass(frozen=True)
class Shown:
    prompts: list[str]
    """Texts of the person in the current branch."""
    calls: list[Call]
    answers: list[str]
    usage: str = ""
    """Tokens of the session with its subagents; empty if the file contains no usage."""
    errors: list[str] = field(default_factory=list)
    """Errors that are not results of calls."""
    subagents: list[str] = field(default_factory=list)
    """Titles of the sessions that this one started."""


BERTH, ROPES, AGENT = "Which berth is free?", "And the ropes?", "Let another agent count the ropes"
FREE, SEVEN = "Berth 2 is free.", "There are seven."
ANSWERS = ["I list the berths.", FREE, SEVEN]
COUNTED = "Count the ropes in the store."

TABLE: Mapping[str, tuple[Mapping[str, str], Shown]] = {
    "ChatGPT export": (  # results follow their calls; n9 is a branch that n7 replaced
        {"chatgpt_export.json": "export/conversations.json"},
        Shown(
            [BERTH, ROPES],
            [Call("python", "berth-2"), Call("python", "The kernel stopped.", "error")],
            [FREE, SEVEN],
        ),
    ),
    "Cline": (  # tokensIn includes cacheReads: 1300 + 1310 + 1320 - 3 * 1000; the call of readFile has no result
        {"cline_task.json": "tasks/1/ui_messages.json"},
        Shown(
            [BERTH, AGENT],
            [
                Call("execute_command", "berth-2.txt"),
                Call("readFile", "", "interrupted"),
                Call("newTask", "Seven ropes."),
            ],
            ANSWERS,
            "930 in, 210 out, 3,000 read from the cache",
            ["File not found: berth-9.txt"],
        ),
    ),
    "Droid": (  # the last line with text repeats the answer; input_tokens excludes the cache
        {"droid.jsonl": "droid/run.jsonl"},
        Shown(
            [BERTH],
            [Call("Execute", "berth-2.txt"), Call("Read", "No such file: berth-9.txt", "error")],
            ANSWERS[:2],
            "610 in, 180 out, 2,000 read from the cache",
            ["Authentication failed."],
        ),
    ),
    "Goose": (  # the ledger has the usage: 300 + 310 + 320 + 330, and 200 of the subagent
        {"goose.sql": "goose/sessions.db"},
        Shown(
            [BERTH, AGENT],
            [
                Call("developer__shell", "berth-2.txt"),
                Call("developer__text_editor", "-32603: No such file", "error"),
                Call("delegate", "Seven ropes."),
            ],
            [*ANSWERS, "The store is closed."],
            "1,460 in, 240 out, 4,500 read from the cache;"
            " without subagents: 1,260 in, 220 out, 4,000 read from the cache",
            subagents=["Count ropes"],
        ),
    ),
    "Grok Build": (  # the file does not say which calls failed; the search has its source only
        {"grok_build.jsonl": "grok/sessions/quay/6a000000-0000-4000-8000-000000000001/chat_history.jsonl"},
        Shown(
            [BERTH, ROPES],
            [
                Call("run_terminal_cmd", "berth-2.txt"),
                Call("read_file", "No such file: berth-9.txt"),
                Call("web_search", "https://quay.example/berths"),
            ],
            ANSWERS,
        ),
    ),
    "Hermes": (  # the file has no usage
        {"hermes.json": "hermes/sessions/session_20260302_090000_ab12cd.json"},
        Shown(
            [BERTH, ROPES],
            [Call("shell", "berth-2.txt"), Call("memory", "The memory is locked.", "error")],
            ANSWERS,
        ),
    ),
    "Kimi": (  # step.end has the usage, which usage.record repeats; a prompt stands in the file up to three times
        {
            "kimi.jsonl": "kimi/sessions/wd_quay_1/session_1/agents/main/wire.jsonl",
            "kimi_subagent.jsonl": "kimi/sessions/wd_quay_1/session_1/agents/agent-0/wire.jsonl",
        },
        Shown(
            [BERTH, AGENT],
            [
                Call("Bash", "berth-2.txt"),
                Call("Read", "berth-9.txt does not exist.", "error"),
                Call("Agent", "[summary] Seven ropes."),
            ],
            ANSWERS,
            "1,460 in, 240 out, 4,500 read from the cache;"
            " without subagents: 1,260 in, 220 out, 4,000 read from the cache",
            subagents=[COUNTED],
        ),
    ),
    "Kiro CLI": (  # the file has no usage in tokens
        {"kiro.sql": "kiro-cli/data.sqlite3"},
        Shown(
            [BERTH, ROPES],
            [Call("execute_bash", "berth-2.txt"), Call("fs_read", "No such file: berth-9.txt", "error")],
            ANSWERS,
        ),
    ),
    "OpenHands": (  # prompt_tokens includes the cache: 1300 + 1310 + 1320 - 3 * 1000
        {"openhands.jsonl": _OPENHANDS},
        Shown(
            [BERTH, ROPES],
            [
                Call("terminal", "berth-2.txt"),
                Call("file_editor", "No such file: berth-9.txt", "error"),
                Call("terminal", "Count them only", "error"),
            ],
            ANSWERS[:2],
            "930 in, 190 out, 3,000 read from the cache",
            ["The model did not answer."],
        ),
    ),
    "Qwen Code": (  # promptTokenCount includes the cache: 1300 + 1310 + 1320 + 1330 - 4 * 1000
        {"qwen_code.jsonl": "qwen/projects/-srv-quay/chats/5a0e6c1a-0000-4000-8000-000000000001.jsonl"},
        Shown(
            [BERTH, AGENT, "Read the whole log"],
            [
                Call("run_shell_command", "berth-2.txt"),
                Call("read_file", "File not found: /srv/quay/berth-9.txt", "error"),
                Call("agent", "Seven ropes."),
            ],
            ANSWERS,
            "1,260 in, 210 out, 4,000 read from the cache",
            ["400 The log is too long"],
        ),
    ),
}
"""Files with their places, and their content, by format."""

_OPEN = """() => {
  const parts = [...document.querySelectorAll(".chat-log details, .children")];
  for (const each of parts) each.open = true;
  return parts.every((each) => each.childElementCount > 1);
}"""

_READ = """() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const isCurrent = (each) => !each.closest("[data-retracted]");
  const textOf = (each) => (each.querySelector(".text") ?? each).innerText.trim();
  const resultOf = (each) => all(".tool-result", each).map(({ innerText }) => innerText).join("\\n");
  return {
    prompts: all(".user-message:not([data-synthetic])").filter(isCurrent).map(textOf),
    calls: all(".tool-call").map((each) =>
      [each.querySelector(".tool-name").innerText, resultOf(each), each.dataset.state]),
    answers: all(".assistant-text").map(textOf),
    usage: document.querySelector('.session-facts .fact[title*=" in, "]')?.title ?? "",
    errors: all(".error-banner").map(({ innerText }) => innerText.split("\\n")[1]),
    subagents: all(".session-relations .children li").map((each) => each.innerText),
  };
}"""


def write(folder: Path, name: str, place: str) -> None:
    """Write a file where its agent stores it: SQL as a database, the lines of a conversation as a file each."""
    path, source = folder / place, FORMATS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".sql"):
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(source.read_text())
    elif place == _OPENHANDS:
        (path / "events").mkdir(parents=True)
        state, *events = source.read_text().splitlines()
        (path / "base_state.json").write_text(state)
        for number, event in enumerate(events):
            (path / "events" / f"event-{number:05}-{json.loads(event)['id']}.json").write_text(event)
    else:
        path.write_bytes(source.read_bytes())


async def shown(page: Page, address: str, expected: Shown) -> Shown:
    """Return the content of the page. A result that contains an expected text is replaced by it."""
    await page.goto(address)
    await expect(page.locator('.session-facts .fact[title*=" turn"]')).to_be_visible()
    await expect(page.locator(".chat-log")).to_contain_text((expected.errors or expected.answers)[-1])
    await until_true(page, _OPEN)
    read = await page.evaluate(_READ)
    results = [call.result for call in expected.calls if call.result]
    calls = [
        Call(name, next((each for each in results if each in result), result), state)
        for name, result, state in read["calls"]
    ]
    return Shown(**{**read, "calls": calls})


async def test_pages_show_what_the_files_contain(
    page: Page, ash: str, ash_store: Store, tmp_path: Path
) -> None:
    for name, (files, _) in TABLE.items():
        for file, place in files.items():
            write(tmp_path / name, file, place)
    report = await import_paths(ash_store, [tmp_path], ImportOptions())
    assert not report.unread
    sessions = {
        path.relative_to(tmp_path).parts[0]: imported.session_id
        for path, imported in report.imported.items()
        if (await ash_store.sessions.get(imported.session_id)).parent_id is None
    }

    for name, (_, expected) in TABLE.items():
        assert (name, await shown(page, f"{ash}/sessions/{sessions[name]}", expected)) == (name, expected)
