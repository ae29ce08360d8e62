"""Export formats: Markdown, self-contained HTML, and the page of a file that is not stored."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import nullcontext
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from psycopg import AsyncConnection

from ash_server.store import Store
from ash_server.store.connections.pool import Pool
from ash_server.store.conversation import standard_pages
from ash_server.store.conversation.projection_inputs import read_summary
from ash_server.store.log.events import append_events, get_events_since
from ash_server.store.session_rows import get_session
from ash_server.store.sessions import create_session, update_session
from ash_server.transfer.exporting import html, page_changes
from ash_server.transfer.exporting.html import ENTRY, escape_script, frame, write_html, write_shared_html
from ash_server.transfer.exporting.in_memory import load_in_memory
from ash_server.transfer.exporting.markdown import MarkdownWriter, write_markdown
from ash_server.transfer.exporting.markdown_escaping import embed_markdown
from ash_server.transfer.importing.file_import import import_file
from ash_server.viewer import FOLDER, viewer
from ash_server.viewer.bundle import BundleError, bundle
from ash_shared import transform_messages
from ash_shared.model.event_types import CHUNKS
from ash_shared.model.message import StandardMessage
from ash_shared.model.session import Session
from tests.server.edited_session import edited_lines
from tests.shared.records import claude
from tests.shared.records.events import wire_event
from tests.waiting import until

SERVER = Path(str(files("ash_server")))
TRANSCRIPTS = sorted([*(SERVER / "samples").iterdir(), *(SERVER / "recordings").iterdir()])


def message(*blocks: Any, role: str = "assistant", **others: Any) -> StandardMessage:
    content = [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks]
    return StandardMessage.model_validate(
        {
            "id": "m",
            "role": role,
            "content": content,
            "metadata": {"source": "claude"},
            "_original": [],
            **others,
        }
    )


def written(*messages: StandardMessage) -> str:
    writer = MarkdownWriter()
    return "".join(map(writer.write, messages)) + writer.end()


BASH = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q"}}
PASSED = {"type": "tool_result", "tool_use_id": "t1", "content": "2 passed\n"}


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        ("Plain *text*,\nas it is.", ["Plain *text*,\nas it is."]),
        ({"type": "text", "text": "No.", "variant": "refusal"}, ["*refusal*", "No."]),
        ({"type": "thinking", "thinking": "First\n\nthen"}, ["> *Thinking*\n>\n> First\n>\n> then"]),
        ({"type": "thinking", "thinking": "", "signature": "Eq8B"}, []),
        (BASH, ["**Call** of `Bash`", '```json\n{\n  "command": "pytest -q"\n}\n```']),
        (
            {**BASH, "input": {"path": "a", "new": "x\ny\n"}},
            ["**Call** of `Bash`", '```json\n{\n  "path": "a"\n}\n```', "`new`:", "```\nx\ny\n```"],
        ),
        ({**BASH, "input": "ls"}, ["**Call** of `Bash`", "```\nls\n```"]),
        ({**BASH, "input": {}}, ["**Call** of `Bash`", "```json\n{}\n```"]),
        (
            {**BASH, "name": "a`b\nc"},
            ["**Call** of ``a`b c``", '```json\n{\n  "command": "pytest -q"\n}\n```'],
        ),
        (PASSED, ["**Result**", "```\n2 passed\n```"]),
        ({**PASSED, "is_error": True}, ["**Error**", "```\n2 passed\n```"]),
        ({**PASSED, "content": "```\n````"}, ["**Result**", "`````\n```\n````\n`````"]),
        (
            {**PASSED, "content": [{"type": "text", "text": "a"}, {"type": "holo"}]},
            ["**Result**", "```\na\n```", '```json\n{\n  "type": "holo"\n}\n```'],
        ),
        (
            {**PASSED, "content": [{"type": "text", "text": 5}, {"type": "raw"}, {"type": ["text"]}]},
            [
                "**Result**",
                '```json\n{\n  "type": "text",\n  "text": 5\n}\n```',
                '```json\n{\n  "type": "raw"\n}\n```',
                '```json\n{\n  "type": [\n    "text"\n  ]\n}\n```',
            ],
        ),
        ({**PASSED, "content": {"ok": 1}}, ["**Result**", '```json\n{\n  "ok": 1\n}\n```']),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            ["*image* `image/png` (4 characters)"],
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://evil.example/b.png"}},
            ["*image* `https://evil.example/b.png`"],
        ),
        ({"type": "file", "filename": "a.pdf", "title": "A"}, ["*file* `A` `a.pdf`"]),
        (
            {"type": "raw", "rawType": "holo", "reason": "unknown_type", "raw": {"n": 7}},
            ["*unknown_type* `holo`", '```json\n{\n  "n": 7\n}\n```'],
        ),
        ({"type": "raw", "reason": "invalid_json", "raw": '{"cut'}, ["*invalid_json*", '```\n{"cut\n```']),
    ],
)
def test_formats_blocks_as_markdown(block: Any, parts: list[str]) -> None:
    expected = "".join(f"\n{part}\n" for part in parts)

    assert written(message(block)).removeprefix("\n## Assistant\n") == expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("```python\n<b>", "```python\n<b>\n```"),
        ("~~~~\n```\n~~~", "~~~~\n```\n~~~\n~~~~"),
        ("````\n```\n   ````\n<b>", "````\n```\n   ````\n\\<b>"),
        ("```\n    ```\n<b>", "```\n    ```\n<b>\n```"),
        ("```\na\n``` b", "```\na\n``` b\n```"),
        ("a ``` b", "a ``` b"),
        ("``` a ` <b>", "``` a ` \\<b>"),
        ("1. Run\n   ```\n   <b>\n\n   ```\n<b>", "1. Run\n   ```\n   <b>\n\n   ```\n\\<b>"),
        ("<b>bold</b>", "\\<b>bold\\</b>"),
        ("<!-- gone", "\\<!-- gone"),
        ("\\<b> \\\\<b>", "\\<b> \\\\\\<b>"),
        ("<https://a.example>", "\\<https://a.example>"),
        ("a < b, `<b>`, ``<`i>``, 1<2", "a < b, `<b>`, ``<`i>``, 1<2"),
        ("` a\n` <b> `", "` a\n` \\<b> `"),
        ("` a\n\n` <b> `", "` a\n\n` <b> `"),
        ("\\` <b> `", "\\` \\<b> `"),
        ("\\``\n` <b> `", "\\``\n` \\<b> `"),
        ("a `\n    ```\n    x\n    ```\n` <b> `", "a `\n    ```\n    x\n    ```\n` \\<b> `"),
        ("![it](https://evil.example/b.png) `![it]`", "\\![it](https://evil.example/b.png) `![it]`"),
        ("[User]: https://evil.example", "[User]\\: https://evil.example"),
        ("a\r\nb\r<b>", "a\nb\n\\<b>"),
    ],
)
def test_texts_do_not_affect_later_texts(text: str, shown: str) -> None:
    assert written(message(text)) == f"\n## Assistant\n\n{shown}\n"


@pytest.mark.parametrize("text", ["- ```\n  a", "  ```\na", "   ```\n   a", "\t```\n", "  ~~~\n  a\n   ~~~"])
def test_ambiguous_fences_are_shown_as_code(text: str) -> None:
    assert embed_markdown(text) is None
    assert written(message(text)).startswith("\n## Assistant\n\n```")


INDENTS = ["", "  ", "   ", "    ", "- ", "  - ", "1. ", "2. ", "> ", "\t", "> > "]
WORDS = [
    *(
        "```",
        "````",
        "~~~",
        "```py",
        "``` `",
        "<b>",
        "`<b>`",
        "a `",
        "` <b>",
        "a",
        "",
        "<!--",
        "<script>",
        "\\",
    ),
    *(
        "\\` <b> `",
        "`` ` <i>",
        "[x]:",
        "/u",
        "![i](u)",
        "---",
        "\x0b",
        "\u2003",
        "a\r<b>",
        "\\``",
        "<?",
        "<pre>",
    ),
]

lines_of_any_kind = st.lists(st.tuples(st.sampled_from(INDENTS), st.sampled_from(WORDS)), max_size=9)


@given(lines_of_any_kind)
@settings(max_examples=200, deadline=None)
def test_no_text_affects_the_rest_of_the_document(lines: list[tuple[str, str]]) -> None:
    """Parsed by another implementation: no HTML, image or link reference, and the next heading is a heading."""
    text = "\n".join(map("".join, lines))
    document, others = f"## A\n{written(message(text))}\n## End [x]\n", dict[str, Any]()

    tokens = MarkdownIt("commonmark").parse(document, others)

    all_tokens = [each for token in tokens for each in (token, *(token.children or ()))]
    assert not {"html_block", "html_inline", "image"} & {each.type for each in all_tokens}
    assert not others.get("references")
    assert (tokens[-3].type, tokens[-3].level, tokens[-2].content) == ("heading_open", 0, "End [x]")


def test_headings_name_the_speaker() -> None:
    talk = written(
        message("Go.", role="user", timestamp=1793611915002),
        message("Yes.", BASH),
        message(PASSED, role="user"),
        message("Done."),
        message("Again.", role="user", metadata={"source": "claude", "synthetic": True}),
        message("Go.", role="user", metadata={"source": "claude", "shadowOf": "m"}),
        message("Sub.", metadata={"source": "claude", "parentToolUseId": "t1", "retracted": True}),
        message(error={"code": "overloaded", "message": "Later."}),
    )

    assert [line for line in talk.split("\n") if line.startswith(("##", "**"))] == [
        "## User · 2026-11-02 09:31 UTC",
        "## Assistant",
        "**Call** of `Bash`",
        "**Result** of `Bash`",
        "## User · written by the tool",
        "## Assistant · a subagent · revoked",
        "## Assistant",
        "**Error** `overloaded`",
    ]


def test_headings_name_the_sender() -> None:
    senders = [("person", None), ("script", None), ("peer", "`Re\n# viewer`"), ("schedule", None)]
    talk = written(
        *(
            message(
                "<bash-stdout>Go.</bash-stdout>",
                role="user",
                metadata={
                    "source": "claude",
                    "sender": kind,
                    **({"senderName": name} if name else {}),
                    **({} if kind in ("person", "script") else {"synthetic": True}),
                },
            )
            for kind, name in senders
        )
    )

    assert [line for line in talk.split("\n") if line.startswith(("#", "*added"))] == [
        "## User",
        "## User · sent by `script`",
        "*added by the client*",
        "## User · sent by `` peer `Re # viewer` ``",
        "## User · sent by `schedule`",
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<command-name>/review</command-name>\n<command-args>PR 12</command-args>", ["/review PR 12"]),
        ("<bash-input>ls -l</bash-input>", ["! ls -l"]),
        (
            "<ide_selection>`a`</ide_selection>\nWhy is it red?",
            ["Why is it red?", "*added by the client*", "```\n<ide_selection>`a`</ide_selection>\n```"],
        ),
        ("Why <ide_selection>?", ["Why \\<ide_selection>?"]),
    ],
)
def test_markdown_of_a_prompt_is_what_the_person_typed(text: str, parts: list[str]) -> None:
    document = written(message(text, role="user"))

    assert document == "".join(f"\n{part}\n" for part in ["## User", *parts])


def cited(text: str, *names: str) -> dict[str, Any]:
    sources = [
        {"url": f"https://{name}.example/a b)", "title": f"*{name}*", "cited_text": "7"} for name in names
    ]
    return {"type": "text", "text": text, "citations": sources}


def test_joins_texts_split_at_citations() -> None:
    one, other = {"source": "claude", "messageId": "r1"}, {"source": "claude", "messageId": "r2"}
    talk = written(
        message("I look.", metadata=one),
        message(BASH, metadata=one),
        message(cited("- It is 7", "a"), ", so\n", cited("- **seven.**\n", "b", "a"), metadata=one),
        message("It is odd.", metadata=one),
        message(
            {"type": "text", "text": "And", "citations": [{"url": "javascript:1", "title": "t"}]},
            metadata=other,
        ),
    )

    assert talk.split("```\n")[-1] == (
        "\n- It is 7¹, so\n- **seven.**¹\u2009²\nIt is odd.\n"
        "\n¹ [\\*a\\*](https://a.example/a%20b%29): “7”  \n² [\\*b\\*](https://b.example/a%20b%29): “7”\n"
        "\nAnd\n\n¹ t\n"
    )


def test_lone_surrogates_can_be_encoded() -> None:
    line = '{"type":"user","message":{"role":"user","content":"a\\ud800b"}}'

    assert "a" in written(*transform_messages([line])).encode("utf-8", "replace").decode()


@pytest.fixture
async def stored(database_url: str) -> Session:
    return await import_with_another_store(database_url, SERVER / "samples" / "tide-clock.jsonl")


async def import_with_another_store(database_url: str, path: Path) -> Session:
    """Import with a separate store: after a write, a store briefly uses a connection to notify other processes."""
    async with Store.open(database_url) as store:
        imported = await import_file(store, path, path.stem)
        return await store.sessions.get(imported.session_id)


def pool_of(store: Store) -> Pool:
    return store._connections.pool


def is_idle(store: Store) -> bool:
    """True if no connection is in use or being opened."""
    stats = pool_of(store).get_stats()
    return stats["pool_available"] == stats["pool_size"]


async def pieces_of(store: Store, pieces: AsyncIterator[bytes]) -> list[str]:
    """Return the pieces of an export; check that it holds no connection between them.

    Others, such as the search indexer, may use one for a moment, so each check waits.
    """
    await pool_of(store).resize(1, 1)  # it no longer opens connections in the background
    yielded = list[str]()
    async for piece in pieces:
        await until(lambda: is_idle(store))
        yielded.append(piece.decode())
    return yielded


async def test_markdown_of_a_session(store: Store, connection: AsyncConnection, stored: Session) -> None:
    text = "".join(await pieces_of(store, write_markdown(store, stored)))

    assert text.startswith(
        "# Tide clock an hour late after the change to summer time\n\n"
        f"claude · 23 stored messages · 2026-03-30 09:00 UTC to 2026-03-30 09:01 UTC · `{stored.id}`\n"
    )
    messages = [each async for page in store.conversation.stream_pages(stored.id) for each in page]
    assert text.endswith(written(*messages))


@pytest.mark.parametrize("page", [3, 500])
async def test_markdown_of_posted_events(
    store: Store, connection: AsyncConnection, stored: Session, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(standard_pages, "_PAGE", page)
    events = await get_events_since(connection, stored.id, 0, limit=1000, collapse=True)
    posted = (await create_session(connection, source="test")).session
    await append_events(
        connection, posted.id, [{**json.loads(event.content), "sessionId": ""} for event in events]
    )
    session = await get_session(connection, posted.id)

    text = b"".join([piece async for piece in write_markdown(store, session)]).decode()

    messages = transform_messages([event.wire() for event in events])
    assert len(messages) > 5
    assert text.endswith(written(*messages))
    assert f"test · {len(events)} events · " in text


async def test_title_is_one_line(store: Store, connection: AsyncConnection, stored: Session) -> None:
    named = await update_session(connection, stored.id, title="# a\n<b>`c`")

    first = await anext(write_markdown(store, named))

    assert first.startswith(b"# # a \\<b>\\`c\\`\n\n")


class Parsed(HTMLParser):
    """Collects the texts of scripts, styles and the title by id or tag, and the Content-Security-Policy."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.policy = ""
        self._within = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(attributes["content"])
        self._within = str(attributes.get("id", tag)) if tag in ("script", "style", "title") else ""

    def handle_data(self, data: str) -> None:
        if self._within:
            self.texts[self._within] = self.texts.get(self._within, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._within = ""


ELEMENTS = ["changes", "events", "script", "session", "style", "summary", "title", "usage"]
"""The elements of a page that have a text."""


async def page_of(store: Store, session: Session) -> list[str]:
    return await pieces_of(store, write_html(store, session))


@pytest.mark.slow
async def test_html_page_is_self_contained(
    store: Store, connection: AsyncConnection, stored: Session
) -> None:
    page = Parsed("".join(await page_of(store, stored)))
    events = await get_events_since(connection, stored.id, 0, limit=1000, collapse=True)

    assert sorted(page.texts) == ELEMENTS
    assert json.loads(page.texts["events"]) == [json.loads(event.wire()) for event in events]
    assert Session.model_validate_json(page.texts["session"]) == stored
    assert page.texts["title"] == "Tide clock an hour late after the change to summer time · Ash"
    assert page.policy == frame().policy
    directives = dict(directive.split(" ", 1) for directive in page.policy.split("; "))
    assert directives == {
        "default-src": "'none'",
        "script-src": f"{hashed(page.texts['script'])} {hashed(frame().script_with_formulas)}",
        "style-src": hashed(page.texts["style"]),
        "img-src": "data:",
        **dict.fromkeys(("base-uri", "form-action", "object-src"), "'none'"),
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


async def test_html_page_with_formulas_contains_their_library(
    store: Store, connection: AsyncConnection, stored: Session
) -> None:
    await append_events(connection, stored.id, [wire_event("user_message", text="$x_1$", id="f")])

    page = Parsed("".join(await page_of(store, stored)))

    assert page.texts["script"] == frame().script_with_formulas


async def test_html_page_contains_the_licences(store: Store, stored: Session) -> None:
    whole = "".join(await page_of(store, stored))
    others = sorted(path.name for path in (FOLDER / "vendor").iterdir() if path.is_dir())

    comment = whole.rpartition("<!--")[2].partition("-->")[0]
    assert [name for name in others if f"vendor/{name}/LICENSE\n" in comment] == others
    assert whole.endswith("\n-->\n</body>\n</html>\n")


async def test_html_page_omits_superseded_chunks(store: Store, database_url: str) -> None:
    session = await import_with_another_store(database_url, SERVER / "recordings" / "kite-wind.jsonl")

    page = Parsed("".join(await page_of(store, session)))

    events = json.loads(page.texts["events"])
    assert 0 < len(events) < session.event_count
    assert not CHUNKS & {event["type"] for event in events}


def hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


HOSTILE = "</script><script>alert(1)</script><!--\u2028\u2029$events $session ${script} &lt; \\u003c \"'"


async def test_hostile_texts_cannot_leave_their_element(
    store: Store, connection: AsyncConnection, stored: Session
) -> None:
    named = await update_session(connection, stored.id, title=HOSTILE, metadata={HOSTILE: HOSTILE})
    await append_events(connection, stored.id, [wire_event("user_message", text=HOSTILE, id="h")])

    page = Parsed("".join(await page_of(store, named)))

    assert sorted(page.texts) == ELEMENTS
    assert json.loads(page.texts["events"])[-1]["payload"] == {"text": HOSTILE}
    assert json.loads(page.texts["session"])["metadata"][HOSTILE] == HOSTILE
    assert page.texts["title"] == f"{HOSTILE} · Ash"
    assert page.policy == frame().policy
    assert json.loads(page.texts["summary"])["lastText"] == " ".join(HOSTILE.split())
    texts = "".join(page.texts[name] for name in ("changes", "events", "session", "summary"))
    assert not {"<", "\u2028", "\u2029"} & {*texts}


TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"
PLANNED = json.dumps(
    claude.assistant(claude.call("p", "TodoWrite", todos=[{"content": TOKEN, "status": "pending"}]), uuid="p")
)


async def test_pages_have_the_changes_and_the_plan_of_their_events(store: Store) -> None:
    """A page of some events has no other changes; a redacted one shows no secret."""
    session = await store.sessions.create()
    await store.messages.append(session.id, [*edited_lines(TOKEN), PLANNED])
    session = await store.sessions.get(session.id)
    whole, redacted, shared = [
        Parsed("".join([piece.decode() async for piece in page])).texts["changes"]
        for page in (
            write_html(store, session),
            write_html(store, session, redacts=True),
            write_shared_html(store, session, lambda event: (event.message_sequence or 0) < 8, redacts=False),
        )
    ]
    report = await store.conversation.read_changes(session.id)

    assert json.loads(whole)["report"] == report.model_dump(mode="json")
    assert json.loads(whole)["plan"] == {"items": [{"text": TOKEN, "state": "open"}]}
    assert TOKEN not in redacted
    assert json.loads(redacted)["plan"]["items"] == [{"text": "[redacted: github token]", "state": "open"}]
    assert [turn["turn"] for turn in json.loads(shared)["report"]["turns"]] == [1]
    assert "plan" not in json.loads(shared)


async def test_page_with_too_many_changes_has_only_the_plan(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await store.sessions.create()
    await store.messages.append(session.id, [*edited_lines(), PLANNED])
    monkeypatch.setattr(page_changes, "MAX_CHARACTERS", 1000)
    page = Parsed("".join(await page_of(store, await store.sessions.get(session.id))))

    assert json.loads(page.texts["changes"]).keys() == {"plan"}


async def test_html_page_reads_events_in_pages(
    store: Store, connection: AsyncConnection, stored: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await page_of(store, stored)
    monkeypatch.setattr(html, "_MAX_PAGE_EVENTS", 3)

    pages = await page_of(store, stored)

    events = await get_events_since(connection, stored.id, 0, limit=1000, collapse=True)
    assert len(pages) == 4 + -(-len(events) // 3)
    assert json.loads(Parsed("".join(pages)).texts["events"]) == json.loads(
        Parsed("".join(whole)).texts["events"]
    )


def test_escapes_the_end_of_script_elements() -> None:
    assert escape_script('{"<a>":"\u2028\u2029&"}') == '{"\\u003ca>":"\\u2028\\u2029&"}'


MODULES = {
    "a.js": 'import { b, Late } from "./lib/b.js";\nexport function a() {\n  return b() + new Late().n;\n}\n',
    "lib/b.js": "export const b = () => 1;\nexport class Late {\n  n = 2;\n}\n",
}


@pytest.mark.parametrize(
    "source",
    [
        'export * from "./lib/b.js";',
        'export { b } from "./lib/b.js";',
        'import * as b from "./lib/b.js";',
        'import "./lib/b.js";',
        'import { b } from "b";',
        'const b = import("./lib/b.js");',
        "const here = import.meta.url;",
        "export let n = 1;",
        "export default 1 + 1;",
    ],
)
def test_bundle_rejects_unsupported_module_syntax(source: str) -> None:
    with pytest.raises(BundleError):
        bundle({**MODULES, "a.js": source}, "a.js")


def test_bundle_rejects_a_missing_module() -> None:
    with pytest.raises(KeyError):
        bundle({"a.js": MODULES["a.js"]}, "a.js")


def test_bundle_rejects_circular_imports() -> None:
    circular = {**MODULES, "lib/b.js": 'import { a } from "../a.js";\nexport const b = a;\n'}

    with pytest.raises(BundleError, match=r"a\.js -> lib/b\.js -> a\.js"):
        bundle(circular, "a.js")


def test_bundle_orders_modules_after_their_imports() -> None:
    script = bundle(MODULES, "a.js")

    assert script.index("// lib/b.js") < script.index("// a.js")
    assert "const { b, Late } = $exports[0];" in script
    assert "return { b: b, Late: Late };" in script


def test_bundle_escapes_the_end_of_script_elements() -> None:
    script = bundle({"a.js": r"export const a = ['</script>', '<!--', /<\/script>|<!--/];"}, "a.js")

    assert r"['\x3C/script>', '\x3C!--', /<\/script>|\x3C!--/]" in script


def test_the_viewer_can_be_bundled() -> None:
    now = viewer()
    sources = {path: asset.content.decode() for path, asset in now.assets.items() if path.endswith("js")}

    assert "class ChatRenderer" in bundle(sources, ENTRY)


def without_times(events: list[Any]) -> list[Any]:
    """Remove timestamps: lines without one get the time of reading."""
    return [{key: value for key, value in event.items() if key != "timestamp"} for event in events]


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.name)
async def test_in_memory_session_equals_the_stored_one(
    store: Store, connection: AsyncConnection, path: Path
) -> None:
    imported = await import_file(store, path, "named")
    stored = await get_session(connection, imported.session_id)
    events = await get_events_since(connection, stored.id, 0, limit=1000, collapse=True)

    unstored = load_in_memory(path, "named")

    now = {"created_at": stored.created_at, "updated_at": stored.updated_at, "machine": stored.machine}
    assert unstored.session.model_copy(update=now) == stored
    assert without_times(list(map(json.loads, unstored.events))) == without_times(
        [json.loads(event.wire()) for event in events]
    )
    assert unstored.events
    summary = await read_summary(lambda: nullcontext(connection), stored.id)
    times = {"first_at": summary.first_at, "last_at": summary.last_at}
    # Costs at API prices come from stored usage, which a session in memory does not have.
    without_costs = {"computed_cost_usd", "total_computed_cost_usd"}
    expected = summary.model_dump(exclude=without_costs)
    assert unstored.summary.model_copy(update=times).model_dump() == expected


def test_in_memory_session_reports_unreadable_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"type":"user","message":{"role":"user","content":"hi"}}\n\xff\n{"a":"\0"}\n')

    unstored = load_in_memory(path, "a")

    assert [(problem.line, problem.reason) for problem in unstored.result.problems] == [
        (2, "is not valid UTF-8"),
        (3, "contains a NUL byte, which PostgreSQL cannot store"),
    ]
    assert unstored.session.message_count == 1


async def test_html_page_of_a_session_without_events(store: Store, connection: AsyncConnection) -> None:
    session = (await create_session(connection, id=UUID(int=7))).session

    assert json.loads(Parsed("".join(await page_of(store, session))).texts["events"]) == []
