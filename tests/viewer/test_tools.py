"""Tool calls of all providers: summary line and body."""

import json
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.marking import slow_unless
from tests.viewer.payloads import Json, Payloads

HERE = Path(__file__).parent
KINDS = sorted(path.stem for path in HERE.glob("tool_calls/*.json"))
"""Kinds of tools; each file contains the events of calls, and the text `shown` when they are open."""

TYPES = {
    "call": "tool_call",
    "result": "tool_result",
    "input": "tool_input_chunk",
    "output": "tool_output_chunk",
}

SEEDS = range(400)

ONE_OF_EACH = (
    *("Bash", "Edit", "apply_patch", "Write", "Read", "Grep", "TodoWrite", "Task", "WebSearch"),
    *("AskUserQuestion", "ExitPlanMode", "holo"),
)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="


def load_cases(file: str) -> dict[str, Json]:
    cases: dict[str, Json] = json.loads((HERE / file).read_text())
    return cases


def events_of(entries: list[tuple[str, Json]], took: int = 0) -> list[Json]:
    return [
        {
            "sequence": number,
            "id": f"e{number}",
            "type": TYPES.get(type, type),
            "timestamp": 1000 + took * (TYPES.get(type, type) == "tool_result"),
            "sessionId": "s",
            "turnId": "t",
            "payload": {"toolCallId": "c", **payload},
        }
        for number, (type, payload) in enumerate(entries, start=1)
    ]


async def shown(page: Page, events: dict[str, list[Json]], options: dict[str, Json]) -> dict[str, list[str]]:
    """The summary lines and bodies of calls as text, by name."""
    rows: dict[str, list[str]] = await page.evaluate(_SHOWN, [events, options])
    return rows


_SHOWN = """async ([logs, options]) => {
  const { calls, describe, openAsides } = await import("/tool-calls.js");
  const cards = Object.entries(logs).map(([name, events]) => [name, calls(events, options[name])]);
  await openAsides(cards.flatMap(([, elements]) => elements));
  return Object.fromEntries(cards.map(([name, elements]) => [name, elements.flatMap(describe)]));
}"""


@pytest.mark.parametrize("kind", KINDS)
async def test_open_call(blank: Page, kind: str) -> None:
    cases = load_cases(f"tool_calls/{kind}.json")
    events = {name: events_of(case["events"], case.get("took", 0)) for name, case in cases.items()}
    options = {name: {"openTurn": case.get("openTurn")} for name, case in cases.items()}

    assert await shown(blank, events, options) == {name: case["shown"] for name, case in cases.items()}


CLOSED: Mapping[str, tuple[list[tuple[str, Json]], list[str]]] = {
    "arguments and result, for find-in-page": (
        [
            ("call", {"toolName": "Bash", "args": {"command": "ls\npwd", "timeout": 9}}),
            ("result", {"result": "a\n"}),
        ],
        ["tool-args: command:⏎ ls⏎ pwd⏎timeout: 9", "tool-result: a"],
    ),
    "blocks as their text, pictures by their size": (
        [
            ("call", {"toolName": "Read", "args": {"file_path": "a.png"}}),
            (
                "result",
                {
                    "result": [
                        {"type": "text", "text": "one"},
                        {"type": "image", "source": {"data": "A" * 9000}},
                    ]
                },
            ),
        ],
        [
            "tool-args: file_path: a.png",
            f"tool-result: one⏎type: image⏎source:⏎ data: {'A' * 60}… 9.0 kB",
        ],
    ),
    "colours left out": (
        [("call", {"toolName": "Bash", "args": {}}), ("result", {"result": "\x1b[31mred\x1b[0m"})],
        ["tool-result: red"],
    ),
    "the structured result if there is no text": (
        [
            ("call", {"toolName": "t", "args": [1, None, True]}),
            ("result", {"result": None, "structured": {"a": {"b": 1}}}),
        ],
        ["tool-args: 1⏎true", "tool-result: a:⏎ b: 1"],
    ),
    "the error": (
        [
            ("call", {"toolName": "t", "args": "x"}),
            ("result", {"result": "a", "error": {"code": "e", "message": "m"}}),
        ],
        ["tool-args: x", "tool-result: a⏎m"],
    ),
    "a preview of a long text": (
        [("call", {"toolName": "t", "args": None}), ("result", {"result": "word " * 5000})],
        [f"tool-result: {'word ' * 800}…⏎25 kB in all"],
    ),
    "streamed arguments": (
        [("input", {"toolName": "Bash", "chunk": '{"command": "l'}), ("output", {"chunk": "a"})],
        ['tool-args: {"command": "l', "tool-output: a"],
    ),
}


