"""Rendering of texts: Markdown, highlighted code, terminal output, diffs, JSON. All texts are hostile."""

import itertools
import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from playwright.async_api import Page

from tests.server.transcripts import TRANSCRIPT_NAMES
from tests.viewer.hostile import EMBEDDED, HANDLERS, SCRIPTS

CALL = """async ([name, calls]) => {
  const text = await import("/text-modules.js");
  const answers = [];
  for (const each of JSON.parse(calls)) answers.push((await text[name](...each)) ?? null);
  return JSON.stringify(answers);
}"""


async def answers(page: Page, function: str, calls: Sequence[Any]) -> list[Any]:
    """The results of a function of text-modules.js for each list of arguments."""
    return list(json.loads(await page.evaluate(CALL, [function, json.dumps(calls)])))


async def by_text(page: Page, function: str, texts: Mapping[str, object]) -> dict[str, Any]:
    return dict(zip(texts, await answers(page, function, [[text] for text in texts]), strict=True))


def repeated(part: str, length: int) -> str:
    return (part * (length // len(part) + 1))[:length]


async def test_names_of_transcripts(blank: Page) -> None:
    assert await by_text(blank, "transcriptName", TRANSCRIPT_NAMES) == TRANSCRIPT_NAMES


@pytest.mark.parametrize("query", [{"before": 99}, {"after": 0}, {"at": 15}])
async def test_pages_of_events_pass_pages_without_events(blank: Page, query: dict[str, int]) -> None:
    sequences = [1, 2, 20, 29, 30]

    [loaded] = await answers(blank, "loadedSequences", [[sequences, 30, query]])

    assert loaded == sequences


TITLES = {
    "Fix the *tests*": "Fix the tests",
    "*Fix* it, (*now*)": "Fix it, (now)",
    "# Fix **all** of `a.py`": "Fix all of a.py",
    "Implement the following plan: # Fix: dates ## Steps": "Fix: dates · Steps",
    "Implement the following plan:": "Implement the following plan:",
    "rm *.py and *.js": "rm *.py and *.js",
    "2 * 3 * 4, a*b*c, **/*.ts, issue # 3": "2 * 3 * 4, a*b*c, **/*.ts, issue # 3",
    "snake_case and __init__": "snake_case and __init__",
}


async def test_titles_without_markdown(blank: Page) -> None:
    assert await by_text(blank, "stripMarkdown", TITLES) == TITLES


NAMES = {
    "fix-1": "fix-1",
    "Nightly run of 2026-03-10": "Nightly run of 2026-03-10",
    "projects/-srv-site/a.jsonl": "",
    "a.json": "",
    "6f1e4c1a-9f0e-4d61-8a53-0f1d2b3c4d5e": "",
    "ses_7d3f9a2b4c1e5f608192": "",
    "01JABCDEFGHJKMNPQRSTVWXYZ0": "",
    "1773144000000": "",
    "own": "",
}


@pytest.mark.slow
async def test_names_that_a_person_chose(blank: Page) -> None:
    sessions = [[{"externalId": name, "metadata": {"sessionId": "own"}}] for name in NAMES]

    assert await answers(blank, "chosenName", sessions) == list(NAMES.values())
    assert await answers(blank, "chosenName", [[{}]]) == [""]


async def test_long_numbers_are_short(blank: Page) -> None:
    numbers = {
        0: "0",
        9_999: "9,999",
        10_000: "10 K",
        999_600: "1 M",
        26_213_456: "26.2 M",
        1_250_000_000: "1.25 B",
    }

    shown = await answers(blank, "formatShort", [[number] for number in numbers])
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in shown] == list(numbers.values())
    usage = {"cache_read_input_tokens": 1_000, "cache_creation_input_tokens": 20}
    assert await answers(blank, "formatCacheUsage", [[usage]]) == [
        ["1,000 read from the cache", "20 written to the cache"]
    ]
    hits = [[{"matches": 1}], [{"matches": 1000, "atLeast": True}]]
    assert await answers(blank, "formatHits", hits) == ["1 hit", "1,000+ hits"]


COMMANDS: Mapping[str, bool] = {
    "cd '/srv/ä b' && claude --resume 6f1e": True,
    "cd /srv/\u202etxt.sh": False,
    "cd /srv\nrm -rf .": False,
    "cd /srv\u200b": False,
    "cd /srv\u2028": False,
    "cd /srv/\x1b[2J": False,
}


async def test_commands_with_hidden_characters_are_not_plain(blank: Page) -> None:
    assert await by_text(blank, "isPlain", COMMANDS) == COMMANDS


# Texts that grow

BLOCKS = (
    "A paragraph with `code`, **bold** and https://example.com/a_b\n\n",
    "Two lines\nof a paragraph\n",
    "# Heading\n",
    "Underlined\n===\n",
    "- one\n- two\n\n  more\n    - inner\n",
    "1. first\n2. second\n",
    "- [ ] open\n- [x] done\n\n",
    "> quoted\nlazy\n\n",
    "> [!NOTE]\n> careful\n\n",
    "| a | b |\n|---|:-:|\n| 1 | 2 |\n",
    "```python\ndef f():\n\n    return 1\n```\n",
    "    indented\n\n    code\n",
    "---\n",
    "***\n\n",
    "text\n-\n",
    "[a]: https://example.com 'title'\n\n",
    "see [a], [b][a] and [^1]\n\n",
    "[^1]: a footnote\n\n",
    "<details>\n<summary>More</summary>\n\ninside\n\n</details>\n\n",
    "$$\na\n\nb\n$$\n\n",
    "a <b> & c<br>d\\\n",
    "\n\n",
    "word " * 30 + "\n",
    "a\r\nb\rc\n",
    "\u05d0\u05d1 \ud83e\ude81\n",
    "Prose (an aside), e.g. this: mail@example.com; 5 &lt; 6 &amp c, https://example.com/a(b).\n",
    "[text](https://example.com 'a) b') (end), _a_b _c_ and *d*: e!\n",
    "a\u200b b\u2060 c \u2764\ufe0f d\ta\u00a0 b  c\n",
    "1. 2) 3\n4. a. b) c\n",
    "~~~ js\nlet a = `b`;\n~~\n``` \n   ~~~~ \n",
    "````\n```\n\n``\n  c\u200b\n[a]: b\n````\n",
)


def random_parts(seed: int) -> list[str]:
    """Return a text of random blocks, cut at random places."""
    source = random.Random(seed)
    text = "".join(source.choices(BLOCKS, k=source.randint(2, 9)))
    cuts = sorted({0, len(text), *(source.randrange(len(text)) for _ in range(source.randint(3, 40)))})
    return [text[start:end] for start, end in itertools.pairwise(cuts)]


@pytest.mark.slow
async def test_text_that_grows_looks_like_the_whole_text(blank: Page) -> None:
    ends_of_lines = [["a\n#", "b\n"], ["a\n-", "b\n"], ["a\n| b |\n|-", "c\n"], ["- a\n", "\n  b\n"]]
    calls = [[parts] for parts in [*ends_of_lines, *map(random_parts, range(300))]]

    shown = await answers(blank, "grownText", calls)

    assert [text for text, *_ in shown if text is not None] == []


@pytest.mark.slow
async def test_finished_blocks_of_a_text_that_grows_are_not_rendered_again(blank: Page) -> None:
    closing = [each for each in BLOCKS if not re.search(r"[\[\r$]|<details>", each)]
    text = "".join(closing) * 3
    parts = [text[start : start + 7] for start in range(0, len(text), 7)]

    [[different, created, elements]] = await answers(blank, "grownText", [[parts]])

    assert (different, created < elements / 10) == (None, True), (created, elements)


APPENDED = {
    "paragraph": ["Some *words*: a", "nd more words, ", "(an aside) ", "and a sentence. ", "  Next one"],
    "item": ["- one\n- tw", "o words", " and more"],
    "fence": ["Code:\n```py\nx = 1", "\n", "# `a` **b**\n\n", "  y = '[a](b)'\n``"],
}


async def test_plain_text_is_appended_without_rendering_its_block_again(blank: Page) -> None:
    created = await answers(blank, "createdByParts", [[parts] for parts in APPENDED.values()])

    assert [counts[1:] for counts in created] == [[0] * (len(parts) - 1) for parts in APPENDED.values()]


# Long texts

LONG_TEXTS: Mapping[str, tuple[str, list[object]]] = {
    "one line": ("a" * 10_000, [10_000, True, False]),
    "one long line": ("a" * 1_000_000, [10_000, True, True]),
    "lines": ("a b c\n" * 100_000, [3_000, True, True]),
    "as many lines as are shown": ("a\n" * 500, [1_000, True, False]),
    "a short line before a long one": ("a\n" + "b" * 20_000, [10_000, True, True]),
    "a long line after others": ("a" * 8_000 + "\n" + "b" * 20_000, [8_001, True, True]),
    "surrogate pairs": ("a" + "🪁" * 20_000, [9_999, True, True]),
}


async def test_long_texts_are_shown_in_parts(blank: Page) -> None:
    parts = await by_text(blank, "longTextParts", {text: None for text, _ in LONG_TEXTS.values()})

    assert {name: parts[text] for name, (text, _) in LONG_TEXTS.items()} == {
        name: expected for name, (_, expected) in LONG_TEXTS.items()
    }


@pytest.mark.parametrize("line", ["word ", "word\n"])
async def test_colours_of_a_long_output_continue_in_its_parts(blank: Page, line: str) -> None:
    text = "\x1b[31m" + line * 10_000 + "\x1b[32m" * 5_000 + line

    [[colours, length]] = await answers(blank, "longOutputColours", [[text]])

    assert (colours, length) == (["ansi-fg-1", "ansi-fg-2"], len(line) * 10_001)


# Markdown


def mark_of(number: int) -> str:
    link = (
        f'<a href="#footnote-{number}" aria-label="Footnote {number}" data-footnote="{number}">{number}</a>'
    )
    return f'<sup class="footnote-mark">{link}</sup>'


def back_to(number: int) -> str:
    label = f"Back to footnote {number} in the text"
    return f'<a href="#footnote-{number}" aria-label="{label}" data-footnote="{number}">↩\ufe0e</a>'


def hidden(characters: str, label: str) -> str:
    title = f'aria-label="Hidden: {label}" title="Hidden: {label}"'
    return f'<span class="hidden-characters" role="img" {title} data-code="{label}">{characters}</span>'


WEB = 'rel="noopener noreferrer nofollow" target="_blank"'
COPY = (
    '<button class="icon-button" data-action="copy" aria-label="Copy the code" title="Copy the code"'
    ' type="button"></button>'
)
MARKDOWN = {
    "": "",
    "a *b* **c** ~~d~~ `e`": '<p dir="auto">a <em>b</em> <strong>c</strong> <s>d</s> <code>e</code></p>',
    "# א\n\n> b\n\n---": '<h3 dir="auto">א</h3><blockquote><p dir="auto">b</p></blockquote><hr>',
    "a\n=\n\n## b\n### c\n#### d\n###### e": (
        '<h3 dir="auto">a</h3><h4 dir="auto">b</h4><h5 dir="auto">c</h5><h6 dir="auto">d</h6><h6 dir="auto">e</h6>'
    ),
    "3. a\n   - b": ('<ol start="3"><li dir="auto">a<ul><li dir="auto">b</li></ul></li></ol>'),
    "|a|b|\n|-|-:|\n|1|2|": (
        '<div class="table" role="region" tabindex="0" aria-label="Table"><table><thead>'
        '<tr><th dir="auto">a</th><th class="align-right" dir="auto">b</th></tr></thead>'
        '<tbody><tr><td dir="auto">1</td><td class="align-right" dir="auto">2</td></tr></tbody>'
        "</table></div>"
    ),
    "```Py title\nif a < b:\n```": (
        '<div class="copyable" data-copies="code">'
        '<pre class="code" dir="ltr" tabindex="0" data-language="py">'
        f'<code class="language-py">if a &lt; b:\n</code></pre>{COPY}</div>'
    ),
    "    a\n": (
        '<div class="copyable" data-copies="code">'
        f'<pre class="code" dir="ltr" tabindex="0"><code>a\n</code></pre>{COPY}</div>'
    ),
    '```"><b>\n```': (
        '<div class="copyable" data-copies="code">'
        f'<pre class="code" dir="ltr" tabindex="0"><code></code></pre>{COPY}</div>'
    ),
    "<b onclick=x>a</b><!-- c -->": '<p dir="auto">&lt;b onclick=x&gt;a&lt;/b&gt;&lt;!-- c --&gt;</p>',
    "see https://a.example/x?y=1.": (
        f'<p dir="auto">see <a href="https://a.example/x?y=1" {WEB}>https://a.example/x?y=1</a>.</p>'
    ),
    "a.example ftp://a.example //a.example": '<p dir="auto">a.example ftp://a.example //a.example</p>',
    "b.c+d@a.example, git@a.example:b/c.git e@1.2.3 f@2x.png @g h@i `j@a.example`": (
        f'<p dir="auto"><a href="mailto:b.c+d@a.example" {WEB}>b.c+d@a.example</a>, git@a.example:b/c.git '
        "e@1.2.3 f@2x.png @g h@i <code>j@a.example</code></p>"
    ),
    '[a](https://a.example "t") [b](mailto:b@a.example)': (
        f'<p dir="auto"><a href="https://a.example/" {WEB} title="t">a</a> '
        f'<a href="mailto:b@a.example" {WEB}>b</a></p>'
    ),
    "[a](src/a.py:12) [b](#c) [src](src)": (
        '<p dir="auto"><span class="dead-link">a</span> <span class="link-address">(src/a.py:12)</span> '
        '<span class="dead-link">b</span> <span class="link-address">(#c)</span> '
        '<span class="dead-link">src</span></p>'
    ),
    "[a](javascript:pwn()) [b](JaVaScRiPt&#58;pwn()) <data:text/html,x> [c](//evil.example)": (
        '<p dir="auto"><span class="dead-link">a</span> <span class="link-address">(javascript:pwn())</span> '
        '<span class="dead-link">b</span> <span class="link-address">(JaVaScRiPt:pwn())</span> '
        '<span class="dead-link">data:text/html,x</span> '
        '<span class="dead-link">c</span> <span class="link-address">(//evil.example)</span></p>'
    ),
    "![a](https://evil.example/b.png) ![](c.png)": (
        f'<p dir="auto"><a class="remote-image" href="https://evil.example/b.png" {WEB}>'
        'a <span class="host">evil.example</span></a> '
        '<span class="remote-image">image <span class="link-address">(c.png)</span></span></p>'
    ),
    "[https://*bank*.example](https://evil.example/a) https://d.example/e": (
        f'<p dir="auto"><a href="https://evil.example/a" {WEB}>https://<em>bank</em>.example</a> '
        f'<span class="link-address">(evil.example)</span> '
        f'<a href="https://d.example/e" {WEB}>https://d.example/e</a></p>'
    ),
    "[![a](https://b.example/c.svg)](https://d.example)": (
        f'<p dir="auto"><a href="https://d.example/" {WEB}>'
        '<span class="remote-image">a <span class="host">b.example</span></span></a></p>'
    ),
    "![a](data:image/png;base64,AAAA)": (
        '<p dir="auto"><span class="remote-image">a '
        '<span class="link-address">(data:image/png;base64,AAAA)</span></span></p>'
    ),
    "- [x] a\n- [ ] `b`\n- [x]c\n- d [x] e": (
        '<ul><li dir="auto"><span class="task-mark task-done" dir="ltr">[x]</span> a</li>'
        '<li dir="auto"><span class="task-mark" dir="ltr">[ ]</span> <code>b</code></li>'
        '<li dir="auto">[x]c</li><li dir="auto">d [x] e</li></ul>'
    ),
    "1. [X] a\n\n   [x] b": (
        '<ol><li dir="auto"><p dir="auto"><span class="task-mark task-done" dir="ltr">[X]</span> a</p>'
        '<p dir="auto">[x] b</p></li></ol>'
    ),
    "[x] a\n- [y] b": '<p dir="auto">[x] a</p><ul><li dir="auto">[y] b</li></ul>',
    "<kbd>a</kbd><SUB>b *c*</SUB><sup>d</sup>e<br>f<br/>g<br />h": (
        '<p dir="auto"><kbd>a</kbd><sub>b <em>c</em></sub><sup>d</sup>e<br>f<br>g<br>h</p>'
    ),
    "<sub>a <sup>b</sub> c</sup> d</sub> <kbd class=x>e</kbd> </sup> <b>f</b>": (
        '<p dir="auto"><sub>a &lt;sup&gt;b</sub> c&lt;/sup&gt; d&lt;/sub&gt; &lt;kbd class=x&gt;e&lt;/kbd&gt; '
        "&lt;/sup&gt; &lt;b&gt;f&lt;/b&gt;</p>"
    ),
    "*a <sub>b*</sub> `<sub>` \\<sub>c</sub> <sub>`</sub>`</sub>": (
        '<p dir="auto">*a <sub>b*</sub> <code>&lt;sub&gt;</code> &lt;sub&gt;c&lt;/sub&gt; '
        "<sub><code>&lt;/sub&gt;</code></sub></p>"
    ),
    "a\n<details>\n<summary>b *c*</summary>\n\n- d\n\n```\n</details>\n```\n</details>\ne": (
        '<p dir="auto">a</p><details><summary dir="auto">b <em>c</em></summary><ul><li dir="auto">d</li></ul>'
        '<div class="copyable" data-copies="code"><pre class="code" dir="ltr" tabindex="0">'
        f"<code>&lt;/details&gt;\n</code></pre>{COPY}</div></details>"
        '<p dir="auto">e</p>'
    ),
    "> <details><summary>a</summary>b</details>\n\n<details>\n<details>\nc\n</details>\n\nd\n</details>": (
        '<blockquote><details><summary dir="auto">a</summary><p dir="auto">b</p></details></blockquote>'
        '<details><summary dir="auto">Details</summary><details><summary dir="auto">Details</summary>'
        '<p dir="auto">c</p></details><p dir="auto">d</p></details>'
    ),
    "<details open>\na\n</details>\n\n<details>\n<summary>b": (
        '<p dir="auto">&lt;details open&gt;\na\n&lt;/details&gt;</p>'
        '<p dir="auto">&lt;details&gt;\n&lt;summary&gt;b</p>'
    ),
    "> [!NOTE]\n> a\n\n> [!warning] \n\n> [!TIP] b\n\n> [!A]\n> c": (
        '<div class="alert alert-note" role="note"><p class="alert-title">Note</p>'
        '<p dir="auto">a</p></div>'
        '<div class="alert alert-warning" role="note"><p class="alert-title">Warning</p></div>'
        '<blockquote><p dir="auto">[!TIP] b</p></blockquote><blockquote><p dir="auto">[!A]\nc</p></blockquote>'
    ),
    "[^b]: c[^a]\n\nd[^a] e[^a] f[^x] `[^a]`\n\n[^a]: g\n\n    - h\n[^c]: i": (
        f'<p dir="auto">d{mark_of(1)} e{mark_of(1)} f[^x] <code>[^a]</code></p><ol class="footnotes">'
        f'<li tabindex="-1" dir="auto"><p dir="auto">g</p><ul><li dir="auto">h</li></ul> {back_to(1)}</li>'
        f'<li tabindex="-1" dir="auto"><p dir="auto">c{mark_of(1)}</p></li>'
        '<li tabindex="-1" dir="auto"><p dir="auto">i</p></li></ol>'
    ),
    r'$x_1 + y_1$ \(a\_b\) $$c$$ $5 and $6, $HOME/$USER, ${A}!$, $B_C$ $1" "$ f\(g\), `$d$` $e': (
        '<p dir="auto"><span class="math" dir="ltr">$x_1 + y_1$</span> '
        r'<span class="math" dir="ltr">\(a\_b\)</span> <span class="math" dir="ltr">$$c$$</span> '
        '$5 and $6, $HOME/$USER, ${A}!$, $B_C$ $1" "$ f(g), <code>$d$</code> $e</p>'
    ),
    "$$\na\n- b\n$$\n\n\\[ c = d \\]\n\n\\[e f\\]\n\n$$\ng": (
        '<div class="math" dir="ltr">$$\na\n- b\n$$</div><div class="math" dir="ltr">\\[ c = d \\]</div>'
        '<p dir="auto">[e f]</p><p dir="auto">$$\ng</p>'
    ),
    "- א `b()`\n- c\n\n> ד\n\n|ה|\n|-|\n\ne `f`\n- d\n- ה": (
        '<ul dir="rtl"><li dir="auto">א <code dir="ltr">b()</code></li><li dir="auto">c</li></ul>'
        '<blockquote dir="rtl"><p dir="auto">ד</p></blockquote>'
        '<div class="table" dir="rtl" role="region" tabindex="0" aria-label="Table"><table dir="rtl"><thead><tr>'
        '<th dir="auto">ה</th></tr></thead></table></div><p dir="auto">e <code>f</code></p>'
        '<ul dir="ltr"><li dir="auto">d</li><li dir="auto">ה</li></ul>'
    ),
    "[a]\n\n[a]: https://a.example": f'<p dir="auto"><a href="https://a.example/" {WEB}>a</a></p>',
}


async def test_markdown(blank: Page) -> None:
    assert await by_text(blank, "markdownHtml", MARKDOWN) == MARKDOWN


async def test_markdown_keeps_line_ends_of_prompts(blank: Page) -> None:
    calls = [["a\nb"], ["a\nb", {"breaks": True}]]

    assert await answers(blank, "markdownHtml", calls) == [
        '<p dir="auto">a\nb</p>',
        '<p dir="auto">a<br>b</p>',
    ]


HOSTS: Mapping[tuple[str, str], str | None] = {
    ("https://bank.example", "https://evil.example/"): "evil.example",
    ("Log in at Bank.Example!", "https://evil.example:8000/"): "evil.example:8000",
    ("www.bank.example", "http://bank.example/x"): None,
    ("HTTPS://BANK.example:80/a b", "https://bank.example/"): None,
    ("https://bank.example@evil.example", "https://bank.example@evil.example/"): "evil.example",
    ("bank\u200b.example", "https://evil.example/"): "evil.example",
    ("bank\u3002example", "https://evil.example/"): "evil.example",
    ("http://localhost", "https://evil.example/"): "evil.example",
    ("https://127.0.0.1/", "https://evil.example/"): "evil.example",
    ("b@bank.example", "mailto:b@bank.example?subject=c@d.example"): None,
    ("b@bank.example", "mailto:b@evil.example"): "evil.example",
    ("https://a.example/https://b.example", "https://a.example/https://b.example"): None,
    ("main.py, Node.js 20.11, src/b.example", "https://a.example/src/main.py"): None,
    ("main.py", "https://evil.example/"): "evil.example",
    ("a" * 201, "https://a.example/"): "a.example",
    ("https://a.example/" + "b" * 200, "https://a.example/" + "b" * 200): None,
}


async def test_links_with_the_name_of_another_host(blank: Page) -> None:
    hosts = await answers(blank, "hostBehind", list(HOSTS))

    assert dict(zip(HOSTS, hosts, strict=True)) == HOSTS


# Formulas


FORMULAS = {
    r"\frac{a}{2}": "<mfrac><mi>a</mi><mn>2</mn></mfrac>",
    r"\textcolor{red}{x}": "<mrow><mi>x</mi></mrow>",
    r"\boxed{x}": '<mrow displaystyle="true" scriptlevel="0" class="math-box"><mi>x</mi></mrow>',
    r"\cancel{x}": ('<mrow class="math-enclosed"><mi>x</mi><mrow class="math-strike math-up"></mrow></mrow>'),
    r"\text{<b onclick=pwn()>}": "<mtext>&lt;b&nbsp;onclick=pwn()&gt;</mtext>",
    r"\hspace{99em}": '<mspace width="20em"></mspace>',
}
UNSUPPORTED = (
    r"\foo{x}",
    r"\frac{a}",
    r"\def\a{\a\a}\a",
    r"\newcommand{\a}[1]{#1#1}\a{\a{x}}",
    r"\global\let\a=\b",
    r"\href{javascript:pwn()}{x}",
    r"\url{https://evil.example}",
    r"\includegraphics{https://evil.example/x.png}",
    r"\class{page-header}{x}",
    r"\style{position:fixed}{x}",
    r"\id{main}{x}",
    r"\data{copies=code}{x}",
    r"\ref{x}",
    r"\phase{x}",
    r"\dots" * 201,
    r"\sqrt{" * 70 + "}" * 70,
    "+" * 2_000,
)


async def test_formulas(blank: Page) -> None:
    drawn = await answers(blank, "formulaHtml", [[tex] for tex in FORMULAS])
    unsupported = await answers(blank, "formulaHtml", [[tex] for tex in UNSUPPORTED])

    assert {
        tex: html.removeprefix("<math>").removesuffix("</math>")
        for tex, (html, _) in zip(FORMULAS, drawn, strict=True)
    } == FORMULAS
    assert dict(zip(UNSUPPORTED, unsupported, strict=True)) == dict.fromkeys(UNSUPPORTED)


async def test_formulas_that_can_be_wider_than_a_phone(blank: Page) -> None:
    drawn = await answers(blank, "formulaHtml", [["x" * 23], ["x" * 24, True], [r"\hspace{14em}x"]])

    assert [is_wide for _, is_wide in drawn] == [False, True, True]


async def test_formulas_that_are_not_drawn_show_their_source(blank: Page) -> None:
    text = "$x$ `$y$` $5 and $6 \\(z\\) $\\foo$ $a\u202eb$ $a\u2e00$\n\n$$\nx\n$$\n\n$$ open"

    assert await answers(blank, "formulasOf", [[text]]) == [
        [["$x$", "\\(z\\)", "$$\nx\n$$"], ["$\\foo$", "$a\u202eb$", "$a\u2e00$"]]
    ]


async def test_formulas_of_a_growing_text(blank: Page) -> None:
    parts = ["a $x", "$ b", " $y$", "\n\n", "$$\nz", "\n$$\n\n", "$", "x$"]

    assert await answers(blank, "grownFormulas", [[parts]]) == [4]


async def test_footnotes_lead_to_their_own_text(blank: Page) -> None:
    assert await answers(blank, "followedFootnotes", [["a[^b]\n\n[^b]: c"]]) == [
        ["text-1 li ", "text-1 a ", "text-2 li ", "text-2 a "]
    ]


GROWING = {
    "# a\n\nb\nc\n\n- d\n  - e\n\n  f\n> h\ni\n\n```py\n'\n\n```\n|a|\n|-|\n\nj\n---\n1. k\n": "1. k\n",
    "a\n\n<details>\n<summary>b</summary>\n\nc\n\n- d\n</details>\ne": "e",
    "a\n\nb\n<details>\nc\n\n- <details>\n\nd": "b\n<details>\nc\n\n- <details>\n\nd",
    "$$\na\n- b\n$$\n\nc\n\n\\[\nd\n\ne": "\\[\nd\n\ne",
    "> [!NOTE]\n> a\n\nb <kbd>c\n\nd</kbd>": "d</kbd>",
    "א\n\n- b\n- ג\n\nc\r\n\r\nd": "d",
    f"{'> ' * 41}a\n\nb": "b",
}


async def test_blocks_before_the_last_one_do_not_change(blank: Page) -> None:
    """The closed part of each beginning of a text is shown like the same part of the whole text."""
    parts = await by_text(blank, "closedParts", GROWING)
    changed = await by_text(blank, "changedClosedParts", GROWING)

    assert {text: rest for text, (_, rest) in parts.items()} == GROWING
    assert changed == {text: [] for text in GROWING}


ACROSS_BLOCKS = {
    "a [b]: c": False,
    "a[1:]: b": False,
    "[b]: c": True,
    "- > [b\\]c\nd]: e": True,
    "[^1]: a": True,
    "<details>[b]: c": True,
    "<summary>a</summary> [^1]: b": True,
    "<kbd>[b]: c": False,
}


async def test_texts_with_definitions_reach_across_blocks(blank: Page) -> None:
    assert await by_text(blank, "reachesAcrossBlocks", ACROSS_BLOCKS) == ACROSS_BLOCKS


# Hidden characters


NEEDED = "👩🏽\u200d💻 ✔\ufe0f 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f क\u200dष 字\U000e0100"
TAGS = "".join(map(chr, range(0xE0041, 0xE0046)))
HIDDEN: Mapping[tuple[str, str], str] = {
    ("a <b>", "code"): "a &lt;b&gt;",
    ("rm \u202ea\u202c", "code"): f"rm {hidden(chr(0x202E), 'U+202E')}a{hidden(chr(0x202C), 'U+202C')}",
    ("a\u200b\u2066b\u00adc", "code"): (
        f"a{hidden(chr(0x200B) + chr(0x2066), 'U+200B U+2066')}b{hidden('&shy;', 'U+00AD')}c"
    ),
    (f"a{TAGS}", "prose"): f"a{hidden(TAGS, 'U+E0041 U+E0042 U+E0043 and 2 more')}",
    (NEEDED, "code"): NEEDED,
    ("a\u200db c\ufe0f\ufe0f", "code"): (
        f"a{hidden(chr(0x200D), 'U+200D')}b c{hidden(chr(0xFE0F) * 2, 'U+FE0F U+FE0F')}"
    ),
    ("a\u00adb ไ\u200bท a\u200bb", "prose"): f"a&shy;b ไ\u200bท a{hidden(chr(0x200B), 'U+200B')}b",
    ("א\u200fb\u200e", "prose"): "א\u200fb\u200e",
    ("א\u200f", "code"): f"א{hidden(chr(0x200F), 'U+200F')}",
    ("a\u200f", "prose"): f"a{hidden(chr(0x200F), 'U+200F')}",
}


async def test_hidden_characters_are_marked(blank: Page) -> None:
    actual = await answers(blank, "hiddenHtml", [list(call) for call in HIDDEN])

    assert dict(zip(HIDDEN, actual, strict=True)) == {
        call: shown.replace("&shy;", "\u00ad") for call, shown in HIDDEN.items()
    }
    assert await answers(blank, "nameHidden", [["a\u202eb"], ["a"]]) == ["a<U+202E>b", "a"]
    assert await answers(blank, "hiddenMarks", [["\u202ea" * 100_000]]) == [500]


@pytest.mark.parametrize("way", ["markdown", "fence", "ansi", "json", "lineDiff", "highlight", "longText"])
async def test_hidden_characters_are_marked_everywhere(blank: Page, way: str) -> None:
    assert await answers(blank, "hiddenCodes", [[way, "let a = 'b\u202ec';"]]) == [["U+202E"]]


WHOLE = 149_900
HOSTILE = {
    "too long": ("a " * 75_001, "plain"),
    "just not too long": ("a " * 75_000, "markdown"),
    "stars": ("*" * 100_000, "plain"),
    "101 backticks": ("a " + "`" * 101, "plain"),
    "100 backticks": ("a " + "`" * 100, "markdown"),
    "brackets": ("[" * 50_000, "plain"),
    "quotes": (">" * 10_000, "plain"),
    "quotes with blanks": ("> " * 4_000, "plain"),
    "40 quotes": ("> " * 40 + "a", "plain"),
    "38 quotes": ("> " * 38 + "a", "markdown"),
    "lists in one line": ("- " * 4_000 + "a", "plain"),
    "lists in lists": ("\n".join(f"{'  ' * depth}- a" for depth in range(300)), "plain"),
    "ordered lists": ("1. " * 4_000 + "a", "plain"),
    "lists and quotes": ("- > " * 4_000, "plain"),
    "emphasis that never ends": ("a**" * 20_000, "plain"),
    "emphasis in emphasis": ("*a **b " * 900 + "b** a*" * 900, "plain"),
    "links in links": ("[" * 60 + "a" + "](b)" * 60, "markdown"),
    "open links": ("[a](" * 20_000, "plain"),
    "a long title": (f'[a](https://b.example "{"c " * 70_000}")', "markdown"),
    "a title that never ends": (f'[a](https://b.example "{"c " * 70_000}', "markdown"),
    "a long address": (f"[a](<{'b' * 140_000}>)", "markdown"),
    "links in one word": ("http://[" * 4_900, "markdown"),
    "many links": ("http://a " * 9_000, "markdown"),
    "too many links": ("http://a " * 11_000, "plain"),
    "paragraphs": ("a\n\n" * 4_900, "markdown"),
    "too many paragraphs": ("a\n\n" * 5_100, "plain"),
    "numbers in code": ("1`2`" * 4_900, "markdown"),
    "references": ("[a]: b\n" * 2_000 + ">" * 30, "markdown"),
    "a wide table": (f"|{'a|' * 1_500}\n|{'-|' * 1_500}\n|{'b|' * 1_500}\n", "markdown"),
    "a long table": ("|a|b|\n|-|-|\n" + "|1|2|\n" * 2_400, "markdown"),
    "rules": ("-" * 140_000, "markdown"),
    "sharps": ("#" * 140_000, "markdown"),
    "entities": ("&amp;" * 9_000, "markdown"),
    "escapes": ("\\a" * 9_000, "markdown"),
    "backticks of all lengths": ("".join(f"{'`' * length}a" for length in range(1, 100)), "markdown"),
    "comments": ("<!--" * 2_000, "markdown"),
    "nothing else than blanks": (" " * 140_000, "markdown"),
    "half a character": ("\ud800 [a](https://b.example/\udc00)", "markdown"),
    "a null": ("\0", "markdown"),
}


@pytest.mark.slow
async def test_expensive_markdown_is_plain_text(blank: Page) -> None:
    """Expensive texts are shown completely, as plain text."""
    actual = await answers(blank, "outcome", [[text] for text, _ in HOSTILE.values()])

    assert dict(zip(HOSTILE, actual, strict=True)) == {
        name: outcome for name, (_, outcome) in HOSTILE.items()
    }


PARTS = (
    "http://a ",
    "http://[",
    "https://a.example/(",
    "1`2` ",
    "a`",
    "*a* ",
    "*a **b ",
    "a**",
    "_a",
    "~~a",
    "[a](",
    "[a](<",
    "![a](",
    "[a][",
    "]",
    "[a]: b\n",
    "a\n\n",
    "- a\n",
    "> a\n",
    "|a",
    "<a ",
    "<!--",
    "<sub>",
    "<sub>a</sup>",
    "<sub></sub>",
    "<sub>`",
    "<br>",
    "<details>\n",
    "<details>\na\n</details>\n",
    "- <details>\n",
    "<details><summary>",
    "> [!NOTE]\n",
    "[^1]: a\n",
    "[^1] ",
    "a@a.example ",
    "a@",
    "$a",
    "$a$ ",
    "$$\n",
    "\\(a",
    "\u202ea",
    "&#1;",
    "\\",
    '[a](b "',
)


@pytest.mark.slow
async def test_markdown_takes_linear_time(blank: Page) -> None:
    """Four times the text takes about four times as long; quadratic work would take sixteen times."""
    calls = [*([part] for part in PARTS), ["  1\n\n", "- 1\n\n"]]
    actual = await answers(blank, "growth", calls)

    assert [(call, growth) for call, growth in zip(calls, actual, strict=True) if growth != "linear"] == []


@pytest.mark.parametrize("way", ["markdown", "ansi", "json", "lineDiff", "unified", "highlight"])
async def test_hostile_texts_are_harmless(blank: Page, way: str) -> None:
    """The fixture fails on any request, dialog or policy violation."""
    texts = [*SCRIPTS, *HANDLERS, *EMBEDDED, *PARTS, *MARKDOWN]

    assert await answers(blank, "strange", [[way, text] for text in texts]) == [[] for _ in texts]


# Code in colours

CODE = {
    "py": "def f(x):\n    return '<b>' # c\n",
    "ts": "const a: string = `x ${1 + `${b}`}`;\n",
    "sh": 'for f in *.py; do echo "$f"; done\n',
    "html": "<p class='a'>b</p><script>let a = 1;</script>\n",
    "json": '{"a": [1, true]}',
    "toml": '[a]\nb = "c"\n',
    "dockerfile": "FROM a\nRUN b\n",
    "rs": "fn a<'b>(c: &'b str) -> u8 { 1 }\n",
    "c": "int main(void) { return 0; }\n",
    "diff": "@@ -1 +1 @@\n-a\n+b\n",
    "SQL": "select 1 from a where b = 'c';\n",
    "yml": "a: 1\n",
    "kt": "fun a() = 1\n",
    "php": "<?php echo 1; ?>\n",
    "rb": "def a\n  1\nend\n",
    "go": "func a() {}\n",
    "java": "class A {}\n",
    "css": "a { color: red }\n",
    "md": "# a\n\n*b*\n",
    "js": "let a = 1;\n",
}


async def test_highlighting(blank: Page) -> None:
    actual = await answers(blank, "isHighlighted", [[code, language] for language, code in CODE.items()])

    assert dict(zip(CODE, actual, strict=True)) == dict.fromkeys(CODE, True)
    assert await answers(blank, "highlighted", [["def f():\n  '<b>'", "py"]]) == [
        '<span class="hljs-keyword">def</span> <span class="hljs-title function_">f</span>():\n'
        "  <span class=\"hljs-string\">'&lt;b&gt;'</span>"
    ]


TOO_MUCH = {
    "an unknown language": ("a", "brainfuck"),
    "no language": ("a", None),
    "a name of every object": ("a", "constructor"),
    "too long": ("ab " * 300 + ("ab " * 300 + "\n") * 60, "py"),
    "too long for its grammar": ('a = "b"\n' * 799 + "a" * 4_000, "toml"),
    "too many lines": ("a\n" * 800, "py"),
    "too long a line": ("a " * 501, "py"),
    "too long a word": ("a" * 101, "py"),
}


async def test_large_code_is_not_highlighted(blank: Page) -> None:
    actual = await answers(blank, "highlighted", list(TOO_MUCH.values()))

    assert dict(zip(TOO_MUCH, actual, strict=True)) == dict.fromkeys(TOO_MUCH)
    assert await answers(blank, "isHighlighted", [["1\n" * 799, "py"], ["1 " * 500, "py"]]) == [True, True]


CODE_IN_CODE = {
    "html": ("<script>let a = 1;</script>", '<span class="hljs-keyword">let</span>'),
    "vue": ("<style>a { color: red; }</style>", '<span class="hljs-attribute">color</span>'),
    "jsx": ("const a = <b>text</b>;", '<span class="hljs-name">b</span>'),
    "yaml": ("a: <%= nil %>", '<span class="hljs-literal">nil</span>'),
    "dockerfile": ("RUN if true; then make; fi", '<span class="hljs-keyword">then</span>'),
    "md": ("<b>text</b>", '<span class="hljs-name">b</span>'),
}


async def test_embedded_languages_are_highlighted(blank: Page) -> None:
    for language, (code, part) in CODE_IN_CODE.items():
        await blank.reload()  # without the languages of other code
        [shown] = await answers(blank, "highlighted", [[code, language]])

        assert part in shown


async def test_highlighting_limits_nesting(blank: Page) -> None:
    assert await answers(blank, "highlightDepth", [["`${" * 300, "js"]]) == [40]


LANGUAGES = {
    "src/a.PY": "python",
    "a\\b.tsx": "typescript",
    "Dockerfile": "dockerfile",
    "x/Dockerfile.dev": "dockerfile",
    ".bashrc": "bash",
    "a.tar.yml": "yaml",
    "pyproject.toml": "ini",
    "go.sum": None,
    "README": None,
    "": None,
    "constructor": None,
}


async def test_language_of_a_file(blank: Page) -> None:
    assert await by_text(blank, "languageOf", LANGUAGES) == LANGUAGES


# Terminals

ANSI = {
    "a <b>": "a &lt;b&gt;",
    "\x1b[31ma\x1b[0mb\x1b[1;92mc\x1b[22md\x1b[me": (
        '<span class="ansi-fg-1">a</span>b<span class="ansi-bold ansi-fg-10">c</span>'
        '<span class="ansi-fg-10">d</span>e'
    ),
    "\x1b[2;3;4;9ma\x1b[22;23;24;29mb": '<span class="ansi-dim ansi-italic ansi-strike ansi-underline">a</span>b',
    "\x1b[7ma\x1b[31mb\x1b[44mc\x1b[27md\x1b[39;49me": (
        '<span class="ansi-inverse">a</span><span class="ansi-inverse ansi-bg-1">b</span>'
        '<span class="ansi-inverse ansi-fg-4 ansi-bg-1">c</span><span class="ansi-fg-1 ansi-bg-4">d</span>e'
    ),
    "\x1b[38;5;9ma\x1b[38;5;208mb\x1b[48;5;240mc\x1b[38;5;300md": (
        '<span class="ansi-fg-9">a</span><span class="ansi-fg-11">b</span>'
        '<span class="ansi-fg-11 ansi-bg-8">c</span><span class="ansi-bg-8">d</span>'
    ),
    "\x1b[38;2;10;200;10ma\x1b[38:2::250:0:0mb\x1b[38:5:4;1mc\x1b[4:3md\x1b[4:0me": (
        '<span class="ansi-fg-2">a</span><span class="ansi-fg-9">b</span><span class="ansi-bold ansi-fg-4">c</span>'
        '<span class="ansi-bold ansi-underline ansi-fg-4">d</span><span class="ansi-bold ansi-fg-4">e</span>'
    ),
    "\x1b[31ma\nb\x1b[m": '<span class="ansi-fg-1">a\nb</span>',
    "10%\r50%\r100%\ndone": "100%\ndone",
    "abc\rx\n": "xbc\n",
    "abc\x1b[2K\rx": "x",
    "abc\rx\x1b[K": "x",
    "a\r\nb\r\r\n": "a\nb\n",
    "ab\b\bc\x1b[31md\x1b[m!": 'c<span class="ansi-fg-1">d</span>!',
    "a\x1b[3Cb\x1b[2Dc\x1b[1Gd": "d  cb",
    "日\bb": "b",
    "\x1b[?25la\x1b[>4;2mb\x1b[2;5Hc\x1b(Bd\x1b7e\x1b=f": "abcdef",
    "\x1b]0;title\x07a\x1bPq\x1b\\d": "ad",
    "\x1b]0;no end\na\x1b": "␛]0;no end\na␛",
    "\x1b[" + "1;" * 60 + "ma": "␛[" + "1;" * 60 + "ma",
    "\0\x01\x07\x0b\x7f\x85\t": "␀␁␇␋␡&lt;U+0085&gt;\t",
}


async def test_terminal_output(blank: Page) -> None:
    assert await by_text(blank, "ansiHtml", ANSI) == ANSI


def link(href: str, shown: str, name: str = "") -> str:
    return f'<a href="{href}" {WEB}{name}>{shown}</a>'


LINKS = {
    "see https://a.example/x?y=1.": f"see {link('https://a.example/x?y=1', 'https://a.example/x?y=1')}.",
    "(http://a.example/b_(c)) <https://d.example>,": (
        f"({link('http://a.example/b_(c)', 'http://a.example/b_(c)')}) "
        f"&lt;{link('https://d.example/', 'https://d.example')}&gt;,"
    ),
    '{"url":"https://a.example/"}\nxhttps://b.example ftp://c.example javascript:alert(1)': (
        f'{{"url":"{link("https://a.example/", "https://a.example/")}"}}\n'
        "xhttps://b.example ftp://c.example javascript:alert(1)"
    ),
    "\x1b[1mhttps://a.\x1b[31mexample/b\x1b[0m c": (
        link(
            "https://a.example/b",
            '<span class="ansi-bold">https://a.</span><span class="ansi-bold ansi-fg-1">example/b</span>',
        )
        + " c"
    ),
    "https://a.example\u202e/b": (
        f"{link('https://a.example/', 'https://a.example')}{hidden(chr(0x202E), 'U+202E')}/b"
    ),
    "https://[ https://": "https://[ https://",
    "\x1b]8;id=1;https://b.example/x\x1b\\c\x1b[31md\x1b[m\x1b]8;;\x1b\\ e": (
        link("https://b.example/x", 'c<span class="ansi-fg-1">d</span>', ' title="https://b.example/x"')
        + " e"
    ),
    "\x1b]8;;https://b.example/\x07a\rb\x1b]8;;\x07": link(
        "https://b.example/", "b", ' title="https://b.example/"'
    ),
    "\x1b]8;;file:///etc/passwd\x07a\x1b]8;;\x07 \x1b]8;;javascript:alert(1)\x07b\x1b]8;;\x07": "a b",
    "\x1b]8;;https://b.example/\x07https://a.example\x1b]8;;\x07": link(
        "https://b.example/",
        "https://a.example",
        ' title="https://b.example/" data-target="https://b.example/"',
    ),
    "\x1b]8;;https://a.example@b.example/x\x07www.a.example\x1b]8;;\x07": link(
        "https://a.example@b.example/x",
        "www.a.example",
        ' title="https://a.example@b.example/x" data-target="https://b.example/x"',
    ),
    "\x1b]8;;https://b.example/\x07a\u2024example\x1b]8;;\x07": link(
        "https://b.example/",
        "a\u2024example",
        ' title="https://b.example/" data-target="https://b.example/"',
    ),
    f"\x1b]8;;https://b.example/\x07{'c' * 201} a.example\x1b]8;;\x07": link(
        "https://b.example/",
        f"{'c' * 201} a.example",
        ' title="https://b.example/" data-target="https://b.example/"',
    ),
    "\x1b]8;;https://a.example/x\x07www.a.example\x1b]8;;\x07": link(
        "https://a.example/x", "www.a.example", ' title="https://a.example/x"'
    ),
}


async def test_links_in_terminal_output(blank: Page) -> None:
    """A hyperlink with a text that looks like another address shows its target."""
    assert await by_text(blank, "ansiHtml", LINKS) == LINKS


MANY_LINKS = {
    "http://": [0, 7],
    "http://a ": [1_000, 9],
    "https://a.example/(": [0, 19],
    "\x1b]8;;http://a\x07b": [1_000, 1],
}
"""Links in a megabyte of a part, and the visible characters of the part."""


async def test_links_in_terminal_output_have_a_limit(blank: Page) -> None:
    times = {part: 1_000_000 // len(part) for part in MANY_LINKS}
    actual = await answers(blank, "ansiLinks", [list(each) for each in times.items()])

    assert dict(zip(MANY_LINKS, actual, strict=True)) == {
        part: [links, visible * times[part]] for part, (links, visible) in MANY_LINKS.items()
    }


async def test_terminal_output_as_plain_text(blank: Page) -> None:
    plain = {
        "\x1b[1m\x1b[32mPASS\x1b[0m 10%\r\x1b[K100%\n": "100%\n",
        "\x1b]8;;https://b.example\x07a\x1b]8;;\x07\x07": "a␇",
    }
    assert await by_text(blank, "plainOutput", plain) == plain


OF_A_MEGABYTE = {
    "\x1b": [1_000_000, "␛" * 40],
    "\x1b[": [1_000_000, "␛[" * 20],
    "\x1b]": [1_000_000, "␛]" * 20],
    "\x1b[0": [999_999, ("␛[0" * 14)[:40]],
    "\x1b[999C|\n": [350_000, " " * 40],
    "a\r": [1, "a"],
    "\b": [0, ""],
    "a\x1b[K": [250_000, "a" * 40],
}


@pytest.mark.slow
async def test_terminal_output_limits(blank: Page) -> None:
    calls = [[part, 1_000_000 // len(part)] for part in OF_A_MEGABYTE]
    actual = await answers(blank, "ansiText", calls)

    assert dict(zip(OF_A_MEGABYTE, actual, strict=True)) == OF_A_MEGABYTE
    assert await answers(blank, "ansiSpans", [["\x1b[31ma\x1b[32mb" * 20_000]]) == [[5_000, 40_000]]


# Differences

TEN = "".join(f"line {number}\n" for number in range(1, 11))

LINE_DIFFS: dict[str, tuple[tuple[Any, ...], list[str]]] = {
    "words": (
        ("a\nfoo(bar, 1)\nz", "a\nfoo(baz, 1)\nz", {"path": "x.py"}),
        ["x.py: +1 -1", " a", "-foo({bar}, 1)", "+foo({baz}, 1)", " z"],
    ),
    "three lines around": (
        (TEN, TEN.replace("5\n", "five\n")),
        [
            " line 1",
            " line 2",
            " line 3",
            " line 4",
            "-line {5}",
            "+line {five}",
            " line 6",
            " line 7",
            " line 8",
            "(… 2 unchanged lines)",
        ],
    ),
    "nothing alike": (("one two", "three four"), ["-one two", "+three four"]),
    "a line more": (("a\nb", "a\nnew\nb"), [" a", "+new", " b"]),
    "a new file": ((None, "a\n\nb\n"), ["+a", "+", "+b"]),
    "a deleted file": (("a\n", ""), ["-a"]),
    "the same": (("a\n", "a\n"), [" a", "(No line differs.)"]),
    "the last line's end": (
        ("a\n", "a"),
        [" a", "(No line differs.)", "(The last line no longer ends with a line break.)"],
    ),
    "line ends": (("a\r\nb\r\n", "a\nb\n"), ["-a{␍}", "-b{␍}", "+a", "+b"]),
    "line ends of another system": (("a\r\nb\r\n", "a\r\nc\r\n"), [" a", "-b", "+c"]),
    "control characters": (("a", "a\x1b[31m"), ["-a", "+a\N{SYMBOL FOR ESCAPE}[31m"]),
    "markup": (("<b>a</b>", "<b>c</b>"), ["-<b>{a}</b>", "+<b>{c}</b>"]),
    "a moved word": (
        ("the quick brown fox", "the brown quick fox"),
        ["-the {quick }brown fox", "+the brown {quick }fox"],
    ),
    "too much": (
        ("\n".join(f"a{n}" for n in range(600)), "\n".join(f"b{n}" for n in range(600))),
        [
            "(Too many lines differ to compare them one by one: the old text is followed by the new one.)",
            *(f"-a{n}" for n in range(600)),
            *(f"+b{n}" for n in range(600)),
        ],
    ),
}


async def test_line_diffs(blank: Page) -> None:
    actual = await answers(blank, "lineDiffRows", [call for call, _ in LINE_DIFFS.values()])

    assert dict(zip(LINE_DIFFS, actual, strict=True)) == {
        name: rows for name, (_, rows) in LINE_DIFFS.items()
    }


async def test_counts_changed_lines(blank: Page) -> None:
    calls = [["a\nb\n", "a\nc\nd\n"], [None, "a"], ["", ""], ["a\n" * 5_000, "b\n" * 3]]

    assert await answers(blank, "countChanges", calls) == [
        {"added": 2, "removed": 1},
        {"added": 1, "removed": 0},
        {"added": 0, "removed": 0},
        {"added": 3, "removed": 5_000},
    ]


@pytest.mark.slow
async def test_line_diff_of_random_texts(blank: Page) -> None:
    """Kept and removed lines form the old text, kept and added lines the new one."""
    actual = await answers(blank, "randomDiffs", [[seed] for seed in range(300)])

    assert {seed: each for seed, each in enumerate(actual) if each != [True, True, True]} == {}


async def test_diff_gaps_can_be_opened(blank: Page) -> None:
    many = "\n".join(map(str, range(5_000)))

    assert (
        await answers(blank, "wholeDiff", [[many, many + "\nend"], [many, ""], ["", many]])
        == [[True, True]] * 3
    )


PATCHES: dict[str, tuple[str, list[str]]] = {
    "of git": (
        "diff --git a/x.py b/x.py\nindex 1..2 100644\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@ def f():\n"
        " a\n-one bird\n+two bird\n c\n\\ No newline at end of file\n@@ -30 +30,2 @@\n-x\n+y\n+--- z\n"
        "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+hi\n",
        [
            "x.py: +3 -2",
            "(index 1..2 100644)",
            "(… def f():)",
            "1/1 a",
            "2-{one} bird",
            "2+{two} bird",
            "3/3 c",
            "(\\ No newline at end of file)",
            "(…)",
            "30-x",
            "30+y",
            "31+--- z",
            "n: +1 -0",
            "(new file mode 100644)",
            "(New file)",
            "1+hi",
        ],
    ),
    "of diff": (
        "--- a.txt\t2025-01-01\n+++ a.txt\t2025-01-02\n@@ -1 +1 @@\n-a\n+b\n"
        "--- c.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-c\n",
        ["a.txt: +1 -1", "1-a", "1+b", "c.txt: +0 -1", "(Deleted file)", "1-c"],
    ),
    "an envelope": (
        "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: src/b.py\n@@ class X\n kept\n-old\n+new\n@@\n+end\n"
        "*** End of File\n*** Add File: b.txt\n+one\n+\n+--- two\n*** Delete File: c\n*** End Patch\n",
        [
            "src/a.py: +2 -1",
            "(Move to: src/b.py)",
            "(… class X)",
            " kept",
            "-old",
            "+new",
            "(…)",
            "+end",
            "b.txt: +3 -0",
            "(New file)",
            "+one",
            "+",
            "+--- two",
            "c: +0 -0",
            "(Deleted file)",
        ],
    ),
    "a hunk alone": ("@@ -5,2 +5,2 @@\n a\n-b\n+c\n", ["5/5 a", "6-b", "6+c"]),
    "wrong numbers": (
        "@@ -1,9 +1,1 @@\n a\n-b\n+c\n+d\ndiff --git a/e b/e\n",
        ["1/1 a", "2-b", "2+c", "3+d", "e: +0 -0"],
    ),
    "something else": ("a\n\nb", ["(a)", "(b)"]),
    "line ends of another system": (
        "--- a\r\n+++ a\r\n@@ -1 +1 @@\r\n-b\r\n+c\r\n",
        ["a: +1 -1", "1-b", "1+c"],
    ),
    "nothing": ("", []),
}


async def test_patches(blank: Page) -> None:
    actual = await answers(blank, "unifiedRows", [[patch] for patch, _ in PATCHES.values()])

    assert dict(zip(PATCHES, actual, strict=True)) == {name: rows for name, (_, rows) in PATCHES.items()}


async def test_diffs_are_highlighted(blank: Page) -> None:
    """By hunk, so that a text of several lines is one; and by side."""
    patch = (
        '--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n a = """\n-if b\n+if c\n """\n@@ -9 +9 @@\n-if 1:\n+if a:\n'
    )

    assert await answers(blank, "diffColours", [[patch], [patch.replace("x.py", "x")]]) == [
        [
            ['string: """'],
            ["string: if ", "string: {b}"],
            ["string: if ", "string: {c}"],
            ['string: """'],
            ["keyword: if", "number: {1}"],
            ["keyword: if"],
        ],
        [[], [], [], [], [], []],
    ]
    large = "@@ -0,0 +1,900 @@\n" + "+a = 1\n" * 900
    assert await answers(blank, "diffColours", [[large, {"path": "x.py"}]]) == [[[]] * 900]


async def test_hunks(blank: Page) -> None:
    hunks = [
        {"oldStart": 5, "newStart": 5, "lines": [" a", "-b", "+c"]},
        {"oldStart": 50, "newStart": 50, "lines": ["-d"]},
    ]

    assert await answers(blank, "hunkRows", [[hunks, {"path": "p"}]]) == [
        ["p: +1 -2", "5/5 a", "6-b", "6+c", "(…)", "50-d"]
    ]
    assert await answers(blank, "unifiedRows", [["@@ -1 +1 @@\n-a\n", {"path": "q"}]]) == [
        ["q: +0 -1", "1-a"]
    ]


# JSON

NUMBERS = {
    "9007199254740991": ["Number", "9007199254740991", True, 9007199254740991],
    "9007199254740993": ["ExactNumber", "9007199254740993", True, 9007199254740992],
    "-12345678901234567890123": ["ExactNumber", "-12345678901234567890123", False, -1.2345678901234568e22],
    "1e400": ["ExactNumber", "1e400", True, None],
    "0.30000000000000004": ["Number", "0.30000000000000004", False, 0.30000000000000004],
    "1.50": ["Number", "1.5", False, 1.5],
    "12345678901234567890e-3": ["Number", "12345678901234568", True, 12345678901234567.89],
}


async def test_large_numbers_stay_exact(blank: Page) -> None:
    actual = await answers(blank, "jsonKinds", [[number] for number in NUMBERS])
    texts = [
        '{"a":[9007199254740993,{"b":-1e400}],"c":"9007199254740993"}',
        '{"__proto__":12345678901234567}',
    ]

    assert dict(zip(NUMBERS, actual, strict=True)) == NUMBERS
    assert await answers(blank, "jsonAgain", [[text] for text in texts]) == texts


JSON = {
    '"a<b>\\u0007"': '<div class="json-leaf"><span class="json-string" dir="auto">"a&lt;b&gt;␇"</span></div>',
    "9007199254740993": '<div class="json-leaf"><span class="json-number">9007199254740993</span></div>',
    '{"a": [null, true], "b": {}}': (
        '<details class="json-node" open=""><summary><span class="json-gist">{a, b}</span></summary>'
        '<details class="json-node" open=""><summary><span class="json-key" dir="auto">a</span>: '
        '<span class="json-gist">2 items</span></summary>'
        '<div class="json-leaf"><span class="json-key" dir="auto">0</span>: <span class="json-null">null</span></div>'
        '<div class="json-leaf"><span class="json-key" dir="auto">1</span>: '
        '<span class="json-boolean">true</span></div></details>'
        '<div class="json-leaf"><span class="json-key" dir="auto">b</span>: <span class="json-object">{}</span></div>'
        "</details>"
    ),
}


async def test_json(blank: Page) -> None:
    wrapped = {source: f'<div class="json" dir="ltr">{shown}</div>' for source, shown in JSON.items()}

    assert await by_text(blank, "jsonHtml", wrapped) == wrapped


async def test_json_is_filled_when_it_is_opened(blank: Page) -> None:
    inner = [{"type": "text", "text": '{"deep": ["end"]}'}]
    source = json.dumps({"content": inner, "list": list(range(50))})

    assert await answers(blank, "jsonElements", [[source]]) == [11]
    assert await answers(blank, "jsonText", [[source]]) == [
        "\n".join(
            [
                "{content, list}",
                "content: 1 item",
                "0: {type, text}",
                'type: "text"',
                'text: "{"deep": ["end"]}"',
                "parsed",
                "{deep}",
                "deep: 1 item",
                '0: "end"',
                "list: 50 items",
                *(f"{number}: {number}" for number in range(50)),
            ]
        )
    ]


WIDE_AND_DEEP = {
    "many entries": (list(range(100_000)), 604),
    "a deep list": ("[" * 100_000 + "]" * 100_000, 5),
    "a long string": ("a" * 10_000, 3),
}


async def test_json_limits(blank: Page) -> None:
    calls = [[json.dumps(value)] for value, _ in WIDE_AND_DEEP.values()]
    actual = await answers(blank, "jsonElements", calls)

    assert dict(zip(WIDE_AND_DEEP, actual, strict=True)) == {
        name: size for name, (_, size) in WIDE_AND_DEEP.items()
    }


async def test_more_is_shown_on_demand(blank: Page) -> None:
    await answers(blank, "show", [[json.dumps(list(range(450)))]])
    counted = []
    while more := await blank.query_selector(".json-more"):
        counted.append(await more.inner_text())
        await more.click()

    assert counted == ["… 250 more", "… 50 more"]
    assert await blank.locator(".json-leaf").count() == 450


async def test_very_large_json_can_be_saved(blank: Page) -> None:
    value = {"a": "b" * 2_000_001}
    await answers(blank, "show", [[json.dumps(value)]])
    async with blank.expect_download() as coming:
        await blank.click(".json-save")
    saved = await (await coming.value).path()

    assert await blank.inner_text(".json pre") == '{\n "a": "' + "b" * 3_991 + " …"
    assert json.loads(saved.read_text()) == value


async def test_long_work_is_done_in_slices(blank: Page) -> None:
    assert await answers(blank, "slices", [[[5, 5, 5, 20, 1]], [[]]]) == [[3, 1, 1], [0]]


async def test_batches_take_about_the_same_time(blank: Page) -> None:
    actual = await answers(blank, "batchSizes", [[[60, 30, 1, 120, 6_000, 6_000]]])

    assert actual == [[400, 800, 1000, 500, 125, 100]]


async def test_repeated_requests_run_a_task_once_and_slow_tasks_less_often(blank: Page) -> None:
    assert await answers(blank, "delayed", [[1], [50]]) == [[1, 20], [1, 500]]