async def test_closed_call_contains_its_text(blank: Page) -> None:
    events = {name: events_of(entries) for name, (entries, _) in CLOSED.items()}

    rows = await shown(blank, events, {name: {"isOpen": False} for name in CLOSED})

    assert {name: body for name, [_, *body] in rows.items()} == {
        name: body for name, (_, body) in CLOSED.items()
    }


async def test_content_blocks(blank: Page) -> None:
    cases = load_cases("blocks.json")

    shown = await blank.evaluate(_SHOWN_BLOCKS, {name: case["block"] for name, case in cases.items()})

    assert shown == {name: case["shown"] for name, case in cases.items()}


_SHOWN_BLOCKS = """async (blocks) => {
  const { describeBlocks } = await import("/tool-calls.js");
  const described = Object.entries(blocks).map(async ([name, block]) => [name, await describeBlocks([block])]);
  return Object.fromEntries(await Promise.all(described));
}"""

SAVED: Mapping[str, tuple[Json, str, bytes]] = {
    "a file": (
        {
            "type": "file",
            "filename": "../a<b>.pdf",
            "source": {"type": "base64", "data": b64encode(b"%PDF\xff").decode()},
        },
        "ab.pdf",
        b"%PDF\xff",
    ),
    "a text": (
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "#ü\n\ud800"}},
        "file.txt",
        "#ü\n\ufffd".encode(),
    ),
    "a picture that is not shown": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "PHN2Zy8+"}},
        "image.svg",
        b"<svg/>",
    ),
    "invalid base64": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "no base64!"}},
        "image.png",
        b"no base64!",
    ),
    "a large file": (
        {"type": "file", "filename": "large.bin", "source": {"type": "base64", "data": "AAAA" * 1_000_000}},
        "large.bin",
        bytes(3_000_000),
    ),
}


@pytest.mark.slow
async def test_files_can_be_saved(blank: Page) -> None:
    saved = {name: await save(blank, block) for name, (block, *_) in SAVED.items()}

    assert saved == {name: (file, content) for name, (_, file, content) in SAVED.items()}


async def save(page: Page, block: Json) -> tuple[str, bytes]:
    """The name and content of the file saved by a click."""
    await page.evaluate(_PLACED, json.dumps(block))
    async with page.expect_download() as expected:
        await page.click("a.attachment")
    download = await expected.value
    return download.suggested_filename, (await download.path()).read_bytes()


_PLACED = """async (block) => {
  const { blocks } = await import("/viewer/render/content-blocks.js");
  document.body.replaceChildren(...blocks([JSON.parse(block)]));
}"""


async def test_images_are_small_until_opened_and_never_fetched(blank: Page) -> None:
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    await blank.evaluate(_PLACED, json.dumps(block))

    assert (
        await blank.evaluate(
            "document.querySelector('img').decode().then(() => document.images[0].naturalWidth)"
        )
        == 1
    )
    assert not await blank.evaluate("document.querySelector('.picture details').open")


@pytest.mark.slow
async def test_all_payload_texts_are_shown(blank: Page) -> None:
    all_payloads = [Payloads(seed) for seed in SEEDS]
    logs = [events_of(payloads.call()) for payloads in all_payloads]

    texts = await blank.evaluate(_OPENED, json.dumps(logs))

    missing = {
        seed: [leaf for leaf in payloads.leaves if leaf not in text]
        for seed, payloads, text in zip(SEEDS, all_payloads, texts, strict=True)
    }
    assert {seed: leaves for seed, leaves in missing.items() if leaves} == {}


_OPENED = """async (logs) => {
  const { calls, textWhenOpen } = await import("/tool-calls.js");
  return Promise.all(JSON.parse(logs).map((events) => textWhenOpen(calls(events)[0])));
}"""


WILD_KINDS = (
    *("a megabyte", "a megabyte of lines", "a megabyte of stars", "a megabyte of brackets"),
    *("deep lists", "deep objects", "deep results", "deep JSON"),
    *("many", "many blocks", "many items", "many lines", "many files", "many matches", "many numbers"),
    *("names that objects have", "nothing to convert", "lists for texts", "half a pair", "numbers"),
)


def is_small(kind: str) -> bool:
    return not kind.startswith(("a megabyte", "many"))


@pytest.mark.parametrize("kind", slow_unless(is_small, WILD_KINDS))
async def test_painting_never_throws(blank: Page, kind: str) -> None:
    failures = "async ([names, kind]) => (await import('/tool-calls.js')).failures(names, kind)"

    assert await blank.evaluate(failures, [ONE_OF_EACH, kind]) == []


async def test_extreme_values_are_all_tested(blank: Page) -> None:
    kinds = await blank.evaluate("async () => (await import('/tool-calls.js')).WILD_KINDS")

    assert sorted(kinds) == sorted(WILD_KINDS)
